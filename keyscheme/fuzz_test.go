package keyscheme_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/internal/testkit/mangle"
	"bigset/keyscheme"
)

func FuzzDecodeKey(f *testing.F) {
	p := keyscheme.NewPrefix([]byte("set"))
	f.Add([]byte{})
	f.Add([]byte("id"))
	f.Add(p.AppendClock(nil))
	f.Add(p.AppendTombstone(nil))
	f.Add(p.AppendClockPage(nil, "actor", 1))
	f.Add(p.AppendTombstonePage(nil, "actor", 1))
	f.Add(p.AppendElement(nil, []byte("element"), clock.Dot{Actor: "actor", Counter: 1}, keyscheme.OpAdd))
	f.Add(p.AppendEnd(nil))
	f.Add(keyscheme.AppendSlotKey(nil, 1, keyscheme.SlotBloom, []byte("rest")))
	f.Fuzz(func(t *testing.T, key []byte) { checkKey(t, key) })
}

func FuzzValues(f *testing.F) {
	c := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "b", Counter: 70000})
	f.Add(keyscheme.ResolvedValue)
	f.Add(keyscheme.AppendElementValue(nil, c))
	f.Add(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: c, Unresolved: -3, Flags: keyscheme.FlagSiblings | keyscheme.FlagTombstone}))
	f.Add(keyscheme.AppendTombstoneValue(nil, c))
	f.Add(keyscheme.AppendPageValue(nil, c.Counters("b"), 1))
	f.Add([]byte{0xFF, 1, 2, 0})
	f.Add(sampleRequest)
	f.Fuzz(func(t *testing.T, value []byte) { checkValue(t, value) })
}

func checkValue(t *testing.T, value []byte) {
	context, err := keyscheme.DecodeElementValue(value)
	checkCorrupt(t, err)
	packed := bytes.HasPrefix(value, []byte{1, 2}) // a compressed clock is taken, but not written here
	if err == nil && !packed && !bytes.Equal(keyscheme.AppendElementValue(nil, context), value) {
		t.Fatalf("element value %x encodes otherwise", value)
	}
	v, err := keyscheme.DecodeClockValue(value)
	checkCorrupt(t, err)
	if again, err2 := keyscheme.DecodeClockValue(keyscheme.AppendClockValue(nil, v)); err == nil && (err2 != nil || !sameClockValue(v, again)) {
		t.Fatalf("clock value %x comes back as %v, %v", value, again, err2)
	}
	dead, err := keyscheme.DecodeTombstoneValue(value)
	checkCorrupt(t, err)
	if again, err2 := keyscheme.DecodeTombstoneValue(keyscheme.AppendTombstoneValue(nil, dead)); err == nil && (err2 != nil || !dead.Equal(again)) {
		t.Fatalf("tombstone value %x comes back as %v, %v", value, again, err2)
	}
	page, err := keyscheme.DecodePageValue(value)
	checkCorrupt(t, err)
	base := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "b", Counter: 70_000})
	sum := base.Clone()
	if err2 := keyscheme.AddPageValue(sum, value); (err == nil) != (err2 == nil) {
		t.Fatalf("page value %x decodes with %v, adds with %v", value, err, err2)
	}
	if base.Union(page); !sum.Equal(base) {
		t.Fatalf("page value %x adds up to %v, want %v", value, sum, base)
	}
	_, err = keyscheme.DecodeBundle(value)
	checkCorrupt(t, err)
	r, err := keyscheme.DecodeRequestValue(value)
	checkCorrupt(t, err)
	if err != nil {
		return
	}
	again := keyscheme.AppendRequestValue(nil, r)
	if r2, err := keyscheme.DecodeRequestValue(again); err != nil || !bytes.Equal(keyscheme.AppendRequestValue(nil, r2), again) {
		t.Fatalf("request value %x comes back as %x, %v", value, again, err)
	}
}

var sampleRequest = keyscheme.AppendRequestValue(nil, &keyscheme.Request{Millis: 1 << 40, Actor: "actor", First: 300, Items: []keyscheme.RequestItem{
	{Op: keyscheme.OpAdd, Sum: keyscheme.ElementSum([]byte("element")), Context: clock.Of(clock.Dot{Actor: "a", Counter: 1})},
	{Op: keyscheme.OpRemove, Context: clock.Of()},
}})

