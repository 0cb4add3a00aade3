package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"bigset"
	"bigset/bloomslice"
)

// FilterState is the state of a filter. It is on disk and on the wire.
type FilterState byte

// The states of a filter. If two changes have one number, the state that is later in this order prevails.
const (
	FilterActive  FilterState = 1
	FilterCleared FilterState = 2 // its contents stay; its name is not served until the filter is created again
	FilterDropped FilterState = 3 // for good, in this generation and earlier ones
)

// FilterEntry is what all members know about a filter. Entries of one name are totally ordered and the greatest prevails. So members that
// exchange their entries, in any order and however often, end up with equal ones.
type FilterEntry struct {
	Name       Hex         `json:"name"`
	Generation uint64      `json:"generation"`
	Change     uint64      `json:"change"` // rises with each change within a generation
	State      FilterState `json:"state"`

	Capacity    uint64                  `json:"capacity"`
	Probability float64                 `json:"probability"`
	Scale       uint32                  `json:"scale"`
	Reduction   float64                 `json:"reduction"`
	Slices      uint32                  `json:"slices"`
	Owners      uint32                  `json:"owners"`
	Durability  bigset.FilterDurability `json:"durability"`
}

// newEntry returns the entry of an active filter.
func newEntry(name []byte, generation uint64, o bigset.FilterOptions) FilterEntry {
	return FilterEntry{Name: bytes.Clone(name), Generation: generation, State: FilterActive, Capacity: o.Capacity, Probability: o.Probability, Scale: o.Scale,
		Reduction: o.Reduction, Slices: o.Slices, Owners: o.Owners, Durability: o.Durability}
}

// options returns the options that the filter was made with.
func (e *FilterEntry) options() bigset.FilterOptions {
	return bigset.FilterOptions{Options: bloomslice.Options{Capacity: e.Capacity, Probability: e.Probability, Scale: e.Scale, Reduction: e.Reduction,
		Slices: e.Slices, Owners: e.Owners}, Durability: e.Durability}
}

// check returns an ErrRecord if an entry is invalid.
func (e *FilterEntry) check() error {
	o := e.options()
	err := errors.Join(bigset.CheckFilterName(e.Name), o.Check())
	if len(e.Name) == 0 || e.Generation == 0 || e.Generation > math.MaxInt64 || e.State < FilterActive || e.State > FilterDropped || e.Slices == 0 || e.Owners == 0 {
		err = errors.Join(err, fmt.Errorf("generation %d, state %d, %d slices of %d owners", e.Generation, e.State, e.Slices, e.Owners))
	}
	if err != nil {
		return fmt.Errorf("%w: filter %.64q: %w", ErrRecord, []byte(e.Name), err)
	}
	return nil
}

// compare orders entries of one name. A drop is the greatest of its generation.
func (e *FilterEntry) compare(o *FilterEntry) int {
	final := func(e *FilterEntry) int {
		if e.State == FilterDropped {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(e.Generation, o.Generation), cmp.Compare(final(e), final(o)), cmp.Compare(e.Change, o.Change), cmp.Compare(e.State, o.State),
		bytes.Compare(e.encode(), o.encode()))
}

func (e *FilterEntry) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("cluster: an entry that can't be encoded: %v", err)) // check has ruled out infinite numbers
	}
	return b
}

// catalogue is what this member knows about all filters of the cluster. It is kept on disk in pages, each with a part of the names: a
// change writes one page. Its methods may be called by any number of goroutines.
type catalogue struct {
	disk Disk

	saving sync.Mutex // held by the goroutine that changes the catalogue

	mu      sync.RWMutex
	entries map[string]*FilterEntry // by name; entries are immutable
	active  int
	names   []string        // of active filters, in order; nil until they are asked for
	sorted  []string        // all names, in order; nil until they are asked for
	sum     uint64          // of all entries: equal sums mean equal catalogues
	listed  bool            // whether it contains everything acknowledged
	unheard map[string]bool // names whose entries another member may not have on its disk, as far as this member knows
	alike   alike           // when all members last had the same
}

const (
	keyFilters      = "cluster/filters" // the disk whose catalogue is whole
	cataloguePages  = 256
	entryBytesLeast = 64
)

func pageOf(name []byte) byte { return byte(xxhash.Sum64(name)) }

func pageKey(page byte) string { return fmt.Sprintf("%s/%02x", keyFilters, page) }

// listedBy is kept on disk after the catalogue has everything acknowledged. In a folder that was copied or restored from a backup it has no
// effect.
type listedBy struct {
	Identity Hex `json:"identity"`
	alike
}

// alike is when all members had the same entries on disk: under which epoch, and their sum. An epoch names the disks of all members, and
// entries stay on a disk, or greater ones replace them. So under the same epoch, each entry with that sum is still known to all.
type alike struct {
	Epoch uint64 `json:"epoch,omitempty"` // 0 if it is not known
	Sum   uint64 `json:"sum,string,omitempty"`
}

// openCatalogue reads the catalogue from disk.
func openCatalogue(d Disk) (*catalogue, error) {
	c := &catalogue{disk: d, entries: map[string]*FilterEntry{}, unheard: map[string]bool{}}
	for page := range cataloguePages {
		value, err := d.Load(pageKey(byte(page)))
		if err != nil {
			return nil, err
		}
		if len(value) == 0 {
			continue
		}
		entries, err := decodeEntries(value)
		if err != nil {
			return nil, fmt.Errorf("page %02x of the list of filters: %w", page, err)
		}
		for i := range entries {
			c.put(&entries[i])
		}
	}
	value, err := d.Load(keyFilters)
	if err != nil || len(value) == 0 {
		return c, err
	}
	var by listedBy
	if err := json.Unmarshal(value, &by); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if c.listed = bytes.Equal(by.Identity, d.Identity()); c.listed {
		c.alike = by.alike
	}
	return c, nil
}

