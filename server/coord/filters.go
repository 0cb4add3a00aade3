package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Filter identifies a bloom filter, with the options that it was created with: they are the same in all requests, from every client.
type Filter struct {
	Name       []byte
	Generation uint64 // above 0, unique among all filters, and above those of earlier filters of the name
	// Options must all be set; there are no defaults, and InMemory is not allowed. Owners is at least the N of every request: each replica
	// may come to own layers.
	Options bigset.FilterOptions
}

// FilterKeys is a client's request to mark or check keys of a filter. The filter defines how durable a mark must be before a replica
// acknowledges it; the quorum's DW is ignored.
type FilterKeys struct {
	Filter
	Keys   [][]byte
	Quorum Quorum
	hashes []bloomslice.Hash // instead of Keys; must not be changed
}

// count returns the number of keys.
func (r *FilterKeys) count() int { return max(len(r.Keys), len(r.hashes)) }

// hash returns the hash of a key.
func (r *FilterKeys) hash(i int) bloomslice.Hash {
	if r.hashes != nil {
		return r.hashes[i]
	}
	return bloomslice.Sum(r.Keys[i])
}

// CheckFilter reports for each key whether it is in the filter: false is certain, true is not. R replicas of the key's slice decide
// together: the key is present if one of them has it. The error for a filter that was dropped or replaced by a later one is
// bigset.ErrNoFilter.
//
// Each slice is asked by itself. If some fail, the error is a *FilterError, which names their keys. The answers about the other keys still
// hold.
func (c *Coordinator) CheckFilter(ctx context.Context, r FilterKeys) ([]bool, error) {
	q, err := c.planFilter(&r.Filter, r.Quorum)
	if err != nil {
		return nil, err
	}
	if err := c.beginRead(ctx); err != nil {
		return nil, err
	}
	defer c.endRead()
	return c.eachSlice(ctx, &r, q, func(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, error) {
		return c.checkSlice(ctx, q, spec, hashes)
	}, func(ctx context.Context, spec bigset.SliceSpec, g *sliceGroup) []groupAnswer {
		return c.checkGroup(ctx, q, spec, g)
	})
}

// checked is one replica's answer about keys of a slice.
type checked struct {
	present []bool
	gone    error // the replica knows that the filter no longer exists
}

// checkSlice asks the replicas of a slice. That the filter was dropped is an answer, too: W replicas know of it, and so does one of R.
func (c *Coordinator) checkSlice(ctx context.Context, q Quorum, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, error) {
	q, l := place(c.opt.PlaceSlice(spec.Name, spec.Slice), q)
	answers, err := ask(ctx, c, spec.Name, q.R, l.read, func(ctx context.Context, rep peer.SliceReplica) (checked, error) {
		present, m, err := rep.Check(ctx, spec, hashes)
		switch {
		case errors.Is(err, bigset.ErrNoFilter):
			return checked{gone: fmt.Errorf("%s: %w", m.Node, err)}, nil
		case err == nil && m.State != peer.Normal: // a joining replica may not have all marks
			err = fmt.Errorf("%w: %v", peer.ErrJoining, m)
		case err == nil && len(present) != len(hashes):
			err = fmt.Errorf("%w: %d answers to %d keys", peer.ErrFrame, len(present), len(hashes))
		}
		return checked{present: present}, err
	})
	if err != nil {
		return nil, err
	}
	found := make([]bool, len(hashes))
	for _, a := range answers {
		if a.gone != nil {
			return nil, a.gone
		}
		for i, has := range a.present {
			found[i] = found[i] || has
		}
	}
	return found, nil
}

// planFilter returns the quorum of a request on a filter, or an error if the request is not possible.
func (c *Coordinator) planFilter(f *Filter, q Quorum) (Quorum, error) {
	q, err := c.quorum(q)
	if err != nil {
		return q, err
	}
	q.DW = None
	if err := errors.Join(keyscheme.CheckFilterName(f.Name), f.Options.Validate()); err != nil {
		return q, fmt.Errorf("%w: filter %.64q: %w", ErrRequest, f.Name, err)
	}
	if wrong := c.refuses(f, q); wrong != "" {
		return q, fmt.Errorf("%w: filter %.64q: %s", ErrRequest, f.Name, wrong)
	}
	return q, nil
}

