package clock

import (
	"testing"

	"pgregory.net/rapid"
)

func join(a, b *Clock) *Clock  { c := a.Clone(); c.Union(b); return c }
func meet(a, b *Clock) *Clock  { c := a.Clone(); c.Intersect(b); return c }
func minus(a, b *Clock) *Clock { c := a.Clone(); c.Subtract(b); return c }

func TestOperationsMatchModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ma := drawPair(t, "a")
		b, mb := drawPair(t, "b")
		ma.union(mb).verify(t, join(a, b))
		ma.and(mb).verify(t, meet(a, b))
		ma.andNot(mb).verify(t, minus(a, b))
		if got, want := a.Descends(b), len(mb.andNot(ma)) == 0; got != want {
			t.Fatalf("Descends = %v", got)
		}
		if got, want := a.Intersects(b), len(ma.and(mb)) != 0; got != want {
			t.Fatalf("Intersects = %v", got)
		}
		if got, want := a.Equal(b), len(ma) == len(mb) && len(ma.and(mb)) == len(ma); got != want {
			t.Fatalf("Equal = %v", got)
		}
		ma.verify(t, a)
		mb.verify(t, b)
	})
}

func TestLatticeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := drawPair(t, "a")
		b, _ := drawPair(t, "b")
		c, _ := drawPair(t, "c")
		if rapid.Bool().Draw(t, "related") {
			b.Union(a)
		}
		same := func(law string, x, y *Clock) {
			if !x.Equal(y) || string(x.Append(nil)) != string(y.Append(nil)) {
				t.Fatalf("%s: %v, %v", law, x, y)
			}
		}
		same("join commutes", join(a, b), join(b, a))
		same("join associates", join(join(a, b), c), join(a, join(b, c)))
		same("join is idempotent", join(a, a.Clone()), a)
		same("meet commutes", meet(a, b), meet(b, a))
		same("meet associates", meet(meet(a, b), c), meet(a, meet(b, c)))
		same("meet is idempotent", meet(a, a.Clone()), a)
		same("join absorbs", join(a, meet(a, b)), a)
		same("meet absorbs", meet(a, join(a, b)), a)
		same("meet distributes", meet(a, join(b, c)), join(meet(a, b), meet(a, c)))
		same("difference and meet make the whole", join(minus(a, b), meet(a, b)), a)
		same("de Morgan", minus(a, join(b, c)), meet(minus(a, b), minus(a, c)))
		same("nothing is left", minus(a, a.Clone()), Of())
		if a.Descends(b) != join(a, b).Equal(a) || b.Descends(a) != join(a, b).Equal(b) {
			t.Fatal("Descends is not the join's order")
		}
		if a.Intersects(b) == meet(a, b).Empty() || minus(a, b).Intersects(b) {
			t.Fatal("Intersects is not a meet that holds something")
		}
	})
}

func TestWithItself(t *testing.T) {
	a := Of(Dot{"a", 1}, Dot{"a", 70000})
	a.Union(a)
	a.Intersect(a)
	if got := a.String(); got != "{61:1,70000}" {
		t.Fatal(got)
	}
	if a.Subtract(a); !a.Empty() {
		t.Fatal(a)
	}
}

// A union must not leave the two clocks with a page that both may write.
func TestUnionKeepsNothing(t *testing.T) {
	a, b := Of(), Of(Dot{"a", 70000})
	a.Union(b)
	b.Add(Dot{"a", 70002})
	a.Add(Dot{"a", 70004})
	if a.String() != "{61:70000,70004}" || b.String() != "{61:70000,70002}" {
		t.Fatal(a, b)
	}
}

// A base that ends with its page is an extent when it is taken apart.
func TestSubtractFromWholePages(t *testing.T) {
	for _, hole := range []uint64{1, 5, 65535, 65536, 131071, 131072, 196606, 196607} {
		a := Of()
		a.AddRange("a", 1, 3<<16-1)
		a.Subtract(Of(Dot{"a", hole}))
		mustCheck(t, a)
		if a.Len() != 3<<16-2 || a.Contains(Dot{"a", hole}) || a.Max("a") != 3<<16-1-hole/(3<<16-1) {
			t.Fatalf("without %d: %v", hole, a)
		}
		a.Add(Dot{"a", hole})
		if mustCheck(t, a); a.Base("a") != 3<<16-1 {
			t.Fatal(a)
		}
	}
}
