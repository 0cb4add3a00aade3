package keyscheme_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

type mergeFunc func(dst []byte, operands [][]byte) []byte

// TestMergeIsUnion merges clock values and looks at each part.
func TestMergeIsUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var operands, tombstones [][]byte
		want := keyscheme.ClockValue{Seen: clock.Of()}
		for _, v := range rapid.SliceOfN(clockValues, 1, 9).Draw(t, "values") {
			v.Unresolved >>= 8
			operands = append(operands, keyscheme.AppendClockValue(nil, v))
			tombstones = append(tombstones, keyscheme.AppendTombstoneValue(nil, v.Seen))
			want.Seen.Union(v.Seen)
			want.Unresolved += v.Unresolved
			want.Flags |= v.Flags
		}
		got, err := keyscheme.DecodeClockValue(keyscheme.MergeClockValues(nil, operands))
		if err != nil || !sameClockValue(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
		dead, err := keyscheme.DecodeTombstoneValue(keyscheme.MergeTombstoneValues(nil, tombstones))
		if err != nil || !dead.Equal(want.Seen) {
			t.Fatalf("got %v, %v, want %v", dead, err, want.Seen)
		}
	})
}

// operandsMaybeBad draws operands of which some may be undecodable, empty, or bundles.
func operandsMaybeBad(t *rapid.T) [][]byte {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []byte {
		v := clockValues.Draw(t, "value")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return names(0, 4).Draw(t, "bad")
		case 1:
			return []byte{0xFF, 3, 'b', 'a', 'd', 0}
		}
		return keyscheme.AppendClockValue(nil, v)
	}), 1, 6).Draw(t, "operands")
}

// TestMergeKeepsWhatItCannotUnite: a merge with a bad operand loses no byte of any operand.
func TestMergeKeepsWhatItCannotUnite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		operands := operandsMaybeBad(t)
		value := keyscheme.MergeClockValues([]byte("dst"), operands)
		if !bytes.HasPrefix(value, []byte("dst")) {
			t.Fatalf("the merge does not append: %x", value)
		}
		value = value[3:]
		if _, err := keyscheme.DecodeClockValue(value); err == nil || len(operands) == 1 {
			return
		}
		kept, err := keyscheme.DecodeBundle(value)
		if err != nil {
			t.Fatalf("neither a value nor a bundle: %x", value)
		}
		if want := flat(operands); fmt.Sprintf("%x", kept) != fmt.Sprintf("%x", want) {
			t.Fatalf("kept %x, want %x", kept, want)
		}
	})
}

func flat(operands [][]byte) (all [][]byte) {
	for _, o := range operands {
		if bundled, err := keyscheme.DecodeBundle(o); err == nil {
			all = append(all, bundled...)
		} else {
			all = append(all, o)
		}
	}
	return all
}

// TestMergeInAnyGrouping: Pebble merges parts first, in groups that it chooses.
func TestMergeInAnyGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		operands := operandsMaybeBad(t)
		cut := rapid.IntRange(0, len(operands)-1).Draw(t, "cut")
		end := rapid.IntRange(cut+1, len(operands)).Draw(t, "end")
		part := keyscheme.MergeClockValues(nil, operands[cut:end])
		grouped := slices.Concat(operands[:cut], [][]byte{part}, operands[end:])
		whole, err := keyscheme.DecodeClockValue(keyscheme.MergeClockValues(nil, operands))
		parts, err2 := keyscheme.DecodeClockValue(keyscheme.MergeClockValues(nil, grouped))
		if (err == nil) != (err2 == nil) || err == nil && !sameClockValue(whole, parts) {
			t.Fatalf("at once %v, %v; in groups %v, %v", whole, err, parts, err2)
		}
	})
}

func TestMergeOverflow(t *testing.T) {
	value := func(unresolved int64) []byte {
		return keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Unresolved: unresolved})
	}
	over := keyscheme.MergeClockValues(nil, [][]byte{value(math.MaxInt64), value(1)})
	if kept, err := keyscheme.DecodeBundle(over); err != nil || len(kept) != 2 {
		t.Fatalf("an overflow gives %x, %v", over, err)
	}
	// A later operand brings the sum back, and the bundle heals.
	healed, err := keyscheme.DecodeClockValue(keyscheme.MergeClockValues(nil, [][]byte{over, value(-1)}))
	if err != nil || healed.Unresolved != math.MaxInt64 {
		t.Fatalf("got %v, %v", healed, err)
	}
	under := keyscheme.MergeClockValues(nil, [][]byte{value(math.MinInt64), value(-1)})
	if _, err := keyscheme.DecodeBundle(under); err != nil {
		t.Fatalf("an underflow gives %x", under)
	}
}

func TestMergeOfOneIsVerbatim(t *testing.T) {
	for _, merge := range []mergeFunc{keyscheme.MergeClockValues, keyscheme.MergeTombstoneValues} {
		for _, operand := range [][]byte{{}, {9}, {0xFF}, {0xFF, 5, 1}, {1, 0, 0}} {
			if got := merge(nil, [][]byte{operand}); !bytes.Equal(got, operand) {
				t.Errorf("%x alone comes out as %x", operand, got)
			}
		}
	}
}

func TestMergeDoesNotWriteToOperands(t *testing.T) {
	one := keyscheme.AppendTombstoneValue(nil, clock.Of(clock.Dot{Actor: "a", Counter: 1}))
	bad := []byte{0xFF, 1, 9}
	operands := [][]byte{one, bad, one, {8}}
	before := fmt.Sprintf("%x", operands)
	keyscheme.MergeTombstoneValues(nil, operands)
	keyscheme.MergeTombstoneValues(nil, operands[:2])
	if after := fmt.Sprintf("%x", operands); after != before {
		t.Errorf("operands were %s, are %s", before, after)
	}
}

func TestDamagedBundleIsAnOperand(t *testing.T) {
	damaged := []byte{0xFF, 9, 1}
	value := keyscheme.MergeTombstoneValues(nil, [][]byte{damaged, {7}})
	value = keyscheme.MergeTombstoneValues(nil, [][]byte{value, {8}})
	kept, err := keyscheme.DecodeBundle(value)
	if want := [][]byte{damaged, {7}, {8}}; err != nil || fmt.Sprint(kept) != fmt.Sprint(want) {
		t.Errorf("kept %v, %v, want %v", kept, err, want)
	}
}
