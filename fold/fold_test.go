package fold_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// key is what the fold is given of one key.
type key struct {
	element string
	dot     clock.Dot
	op      keyscheme.Op
}

// keySet is a set's keys in their order, and a Dead that says which are dead.
type keySet struct {
	keys []key
	dead *clock.Clock
}

// sets draws few elements with one to three dots each. The empty element is one of them; actors are prefixes of each other.
var sets = rapid.Custom(func(t *rapid.T) keySet {
	s := keySet{dead: &clock.Clock{}}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "aa", "b", "c\x00", "d", "e", "f"}), 0, 8, rapid.ID[string]).Draw(t, "elements")
	slices.Sort(names)
	counters := map[clock.Actor]uint64{}
	for _, name := range names {
		var run []key
		for range rapid.IntRange(1, 3).Draw(t, "dots") {
			actor := rapid.SampledFrom([]clock.Actor{"n", "no", "m"}).Draw(t, "actor")
			counters[actor]++
			k := key{name, clock.Dot{Actor: actor, Counter: counters[actor]}, keyscheme.OpAdd}
			if rapid.IntRange(0, 5).Draw(t, "op") == 0 {
				k.op = keyscheme.OpRemove
			}
			if rapid.IntRange(0, 2).Draw(t, "dead") == 0 {
				s.dead.Add(k.dot)
			}
			run = append(run, k)
		}
		slices.SortFunc(run, func(a, b key) int { return a.dot.Compare(b.dot) })
		s.keys = append(s.keys, run...)
	}
	return s
})

// live reports whether a key makes its element present.
func (s keySet) live(k key) bool { return k.op == keyscheme.OpAdd && !s.dead.Contains(k.dot) }

// answer is the simple result: all elements present, without chunks.
func (s keySet) answer() []fold.Element {
	var all []fold.Element
	for _, k := range s.keys {
		if !s.live(k) {
			continue
		}
		if n := len(all); n == 0 || string(all[n-1].Name) != k.element {
			all = append(all, fold.Element{Name: []byte(k.element)})
		}
		all[len(all)-1].Dots = append(all[len(all)-1].Dots, k.dot)
	}
	return all
}

// chunk is what a chunk should contain, except its elements.
type chunk struct {
	bound                string
	done                 bool
	count, scanned, dead int
}

func (c chunk) String() string {
	return fmt.Sprintf("%d elements up to %q, done %v, %d keys, %d dead", c.count, c.bound, c.done, c.scanned, c.dead)
}

// chunks divides the keys as the folder should: a chunk ends where an element begins, once it has its maximum of elements present
// or of keys looked at.
func (s keySet) chunks(keys []key, o fold.Options) []chunk {
	var all []chunk
	var c chunk
	last := ""
	for i, k := range keys {
		if i > 0 && k.element != last && (c.count >= o.ElementsMax || c.scanned >= o.KeysMax) {
			c.bound = last
			all, c = append(all, c), chunk{}
		}
		if s.live(k) && !slices.ContainsFunc(keys[:i], func(o key) bool { return o.element == k.element && s.live(o) }) {
			c.count++
		}
		if c.scanned++; !s.live(k) {
			c.dead++
		}
		last = k.element
	}
	c.done = true
	return append(all, c)
}

// run folds keys. What is passed to the folder is overwritten after each step.
func run(t rapid.TB, keys []key, dead *clock.Clock, o fold.Options) []*fold.Chunk {
	t.Helper()
	var all []*fold.Chunk
	f := fold.New(dead, o)
	for _, k := range keys {
		element, actor, value := []byte(k.element), []byte(k.dot.Actor), bytes.Clone(keyscheme.ResolvedValue)
		if f.Starts(element) {
			all = append(all, f.Chunk(false))
			if f.Starts(element) {
				t.Fatalf("full again before %q", k.element)
			}
		}
		if err := f.Step(element, actor, k.dot.Counter, k.op, value); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{element, actor, value} {
			for i := range b {
				b[i] = 0xAA
			}
		}
	}
	return append(all, f.Chunk(true))
}

// sameElements compares elements with their dots.
func sameElements(a, b []fold.Element) bool {
	return slices.EqualFunc(a, b, func(a, b fold.Element) bool {
		return bytes.Equal(a.Name, b.Name) && slices.Equal(a.Dots, b.Dots)
	})
}