// refuses returns why a filter can't be kept by several replicas, or "".
func (c *Coordinator) refuses(f *Filter, q Quorum) string {
	switch {
	case c.opt.PlaceSlice == nil:
		return "no placement of filters is configured"
	case len(f.Name) == 0:
		return "no name"
	case f.Generation == 0:
		return "no generation"
	case f.Options.InMemory:
		return "in memory only, which is for one node"
	case f.Options.Slices == 0:
		return "no number of slices"
	case int64(f.Options.Owners) < int64(q.N):
		return fmt.Sprintf("made for %d owners, and each of %d replicas may come to be one", f.Options.Owners, q.N)
	}
	return ""
}

// slicesAtOnce is how many slices of one request are asked at the same time.
const slicesAtOnce = 64

// part is the keys of a request that belong to one slice.
type part struct {
	slice  uint32
	hashes []bloomslice.Hash
	places []int // of the keys in the request
	// unknown says that a replica was asked to mark the keys, and that its outcome is unknown.
	unknown bool
}

// split returns the parts of a request, by slice.
func (r *FilterKeys) split() (parts []*part) {
	n := r.count()
	if n == 1 {
		h := r.hash(0)
		return []*part{{slice: h.Slice(r.Options.Slices), hashes: []bloomslice.Hash{h}, places: []int{0}}}
	}
	room := splittings.Get().(*splitting)
	defer room.done()
	hashes, order, count := room.order(r)
	sorted, places := make([]bloomslice.Hash, n), make([]int, n)
	all := make([]part, 0, count)
	parts = make([]*part, 0, count)
	for from := 0; from < n; {
		slice, to := order[from]>>32, from
		for ; to < n && order[to]>>32 == slice; to++ {
			places[to] = int(uint32(order[to]))
			sorted[to] = hashes[places[to]]
		}
		all = append(all, part{slice: uint32(slice), hashes: sorted[from:to:to], places: places[from:to:to]})
		parts = append(parts, &all[len(all)-1])
		from = to
	}
	return parts
}

// splitting is memory for the keys of a request while it is split.
type splitting struct {
	hashes          []bloomslice.Hash
	places, byOrder []uint64
	next            []uint32 // by slice
}

var splittings = sync.Pool{New: func() any { return new(splitting) }}

// splittingKept is the maximum number of keys, or slices, for which memory is kept.
const splittingKept = 4096

// done returns the memory.
func (c *splitting) done() {
	if max(cap(c.hashes), cap(c.places), cap(c.next)) <= splittingKept {
		splittings.Put(c)
	}
}

// order returns the hashes of the keys of a request, and the slice and the index of each, as one number, sorted by slice and then by index,
// and the number of slices. The results are valid until done.
func (c *splitting) order(r *FilterKeys) (hashes []bloomslice.Hash, order []uint64, count int) {
	n := r.count()
	if hashes = r.hashes; hashes == nil {
		c.hashes = slices.Grow(c.hashes[:0], n)[:n]
		for i := range n {
			c.hashes[i] = bloomslice.Sum(r.Keys[i])
		}
		hashes = c.hashes
	}
	c.places = slices.Grow(c.places[:0], n)[:n]
	for i := range hashes {
		c.places[i] = uint64(hashes[i].Slice(r.Options.Slices))<<32 | uint64(i)
	}
	order = c.bySlice(c.places, r.Options.Slices)
	for i := range order {
		if i == 0 || order[i-1]>>32 != order[i]>>32 {
			count++
		}
	}
	return hashes, order, count
}

// bySlice sorts keys, each a slice and an index, by slice, and by index within a slice; they arrive by index. If the slices are few
// compared to the keys, it counts, in time proportional to the number of keys. It may modify its argument, or return it.
func (c *splitting) bySlice(order []uint64, slicesOf uint32) []uint64 {
	if uint64(slicesOf) > 4*uint64(len(order)) {
		slices.Sort(order)
		return order
	}
	n := int(slicesOf) + 1
	next := slices.Grow(c.next[:0], n)[:n] // by slice: where its next key goes
	clear(next)
	sorted := slices.Grow(c.byOrder[:0], len(order))[:len(order)]
	c.next, c.byOrder = next, sorted
	for _, o := range order {
		next[o>>32+1]++
	}
	for i := range slicesOf {
		next[i+1] += next[i]
	}
	for _, o := range order {
		to := &next[o>>32]
		sorted[*to] = o
		*to++
	}
	return sorted
}

