package sim

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// memory is a store made of the rules alone. What is not synced is a list of the states after each batch; a crash keeps the first
// ones.
type memory struct {
	set   []byte
	actor clock.Actor
	memState
	durable memState
	log     []memState
	fault   string // of the disk: calls fail
	met     bool   // a call has failed
	some    func(state string)
}

// memState is what is on disk. It is never changed in place, so that a copy of it is a snapshot.
type memState struct {
	seen, dead *clock.Clock
	keys       []memKey // by element and dot: of live dots, and of dead ones that were not dropped yet
	counter    uint64   // the last that the actor used
	notes      map[string][]byte
}

type memKey struct {
	element string
	dot     clock.Dot
}

func compareKeys(a, b memKey) int {
	return cmp.Or(cmp.Compare(a.element, b.element), a.dot.Compare(b.dot))
}

// memDisk is the disk of a memory. A store that closed it cleanly continues as the same actor.
type memDisk struct {
	memState
	actor  clock.Actor
	backup bool
}

// openMemory opens what disk holds; nil is an empty disk. An actor that may have lost writes never comes back: start makes a new
// one.
func openMemory(set []byte, id, start int, disk any, some func(string)) *memory {
	m := &memory{set: set, some: some, actor: clock.Actor(fmt.Sprintf("%c%03d", 'a'+id, start))}
	m.memState = memState{seen: &clock.Clock{}, dead: &clock.Clock{}}
	if d, ok := disk.(memDisk); ok {
		m.memState = d.memState
		if m.counter = 0; d.actor != "" {
			m.actor, m.counter = d.actor, d.counter
		}
		if d.backup {
			m.notes = nil
		}
	}
	m.durable = m.memState
	return m
}

func (m *memory) Actor() clock.Actor { return m.actor }

// change runs a batch: all of it, or nothing if there is an error.
func (m *memory) change(d bigset.Durability, f func() error) error {
	if err := m.failing(); err != nil {
		return err
	}
	before := m.memState
	m.seen, m.dead, m.keys = before.seen.Clone(), before.dead.Clone(), slices.Clone(before.keys)
	if err := f(); err != nil {
		m.memState = before
		return err
	}
	m.log = append(m.log, m.memState)
	if d == bigset.Sync {
		return m.Sync()
	}
	return nil
}

// visible returns the dots by which an element is present.
func (m *memory) visible(element []byte) (dots []clock.Dot) {
	for _, k := range m.keys {
		if k.element == string(element) && !m.dead.Contains(k.dot) {
			dots = append(dots, k.dot)
		}
	}
	return dots
}

func (m *memory) Write(ops []bigset.Op, d bigset.Durability) (r bigset.Result, err error) {
	r.Dots = make([]clock.Dot, len(ops))
	err = m.change(d, func() error {
		r.Delta = bigset.Delta{Set: m.set, Actor: m.actor, First: m.counter + 1}
		for i := range ops {
			kills, err := m.resolve(&ops[i])
			if err != nil {
				return err
			}
			if ops[i].Kind == keyscheme.OpRemove && len(kills) == 0 {
				continue
			}
			m.counter++
			r.Dots[i] = clock.Dot{Actor: m.actor, Counter: m.counter}
			it := bigset.Item{Kind: ops[i].Kind, Element: ops[i].Element, Context: kills}
			m.apply(it, r.Dots[i])
			r.Delta.Items = append(r.Delta.Items, it)
		}
		return nil
	})
	return r, err
}

// resolve returns the dots that an operation kills.
func (m *memory) resolve(op *bigset.Op) ([]clock.Dot, error) {
	switch c := &op.Context; {
	case c.Wide != nil:
		if !m.seen.Descends(c.Wide) {
			return nil, bigset.ErrBehind
		}
		return slices.DeleteFunc(m.visible(op.Element), func(d clock.Dot) bool { return !c.Wide.Contains(d) }), nil
	case c.Given:
		return c.Dots, nil
	}
	return m.visible(op.Element), nil
}

// apply applies an event: its context kills, whatever is known of its dot.
func (m *memory) apply(it bigset.Item, dot clock.Dot) {
	for _, d := range it.Context {
		m.addDead(d)
	}
	if it.Kind == keyscheme.OpRemove {
		m.addDead(dot)
		return
	}
	m.put(it.Element, dot)
}

func (m *memory) addDead(d clock.Dot) {
	m.seen.Add(d)
	m.dead.Add(d)
}

// put stores a key with its dot, unless the dot is seen.
func (m *memory) put(element []byte, dot clock.Dot) {
	if !m.seen.Add(dot) {
		return
	}
	k := memKey{string(element), dot}
	i, _ := slices.BinarySearchFunc(m.keys, k, compareKeys)
	m.keys = slices.Insert(m.keys, i, k)
}

func (m *memory) Drop(seen *clock.Clock, d bigset.Durability) (bigset.Delta, error) {
	if seen == nil {
		if seen = m.seen.Clone(); seen.Empty() {
			return bigset.Delta{}, bigset.ErrNotFound
		}
	}
	delta := bigset.Delta{Set: m.set, Clear: seen}
	return delta, m.ApplyDelta(delta, d)
}

func (m *memory) ApplyDelta(delta bigset.Delta, d bigset.Durability) error {
	return m.change(d, func() error {
		m.seen.Union(delta.Clear)
		m.dead.Union(delta.Clear)
		for i, it := range delta.Items {
			m.apply(it, clock.Dot{Actor: delta.Actor, Counter: delta.First + uint64(i)})
		}
		return nil
	})
}

