package load

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"bigset/bench/spec"
	"bigset/bench/system"
)

// do does an operation of a kind on a set, and returns as how many operations it counts. If no element exists for it, do does nothing and
// returns ErrEmpty.
func (c *client) do(kind spec.Kind, set int) (n int, err error) {
	h := c.handle(set)
	switch kind {
	case spec.Add, spec.Receive, spec.Replace, spec.Remove, spec.Exchange:
		return c.write(kind, set, h)
	case spec.Drop:
		return 1, c.drop(set)
	case spec.Checkpoint:
		c.hashKind(kind, set)
		return 1, c.sys.Checkpoint(c.ctx, c.folder())
	case spec.Take:
		return 1, c.take(set, h)
	case spec.Hit, spec.Miss, spec.Dead:
		return 1, c.lookUp(kind, set, h)
	case spec.Range, spec.Prefix:
		return 1, c.scan(kind, set, h)
	}
	c.hashKind(kind, set)
	return 1, c.ask(kind, set, h)
}

// known returns the context of the role's writes.
func (c *client) known() system.Known {
	switch c.role.Context {
	case spec.Wide:
		return system.KnownClock
	case spec.None:
		return system.KnownNothing
	}
	return system.KnownDot
}

// write adds, replaces, removes or exchanges elements.
func (c *client) write(kind spec.Kind, set int, h system.Set) (int, error) {
	ch := &c.change
	ch.Fresh, ch.Again, ch.Gone, ch.FreshDots, ch.AgainDots, ch.GoneDots = ch.Fresh[:0], ch.Again[:0], ch.Gone[:0], ch.FreshDots[:0], ch.AgainDots[:0], ch.GoneDots[:0]
	ch.Known, c.arena, c.picked, c.fresh = c.known(), c.arena[:0], c.picked[:0], c.fresh[:0]
	times, counts := 1, 0
	if kind == spec.Exchange {
		times = 2
	}
	size := c.size(times)
	if kind != spec.Add && kind != spec.Receive {
		if size = c.pick(set, size, kind != spec.Replace); size == 0 {
			return 0, ErrEmpty
		}
		counts += size
	}
	if kind == spec.Add || kind == spec.Receive || kind == spec.Exchange {
		c.add(set, size)
		counts += size
	}
	c.hashKind(kind, set)
	for _, e := range c.picked {
		if kind == spec.Replace {
			ch.Again, ch.AgainDots = append(ch.Again, c.name(e.number)), append(ch.AgainDots, e.p.dot(e.place))
			continue
		}
		ch.Gone = append(ch.Gone, c.name(e.number)) // its dot was recorded when it was removed
	}
	for _, e := range c.fresh {
		ch.Fresh, ch.FreshDots = append(ch.Fresh, c.name(e.number)), append(ch.FreshDots, 0)
	}
	if !c.Model.dots {
		ch.FreshDots, ch.AgainDots = ch.FreshDots[:0], ch.AgainDots[:0]
	}
	c.bytes = len(c.arena)
	change := h.Change
	if kind == spec.Receive {
		change = c.receive
	}
	if err := change(ch); err != nil {
		return 0, err
	}
	for i := range ch.FreshDots {
		c.fresh[i].p.setDot(c.fresh[i].place, ch.FreshDots[i])
	}
	for i := range ch.AgainDots {
		c.picked[i].p.setDot(c.picked[i].place, ch.AgainDots[i])
	}
	return counts, nil
}

// receive makes the set take what the next of the client's replicas has added.
func (c *client) receive(ch *system.Change) error {
	h, ok := c.last.(system.Receiver)
	if !ok {
		return fmt.Errorf("load: %s does not know other replicas", c.system)
	}
	c.received++
	return h.Receive(c.index*c.role.Replicas+c.received%c.role.Replicas, ch.Fresh, ch.FreshDots)
}

// drop removes all live elements of a set.
func (c *client) drop(set int) error {
	if c.own(set) == 0 {
		return ErrEmpty
	}
	c.hashKind(spec.Drop, set)
	for _, part := range c.parts {
		if p := c.pops[set*c.Model.parts+part]; p != nil {
			p.live = 0
			p.pack()
		}
	}
	return c.sys.Drop(c.setName(set))
}

// name appends an element to the arena and adds its number to the hash.
func (c *client) name(number uint64) []byte {
	c.hashIn(number)
	at := len(c.arena)
	c.arena = c.names.append(c.arena, number)
	return c.arena[at:len(c.arena):len(c.arena)]
}

// add adds new elements to the populations.
func (c *client) add(set, n int) {
	for range n {
		part := c.parts[c.adds%len(c.parts)]
		c.adds++
		p := c.population(set, part)
		seq := p.add(0)
		c.fresh = append(c.fresh, element{p: p, place: p.places - 1, number: c.number(seq, part)})
	}
}

