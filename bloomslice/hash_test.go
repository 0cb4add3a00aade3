package bloomslice

import (
	"fmt"
	"strings"
	"testing"
)

// letters returns n bytes of the alphabet, over and over.
func letters(n int) string { return strings.Repeat("abcdefghijklmnopqrstuvwxyz", n/26+1)[:n] }

// TestSum compares with hashes that bloomd's functions were seen to give.
func TestSum(t *testing.T) {
	for _, c := range []struct {
		key  string
		want string
	}{
		{"", "0000000000000000 0000000000000000 7a65fec8a24295ec d7a296758404604f"},
		{"a", "85555565f6597889 e6b53a48510e895a dba64b9834f566f1 1d437bd331d40778"},
		{"zipzab", "0ce5045b9a01660e 3eb92f21f18ff1b7 471c342fc7f95343 8fa1cb99b239b13c"},
		{"k0", "4e409fb80c83ec89 cca38b7e3da852ed af7e5a207d48bdfb 4db08f1a187b35e0"},
		{"hello", "cbd8a7b341bd9b02 5b1e906a48ae1d19 54bcb5ace8e42fc0 e3d54d8bc6e7f32d"},
		{"a b", "2db63eaffc6cc969 5760c3f62570cf6e a63b454d6edb1da9 59764246b6026060"},
		{letters(15), "8abe2451890c2ffb 6a548c2d9c962a61 134bf353a900553b cd5aa20b4e9f0e87"},
		{letters(16), "c4ca3ca3224cb723 4333d695b331eb1a cf2cbc03c264b264 1567967459a7fda6"},
		{letters(17), "7564747f88bda657 ecda499da1110de4 b6c777e505cbd44a d688ec24700d86d9"},
		{letters(31), "0b1732b5e5bcbb97 533647ca1e349d8e 7f8b4969e1e0d34d 89dbc5a779195165"},
		{letters(32), "b7a7929719b0b1b4 a1f935fbd24c1ca6 5a9c054e9bdd8b5c 51b20cb7cc8414e9"},
		{letters(33), "78b8c2e9113c351e 856bd2a6ea0ec553 e190442bf5cea37e 9455dc24cffb2ef8"},
		{letters(191), "d9ee57df1f1e13c9 3dc86118cc0e7015 c3671617c7eb09c0 f3b0747cd869b3bd"},
		{letters(192), "7fd75def2ec3ec04 ef8a81c209bfa13c 5abccbd45d265072 829f83344f174444"},
		{letters(193), "a0d07cbd940f8afd 7f8ba25b4f7b0909 e7ba2e07a94081f7 ad17b24063467f54"},
		{letters(500), "d820e6ec2dc376cc 7b8a43d250e538cb ff45535c41707674 2429b5baa0d9dc4b"},
	} {
		h := Sum([]byte(c.key))
		if got := fmt.Sprintf("%016x %016x %016x %016x", h[0], h[1], h[2], h[3]); got != c.want {
			t.Errorf("Sum(%d bytes, %.10q) = %s, want %s", len(c.key), c.key, got, c.want)
		}
	}
}

// TestSumAllocates says that hashing allocates nothing.
func TestSumAllocates(t *testing.T) {
	for _, n := range []int{0, 12, 191, 500} {
		key := []byte(letters(n))
		if got := testing.AllocsPerRun(100, func() { Sum(key) }); got != 0 {
			t.Errorf("a key of %d bytes takes %v allocations", n, got)
		}
	}
}

// TestHashSlice: in which slice a key is, is fixed for ever.
func TestHashSlice(t *testing.T) {
	for _, c := range []struct {
		hash         uint64
		slices, want uint32
	}{{1, 64, 57}, {2, 64, 50}, {1 << 40, 4096, 1280}, {^uint64(0), 16, 6}, {1, 1, 0}, {1, 0, 0}} {
		h := Hash{c.hash, ^uint64(0), ^uint64(0), ^uint64(0)}
		if got := h.Slice(c.slices); got != c.want {
			t.Errorf("hash %d: slice %d of %d, want %d", c.hash, got, c.slices, c.want)
		}
	}
}

// TestHashPrime has products on both sides of the modulus, which random keys never have.
func TestHashPrime(t *testing.T) {
	const fifth = 0xCCCCCCCCCCCCCCCD // times 5 it is 1
	for d := range uint64(120) {
		h := Hash{1: 7, 3: -(d + 1) * fifth} // the product is 2^64-1-d
		want := 7 + ^d
		if d < 59 {
			want = 7 + 58 - d // bloomd's is the remainder by 2^64-59
		}
		if got := h.at(5); got != want {
			t.Errorf("product %d: got %d, want %d", ^d, got, want)
		}
	}
}
