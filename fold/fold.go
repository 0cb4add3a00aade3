package fold

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"bigset/clock"
	"bigset/keyscheme"
)

// ErrCorrupt is returned for an element key whose value can't be read.
var ErrCorrupt = errors.New("fold: corrupt value")

// Widen returns the union of wide, which may be nil and is changed, and the context in the value of an unresolved key. Its error is
// ErrCorrupt.
func Widen(wide *clock.Clock, value []byte) (*clock.Clock, error) {
	context, err := keyscheme.DecodeElementValue(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if wide == nil {
		return context, nil
	}
	wide.Union(context)
	return wide, nil
}

// Element is a member of a set with the dots that make it one, ascending. The dots are the narrow context to act on it.
type Element struct {
	Name []byte
	Dots []clock.Dot
}

// Chunk is the result of folding a run of keys. It owns its memory.
type Chunk struct {
	// Clock is the Seen of the read, no newer than its keys: the wide context of what the read has shown. Keys may be newer.
	Clock *clock.Clock
	// Elements are those present, in the order of the read.
	Elements []Element
	// Bound is the last element looked at, present or not: the chunk is complete up to and including it. It is nil if the run had
	// no keys, or if the chunk is Done.
	Bound []byte
	// Done says that the run has ended: no further chunk follows.
	Done bool
	// Count is the number of elements present: len(Elements), except with CountOnly, where elements are not kept. Dots is the
	// number of dots by which they are present.
	Count, Dots int
	// Scanned is the number of keys looked at, Dead the number of those that were dead.
	Scanned, Dead int

	names []byte // what Folder.Reuse uses again
	dots  []clock.Dot
}

// Options bound a chunk.
type Options struct {
	ElementsMax int  // elements in a chunk; 0 is 1,000
	KeysMax     int  // keys looked at for a chunk; 0 is 50 times ElementsMax, at least 1,000
	Reverse     bool // keys come in descending order
	CountOnly   bool // elements are counted, not kept: Elements stays empty
}

func (o Options) withDefaults() Options {
	if o.ElementsMax <= 0 {
		o.ElementsMax = 1000
	}
	if o.KeysMax <= 0 {
		o.KeysMax = max(1000, 50*o.ElementsMax)
	}
	return o
}

// namesBytesMax is the size of element names at which a chunk is full, whatever its options.
const namesBytesMax = 8 << 20

// Folder turns keys into chunks. Make one with New.
type Folder struct {
	dead *clock.Clock
	opt  Options

	started bool         // an element is being accumulated
	at      int          // where its name starts in names; it ends them
	from    int          // where its dots start in dots
	wide    *clock.Clock // the contexts of its unresolved keys, nil when it has none

	names    []byte // arena of the chunk's element names
	dots     []clock.Dot
	elements []Element
	room     struct{ names, dots, elements int } // that the last chunk took
	count    int                                 // elements present
	live     int                                 // their dots
	scanned  int
	deadKeys int
	counted  bool        // the last key given to Step counts
	actor    clock.Actor // the last one: neighbours mostly share it, so its string is made only once
	known    map[string]clock.Actor
}

// New returns a folder that decides by dead which keys are live. dead must be no newer than the keys and must not change during the
// fold.
func New(dead *clock.Clock, o Options) *Folder {
	return &Folder{dead: dead, opt: o.withDefaults(), known: map[string]clock.Actor{}}
}

// Limit sets how many elements the current chunk and those after it may hold, at least 1.
func (f *Folder) Limit(elementsMax int) { f.opt.ElementsMax = max(1, elementsMax) }

// Reuse uses the memory of a chunk again for the next one. No goroutine may look at that chunk or its elements afterwards. It must
// be called only when a chunk begins: before the first Step, or after Chunk.
func (f *Folder) Reuse(c *Chunk) {
	f.names, f.dots, f.elements = c.names[:0], c.dots[:0], c.Elements[:0]
}

// Starts reports whether a key of that element would begin a new element although the chunk is full. If so, call Chunk first.
func (f *Folder) Starts(element []byte) bool {
	return f.started && (f.count >= f.opt.ElementsMax || f.count == f.opt.ElementsMax-1 && len(f.dots) > f.from ||
		f.scanned >= f.opt.KeysMax || f.at >= namesBytesMax) && !bytes.Equal(f.name(), element)
}

// Step takes the next key.
func (f *Folder) Step(element, actor []byte, counter uint64, op keyscheme.Op, value []byte) error {
	f.counted = keyscheme.IsUnresolved(value)
	if !f.started || !bytes.Equal(f.name(), element) {
		f.endElement()
		f.started, f.at, f.from = true, len(f.names), len(f.dots)
		f.names = append(f.names, element...)
	}
	f.scanned++
	if keyscheme.IsUnresolved(value) { // its context counts, whatever has become of its dot
		var err error
		if f.wide, err = Widen(f.wide, value); err != nil {
			return err
		}
	}
	if op != keyscheme.OpAdd || f.dead.ContainsBytes(actor, counter) {
		f.deadKeys++
		return nil
	}
	f.counted = true
	f.dots = append(f.dots, clock.Dot{Actor: f.intern(actor), Counter: counter})
	return nil
}

// name returns the name of the element being accumulated.
func (f *Folder) name() []byte { return f.names[f.at:] }

// Counted reports whether the last key given to Step says something about its set: its dot is live, or its context is unresolved. A
// reader with the same dead or a later one may skip a key that does not count.
func (f *Folder) Counted() bool { return f.counted }

// A first chunk has room for firstRoom elements; when more come, it gets room for as many as a usual chunk has. So a small set
// costs little, and a large chunk is hardly copied. Each later chunk has room for as much as the one before.
const (
	firstRoom = 16
	usualRoom = 1024
)

// grow makes room for more elements.
func (f *Folder) grow() {
	n := min(f.opt.ElementsMax, firstRoom)
	if had := len(f.elements); had > 0 {
		n = max(min(f.opt.ElementsMax, usualRoom)-had, had)
	} else if f.room.elements > 0 {
		n = min(f.opt.ElementsMax, f.room.elements)
	}
	f.elements = slices.Grow(f.elements, n)
	f.dots = slices.Grow(f.dots, n+max(0, f.room.dots-f.room.elements))
	f.names = slices.Grow(f.names, max(n*max(16, len(f.name())), f.room.names))
}

// endElement moves the accumulated element into the chunk when it is present.
func (f *Folder) endElement() {
	if !f.started {
		return
	}
	f.started = false
	if f.wide != nil {
		kept := len(slices.DeleteFunc(f.dots[f.from:], f.wide.Contains))
		f.deadKeys += len(f.dots) - f.from - kept
		f.dots, f.wide = f.dots[:f.from+kept], nil
	}
	if len(f.dots) == f.from {
		f.names = f.names[:f.at]
		return
	}
	f.count++
	f.live += len(f.dots) - f.from
	if f.opt.CountOnly {
		f.dots, f.names = f.dots[:f.from], f.names[:f.at]
		return
	}
	if len(f.elements) == cap(f.elements) {
		f.grow()
	}
	dots := f.dots[f.from:len(f.dots):len(f.dots)]
	if f.opt.Reverse {
		slices.Reverse(dots)
	}
	f.elements = append(f.elements, Element{f.names[f.at:len(f.names):len(f.names)], dots})
}

// Chunk ends the current element and returns what has come since the last call; done says that no key will follow. It must be
// called only between elements: after Starts was true, or at the end.
func (f *Folder) Chunk(done bool) *Chunk {
	c := &Chunk{Done: done}
	if f.started && !done {
		c.Bound = bytes.Clone(f.name())
		if c.Bound == nil {
			c.Bound = []byte{}
		}
	}
	f.endElement()
	c.Elements, c.Count, c.Dots, c.Scanned, c.Dead = f.elements, f.count, f.live, f.scanned, f.deadKeys
	f.room.names, f.room.dots, f.room.elements = len(f.names), len(f.dots), len(f.elements)
	c.names, c.dots = f.names, f.dots
	f.names, f.dots, f.elements = nil, nil, nil
	f.at, f.from, f.count, f.live, f.scanned, f.deadKeys = 0, 0, 0, 0, 0, 0
	return c
}

// intern returns actor as a string, made once for each distinct actor.
func (f *Folder) intern(actor []byte) clock.Actor {
	if string(f.actor) == string(actor) {
		return f.actor
	}
	a, ok := f.known[string(actor)]
	if !ok {
		a = clock.Actor(actor)
		f.known[string(a)] = a
	}
	f.actor = a
	return a
}

// Spare takes a chunk's memory: room for elements, for their names and for dots. No goroutine may look at the chunk or its elements
// afterwards.
func (c *Chunk) Spare() (elements []Element, names []byte, dots []clock.Dot) {
	return c.Elements[:0], c.names[:0], c.dots[:0]
}

// Hold records the memory in which the names and the dots of the chunk's elements lie, for Reuse and Spare to take.
func (c *Chunk) Hold(names []byte, dots []clock.Dot) { c.names, c.dots = names, dots }
