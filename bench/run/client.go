package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"bigset/bench/spec"
	"bigset/bench/system"
)

// client does the operations of one client in a phase. Which they are depends on the seed and on what it did before, never on time or on other
// clients. One goroutine uses a client; that of its client, in the case of a probe.
type client struct {
	*load
	role   *spec.Role
	index  int // of its role
	owner  int // whose elements it uses; -1 is nobody's
	probe  bool
	serial bool // nothing else changes a set while a call runs

	open    func(name string) system.Set
	handles []system.Set
	seen    []seenContext // by set, of clients whose contexts are wide

	rng      *rand.Rand
	sets     *chooser
	elements *chooser
	batch    int
	limit    int
	turn     int
	missed   uint64 // elements that never were

	gone, fresh system.Batch
	ranks       []int
	name        []byte
	stream      *xxhash.Digest
}

// call is one call of a system.
type call struct {
	kind spec.Kind
	ops  int // as Phase.Ops counts them
	user int // bytes of the elements that were written
}

func newClient(l *load, role, n int, open func(name string) system.Set) *client {
	r := &l.w.Phases[l.phase].Roles[role]
	rng := l.random(role, n)
	return &client{
		load: l, role: r, index: role, probe: r.Every != (spec.Count{}), open: open, handles: make([]system.Set, l.sets), rng: rng,
		sets: newChooser(l.w.Sets.Choose, 0, rng), elements: newChooser(r.Choose, r.Choose.Window.At(l.size), rng),
		batch: max(1, r.Batch.At(l.size)), limit: r.Limit.At(l.size), missed: missBase + uint64(role)<<24 + uint64(n)<<12<<24, stream: xxhash.New(),
	}
}

// missBase is above the numbers of all elements that come to be.
const missBase = 1 << 38

