package convergence

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBits compares sets of events with maps, small ones and those that need memory of their own.
func TestBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		most := []int{60, 128, 129, 1100}[r.IntN(4)]
		draw := func() (b bitset, m map[int]bool) {
			m = map[int]bool{}
			for range r.IntN(12) {
				i := r.IntN(most)
				b.add(i)
				m[i] = true
			}
			return b, m
		}
		same := func(what string, b *bitset, m map[int]bool) {
			t.Helper()
			var list []int
			b.each(func(i int) bool { list = append(list, i); return true })
			if !slices.Equal(list, slices.Sorted(maps.Keys(m))) || b.empty() != (len(m) == 0) {
				t.Fatalf("%s: got %v, want %v", what, list, m)
			}
		}
		a, in := draw()
		b, inB := draw()
		c, inC := draw()
		common, outside := map[int]bool{}, false
		for i := range in {
			if inB[i] {
				common[i] = true
				outside = outside || !inC[i]
			}
		}
		if commonWithin(&a, &b, &c) == outside || among(&a, &b, func(i int) bool { return !inC[i] }) != outside {
			t.Fatalf("common members %v of %v are not within %v: want %v", common, in, inC, outside)
		}
		i := r.IntN(most)
		before := a.clone()
		a.remove(i)
		without := maps.Clone(in)
		delete(without, i)
		same("remove", &a, without)
		same("a copy stays", &before, in)
		if a.has(i) || !a.within(&before) || before.within(&a) == in[i] {
			t.Fatalf("%d is in %v", i, without)
		}
		before.intersect(&b)
		same("intersect", &before, common)
		a.union(&b)
		maps.Copy(without, inB)
		same("union", &a, without)
	}
}
