package coord

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

// shown are the elements of two replicas: the first one's, and those that the other one counts.
type shown struct{ first, other []fold.Element }

// drawShown draws elements; in a few of them the replicas differ: in an element, or only in its dots.
func drawShown(t *rapid.T) (s shown) {
	n := rapid.IntRange(0, 40).Draw(t, "elements")
	changes := rapid.SampledFrom([]int{0, 1, n / 4}).Draw(t, "changes")
	differ := map[int]bool{}
	for range changes {
		differ[rapid.IntRange(0, n).Draw(t, "differs")] = true
	}
	for i := range n {
		dots := []clock.Dot{{Actor: "a", Counter: uint64(i + 1)}}
		if rapid.IntRange(0, 9).Draw(t, "two") == 0 {
			dots = append(dots, clock.Dot{Actor: "b", Counter: uint64(i + 1)})
		}
		e := fold.Element{Name: fmt.Appendf(nil, "%03d", i), Dots: dots}
		other := e
		kind := -1
		if differ[i] {
			kind = rapid.IntRange(0, 2).Draw(t, "kind")
		}
		if kind == 0 {
			other.Dots = []clock.Dot{{Actor: "c", Counter: uint64(i + 1)}}
		}
		if kind != 1 {
			s.first = append(s.first, e)
		}
		if kind != 2 {
			s.other = append(s.other, other)
		}
	}
	return s
}

// cut cuts elements into chunks with bounds at or after their last elements.
func cut(t *rapid.T, elements []fold.Element) (chunks []*fold.Chunk) {
	seen := clock.Of(clock.Dot{Actor: "first", Counter: 1})
	for at := -1; ; {
		end := at + rapid.IntRange(1, 12).Draw(t, "chunk")
		c := &fold.Chunk{Clock: seen, Bound: fmt.Appendf(nil, "%03d", end)}
		if end >= 39 && rapid.Bool().Draw(t, "done") || end >= 45 {
			c.Bound, c.Done = nil, true
		}
		from := fmt.Appendf(nil, "%03d", at) // -01 is before all
		for _, e := range elements {
			if bytes.Compare(e.Name, from) > 0 && (c.Done || bytes.Compare(e.Name, c.Bound) <= 0) {
				c.Elements = append(c.Elements, e)
			}
		}
		chunks = append(chunks, c)
		if c.Done {
			return chunks
		}
		at = end
	}
}

// count counts elements in parts that end anywhere, in answers of any size.
func count(t *rapid.T, elements []fold.Element) (answers []*bigset.PartCounts) {
	var hash bigset.ElementHash
	a := &bigset.PartCounts{Clock: clock.Of(clock.Dot{Actor: "other", Counter: 1})}
	left := elements
	for at := 0; len(left) > 0; {
		at += rapid.IntRange(1, 9).Draw(t, "part")
		p := bigset.ElementDigest{Bound: fmt.Appendf(nil, "%03d", at)}
		for len(left) > 0 && bytes.Compare(left[0].Name, p.Bound) <= 0 {
			sum, _ := hash.Sum(left[0].Name, left[0].Dots)
			p.Add(&sum)
			left = left[1:]
		}
		if a.Parts = append(a.Parts, p); rapid.IntRange(0, 3).Draw(t, "answer") == 0 {
			answers = append(answers, a)
			a = &bigset.PartCounts{Clock: clock.Of(clock.Dot{Actor: "other", Counter: uint64(len(answers) + 1)})}
		}
	}
	a.Done = true
	return append(answers, a)
}

// TestMatch: whatever two replicas have, however the chunks of one and the parts of the other are cut, and in whatever order they come, what stands for the
// other's chunks is what the other has, up to each bound, with a clock that is no newer than its first answer. Replicas that have the same are never unlike,
// and all of what they have is covered.
func TestMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawShown(t)
		chunks, answers := cut(t, s.first), count(t, s.other)
		same := slices.EqualFunc(s.first, s.other, func(a, b fold.Element) bool { return bytes.Equal(a.Name, b.Name) && slices.Equal(a.Dots, b.Dots) })
		m := &match{}
		var got []fold.Element
		for taken := 0; ; {
			c, what := m.take()
			switch what {
			case matchUnlike:
				if same {
					t.Fatalf("unlike after %d elements, and they are the same", len(got))
				}
				return
			case matchNoChunk:
				if len(chunks) == 0 {
					t.Fatal("all chunks were shown")
				}
				m.show(chunks[0])
				chunks = chunks[1:]
				continue
			case matchNoDigest:
				if len(answers) == 0 {
					t.Fatal("all answers were given")
				}
				m.answer(answers[0])
				answers = answers[1:]
				if len(chunks) > 0 && rapid.Bool().Draw(t, "ahead") {
					m.show(chunks[0])
					chunks = chunks[1:]
				}
				continue
			}
			taken++
			if c.Clock.Counters("other").Max() != 1 {
				t.Fatalf("chunk %d has the clock %v", taken, c.Clock)
			}
			got = append(got, c.Elements...)
			var want []fold.Element
			for _, e := range s.other {
				if c.Done || bytes.Compare(e.Name, c.Bound) <= 0 {
					want = append(want, e)
				}
			}
			if !slices.EqualFunc(got, want, func(a, b fold.Element) bool { return bytes.Equal(a.Name, b.Name) && slices.Equal(a.Dots, b.Dots) }) {
				t.Fatalf("up to %q: %v, the other has %v", c.Bound, got, want)
			}
			if c.Done {
				if !same {
					t.Fatal("all stands for what is not the same")
				}
				return
			}
		}
	})
}

// TestMatchPasses: a match may find out that replicas differ as soon as the part that differs is known, and not before: what comes before stands.
func TestMatchPasses(t *testing.T) {
	t.Parallel()
	element := func(name string) fold.Element {
		return fold.Element{Name: []byte(name), Dots: []clock.Dot{{Actor: "a", Counter: uint64(name[0])}}}
	}
	var hash bigset.ElementHash
	part := func(bound string, names ...string) (p bigset.ElementDigest) {
		for _, n := range names {
			e := element(n)
			sum, _ := hash.Sum(e.Name, e.Dots)
			p.Add(&sum)
		}
		p.Bound = []byte(bound)
		return p
	}
	m := &match{}
	m.show(&fold.Chunk{Elements: []fold.Element{element("a"), element("b"), element("c")}, Bound: []byte("c")})
	m.answer(&bigset.PartCounts{ElementDigests: bigset.ElementDigests{Parts: []bigset.ElementDigest{part("b", "a", "b"), part("d", "c", "d")}}, Clock: &clock.Clock{}})
	if _, what := m.take(); what != matchNoChunk {
		t.Fatalf("%v, before d is known", what)
	}
	m.show(&fold.Chunk{Elements: []fold.Element{element("d"), element("e"), element("f")}, Bound: []byte("f")})
	if c, what := m.take(); what != matchAlike || string(c.Bound) != "c" || len(c.Elements) != 3 || m.alike != 4 {
		t.Fatalf("%v, %v, %d alike", what, c, m.alike)
	}
	if _, what := m.take(); what != matchNoDigest {
		t.Fatalf("%v, before the third part", what)
	}
	m.answer(&bigset.PartCounts{ElementDigests: bigset.ElementDigests{Parts: []bigset.ElementDigest{part("g", "e", "f", "g")}}})
	if _, what := m.take(); what != matchNoChunk {
		t.Fatalf("%v, before what follows f is known", what)
	}
	m.show(&fold.Chunk{Done: true})
	if _, what := m.take(); what != matchUnlike {
		t.Fatalf("%v, and the first one has no g", what)
	}
}