func checkCorrupt(t failer, err error) {
	if err != nil && !errors.Is(err, keyscheme.ErrCorruptValue) {
		t.Fatalf("%v is not ErrCorruptValue", err)
	}
}

func FuzzMerge(f *testing.F) {
	one := keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: clock.Of(clock.Dot{Actor: "a", Counter: 1}), Unresolved: 1})
	dead := keyscheme.AppendTombstoneValue(nil, clock.Of(clock.Dot{Actor: "a", Counter: 9}))
	f.Add(one, one, one)
	f.Add(dead, dead, []byte{0xFF, 1, 7})
	f.Add([]byte{}, one, keyscheme.MergeClockValues(nil, [][]byte{{}, one}))
	f.Fuzz(func(t *testing.T, a, b, c []byte) { checkMerge(t, a, b, c) })
}

func checkMerge(t *testing.T, a, b, c []byte) {
	operands := [][]byte{a, b, c}
	for _, merge := range []mergeFunc{keyscheme.MergeClockValues, keyscheme.MergeTombstoneValues} {
		value := merge(nil, operands)
		if kept, err := keyscheme.DecodeBundle(value); err == nil {
			if fmt.Sprintf("%x", kept) != fmt.Sprintf("%x", flat(operands)) {
				t.Fatalf("%x keeps %x", operands, kept)
			}
			continue
		}
		left := merge(nil, [][]byte{merge(nil, [][]byte{a, b}), c})
		right := merge(nil, [][]byte{a, merge(nil, [][]byte{b, c})})
		if !bytes.Equal(value, left) || !bytes.Equal(value, right) {
			t.Fatalf("%x is %x at once, %x from the left, %x from the right", operands, value, left, right)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	set, element := []byte("set"), []byte("element")
	for _, ctx := range []keyscheme.TokenContent{
		{Form: keyscheme.Narrow, Set: set, Element: element, Dots: clock.Of(clock.Dot{Actor: "a", Counter: 1})},
		{Form: keyscheme.Wide, Set: set},
		{Form: keyscheme.Cursor, Set: set, Element: element},
	} {
		token, err := ring.Seal(nil, ctx)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token, set, element)
		f.Add(token[:len(token)-1], set, []byte{})
	}
	f.Fuzz(func(t *testing.T, token, set, element []byte) { checkUnseal(t, token, set, element) })
}

func checkUnseal(t *testing.T, token, set, element []byte) {
	ctx, err := ring.Unseal(token, anyForm, set, element)
	if err != nil {
		if !errors.Is(err, keyscheme.ErrToken) || ctx.Form != 0 {
			t.Fatalf("Unseal(%x) gives %v, %v", token, ctx, err)
		}
		return
	}
	if again, err := ring.Seal(nil, ctx); err != nil || !bytes.Equal(again, token) {
		t.Fatalf("%x is accepted, but seals as %x, %v", token, again, err)
	}
}

// TestDecodersAtRandom gives the decoders what the fuzzer would, without its instruments: samples, changed a little.
func TestDecodersAtRandom(t *testing.T) {
	n, changes := mangle.Times(200_000), mangle.New(t)
	p := keyscheme.NewPrefix([]byte("set"))
	c := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "b", Counter: 70000}, clock.Dot{Actor: "b", Counter: 3})
	keys := [][]byte{{}, p.AppendClock(nil), p.AppendTombstone(nil), p.AppendTombstonePage(nil, "actor", 1), p.AppendEnd(nil),
		p.AppendElement(nil, []byte("element"), clock.Dot{Actor: "actor", Counter: 1}, keyscheme.OpAdd)}
	values := [][]byte{keyscheme.ResolvedValue, keyscheme.AppendElementValue(nil, c), keyscheme.AppendTombstoneValue(nil, c),
		keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: c, Unresolved: -3, Flags: keyscheme.FlagSiblings | keyscheme.FlagTombstone}), {0xFF, 1, 2, 0},
		sampleRequest}
	set, element := []byte("set"), []byte("element")
	token, err := ring.Seal(nil, keyscheme.TokenContent{Form: keyscheme.Narrow, Set: set, Element: element, Dots: c})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		checkKey(t, changes.Of(keys))
		checkValue(t, changes.Of(values))
		checkUnseal(t, changes.Of([][]byte{token}), set, element)
	}
	for range n / 10 {
		checkMerge(t, changes.Of(values), changes.Of(values), changes.Of(values))
	}
	t.Logf("%d executions", 3*n+n/10)
}
