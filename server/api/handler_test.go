package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	written, err := DecodeWritten(ask(VerbWrite, AppendWrite(nil, &w))[0])
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