// pick chooses distinct elements for a write, and returns how many: all elements if there are fewer than n. With gone, it removes them from
// their populations and records their dots.
func (c *client) pick(set, n int, gone bool) int {
	total := c.own(set)
	n = min(n, total)
	if n == 0 {
		return 0
	}
	c.elements.SetCursor(c.cursor(set))
	if !gone && n > 1 {
		clear(c.numbers)
	}
	for left := total; len(c.picked) < n; {
		rank := c.elements.Choose(left)
		e := c.locate(set, rank)
		for !gone && n > 1 && c.numbers[e.number] { // the next one that is not in the batch
			rank = (rank + 1) % left
			e = c.locate(set, rank)
		}
		if gone {
			if c.Model.dots {
				c.change.GoneDots = append(c.change.GoneDots, e.p.dot(e.place))
			}
			e.p.remove(e.place)
			c.elements.Removed(rank)
			left--
		} else if n > 1 {
			c.numbers[e.number] = true
		}
		c.picked = append(c.picked, e)
	}
	c.keepCursor(set)
	if c.system == spec.Pebble && !c.deletes && !c.stale.Load() {
		c.stale.Store(true)
	}
	return n
}

// cursor returns where the client's chooser continues in a set; only sawtooth uses it.
func (c *client) cursor(set int) int {
	if c.role.Choose.Kind != spec.Sawtooth {
		return 0
	}
	return c.cursors[c.parts[0]][set]
}

func (c *client) keepCursor(set int) {
	if c.role.Choose.Kind != spec.Sawtooth {
		return
	}
	at := &c.cursors[c.parts[0]]
	if *at == nil {
		*at = map[int]int{}
	}
	(*at)[set] = c.elements.Cursor()
}

// own returns how many elements of a set belong to the client.
func (c *client) own(set int) (n int) {
	for _, part := range c.parts {
		if p := c.pops[set*c.Model.parts+part]; p != nil {
			n += p.live
		}
	}
	return n
}

// choose chooses an element of the client's that stays.
func (c *client) choose(set int) (element, error) {
	n := c.own(set)
	if n == 0 {
		return element{}, ErrEmpty
	}
	c.elements.SetCursor(c.cursor(set))
	e := c.locate(set, c.elements.Choose(n))
	c.keepCursor(set)
	return e, nil
}

// locate returns the client's element with a rank by age: different ranks give different elements. The parts of a client are filled in turns, so
// elements with equal ranks in their parts are about equally old.
func (c *client) locate(set, rank int) element {
	if len(c.parts) == 1 {
		return c.of(c.pops[set*c.Model.parts+c.parts[0]], c.parts[0], rank)
	}
	c.lives = c.lives[:0]
	for _, part := range c.parts {
		if p := c.pops[set*c.Model.parts+part]; p != nil && p.live > 0 {
			c.lives = append(c.lives, p.live)
		}
	}
	slices.Sort(c.lives)
	within, nth := level(c.lives, rank)
	var peers []element // of each part that is long enough, the element with that rank
	for _, part := range c.parts {
		if p := c.pops[set*c.Model.parts+part]; p != nil && p.live > within {
			peers = append(peers, c.of(p, part, within))
		}
	}
	slices.SortFunc(peers, func(a, b element) int { return cmp.Compare(a.number, b.number) })
	return peers[nth]
}

// level divides a rank among parts with the given numbers of elements, which ascend: the rank within the part, and the place of the part among
// those that have such a rank.
func level(lives []int, rank int) (within, nth int) {
	for i, live := range lives {
		parts := len(lives) - i
		if here := (live - within) * parts; rank >= here { // this part, and all that are not longer, end before the rank
			rank -= here
			within = live
			continue
		}
		return within + rank/parts, rank % parts
	}
	panic("load: a rank above the number of elements")
}

// of returns the element of a part with a rank.
func (c *client) of(p *population, part, rank int) element {
	place := p.at(rank)
	return element{p: p, place: place, number: c.number(p.seq(place), part), rank: rank}
}

// take reads and removes the first elements.
func (c *client) take(set int, h system.Set) error {
	if c.own(set) == 0 {
		return ErrEmpty
	}
	c.hashKind(spec.Take, set)
	want, got := min(c.limit, c.own(set)), 0
	var wrong error
	err := h.Take(c.limit, func(name []byte) {
		got++
		c.bytes += len(name)
		number, ok := c.names.number(name)
		if !ok || !c.forget(set, number) {
			wrong = fmt.Errorf("%w: element %q was taken, and does not live", system.ErrWrong, name)
		}
	})
	if err != nil || wrong != nil {
		return orElse(err, wrong)
	}
	return system.Expect("elements taken", got, want)
}

