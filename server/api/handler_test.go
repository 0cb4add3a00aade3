package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/alone"
	"bigset/server/door"
	"bigset/server/wire"
)

// TestHandler asks a store everything through bodies.
func TestHandler(t *testing.T) {
	t.Parallel()
	s, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := Handler(alone.New(s))
	ask := func(v wire.Verb, body []byte) (parts [][]byte) {
		t.Helper()
		last, err := h(t.Context(), &wire.Request{Verb: v, Body: body}, func(p []byte) error {
			parts = append(parts, bytes.Clone(p))
			return nil
		})
		if err != nil {
			t.Fatalf("verb %d: %v", v, err)
		}
		return append(parts, last)
	}
	set := []byte("s")
	w := door.Write{Set: set, Contexts: true}
	for i := range 5 {
		w.Ops = append(w.Ops, door.Op{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "e%d", i)})
	}
	written, err := DecodeResult(ask(VerbWrite, AppendWrite(nil, &w))[0])
	if err != nil || len(written.Contexts) != 5 || written.Durable != 1 {
		t.Fatalf("written %+v, %v", written, err)
	}
	ps, err := DecodePresences(ask(VerbSubset, AppendSubset(nil, &door.Subset{Set: set, Elements: [][]byte{[]byte("e1"), []byte("x")}}))[0])
	if err != nil || !ps[0].Present || ps[1].Present || !bytes.Equal(ps[0].Context, written.Contexts[1]) {
		t.Fatalf("subset %+v, %v", ps, err)
	}
	var got []byte
	parts := ask(VerbRead, AppendRead(nil, &door.Read{Set: set, Batch: 2, Limit: 4}))
	for i, b := range parts {
		var p door.Part
		if err := DecodePart(&p, b); err != nil || p.Done != (i == len(parts)-1) || p.Done != (len(p.After) > 0) {
			t.Fatalf("part %d of %d: %+v, %v", i, len(parts), p, err)
		}
		for _, e := range p.Elements {
			got = append(got, e.Name...)
		}
	}
	if string(got) != "e0e1e2e3" {
		t.Errorf("read %s", got)
	}
	wide := ask(VerbContext, AppendSubset(nil, &door.Subset{Set: set}))[0]
	if c, err := DecodeCount(ask(VerbCount, AppendRead(nil, &door.Read{Set: set}))[0]); err != nil || c.Elements != 5 || !bytes.Equal(c.Context, wide) {
		t.Errorf("count %+v, %v", c, err)
	}
	if st, err := DecodeStats(ask(VerbStats, AppendSubset(nil, &door.Subset{Set: set}))[0]); err != nil || st.Live != 5 || st.Seen != 5 || st.Dead != 0 || st.Actors != 1 {
		t.Errorf("stats %+v, %v", st, err)
	}
	if left, err := DecodeLeft(ask(VerbDrop, AppendDrop(nil, &door.Drop{Set: set, Context: wide}))[0]); err != nil || left != 0 {
		t.Errorf("drop leaves %d, %v", left, err)
	}
	for all, want := range map[bool]int{false: 0, true: 1} {
		if names, err := DecodeNames(ask(VerbNames, AppendAll(nil, all, nil))[0]); err != nil || len(names) != want {
			t.Errorf("names, all %v: %+v, %v", all, names, err)
		}
	}
	if n, err := DecodeSetCount(ask(VerbCountSets, nil)[0]); err != nil || n != (bigset.SetCount{}) {
		t.Errorf("%+v sets, %v", n, err)
	}
	for name, r := range map[string]*wire.Request{
		"an epoch":          {Verb: VerbWrite, Epoch: 1, Body: AppendWrite(nil, &w)},
		"a peer's verb":     {Verb: wire.FirstPeerVerb},
		"no body":           {Verb: VerbRead},
		"stats of elements": {Verb: VerbStats, Body: AppendSubset(nil, &door.Subset{Set: set, Elements: [][]byte{nil}})},
		"another's body":    {Verb: VerbContext, Body: AppendSubset(nil, &door.Subset{Set: set, Elements: [][]byte{nil}})},
	} {
		if _, err := h(t.Context(), r, nil); !errors.Is(err, ErrBody) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsCross wants each known error to mean the same after it crossed the wire, and nothing beside it.
func TestErrorsCross(t *testing.T) {
	t.Parallel()
	cross := func(err error) error { return Errors{}.Decode(Errors{}.Append(nil, err)) }
	for _, kind := range kinds {
		err := fmt.Errorf("api: it went wrong: %w", kind)
		got := cross(err)
		if got.Error() != err.Error() {
			t.Errorf("text %q became %q", err, got)
		}
		for _, other := range kinds {
			if errors.Is(got, other) != errors.Is(err, other) {
				t.Errorf("%v: errors.Is %v: %v", err, other, errors.Is(got, other))
			}
		}
	}
	var unknown *door.UnknownError
	want := door.UnknownError{Acked: 1, Durable: 2, W: 3, DW: 4}
	got := cross(&door.UnknownError{Acked: 1, Durable: 2, W: 3, DW: 4, Err: bigset.ErrDiskFull})
	if !errors.As(got, &unknown) || *unknown != want || !errors.Is(got, bigset.ErrDiskFull) || !errors.Is(got, door.ErrUnknown) {
		t.Errorf("an unknown outcome became %+v", got)
	}
	later := Errors{}.Append(nil, bigset.ErrLimit)
	later[0] = version + 1
	for _, b := range [][]byte{later, nil, later[:3], {version, 0, 0, 2, 1}} {
		if err := (Errors{}).Decode(b); !errors.Is(err, wire.ErrLost) || errors.Is(err, ErrBody) || errors.Is(err, bigset.ErrLimit) {
			t.Errorf("%x, which can't be read, became %v", b, err)
		}
	}
	text := func(kinds ...int) []byte {
		b := Errors{}.Append(nil, errors.New("text"))
		for _, k := range kinds {
			b = putInt(b, k)
		}
		return b
	}
	if err := (Errors{}).Decode(text(len(kinds) + 1)); !errors.Is(err, wire.ErrLost) || !strings.HasSuffix(err.Error(), "text") {
		t.Errorf("an error of a kind of a later version became %v", err)
	}
	if err := (Errors{}).Decode(text(slices.Index(kinds, bigset.ErrLimit)+1, len(kinds)+1)); errors.Is(err, wire.ErrLost) || !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("a known kind beside one of a later version became %v", err)
	}
	if err := cross(errors.New("what nobody knows")); errors.Is(err, context.Canceled) || err.Error() != "what nobody knows" {
		t.Errorf("another error became %v", err)
	}
}