func (m *memory) ApplyFacts(f bigset.Facts, d bigset.Durability) error {
	return m.change(d, func() error {
		m.seen.Union(f.Dead)
		m.dead.Union(f.Dead)
		for _, e := range f.Keys {
			for _, dot := range e.Dots {
				m.put(e.Name, dot)
			}
		}
		return nil
	})
}

func (m *memory) State() (bigset.State, error) { return bigset.State{Seen: m.seen, Dead: m.dead}, nil }

func (m *memory) Locate(dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		f := bigset.Facts{Set: m.set, Dead: dots.Clone()}
		f.Dead.Intersect(m.dead)
		for _, k := range m.keys {
			if dots.Contains(k.dot) && !m.dead.Contains(k.dot) {
				f.Keys = append(f.Keys, fold.Element{Name: []byte(k.element), Dots: []clock.Dot{k.dot}})
			}
		}
		if !f.Empty() {
			yield(f, nil)
		}
	}
}

// Read folds the keys after a bound. Each chunk is from a snapshot of its own.
func (m *memory) Read(o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		after, any := string(o.After), o.After != nil
		for {
			c, err := m.chunk(after, any, o.BatchSize)
			if !yield(c, err) || err != nil || c.Done {
				return
			}
			after, any = string(c.Bound), true
		}
	}
}

func (m *memory) chunk(after string, any bool, size int) (*fold.Chunk, error) {
	s := m.memState
	f := fold.New(s.dead, fold.Options{ElementsMax: size})
	done := true
	for _, k := range s.keys {
		if any && k.element <= after {
			continue
		}
		if f.Starts([]byte(k.element)) {
			done = false
			break
		}
		if err := f.Step([]byte(k.element), []byte(k.dot.Actor), k.dot.Counter, keyscheme.OpAdd, resolvedValue); err != nil {
			return nil, err
		}
	}
	c := f.Chunk(done)
	c.Clock = s.seen
	return c, nil
}

func (m *memory) Export(after []byte, bytesMax int) (*bigset.Portion, error) {
	if m.seen.Empty() {
		return nil, bigset.ErrNotFound
	}
	c, err := m.chunk(string(after), after != nil, 1+bytesMax/keyBytes)
	if err != nil {
		return nil, err
	}
	return chunkOf(m.set, bigset.State{Seen: m.seen, Dead: m.dead}, c), nil
}

// Ingest applies a chunk of a copy.
func (m *memory) Ingest(portion *bigset.Portion) error {
	f, err := portion.Facts()
	if err != nil {
		return err
	}
	return m.ApplyFacts(f, bigset.Sync)
}

func (m *memory) SetNote(name string, value []byte, d bigset.Durability) error {
	return m.change(d, func() error {
		if m.notes = maps.Clone(m.notes); m.notes == nil {
			m.notes = map[string][]byte{}
		}
		if m.notes[name] = value; value == nil {
			delete(m.notes, name)
		}
		return nil
	})
}

func (m *memory) Note(name string) ([]byte, error) { return m.notes[name], nil }

// Leave takes a new actor, because all counters are forgotten.
func (m *memory) Leave() error {
	if m.fault != "" {
		return errFaulty
	}
	m.actor += "'"
	m.memState = memState{seen: &clock.Clock{}, dead: &clock.Clock{}}
	return m.Sync()
}

func (m *memory) Sync() error {
	if err := m.failing(); err != nil {
		return err
	}
	m.durable, m.log = m.memState, nil
	return nil
}

// Verify checks that every live dot has one key, and that every key's dot was seen.
func (m *memory) Verify() error {
	var live []clock.Dot
	for _, k := range m.keys {
		switch {
		case !m.seen.Contains(k.dot):
			return fmt.Errorf("the key %s %v was not seen", k.element, k.dot)
		case !m.dead.Contains(k.dot):
			live = append(live, k.dot)
		}
	}
	return accounted(m.seen, m.dead, live)
}

// Maintain compacts: it drops keys whose dots a durable Dead covers.
func (m *memory) Maintain(int) (string, error) {
	keep := slices.DeleteFunc(slices.Clone(m.keys), func(k memKey) bool { return m.durable.dead.Contains(k.dot) })
	if len(keep) == len(m.keys) {
		return "", nil
	}
	m.keys = keep
	m.log = append(m.log, m.memState)
	return "compaction", nil
}

// failing returns the error of a call while the disk fails.
func (m *memory) failing() error {
	if m.fault == "" {
		return nil
	}
	if !m.met {
		m.met = true
		m.some(effect + m.fault)
	}
	return fmt.Errorf("sim: %s", m.fault)
}

func (m *memory) Fault(kind string) error {
	m.fault, m.met = kind, false
	return nil
}

func (m *memory) Backup() (any, error) { return memDisk{memState: m.durable, backup: true}, nil }

func (m *memory) Crash(quarters int) any {
	if n := len(m.log) * min(quarters, 4) / 4; n > 0 {
		return memDisk{memState: m.log[n-1]}
	}
	return memDisk{memState: m.durable}
}

func (m *memory) Stop() (any, error) { return memDisk{memState: m.memState, actor: m.actor}, nil }

func (m *memory) Close() {}

// keyBytes is about the size of a key in an engine.
const keyBytes = 40

// resolvedValue is the value of a key without an unresolved context.
var resolvedValue = keyscheme.AppendElementValue(nil, nil)
