package bloomslice

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func genPage(t *rapid.T) []byte {
	page := make([]byte, rapid.IntRange(0, PageBytes).Draw(t, "bytes"))
	n := rapid.SampledFrom([]int{0, 1, 5, 300, 3000, 40_000}).Draw(t, "bits")
	state := rapid.Uint64().Draw(t, "seed")
	for range n {
		if len(page) > 0 {
			state = state*6364136223846793005 + 1442695040888963407
			page[state>>33%uint64(len(page))] |= 1 << (state >> 30 & 7)
		}
	}
	return page
}

// TestPageLaws: a page comes back as it was; the join is commutative, associative and idempotent, and equal bits encode equal.
func TestPageLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var values [][]byte
		var want [PageBytes]byte
		for range 3 {
			page := genPage(t)
			value, err := AppendPage(nil, page)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodePage(nil, value)
			if err != nil || !bytes.Equal(bytes.TrimRight(got, "\x00"), bytes.TrimRight(page, "\x00")) || len(got) != PageBytes {
				t.Fatalf("came back otherwise: %v", err)
			}
			if len(value) > PageBytes+1 {
				t.Fatalf("a value of %d bytes", len(value))
			}
			for i, c := range page {
				want[i] |= c
			}
			values = append(values, value)
		}
		direct, _ := AppendPage(nil, want[:])
		a, b, c := values[0], values[1], values[2]
		for _, got := range [][]byte{
			joined(a, b, c),
			joined(c, b, a, c),
			joined(joined(c, a), b),
			joined(a, joined(b, c)),
		} {
			if !bytes.Equal(got, direct) {
				t.Fatal("joins differ")
			}
		}
	})
}

// TestCorruptPage has values that no page has.
func TestCorruptPage(t *testing.T) {
	good := []byte{pageSparse, 0, 1}
	for _, bad := range [][]byte{nil, {}, {0}, {9, 1}, {pageSparse, 1}, {pageSparse, 0, 2, 0, 2}, {pageSparse, 0, 2, 0, 1}, {pageSparse, 0xFF, 0xFF},
		{pageSparse, 0x80, 0},
		append([]byte{pageWhole}, make([]byte, PageBytes+1)...), append([]byte{pageSparse}, make([]byte, 3*PageBytes)...)} {
		if _, err := DecodePage(nil, bad); !errors.Is(err, ErrCorruptPage) {
			t.Errorf("%.10x: %v", bad, err)
		}
		if got, ok := JoinPages(good, [][]byte{good, bad}); ok || !bytes.Equal(got, good) {
			t.Errorf("%.10x: joined with a good one", bad)
		}
	}
}

// TestPageForms has pages whose bits take as many bytes as places as they do otherwise, one less, and one more; and the last bit of a page.
func TestPageForms(t *testing.T) {
	const step = pageBits / sparseMax
	for _, c := range []struct {
		bits  int
		form  byte
		bytes int
	}{{0, pageSparse, 1}, {sparseMax - 1, pageSparse, 1 + 2*(sparseMax-1)}, {sparseMax, pageSparse, 1 + PageBytes}, {sparseMax + 1, pageWhole, 1 + PageBytes}} {
		var page [PageBytes]byte
		for i := range c.bits {
			place := pageBits - 1 - i*step%pageBits - i/sparseMax
			page[place/8] |= 0x80 >> (place % 8)
		}
		value, err := AppendPage(nil, page[:])
		if err != nil || value[0] != c.form || len(value) != c.bytes {
			t.Fatalf("%d bits: form %d of %d bytes, %v; want %d, %d", c.bits, value[0], len(value), err, c.form, c.bytes)
		}
		if got, err := DecodePage(nil, value); err != nil || !bytes.Equal(got, page[:]) {
			t.Errorf("%d bits came back otherwise: %v", c.bits, err)
		}
	}
}

func FuzzDecodePage(f *testing.F) {
	f.Add([]byte{pageWhole, 1, 2, 3}, []byte{pageSparse, 0, 1, 0, 2})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		page, err := DecodePage(nil, a)
		if err == nil {
			again, err := AppendPage(nil, page)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := DecodePage(nil, again); err != nil || !bytes.Equal(back, page) {
				t.Fatal("came back otherwise")
			}
		}
		JoinPages(nil, [][]byte{a, b})
	})
}