// FuzzErrors wants that any bytes give an error and never a panic.
func FuzzErrors(f *testing.F) {
	f.Add(Errors{}.Append(nil, &door.UnknownError{Acked: 1, Err: bigset.ErrNotFound}))
	f.Add([]byte{version, 0, 0, 2, 1}) // kinds out of order
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := (Errors{}).Decode(b); err == nil || len(err.Error()) > len(b)+200 {
			t.Fatalf("%x: %v", b, err)
		}
	})
}

// reads is a backend that gives parts.
type reads struct {
	door.Backend
	parts []door.Part
	err   error
}

func (b *reads) Read(context.Context, door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		var room []door.Element
		for _, p := range b.parts {
			room = append(room[:0], p.Elements...) // is used again, as that of a coordinator
			p.Elements = room
			if !yield(p, nil) {
				return
			}
			clear(room)
		}
		if b.err != nil {
			yield(door.Part{}, b.err)
		}
	}
}

// manyNames are the sets 0 to n-1.
type manyNames struct {
	door.Backend
	n int
}

func (b manyNames) Names(context.Context, bool, []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for i := range b.n {
			if !yield(bigset.SetInfo{Name: fmt.Append(nil, i)}, nil) {
				return
			}
		}
	}
}

// TestNamesInParts: the part of a list that was sent last does not change until another one was sent, nor when the last answer is made.
func TestNamesInParts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, namesMax - 1, namesMax, namesMax + 1, 3*namesMax + 5} {
		var parts [][]byte
		var sent []byte
		unchanged := func() {
			if k := len(parts); k > 0 && !bytes.Equal(sent, parts[k-1]) {
				t.Errorf("%d names: part %d has changed", n, k-1)
			}
		}
		last, err := Handler(manyNames{n: n})(t.Context(), &wire.Request{Verb: VerbNames, Body: AppendAll(nil, false, nil)}, func(p []byte) error {
			unchanged()
			sent, parts = p, append(parts, bytes.Clone(p))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		unchanged()
		i := 0
		for _, p := range append(parts, last) {
			names, err := DecodeNames(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range names {
				if string(x.Name) != fmt.Sprint(i) {
					t.Fatalf("%d names: %q is at %d", n, x.Name, i)
				}
				i++
			}
		}
		if i != n {
			t.Errorf("%d of %d names", i, n)
		}
	}
}

// TestReadJoinsParts: a read that says nothing of the size of its parts has few, the first of which goes out at once; what they hold, and where they end, is the same.
func TestReadJoinsParts(t *testing.T) {
	t.Parallel()
	part := func(from, n, size int) (p door.Part) {
		for i := range n {
			p.Elements = append(p.Elements, door.Element{Name: fmt.Appendf(nil, "%0*d", size, from+i), Context: door.Token(fmt.Sprint(i % 3))[:i%2]})
		}
		return p
	}
	var small, large []door.Part
	for i := range 300 {
		small = append(small, part(1000*i, 1000, 10))
		if i%100 == 50 {
			small = append(small, door.Part{Context: door.Token("context")}, door.Part{})
		}
	}
	for i := range 8 {
		large = append(large, part(i, 1, 10), part(100*i, 90, 60_000))
	}
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		parts     []door.Part
		batch     int
		end       door.Part
		err       error
		few, most int
	}{
		"small":            {small, 0, part(1<<20, 3, 10), nil, 20, 60},
		"of a size":        {small, 1000, door.Part{After: door.Token("after")}, nil, 304, 310},
		"large":            {large, 0, door.Part{}, nil, 9, 17},
		"one":              {small[:1], 0, door.Part{}, nil, 2, 2},
		"ends by an error": {small[:40], 0, door.Part{}, failed, 3, 30},
	} {
		b := &reads{parts: append(slices.Clone(tt.parts), tt.end), err: tt.err}
		b.parts[len(b.parts)-1].Done = tt.err == nil
		if tt.err != nil {
			b.parts = b.parts[:len(b.parts)-1]
		}
		var parts [][]byte
		var sent []byte // as package wire, which looks at a part until the next one was sent
		last, err := Handler(b)(t.Context(), &wire.Request{Verb: VerbRead, Body: AppendRead(nil, &door.Read{Set: []byte("s"), Batch: tt.batch})}, func(p []byte) error {
			if n := len(parts); n > 0 && !bytes.Equal(sent, parts[n-1]) {
				t.Errorf("%s: part %d has changed before the next was sent", name, n-1)
			}
			parts, sent = append(parts, bytes.Clone(p)), p
			return nil
		})
		if n := len(parts); n > 0 && !bytes.Equal(sent, parts[n-1]) {
			t.Errorf("%s: the part before the last has changed", name)
		}
		if !errors.Is(err, tt.err) {
			t.Fatalf("%s: %v", name, err)
		}
		if parts = append(parts, last); tt.err != nil {
			parts = parts[:len(parts)-1]
		}
		var got, want door.Part
		for i, body := range parts {
			var p door.Part
			if err := DecodePart(&p, body); err != nil || p.Done != (tt.err == nil && i == len(parts)-1) {
				t.Fatalf("%s: part %d of %d: done %v, %v", name, i, len(parts), p.Done, err)
			}
			if i == 0 && len(p.Elements) != len(b.parts[0].Elements) {
				t.Errorf("%s: the first part has %d elements", name, len(p.Elements))
			}
			joinParts(&got, &p)
		}
		for i := range b.parts {
			joinParts(&want, &b.parts[i])
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d elements, want %d, or others", name, len(got.Elements), len(want.Elements))
		}
		if n := len(parts); n < tt.few || n > tt.most {
			t.Errorf("%s: %d parts, want %d to %d", name, n, tt.few, tt.most)
		}
	}
}

// joinParts adds a part to one.
func joinParts(to, p *door.Part) {
	for _, e := range p.Elements {
		if len(e.Context) == 0 {
			e.Context = nil
		}
		to.Elements = append(to.Elements, e)
	}
	to.Context, to.After, to.Done = append(to.Context, p.Context...), append(to.After, p.After...), to.Done || p.Done
}
