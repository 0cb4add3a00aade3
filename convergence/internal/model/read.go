package model

import (
	"math/rand/v2"
	"slices"

	"bigset/convergence"
)

// Read implements convergence.Replica.
func (r *replica) Read() (v convergence.View, err error) {
	if r.joining {
		return v, convergence.ErrNotReady
	}
	whole := context{wide: true, clock: r.seen}
	v.Whole = whole.append(nil)
	v.Ranges = []convergence.Range{{Context: v.Whole}}
	for i := 0; i < len(r.keys); {
		e := element{elem: r.keys[i].elem}
		for ; i < len(r.keys) && r.keys[i].elem == e.elem; i++ {
			if r.live(r.keys[i]) {
				e.dots.add(r.keys[i].dot)
			}
		}
		if !e.dots.empty() {
			v.Items = append(v.Items, e.item(r.env.Rand, &r.seen))
		}
	}
	return v, nil
}

// element is an element with its live dots.
type element struct {
	elem string
	dots dots
}

// item shows an element. Its context is mostly narrow, sometimes the clock in addition to what is shown.
func (e *element) item(r *rand.Rand, seen *dots) convergence.Item {
	it := convergence.Item{Elem: e.elem, Tags: tags(&e.dots)}
	c := context{elem: e.elem, dots: e.dots}
	if r.IntN(4) == 0 {
		c.wide, c.clock = true, *seen
		c.clock.union(&e.dots)
	}
	it.Context = c.append(nil)
	return it
}

// answer is what one stream said of one element.
type answer struct {
	live       dots
	clock      dots // no newer than the keys
	unresolved dots // the contexts of unresolved operations on the element: seen, as far as a merge is concerned
}

// stream is a read of one replica, in chunks, either all of one moment or of several.
type stream struct {
	from       *replica
	clock      dots // of its first chunk
	keys       []key
	dead       dots
	unresolved []wide
	after      string // the bound: it has returned everything up to here
	ended      bool
	said       map[string]*answer
}

func openStream(r *replica, after string) (*stream, error) {
	if r.joining {
		return nil, convergence.ErrNotReady
	}
	s := &stream{from: r, clock: r.seen, after: after, said: map[string]*answer{}}
	s.renew()
	return s, nil
}

// renew opens a new iterator. The clock stays: it is no newer than the keys. The contexts that were unresolved with it stay as
// well: what they cover may have died since, which that clock does not show.
func (s *stream) renew() {
	s.keys, s.dead = s.from.keys, s.from.dead
	s.unresolved = append(slices.Clip(s.unresolved), s.from.unresolved...)
}

// chunk reads one or two more elements.
func (s *stream) chunk(rnd *rand.Rand) {
	switch {
	case s.ended:
		return
	case s.from.bug == "read-clock-newer":
		s.clock = s.from.seen
	case s.from.bug == "read-torn-iterator":
		s.dead = s.from.dead
	case rnd.IntN(3) == 0:
		s.renew()
	}
	view := state{dead: s.dead, unresolved: s.unresolved}
	left := 1 + rnd.IntN(2)
	for _, k := range s.keys {
		if k.elem <= s.after && s.said[k.elem] == nil {
			continue
		}
		if k.elem > s.after {
			if left--; left < 0 {
				return
			}
			s.after = k.elem
			s.said[k.elem] = &answer{clock: s.clock, unresolved: unresolvedOf(s.unresolved, k.elem)}
		} else if k.elem < s.after {
			continue
		}
		if view.live(k) {
			s.said[k.elem].live.add(k.dot)
		}
	}
	s.ended = true
}

func unresolvedOf(list []wide, elem string) (d dots) {
	for _, o := range list {
		if o.elem == elem {
			d.union(&o.ctx)
		}
	}
	return d
}

// of returns what the stream says of an element within its bound.
func (s *stream) of(elem string) answer {
	if a := s.said[elem]; a != nil {
		return *a
	}
	return answer{clock: s.clock, unresolved: unresolvedOf(s.unresolved, elem)}
}

// epoch is the part of a read between two replacements: contexts of elements after its bound come from its clock.
type epoch struct {
	after string
	clock dots
}

// reader implements convergence.Reader: it merges by the least-last rule.
type reader struct {
	rnd     *rand.Rand
	bug     Bug
	streams []*stream
	merged  string // the bound
	done    bool
	out     []convergence.Item
	shown   dots
	epochs  []epoch
	ghosts  []dots
	repairs []convergence.Repair
}

func merge(from []convergence.Replica, rnd *rand.Rand) (convergence.Reader, error) {
	m := &reader{rnd: rnd, bug: from[0].(*replica).bug}
	for _, f := range from {
		s, err := openStream(f.(*replica), "")
		if err != nil {
			return nil, err
		}
		m.streams = append(m.streams, s)
	}
	m.epoch()
	return m, nil
}

// epoch begins a new epoch after the merged bound, from the first clocks of the streams that continue.
func (m *reader) epoch() {
	var clock dots
	for _, s := range m.streams {
		clock.union(&s.clock)
	}
	m.epochs = append(m.epochs, epoch{m.merged, clock})
}

// Chunk implements convergence.Reader.
func (m *reader) Chunk(i int) error {
	if m.streams[i].from.joining {
		return convergence.ErrNotReady
	}
	m.streams[i].chunk(m.rnd)
	m.advance()
	return nil
}