// TestChunks: whatever the bounds of a chunk and the direction, the chunks together are the simple result, each ends where it
// should and says so, and a count is the number of what would be returned otherwise.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets.Draw(t, "set")
		o := fold.Options{
			ElementsMax: rapid.IntRange(1, 4).Draw(t, "ElementsMax"),
			KeysMax:     rapid.IntRange(1, 8).Draw(t, "KeysMax"),
			Reverse:     rapid.Bool().Draw(t, "Reverse"),
			CountOnly:   rapid.Bool().Draw(t, "CountOnly"),
		}
		keys, want := slices.Clone(s.keys), s.answer()
		if o.Reverse {
			slices.Reverse(keys)
			slices.Reverse(want)
		}
		got := run(t, keys, s.dead, o)
		var elements []fold.Element
		var shapes []chunk
		for _, c := range got {
			elements = append(elements, c.Elements...)
			shapes = append(shapes, chunk{string(c.Bound), c.Done, c.Count, c.Scanned, c.Dead})
			if (c.Bound == nil) != c.Done {
				t.Errorf("bound %v of a chunk whose Done is %v", c.Bound, c.Done)
			}
			dots := 0
			for _, e := range c.Elements {
				dots += len(e.Dots)
			}
			if !o.CountOnly && (len(c.Elements) != c.Count || dots != c.Dots) {
				t.Errorf("%d elements with %d dots, and a count of %d with %d", len(c.Elements), dots, c.Count, c.Dots)
			}
		}
		if o.CountOnly {
			want = nil
		}
		if !sameElements(elements, want) {
			t.Errorf("elements %v, want %v", elements, want)
		}
		if wantShapes := s.chunks(keys, o); !slices.Equal(shapes, wantShapes) {
			t.Errorf("chunks %v, want %v", shapes, wantShapes)
		}
	})
}

// TestReuse: a chunk in the memory of an earlier one, whose bytes are overwritten, equals a chunk in memory of its own.
func TestReuse(t *testing.T) {
	fill := func(c *fold.Chunk) {
		for _, e := range c.Elements {
			for i := range e.Name {
				e.Name[i] = 0xAA
			}
			clear(e.Dots)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := sets.Draw(t, "set")
		f := fold.New(s.dead, fold.Options{ElementsMax: rapid.IntRange(1, 4).Draw(t, "ElementsMax")})
		var got []fold.Element
		take := func(done bool) {
			c := f.Chunk(done)
			for _, e := range c.Elements {
				got = append(got, fold.Element{Name: bytes.Clone(e.Name), Dots: slices.Clone(e.Dots)})
			}
			if rapid.Bool().Draw(t, "reuse") {
				fill(c)
				f.Reuse(c)
			}
		}
		for _, k := range s.keys {
			if f.Starts([]byte(k.element)) {
				take(false)
			}
			if err := f.Step([]byte(k.element), []byte(k.dot.Actor), k.dot.Counter, k.op, keyscheme.ResolvedValue); err != nil {
				t.Fatal(err)
			}
		}
		take(true)
		if want := s.answer(); !sameElements(got, want) {
			t.Errorf("elements %v, want %v", got, want)
		}
	})
}