// sliceWork does a request on some keys of one slice, at most bigset.MarksMax, and answers about each.
type sliceWork func(context.Context, bigset.SliceSpec, []bloomslice.Hash) ([]bool, error)

// eachSlice does a request at all slices that its keys belong to, in parallel, and returns the answers in the order of the keys. Slices
// that the same replicas hold are done together, the remaining ones one by one.
func (c *Coordinator) eachSlice(ctx context.Context, r *FilterKeys, q Quorum, work sliceWork, together groupWork) ([]bool, error) {
	ctx, cancel := Deadline(ctx, c.run, c.opt.Timeout)
	defer cancel()
	parts := r.split()
	g := &gatherSlices{filter: r.Filter, work: work, answers: make([]bool, r.count())}
	g.filter.Name = bytes.Clone(r.Name) // the requests to replicas refer to it, perhaps after the caller has returned
	if len(parts) > 1 {
		parts = g.inGroups(ctx, c, q, parts, together)
	}
	if g.left = parts; len(parts) == 0 {
		return g.answers, g.err()
	}
	if workers := min(len(parts), slicesAtOnce); workers > 1 {
		g.over, g.workers = c.run.NewSignal(), workers
		for range workers {
			c.run.Go(func() { g.run(ctx) })
		}
		if err := g.over.Wait(context.Background()); err != nil { // the workers end when ctx does
			return nil, err
		}
	} else {
		g.run(ctx)
	}
	return g.answers, g.err()
}

// gatherSlices collects the results of a request on several slices.
type gatherSlices struct {
	filter Filter
	work   sliceWork
	over   Signal // set by the last of several workers

	mu      sync.Mutex
	workers int
	left    []*part // not begun yet
	answers []bool
	failure FilterError
	errs    someErrors
}

// run does one part after the other until none is left.
func (g *gatherSlices) run(ctx context.Context) {
	for {
		g.mu.Lock()
		if len(g.left) == 0 {
			g.workers--
			last := g.workers == 0
			g.mu.Unlock()
			if last {
				g.over.Set()
			}
			return
		}
		p := g.left[0]
		g.left = g.left[1:]
		g.mu.Unlock()
		g.do(ctx, p)
	}
}

// do does a part in pieces, one after the other, so that a key that is in several of them is new in at most one.
func (g *gatherSlices) do(ctx context.Context, p *part) {
	spec := bigset.SliceSpec{Name: g.filter.Name, Slice: p.slice, Generation: g.filter.Generation, Options: g.filter.Options}
	var errs someErrors
	for at := 0; at < len(p.hashes); at += bigset.MarksMax {
		end := min(at+bigset.MarksMax, len(p.hashes))
		answers, err := g.work(ctx, spec, p.hashes[at:end:end])
		if err != nil {
			errs.add(err)
			g.mu.Lock()
			g.noAnswer(p, p.places[at:end], err)
			g.mu.Unlock()
			continue
		}
		for i, place := range p.places[at:end] {
			g.answers[place] = answers[i] // no other part has this index
		}
	}
	if len(errs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure.Slices++
	g.errs.add(fmt.Errorf("slice %d: %w", p.slice, errors.Join(errs...)))
}

// failed records a slice without an answer. It is called with mu held.
func (g *gatherSlices) failed(p *part, places []int, err error) {
	g.noAnswer(p, places, err)
	g.failure.Slices++
	g.errs.add(fmt.Errorf("slice %d: %w", p.slice, err))
}

// noAnswer records keys without an answer. It is called with mu held.
func (g *gatherSlices) noAnswer(p *part, places []int, err error) {
	g.failure.Keys = append(g.failure.Keys, places...)
	if errors.Is(err, ErrUnknown) || p.unknown && !errors.Is(err, bigset.ErrNoFilter) { // the drop of a filter decides
		g.failure.Unknown += len(places)
	}
}

// err returns the error about the slices that failed.
func (g *gatherSlices) err() error {
	f := &g.failure
	if f.Slices == 0 {
		return nil
	}
	slices.Sort(f.Keys)
	f.Name, f.Of, f.Err = g.filter.Name, len(g.answers), errors.Join(g.errs...)
	return f
}
