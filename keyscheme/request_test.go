package keyscheme_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/comparator"
	"bigset/keyscheme"
)

// TestRequestBytes holds still what is on disk.
func TestRequestBytes(t *testing.T) {
	p := keyscheme.NewPrefix([]byte("set"))
	if got, want := fmt.Sprintf("%x", p.AppendRequestKey(nil, []byte("id"), 258)), "849f6cf3ffffffff6d"+"72"+"03000000"+"736574"+"02"+"6964"+"0000000000000102"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	r := &keyscheme.Request{Millis: 300, Actor: "ab", First: 7, Items: []keyscheme.RequestItem{
		{Op: keyscheme.OpAdd, Sum: 1, Context: clock.Of(clock.Dot{Actor: "c", Counter: 9})}, {Op: keyscheme.OpRemove, Sum: 2}}}
	value := keyscheme.AppendRequestValue(nil, r)
	if got, want := fmt.Sprintf("%x", value), "01"+"ac02"+"026162"+"07"+"02"+"61"+"0100000000000000"+"03"+"030963"+"72"+"0200000000000000"+"02"+"0100"; got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	for i := range value {
		if _, err := keyscheme.DecodeRequestValue(value[:i]); !errors.Is(err, keyscheme.ErrCorruptValue) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	got, err := keyscheme.DecodeRequestValue(value)
	if err != nil || got.Millis != 300 || got.Actor != "ab" || got.First != 7 || len(got.Items) != 2 || got.Items[0].Op != keyscheme.OpAdd ||
		got.Items[1].Sum != 2 || !got.Items[0].Context.Equal(r.Items[0].Context) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRequestBounds: the bounds hold the keys of their request, and no others.
func TestRequestBounds(t *testing.T) {
	p, q := keyscheme.NewPrefix([]byte("set")), keyscheme.AppendPrefix(nil, keyscheme.SetSlot([]byte("set")), []byte("seta"))
	within := func(b keyscheme.Bounds, key []byte) bool {
		return comparator.Compare(b.Lower, key) <= 0 && comparator.Compare(key, b.Upper) < 0
	}
	for _, id := range []string{"a", "b", "ab", "a\x00", "\xff"} {
		for _, mark := range []uint64{0, 1, 1<<64 - 1} {
			key := p.AppendRequestKey(nil, []byte(id), mark)
			for _, other := range []string{"a", "b", "ab", "a\x00", "\xff"} {
				if within(p.Request([]byte(other)), key) != (id == other) {
					t.Errorf("id %q with mark %d and the bounds of %q", id, mark, other)
				}
			}
			if within(keyscheme.Prefix(q).Request([]byte(id)), key) {
				t.Errorf("id %q in the bounds of another set", id)
			}
			if k, err := keyscheme.Decode(key); err != nil || !k.IsRequest() || !within(keyscheme.Requests(p.Slot()), key) {
				t.Errorf("%x: %+v, %v", key, k, err)
			}
		}
	}
	if k, err := keyscheme.Decode(p.AppendClock(nil)); err != nil || k.IsRequest() || bytes.Equal(k.Set, nil) {
		t.Errorf("%+v, %v", k, err)
	}
}