// TestElementAccumulator has the keys of the document's section 6.6.2.4. There a key carries what its author had seen; here
// that was narrowed to the dots of the element when the key was written, and is in Dead.
func TestElementAccumulator(t *testing.T) {
	add := func(element string, a clock.Actor, n uint64) key {
		return key{element, clock.Dot{Actor: a, Counter: n}, keyscheme.OpAdd}
	}
	remove := func(element string, a clock.Actor, n uint64) key {
		return key{element, clock.Dot{Actor: a, Counter: n}, keyscheme.OpRemove}
	}
	dots := func(keys ...key) (d []clock.Dot) {
		for _, k := range keys {
			d = append(d, k.dot)
		}
		return d
	}
	a1, b1, c1, d1 := add("paul", "a", 1), add("paul", "b", 1), add("paul", "c", 1), remove("paul", "d", 1)
	for _, c := range []struct {
		what string
		keys []key
		dead []clock.Dot
		want []clock.Dot // of paul
	}{
		{"added by a", []key{a1}, nil, dots(a1)},
		{"added by a and b, concurrently", []key{a1, b1}, nil, dots(a1, b1)},
		{"added by c after seeing a's add", []key{a1, b1, c1}, dots(a1), dots(b1, c1)},
		{"removed after a read of a and c", []key{a1, b1, c1}, dots(a1, c1), dots(b1)},
		{"the same, the remove has a key", []key{a1, b1, c1, d1}, dots(a1, c1), dots(b1)},
		{"the same, that key is dead", []key{a1, b1, c1, d1}, dots(a1, c1, d1), dots(b1)},
		{"added and removed by a", []key{a1, remove("paul", "a", 2)}, dots(a1), nil},
		{"added again after that", []key{a1, add("paul", "a", 3)}, dots(a1, remove("paul", "a", 2)), dots(add("paul", "a", 3))},
		{"the dead key was dropped", []key{b1}, dots(a1, c1), dots(b1)},
		{"no key at all", nil, dots(a1), nil},
		{"a remove that has seen nothing", []key{a1, d1}, nil, dots(a1)},
	} {
		got := run(t, c.keys, clock.Of(c.dead...), fold.Options{})[0]
		var want []fold.Element
		if c.want != nil {
			want = []fold.Element{{Name: []byte("paul"), Dots: c.want}}
		}
		if !sameElements(got.Elements, want) || !got.Done || got.Scanned != len(c.keys) {
			t.Errorf("%s: %v of %d keys, want %v", c.what, got.Elements, got.Scanned, want)
		}
	}
}

// TestBound: the bound is the last element looked at, present or not, also when it is empty; without a key there is none.
func TestBound(t *testing.T) {
	f := fold.New(clock.Of(clock.Dot{Actor: "n", Counter: 2}), fold.Options{})
	chunk := func(want []byte) {
		t.Helper()
		if c := f.Chunk(false); !bytes.Equal(c.Bound, want) || (c.Bound == nil) != (want == nil) || c.Done {
			t.Errorf("bound %#v, done %v, want %#v", c.Bound, c.Done, want)
		}
	}
	step := func(element string, counter uint64) {
		t.Helper()
		if err := f.Step([]byte(element), []byte("n"), counter, keyscheme.OpAdd, keyscheme.ResolvedValue); err != nil {
			t.Fatal(err)
		}
	}
	chunk(nil)
	step("", 1)
	chunk([]byte{})
	step("absent", 2)
	chunk([]byte("absent"))
	step("present", 3)
	step("present", 4)
	chunk([]byte("present"))
	chunk(nil)
}

// TestDefaults: a chunk has 1,000 elements, and at least as many keys, if nothing else is requested; Limit changes it.
func TestDefaults(t *testing.T) {
	dead := &clock.Clock{}
	dead.AddRange("dead", 1, 1<<20)
	for _, c := range []struct {
		what  string
		opt   fold.Options
		actor clock.Actor
		limit int
		want  int // keys in the first chunk
	}{
		{"elements", fold.Options{}, "live", 0, 1000},
		{"keys", fold.Options{}, "dead", 0, 50_000},
		{"at least 1,000 keys", fold.Options{ElementsMax: 3}, "dead", 0, 1000},
		{"negative", fold.Options{ElementsMax: -1, KeysMax: -1}, "live", 0, 1000},
		{"limited", fold.Options{}, "live", 7, 7},
		{"limited to nothing", fold.Options{}, "live", -7, 1},
		{"counted", fold.Options{CountOnly: true, ElementsMax: 5}, "live", 0, 5},
	} {
		f := fold.New(dead, c.opt)
		if c.limit != 0 {
			f.Limit(c.limit)
		}
		got := 0
		for ; !f.Starts(fmt.Appendf(nil, "%06d", got)); got++ {
			if err := f.Step(fmt.Appendf(nil, "%06d", got), []byte(c.actor), uint64(got+1), keyscheme.OpAdd, keyscheme.ResolvedValue); err != nil {
				t.Fatal(err)
			}
		}
		if chunk := f.Chunk(false); got != c.want || chunk.Scanned != c.want {
			t.Errorf("%s: full after %d keys, and %d of them in the chunk, want %d", c.what, got, chunk.Scanned, c.want)
		}
	}
}