// Replace implements convergence.Reader: the new stream begins after the merged bound, with its own clock. What was buffered of the
// failed one is discarded.
func (m *reader) Replace(i int, by convergence.Replica) error {
	after := m.merged
	switch m.bug {
	case "failover-skips":
		after = m.streams[i].after
	case "failover-repeats":
		after = ""
	}
	s, err := openStream(by.(*replica), after)
	if err != nil {
		return err
	}
	if m.bug == "failover-keeps-clock" {
		m.ghosts = append(m.ghosts, m.streams[i].clock)
	}
	m.streams[i] = s
	if m.bug == "failover-repeats" {
		m.merged, m.done = "", false
		for i, old := range m.streams {
			if m.streams[i], err = openStream(old.from, ""); err != nil {
				return err
			}
		}
	}
	if m.bug != "context-covers-unshown" {
		m.epoch()
	}
	return nil
}

// advance merges the elements that all streams have passed.
func (m *reader) advance() {
	if m.done {
		return
	}
	bound, all := m.bound()
	var elems []string
	for _, s := range m.streams {
		for e := range s.said {
			if e > m.merged && (all || e <= bound) {
				elems = append(elems, e)
			}
		}
	}
	slices.Sort(elems)
	for _, e := range slices.Compact(elems) {
		m.element(e)
	}
	if m.done = all; !all {
		m.merged = bound
	}
}

// bound returns the least of the streams' last elements. Streams that have ended do not count.
func (m *reader) bound() (bound string, all bool) {
	all = true
	for _, s := range m.streams {
		if s.ended {
			continue
		}
		switch {
		case all:
			bound = s.after
		case m.bug == "read-past-least-last":
			bound = max(bound, s.after)
		default:
			bound = min(bound, s.after)
		}
		all = false
	}
	return max(bound, m.merged), all
}

// element decides which dots of an element survive: a dot that is live in one stream, and that every other stream has live or has
// not seen.
func (m *reader) element(e string) {
	said := make([]answer, len(m.streams))
	for i, s := range m.streams {
		said[i] = s.of(e)
	}
	if m.bug == "read-pairs" && len(said) > 2 {
		for len(said) > 1 {
			live := m.survivors(said[:2])
			said = append([]answer{{live: live, clock: said[0].clock}}, said[2:]...)
		}
	}
	m.show(element{e, m.survivors(said)})
	if len(said) == len(m.streams) {
		m.repair(e, said)
	}
}

func (m *reader) survivors(said []answer) (live dots) {
	var all dots
	for i := range said {
		all.union(&said[i].live)
	}
	if m.bug == "read-union" {
		return all
	}
	live = all
	for i := range said {
		gone := said[i].clock
		gone.union(&said[i].unresolved)
		gone.minus(&said[i].live)
		live.minus(&gone)
	}
	for _, g := range m.ghosts {
		live.minus(&g)
	}
	return live
}

func (m *reader) show(e element) {
	if e.dots.empty() {
		return
	}
	m.shown.union(&e.dots)
	clock := &m.epochs[len(m.epochs)-1].clock
	if list := e.dots.list(); m.bug == "page-cuts-element" && len(list) > 1 && m.rnd.IntN(2) == 0 {
		for _, d := range list {
			m.out = append(m.out, (&element{e.elem, from(d)}).item(m.rnd, clock))
		}
		return
	}
	m.out = append(m.out, e.item(m.rnd, clock))
}

// repair sends a stream's replica what it is missing: keys with their dots, and deaths that another replica's Dead names.
func (m *reader) repair(e string, said []answer) {
	i, j := m.rnd.IntN(len(said)), m.rnd.IntN(len(said))
	if m.rnd.IntN(2) == 0 || i == j {
		return
	}
	a, b := m.streams[i].from, m.streams[j].from
	var keys, dead facts
	for _, d := range said[i].live.list() {
		k := key{elem: e, dot: d}
		switch {
		case !said[j].clock.has(d) && !said[j].unresolved.has(d):
			keys.keys = append(keys.keys, k)
		case said[j].live.has(d):
		case b.dead.has(d) || m.bug == "repair-absent-is-dead":
			dead.dead.add(d)
		}
	}
	if m.bug == "repair-stale" && !said[i].live.empty() {
		keys.keys = nil
		for _, d := range said[i].live.list() {
			keys.keys = append(keys.keys, key{elem: e, dot: d})
		}
		msg := keys.append(nil)
		msg[0] = msgElement
		m.repairs = append(m.repairs, convergence.Repair{To: b.env.ID, Msg: msg})
		return
	}
	m.send(b, &keys)
	m.send(a, &dead)
	if m.bug == "repair-joins-clock" {
		m.repairs = append(m.repairs, convergence.Repair{To: b.env.ID, Msg: said[i].clock.append([]byte{msgClock})})
	}
}

func (m *reader) send(to *replica, f *facts) {
	if len(f.keys) > 0 || !f.dead.empty() {
		m.repairs = append(m.repairs, convergence.Repair{To: to.env.ID, Msg: f.append(nil)})
	}
}

// View implements convergence.Reader. A clear takes what the clocks of all epochs cover, and what was shown.
func (m *reader) View() convergence.View {
	v := convergence.View{Items: m.out}
	whole := context{wide: true, clock: m.epochs[0].clock}
	for _, e := range m.epochs {
		c := context{wide: true, clock: e.clock}
		v.Ranges = append(v.Ranges, convergence.Range{After: e.after, Context: c.append(nil)})
		whole.clock.intersect(&e.clock)
	}
	whole.clock.union(&m.shown)
	v.Whole = whole.append(nil)
	return v
}

// Done implements convergence.Reader.
func (m *reader) Done() bool { return m.done }

// Repairs implements convergence.Reader.
func (m *reader) Repairs() (list []convergence.Repair) {
	list, m.repairs = m.repairs, nil
	return list
}

// Close implements convergence.Reader.
func (m *reader) Close() error { return nil }