func orElse(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// forget removes an element from its population, and reports whether it was in it.
func (c *client) forget(set int, number uint64) bool {
	if number < c.base {
		return false
	}
	part := int((number - c.base) % uint64(c.Model.parts))
	p := c.pops[set*c.Model.parts+part]
	if p == nil {
		return false
	}
	place, ok := p.find((number - c.base) / uint64(c.Model.parts))
	if ok {
		p.remove(place)
	}
	return ok
}

// lookUp looks up one element.
func (c *client) lookUp(kind spec.Kind, set int, h system.Set) (err error) {
	number, dot, want := uint64(0), uint64(0), kind == spec.Hit
	switch kind {
	case spec.Hit:
		e, err := c.choose(set)
		if err != nil {
			return err
		}
		number, dot = e.number, e.p.dot(e.place)
	case spec.Dead:
		var ok bool
		if number, ok = c.dead(set); !ok {
			return ErrEmpty
		}
		want = c.system == spec.Pebble && !c.deletes && !c.role.ByDot // it has kept the key
	}
	c.arena = c.arena[:0]
	c.hashKind(kind, set)
	var name []byte
	if kind == spec.Miss {
		name = c.missing()
	} else {
		name = c.name(number)
	}
	found := false
	if c.role.ByDot {
		found, err = h.Look(name, dot)
	} else {
		found, err = h.Contains(name)
	}
	if err != nil {
		return err
	}
	if found != want { // the text is made only here, so that a look-up takes no longer
		return system.Expect(fmt.Sprintf("element %q found", name), found, want)
	}
	return nil
}

// missing returns an element that never existed.
func (c *client) missing() []byte {
	number := c.rng.Uint64() >> 26
	if !c.w.Elements.Ascending {
		return c.name(missMin + number)
	}
	// It would lie among the others: no element ends with its last byte.
	name := c.name(c.base + number%max(1, uint64(c.Model.size)))
	if len(name) == 8 {
		c.arena = c.arena[:0]
		return c.name(missMin + number)
	}
	name[len(name)-1] = '~'
	return name
}

// missMin is larger than the numbers of all elements that ever exist.
const missMin = 1 << 39

// dead returns an element of the client's that was removed recently.
func (c *client) dead(set int) (number uint64, ok bool) {
	first := c.rng.IntN(len(c.parts))
	for i := range c.parts {
		part := c.parts[(first+i)%len(c.parts)]
		if p := c.pops[set*c.Model.parts+part]; p != nil {
			if seq, ok := p.dead(c.rng); ok {
				return c.number(seq, part), true
			}
		}
	}
	return 0, false
}

// scan reads a range from an element on, or the elements that share a prefix with it.
func (c *client) scan(kind spec.Kind, set int, h system.Set) error {
	e, err := c.choose(set)
	if err != nil {
		return err
	}
	c.hashKind(kind, set)
	c.arena = c.arena[:0]
	name := c.name(e.number)
	q := system.Query{From: name, Limit: c.limit}
	if kind == spec.Prefix {
		q = system.Query{Prefix: name[:c.names.prefix(c.Model.size/c.Model.sets)], Limit: c.limit}
	}
	n, first, err := h.Scan(q, c.buf[:0])
	c.buf = first
	if err != nil {
		return err
	}
	if n == 0 || kind == spec.Range && !bytes.Equal(first, name) || !bytes.HasPrefix(first, q.Prefix) {
		return fmt.Errorf("%w: a %s from %q has %d elements, the first is %q", system.ErrWrong, kind, name, n, first)
	}
	return nil
}

// ask reads from the first element on, or counts.
func (c *client) ask(kind spec.Kind, set int, h system.Set) (err error) {
	exact := (c.alone || !c.writes) && !c.stale.Load()
	want, got := 0, 0
	if exact {
		want = c.live(set)
	}
	switch kind {
	case spec.Read:
		if err = h.Read(c.limit, func(n int) { got += n }); c.limit > 0 {
			want = min(want, c.limit)
		}
	case spec.First:
		found, e := h.First(system.Query{Limit: 1})
		if err = e; found {
			got = 1
		}
		want = min(want, 1)
	case spec.CountAll:
		got, err = h.Count()
	case spec.Live:
		l, ok := h.(interface{ Live() (int, error) })
		if !ok {
			return fmt.Errorf("%s does not know its live dots", c.system)
		}
		got, err = l.Live()
		exact = exact && got < want // an element may have several
	default:
		return fmt.Errorf("no kind of operation %q", kind)
	}
	if err != nil || !exact {
		return err
	}
	return system.Expect("elements", got, want)
}