// decodeEntries decodes entries and checks them.
func decodeEntries(b []byte) (entries []FilterEntry, err error) {
	if err := json.Unmarshal(b, &entries); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// put adds an entry in memory. The caller holds mu, or is the only one that knows the catalogue.
func (c *catalogue) put(e *FilterEntry) {
	name := string(e.Name)
	if was := c.entries[name]; was != nil {
		c.count(was, -1)
	} else {
		c.sorted = nil
	}
	c.entries[name] = e
	c.unheard[name] = true
	c.count(e, 1)
}

func (c *catalogue) count(e *FilterEntry, n int) {
	c.sum ^= xxhash.Sum64(e.encode())
	if e.State == FilterActive {
		c.active += n
		c.names = nil
	}
}

// merge merges entries and returns those that were new. They are on disk when it returns.
func (c *catalogue) merge(ctx context.Context, entries []FilterEntry) (news []FilterEntry, err error) {
	c.saving.Lock()
	defer c.saving.Unlock()
	pages := map[byte]bool{}
	latest := map[string]*FilterEntry{}
	for i := range entries {
		e := &entries[i]
		was := latest[string(e.Name)]
		if was == nil {
			was = c.get(e.Name)
		}
		if was == nil || e.compare(was) > 0 {
			latest[string(e.Name)] = e
			pages[pageOf(e.Name)] = true
		}
	}
	for page := range pages {
		if err := c.save(ctx, page, latest); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range latest {
		own := *e
		c.put(&own)
		news = append(news, own)
	}
	return news, nil
}

// save writes a page with some entries changed.
func (c *catalogue) save(ctx context.Context, page byte, changed map[string]*FilterEntry) error {
	var all []*FilterEntry
	for _, e := range changed {
		if pageOf(e.Name) == page {
			all = append(all, e)
		}
	}
	c.mu.RLock()
	for name, e := range c.entries {
		if pageOf(e.Name) == page && changed[name] == nil {
			all = append(all, e)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(all, func(a, b *FilterEntry) int { return bytes.Compare(a.Name, b.Name) })
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return c.disk.Save(context.WithoutCancel(ctx), pageKey(page), b)
}

// get returns the entry of a name, or nil.
func (c *catalogue) get(name []byte) *FilterEntry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[string(name)]
}

// heard records that all members have an entry on disk. If this member has a later one by now, it changes nothing.
func (c *catalogue) heard(e *FilterEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.entries[string(e.Name)]; held != nil && held.compare(e) == 0 {
		delete(c.unheard, string(e.Name))
	}
}

// heardAll records that all members have all entries on disk, unless there are others here than when their sum was read. This is kept for the
// next start. If the disk does not take it, it is not tried again until it changes.
func (c *catalogue) heardAll(ctx context.Context, now alike) error {
	c.mu.Lock()
	same := c.sum == now.Sum
	if same && len(c.unheard) > 0 {
		c.unheard = map[string]bool{}
	}
	news := same && c.listed && c.alike != now
	if news {
		c.alike = now
	}
	c.mu.Unlock()
	if !news {
		return nil
	}
	return c.keep(ctx, now)
}

// resume makes known what was heard before the start, if the epoch is the same.
func (c *catalogue) resume(epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch > 0 && c.alike == (alike{epoch, c.sum}) {
		c.unheard = map[string]bool{}
	}
}

// everywhere returns the entry of a name, or nil, and whether all members have it on disk, as far as this member has heard.
func (c *catalogue) everywhere(name []byte) (e *FilterEntry, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[string(name)], !c.unheard[string(name)]
}

// whole records on disk that the catalogue has everything acknowledged.
func (c *catalogue) whole(ctx context.Context) error {
	if err := c.keep(ctx, alike{}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = true
	return nil
}

// keep saves that the catalogue is whole, and when all members had the same.
func (c *catalogue) keep(ctx context.Context, a alike) error {
	b, err := json.Marshal(listedBy{c.disk.Identity(), a})
	if err != nil {
		return err
	}
	return c.disk.Save(ctx, keyFilters, b)
}

// state returns whether the catalogue is whole, and its sum.
func (c *catalogue) state() (listed bool, sum uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.listed, c.sum
}

// activeNames returns the names that are served, in order. The catalogue owns the list.
func (c *catalogue) activeNames() []string {
	c.mu.RLock()
	names := c.names
	c.mu.RUnlock()
	if names != nil {
		return names
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = make([]string, 0, c.active)
		for name, e := range c.entries {
			if e.State == FilterActive {
				c.names = append(c.names, name)
			}
		}
		slices.Sort(c.names)
	}
	return c.names
}

// after returns entries whose names come after a name, in order. They take at most most bytes, but at least one is returned if one exists.
func (c *catalogue) after(name []byte, most int) (entries []FilterEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		c.sorted = slices.Sorted(maps.Keys(c.entries))
	}
	at, found := slices.BinarySearch(c.sorted, string(name))
	if found {
		at++
	}
	for _, n := range c.sorted[at:] {
		e := c.entries[n]
		if most -= entryBytesLeast + len(e.encode()); most < 0 && len(entries) > 0 {
			break
		}
		entries = append(entries, *e)
	}
	return entries
}

// dropped returns the entries of dropped filters.
func (c *catalogue) dropped() (entries []FilterEntry) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		if e.State == FilterDropped {
			entries = append(entries, *e)
		}
	}
	return entries
}

// lastGeneration returns the largest known generation.
func (c *catalogue) lastGeneration() (last uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		last = max(last, e.Generation)
	}
	return last
}
