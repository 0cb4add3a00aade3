package ring_test

import (
	"errors"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/internal/ring"
)

// drawBucket draws a bucket of any depth up to most bits.
func drawBucket(t *rapid.T, most int) ring.Bucket {
	return ring.BucketOf(ring.Slot(rapid.Uint32().Draw(t, "slot")), rapid.IntRange(0, most).Draw(t, "bits"))
}

// TestMask: a bucket has the hashes that its mask and key say, as the document on splitting has them.
func TestMask(t *testing.T) {
	slot := func(hash uint32) ring.Slot { return ring.Slot(bits.Reverse32(hash)) }
	four := ring.Bucket{Mask: 0xF, Key: 4}
	for _, hash := range []uint32{0xA4B0E834, 4, 0xFFFFFFF4} {
		if !four.Has(slot(hash)) || four.First() > slot(hash) || four.Last() < slot(hash) {
			t.Errorf("hash %08x is not in bucket %v", hash, four)
		}
	}
	if four.Has(slot(0x45)) || four.Has(slot(0x40)) {
		t.Errorf("bucket %v has hashes that end in 5 or 0", four)
	}
	if four.First() != 0x20000000 || four.Last() != 0x2FFFFFFF || four.String() != "000F/0004" {
		t.Errorf("bucket %v has the slots %08x to %08x", four, four.First(), four.Last())
	}
	var keys []uint32
	for _, b := range four.Split(4) {
		if b.Mask != 0xFF {
			t.Errorf("a part of %v is %v", four, b)
		}
		keys = append(keys, b.Key)
	}
	slices.Sort(keys)
	if want := []uint32{0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x84, 0x94, 0xA4, 0xB4, 0xC4, 0xD4, 0xE4, 0xF4}; !slices.Equal(keys, want) {
		t.Errorf("keys of the parts are %x", keys)
	}
}

// TestBucketSplit: parts tile their bucket in the order of slots, and have it as their parent; without one piece, the rest tiles
// too.
func TestBucketSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBucket(t, 28)
		n := rapid.IntRange(0, 4).Draw(t, "n")
		parts := b.Split(n)
		tiles(t, b, parts)
		for _, p := range parts {
			if p.Parent(n) != b || !b.Covers(p) || n > 0 && p.Covers(b) {
				t.Fatalf("part %v of %v", p, b)
			}
		}
		small := ring.BucketOf(b.First()+ring.Slot(rapid.Uint64Range(0, b.Size()-1).Draw(t, "offset")), rapid.IntRange(b.Bits(), 32).Draw(t, "small"))
		rest := slices.Collect(b.Without(small))
		all := append(slices.Clone(rest), small)
		if !slices.IsSortedFunc(rest, func(a, b ring.Bucket) int { return int(int64(a.First()) - int64(b.First())) }) {
			t.Fatalf("%v without %v is %v", b, small, rest)
		}
		slices.SortFunc(all, func(a, b ring.Bucket) int { return int(int64(a.First()) - int64(b.First())) })
		tiles(t, b, all)
		if o := drawBucket(t, 32); b.Meets(o) != (b.First() <= o.Last() && o.First() <= b.Last()) {
			t.Fatalf("%v meets %v: %t", b, o, b.Meets(o))
		}
	})
}

func tiles(t *rapid.T, b ring.Bucket, parts []ring.Bucket) {
	next := uint64(b.First())
	for _, p := range parts {
		if err := p.Check(); err != nil || uint64(p.First()) != next || uint64(p.First())+p.Size()-1 != uint64(p.Last()) || !p.Has(p.First()) || !p.Has(p.Last()) {
			t.Fatalf("part %v of %v: %v", p, b, err)
		}
		next = uint64(p.Last()) + 1
	}
	if next != uint64(b.Last())+1 {
		t.Fatalf("parts of %v end at %08x", b, next)
	}
}

// TestBucketForm: masks with gaps and keys outside the mask are not buckets, and only powers of two are numbers of buckets.
func TestBucketForm(t *testing.T) {
	for _, b := range []ring.Bucket{{Mask: 0xF0}, {Mask: 0xF, Key: 0x10}, {Mask: 5, Key: 1}, {Key: 1}} {
		if err := b.Check(); !errors.Is(err, ring.ErrBucket) {
			t.Errorf("%v: %v", b, err)
		}
	}
	for _, n := range []int{0, -1, 3, 1 << 21} {
		if _, err := ring.Buckets(n); !errors.Is(err, ring.ErrSettings) {
			t.Errorf("%d buckets: %v", n, err)
		}
	}
}
