package readcore_test

import (
	"errors"
	"testing"

	"bigset/clock"
	"bigset/fold"
	"bigset/readcore"
)

// TestScrap: a chunk is returned once, when it is merged and no result shares memory with it.
func TestScrap(t *testing.T) {
	dot := clock.Dot{Actor: "n", Counter: 1}
	x := fold.Element{Name: []byte("x"), Dots: []clock.Dot{dot}}
	for _, passing := range []bool{false, true} {
		for name, tt := range map[string]struct {
			second []fold.Element
			want   bool
		}{
			"agree":  {[]fold.Element{x}, true},
			"differ": {[]fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot, {Actor: "n", Counter: 2}}}}, false},
			"lacks":  {nil, true},
		} {
			m := readcore.New(readcore.Options{Streams: 2, Passing: passing})
			seen := clock.Of(clock.Dot{Actor: "n", Counter: 1})
			if name == "lacks" {
				seen = &clock.Clock{}
			}
			for i, c := range []*fold.Chunk{
				{Clock: clock.Of(dot), Elements: []fold.Element{x}, Bound: x.Name},
				{Clock: seen, Elements: tt.second, Bound: x.Name},
			} {
				if got := m.Scrap(i); got != nil {
					t.Errorf("%s: stream %d has given back what it was not given", name, i)
				}
				if err := m.Admit(i, c); err != nil {
					t.Fatal(err)
				}
				if got := m.Scrap(i); got != nil {
					t.Errorf("%s: a chunk of stream %d is back before it is merged", name, i)
				}
			}
			if r, ok := m.Step(); !ok || len(r.Elements) != 1 {
				t.Fatalf("%s: %+v, %v", name, r, ok)
			}
			if got := m.Scrap(0) != nil; got != (passing && name == "agree") {
				t.Errorf("%s, passing %v: the chunk that the result shares is back: %v", name, passing, got)
			}
			if got := m.Scrap(1) != nil; got != tt.want {
				t.Errorf("%s: the other chunk is back: %v, want %v", name, got, tt.want)
			}
			if m.Scrap(1) != nil {
				t.Errorf("%s: it is back twice", name)
			}
		}
	}
}

// TestSharedChunk: a chunk with the elements of another stream's is checked for its place, and any other is checked.
func TestSharedChunk(t *testing.T) {
	element := func(name string, counter uint64) fold.Element {
		return fold.Element{Name: []byte(name), Dots: []clock.Dot{{Actor: "n", Counter: counter}}}
	}
	seen := &clock.Clock{}
	seen.AddRange("n", 1, 5)
	chunk := func(bound string, elements ...fold.Element) *fold.Chunk {
		return &fold.Chunk{Clock: seen, Elements: elements, Bound: []byte(bound)}
	}
	first := chunk("c", element("b", 2), element("c", 3))
	for name, tt := range map[string]struct {
		before *fold.Chunk // of the other stream
		chunk  *fold.Chunk
		good   bool
	}{
		"the same":             {chunk("a", element("a", 1)), chunk("c", first.Elements...), true},
		"its begin":            {chunk("a", element("a", 1)), chunk("b", first.Elements[:1]...), true},
		"others, out of order": {chunk("a", element("a", 1)), chunk("c", element("c", 3), element("b", 2)), false},
		"beyond its bound":     {chunk("a", element("a", 1)), chunk("b", first.Elements...), false},
	} {
		m := readcore.New(readcore.Options{Streams: 2})
		if err := errors.Join(m.Admit(0, chunk("a", element("a", 1))), m.Admit(1, tt.before)); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Step(); !ok {
			t.Fatal("nothing is certain")
		}
		if err := m.Admit(0, first); err != nil {
			t.Fatal(err)
		}
		if err := m.Admit(1, tt.chunk); (err == nil) != tt.good || !tt.good && !errors.Is(err, readcore.ErrChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A stream that has come further holds nothing, and the elements of the other do not follow its bound.
	m := readcore.New(readcore.Options{Streams: 2})
	if err := errors.Join(m.Admit(0, first), m.Admit(1, chunk("b1", element("b", 2)))); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Step(); !ok {
		t.Fatal("nothing is certain")
	}
	if err := m.Admit(1, chunk("c", first.Elements...)); !errors.Is(err, readcore.ErrChunk) {
		t.Errorf("elements that the stream has passed: %v", err)
	}
}

// TestAgreeingAllocates: merging streams that agree allocates nothing that grows with their chunks.
func TestAgreeingAllocates(t *testing.T) {
	for _, size := range []int{100, 10_000} {
		c := chunkOf(t, size)
		n := testing.AllocsPerRun(5, func() {
			m := readcore.New(readcore.Options{Streams: 2})
			for i := range 2 {
				if err := m.Admit(i, c); err != nil {
					t.Fatal(err)
				}
			}
			if r, ok := m.Step(); !ok || len(r.Elements) != size || !r.Done {
				t.Fatalf("%d elements", len(r.Elements))
			}
		})
		if n > 20 { // of the merge and its context
			t.Errorf("%v allocations in a merge of %d elements", n, size)
		}
	}
}