// see takes the contexts of all sets.
func (c *client) see() (err error) {
	c.seen = make([]seenContext, c.load.sets)
	for set := range c.seen {
		handle, ok := c.handle(set).(*system.BigsetSet)
		if !ok || c.live(set) == 0 {
			continue
		}
		if c.seen[set], err = handle.Seen(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) handle(set int) system.Set {
	if c.handles[set] == nil {
		c.handles[set] = c.open(setName(set))
	}
	return c.handles[set]
}

// own returns the client's elements of a set.
func (c *client) own(set int) *population {
	if c.parts[set][c.owner] == nil {
		c.parts[set][c.owner] = newPopulation(c.dots)
	}
	return c.parts[set][c.owner]
}

// number returns the number of an element of the client's.
func (c *client) number(seq uint64) uint64 { return seq*uint64(c.owners) + uint64(c.owner) }

// next returns the kind of the next operation.
func (c *client) next() spec.Kind {
	mix := c.role.Mix
	if len(mix) == 1 {
		return mix[0].Kind
	}
	total, least := 0.0, math.Inf(1)
	for _, s := range mix {
		total, least = total+s.Weight, min(least, s.Weight)
	}
	at := c.rng.Float64() * total
	if c.role.Turns {
		total = 0
		for _, s := range mix {
			total += math.Round(s.Weight / least)
		}
		at = float64(c.turn%int(total)) + 0.5
		c.turn++
	}
	for _, s := range mix {
		if c.role.Turns {
			at -= math.Round(s.Weight / least)
		} else {
			at -= s.Weight
		}
		if at < 0 {
			return s.Kind
		}
	}
	return mix[len(mix)-1].Kind
}

// errNothing is returned where a client has no element left that it could name.
var errNothing = errors.New("bench: a client has no elements left: give it more, or the phase fewer clients")

// set chooses the set of an operation: one in which the client has something to remove, replace or look up, where the kind needs that.
func (c *client) set(kind spec.Kind) (set int, err error) {
	if c.load.sets > 1 {
		set = c.sets.choose(c.load.sets)
	}
	has := func(p *population) bool { return p.len() > 0 }
	switch kind {
	case spec.Replace, spec.Remove, spec.Exchange, spec.Hit, spec.Range, spec.Prefix:
	case spec.Dead:
		has = func(p *population) bool { return len(p.gone) > 0 }
	default:
		return set, nil
	}
	for range c.load.sets {
		if has(c.own(set)) {
			return set, nil
		}
		set = (set + 1) % c.load.sets
	}
	return 0, fmt.Errorf("%w (%s)", errNothing, kind)
}

// do makes the next call, and checks its answer.
func (c *client) do() (done call, err error) {
	done = call{kind: c.next(), ops: 1}
	set, err := c.set(done.kind)
	if err != nil {
		return done, err
	}
	handle := c.handle(set)
	c.gone.Reset()
	c.fresh.Reset()
	switch done.kind {
	case spec.Add:
		err = c.add(set, handle)
	case spec.Replace:
		err = c.replace(set, handle)
	case spec.Remove:
		err = c.remove(set, handle)
	case spec.Exchange:
		err = c.exchange(set, handle)
	case spec.Take:
		done.user, err = c.take(set, handle)
	case spec.Hit, spec.Miss, spec.Dead:
		err = c.lookUp(done.kind, set, handle)
	default:
		err = c.read(done.kind, set, handle)
	}
	if done.kind.Batches() {
		if c.batch > 1 {
			done.ops = len(c.gone.List) + len(c.fresh.List)
		}
		done.user = size(&c.gone) + size(&c.fresh)
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", done.kind, err)
	}
	return done, nil
}

func size(b *system.Batch) (n int) { return len(b.Arena) }

// note takes an operation into the hash of all.
func (c *client) note(kind spec.Kind, set int, lists ...[][]byte) {
	var b [16]byte
	binary.BigEndian.PutUint32(b[:], uint32(set))
	_, _ = c.stream.WriteString(string(kind)) // a hash takes everything
	for _, list := range lists {
		binary.BigEndian.PutUint32(b[4:], uint32(len(list)))
		_, _ = c.stream.Write(b[:8])
		for _, e := range list {
			_, _ = c.stream.Write(e)
		}
	}
	if len(lists) == 0 {
		_, _ = c.stream.Write(b[:8])
	}
}

// mint puts new elements into fresh.
func (c *client) mint(set int, n int) {
	p := c.own(set)
	for i := range n {
		c.appendName(&c.fresh, c.number(p.next+uint64(i)))
	}
}

// born takes what is in fresh into the client's elements: it is there.
func (c *client) born(set int) {
	p := c.own(set)
	for _, dot := range c.fresh.Dots {
		p.add(dot)
	}
}

// pick chooses present elements and puts them into gone, no element twice, and takes them out of the client's, for a while or for good.
func (c *client) pick(set, n int) {
	p := c.own(set)
	for range min(n, p.len()) {
		rank := c.elements.choose(p.len())
		place := p.at(rank)
		c.appendName(&c.gone, c.number(p.seq(place)))
		c.gone.Dots[len(c.gone.Dots)-1] = p.dot(place)
		p.remove(place)
		c.elements.removed(rank)
	}
}

func (c *client) add(set int, handle system.Set) error {
	c.mint(set, c.batch)
	c.note(spec.Add, set, c.fresh.List)
	var err error
	if c.role.Context == spec.None { // the store looks whether it is there
		err = handle.Replace(c.fresh.List, c.fresh.Dots, false, c.fresh.Dots)
	} else {
		err = handle.Insert(c.fresh.List, c.fresh.Dots)
	}
	if err == nil {
		c.born(set)
	}
	return err
}

// replace adds present elements again. They keep their ages.
func (c *client) replace(set int, handle system.Set) error {
	p := c.own(set)
	c.ranks = c.ranks[:0]
	for range min(c.batch, p.len()) {
		rank := c.elements.choose(p.len())
		place := p.at(rank)
		c.appendName(&c.gone, c.number(p.seq(place)))
		c.gone.Dots[len(c.gone.Dots)-1] = p.dot(place)
		c.ranks = append(c.ranks, rank)
	}
	c.note(spec.Replace, set, c.gone.List)
	err := c.replaceWith(set, handle)
	if err != nil {
		return err
	}
	for i, rank := range c.ranks {
		p.setDot(p.at(rank), c.gone.Dots[i])
	}
	return nil
}

func (c *client) replaceWith(set int, handle system.Set) error {
	if c.role.Context == spec.Wide {
		return handle.(*system.BigsetSet).ReplaceSeen(c.gone.List, c.seen[set], c.gone.Dots)
	}
	return handle.Replace(c.gone.List, c.gone.Dots, c.role.Context != spec.None, c.gone.Dots)
}

func (c *client) remove(set int, handle system.Set) error {
	c.pick(set, c.batch)
	c.note(spec.Remove, set, c.gone.List)
	if c.role.Context == spec.Wide {
		return handle.(*system.BigsetSet).RemoveSeen(c.gone.List, c.seen[set])
	}
	return handle.Remove(c.gone.List, c.gone.Dots, c.role.Context != spec.None)
}

func (c *client) exchange(set int, handle system.Set) error {
	c.pick(set, c.batch)
	c.mint(set, len(c.gone.List))
	c.note(spec.Exchange, set, c.gone.List, c.fresh.List)
	err := handle.Exchange(c.gone.List, c.gone.Dots, c.fresh.List, c.fresh.Dots)
	if err == nil {
		c.born(set)
	}
	return err
}

// take removes the first elements, which are the oldest: it is for elements that ascend.
func (c *client) take(set int, handle system.Set) (user int, err error) {
	p := c.own(set)
	n := min(c.limit, p.len())
	c.note(spec.Take, set, nil)
	if n == 0 {
		return 0, nil
	}
	for range n {
		c.name = c.names.append(c.name[:0], c.number(p.seq(p.at(0))))
		user += len(c.name)
		p.remove(p.at(0))
	}
	return user, handle.TakeFirst(n)
}

func (c *client) lookUp(kind spec.Kind, set int, handle system.Set) error {
	number, dot := uint64(0), uint64(0)
	switch p := c.ownOrNil(set); kind {
	case spec.Hit:
		place := p.at(c.elements.choose(p.len()))
		number, dot = c.number(p.seq(place)), p.dot(place)
	case spec.Dead:
		seq, _ := p.dead(c.rng)
		number = c.number(seq)
	default:
		number = c.missed
		c.missed++
	}
	c.name = c.names.append(c.name[:0], number)
	c.note(kind, set, [][]byte{c.name})
	found, err := false, error(nil)
	if raw, ok := handle.(*system.RawSet); ok && c.role.ByDot {
		found, err = raw.Get(c.name, dot)
	} else {
		found, err = handle.Contains(c.name)
	}
	if err != nil || kind == spec.Dead && c.forgets {
		return err
	}
	return system.Expect("found", found, kind == spec.Hit)
}

// ownOrNil returns the client's elements of a set, nil if it owns none.
func (c *client) ownOrNil(set int) *population {
	if c.owner < 0 {
		return nil
	}
	return c.own(set)
}

// read does the kinds that return many elements, or one figure of a set.
func (c *client) read(kind spec.Kind, set int, handle system.Set) error {
	q := system.Query{Limit: c.limit}
	switch kind {
	case spec.Range, spec.Prefix:
		p := c.own(set)
		c.name = c.names.append(c.name[:0], c.number(p.seq(p.at(c.elements.choose(p.len())))))
		if kind == spec.Range {
			q.From = c.name
		} else {
			q.Prefix = c.names.prefix(c.name, p.len()*c.owners)
		}
		c.note(kind, set, [][]byte{q.From, q.Prefix})
	default:
		c.note(kind, set)
	}
	exact := c.serial && !c.forgets
	switch kind {
	case spec.First:
		found, err := handle.First(system.Query{Limit: 1})
		if err == nil && exact {
			err = system.Expect("an element at the head", found, c.live(set) > 0)
		}
		return err
	case spec.CountAll:
		n, err := handle.Count()
		if err == nil && exact {
			err = system.Expect("elements counted", n, c.live(set))
		}
		return err
	case spec.Live:
		n, err := handle.(*system.BigsetSet).Live()
		if err == nil && exact {
			err = system.Expect("live dots", n, uint64(c.live(set)))
		}
		return err
	case spec.Read:
		n := 0
		err := handle.Read(c.limit, func(k int) { n += k })
		if err != nil || !exact {
			return err
		}
		want := c.live(set)
		if c.limit > 0 {
			want = min(want, c.limit)
		}
		return system.Expect("elements read", n, want)
	}
	if q.Limit == 1 { // the time until the first element is at hand
		found, err := handle.First(q)
		return errors.Join(err, system.Expect("an element", found || err != nil, true))
	}
	n := 0
	err := handle.Scan(q, func(k int) { n += k })
	return errors.Join(err, system.Expect("an element", n > 0 || err != nil, true))
}
