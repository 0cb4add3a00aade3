package ring_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"bigset/internal/ring"
)

// reports is what members have reported, in a cluster whose buckets have one epoch.
type reports struct {
	copied map[ring.Member]ring.Copies
	seen   map[ring.Member]uint64
	buried map[ring.Member]bool
}

func (r reports) Copied(_ ring.Bucket, m ring.Member) ring.Copies { return r.copied[m] }
func (r reports) Seen(_ ring.Bucket, m ring.Member) uint64        { return r.seen[m] }
func (r reports) Buried(m ring.Member) bool                       { return r.buried[m] }

// TestReplace: one of three members is lost and comes back as another member. It counts only after it has copied from both others,
// each after that one adopted the epoch. Then its bucket settles, and is stable when the others have seen that.
func TestReplace(t *testing.T) {
	m := static(t, usual, nodes(3, nil))
	a, b, c1 := m.Nodes[0].Member, m.Nodes[1].Member, m.Nodes[2].Member
	c2 := member(c1.Node, "2")
	joining, err := m.Replace(c1, c2)
	if err != nil {
		t.Fatal(err)
	}
	for x := range joining.All() {
		if x.Epoch != 2 || x.State != ring.Copying || x.Reads(c2) || !x.Has(c2) || !reflect.DeepEqual(x.Joining(), []ring.Member{c2}) {
			t.Fatalf("%+v", x)
		}
		// Reads need both others, and writes go to the joiner, too.
		r, w := ring.NewRead(x, 2), ring.NewWrite(x, 2)
		if r.Ack(c2) || r.Ack(a) || !r.Ack(b) || w.Ack(c2) || w.Ack(a) || !w.Ack(b) {
			t.Fatalf("bucket %v: a quorum without both members that have all", x.Bucket)
		}
	}
	if again := all(joining)[0]; again.Epoch != joining.Epoch() || joining.Current(c1) || !joining.Current(c2) || joining.Version != m.Version+1 {
		t.Errorf("epoch %d of %d, version %d", again.Epoch, joining.Epoch(), joining.Version)
	}
	joins := joining.Joins(c2)
	buckets := 0
	for _, j := range joins {
		buckets += len(j.Buckets)
		if j.Need != 2 || j.Epoch != 2 || j.Replaced != c1 || !slices.Contains(j.From, a) || !slices.Contains(j.From, b) {
			t.Fatalf("joins %+v", j)
		}
		if !j.Within(func(m ring.Member) bool { return m == a || m == b }) || j.Within(func(m ring.Member) bool { return m == a }) {
			t.Error("one member that answers is enough, or two are not")
		}
	}
	if buckets != 256 || joins[0].First != 0 || joins[len(joins)-1].Last != 1<<32-1 {
		t.Errorf("%d buckets in %d ranges", buckets, len(joins))
	}
	r := reports{map[ring.Member]ring.Copies{}, map[ring.Member]uint64{}, map[ring.Member]bool{c1: true}}
	for what, got := range map[string]ring.Copies{"nothing": nil, "one source": {a: 2}, "one of them before it adopted the epoch": {a: 2, b: 1}, "a stranger": {a: 2, member("x", "1"): 2}} {
		r.copied[c2] = got
		if next, err := joining.Advance(r); err != nil || next != joining {
			t.Errorf("%s: epoch %d, %v", what, next.Epoch(), err)
		}
	}
	r.copied[c2] = ring.Copies{a: 2, b: 5}
	settling, err := joining.Advance(r)
	if err != nil || settling.Epoch() != 3 || settling.Lookup(0).State != ring.Settling || !settling.Lookup(0).Reads(c2) {
		t.Fatalf("%+v, %v", settling.Lookup(0), err)
	}
	r.seen[a], r.seen[b] = 2, 2
	if next, _ := settling.Advance(r); next != settling {
		t.Error("it is stable, though nobody has seen that it settles")
	}
	if _, err := settling.Replace(a, member(a.Node, "2")); !errors.Is(err, ring.ErrStep) {
		t.Errorf("a member is replaced in a bucket that settles: %v", err)
	}
	r.seen[a] = 3 // with the one that is buried these are two of three
	done, err := settling.Advance(r)
	if err != nil || done.Epoch() != 4 || done.Lookup(0).State != ring.Stable || done.Lookup(0).Has(c1) {
		t.Fatalf("%+v, %v", done.Lookup(0), err)
	}
	same := func(x, y ring.Member) bool { return x.Node == y.Node }
	for x := range done.All() {
		if !slices.EqualFunc(x.Owners, m.Lookup(x.Bucket.First()).Owners, same) {
			t.Fatalf("bucket %v has moved: %+v", x.Bucket, x)
		}
	}
}

// TestReplaceOthers: buckets without the member keep their content, and copies that were taken since it began still count.
func TestReplaceOthers(t *testing.T) {
	m := static(t, usual, nodes(6, nil))
	x1, y1 := m.Nodes[0].Member, m.Nodes[3].Member
	first, err := m.Replace(x1, member(x1.Node, "2"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Replace(y1, member(y1.Node, "2"))
	if err != nil {
		t.Fatal(err)
	}
	both, one, none := 0, 0, 0
	for a := range second.All() {
		old := m.Lookup(a.Bucket.First())
		switch x, y := old.Has(x1), old.Has(y1); {
		case x && y:
			both++
			if a.Since != 3 || len(a.Joining()) != 2 || !slices.Equal(a.Owners, old.Owners) {
				t.Fatalf("both: %+v", a)
			}
			if s := a.Sources(member(x1.Node, "2"), second.Settings); s.Whole(ring.Copies{x1: 3}) && s.Need == 2 {
				t.Fatalf("one source is enough, where two are replaced: %+v", s)
			}
		case x:
			one++
			if a.Since != 2 || a.Epoch != 3 || !a.Sources(member(x1.Node, "2"), second.Settings).Whole(copiesOf(a, 2, x1)) {
				t.Fatalf("one, copied before the epoch rose for others: %+v", a)
			}
		case !y:
			none++
			if a.Since != 1 || a.Epoch != 3 || !a.SameContent(old) {
				t.Fatalf("none: %+v", a)
			}
		}
	}
	if both == 0 || one == 0 || none == 0 {
		t.Errorf("%d buckets have both, %d one, %d none", both, one, none)
	}
	third, err := second.Replace(member(x1.Node, "2"), member(x1.Node, "3"))
	if err != nil {
		t.Fatal(err)
	}
	for a := range third.All() {
		if a.Has(member(x1.Node, "2")) || a.Has(member(x1.Node, "3")) && a.Since != 4 {
			t.Fatalf("a joiner that is lost is still there, or what it copied counts: %+v", a)
		}
	}
	for what, who := range map[string][2]ring.Member{"an earlier one": {x1, member(x1.Node, "9")}, "another node": {m.Nodes[1].Member, m.Nodes[2].Member}, "itself": {m.Nodes[1].Member, m.Nodes[1].Member}, "a stranger": {member("q", "1"), member("q", "2")}} {
		if _, err := third.Replace(who[0], who[1]); !errors.Is(err, ring.ErrMember) {
			t.Errorf("%s is replaced: %v", what, err)
		}
	}
}

// copiesOf returns copies of all owners but one, at an epoch.
func copiesOf(a *ring.Assignment, epoch uint64, but ring.Member) ring.Copies {
	got := ring.Copies{}
	for _, m := range a.Owners {
		if m != but {
			got[m] = epoch
		}
	}
	return got
}

// TestReplaceSmall: with one member there is nothing to copy from; with two the other one suffices.
func TestReplaceSmall(t *testing.T) {
	one := static(t, usual, nodes(1, nil))
	old, by := one.Nodes[0].Member, member("n00", "2")
	m, err := one.Replace(old, by)
	if err != nil {
		t.Fatal(err)
	}
	a := m.Lookup(0)
	s := a.Sources(by, m.Settings)
	if s.Within(func(m ring.Member) bool { return m != old }) || s.Need != 1 {
		t.Errorf("sources %+v", s)
	}
	if b, err := a.Accept(); err != nil || b.State != ring.Stable || b.Epoch != a.Epoch+1 || b.Owners[0] != by {
		t.Errorf("accepted: %+v, %v", b, err)
	}
	two := static(t, usual, nodes(2, nil))
	if m, err = two.Replace(two.Nodes[1].Member, member("n01", "2")); err != nil {
		t.Fatal(err)
	}
	if s := m.Lookup(0).Sources(member("n01", "2"), m.Settings); !s.Whole(ring.Copies{two.Nodes[0].Member: 2}) || s.Whole(ring.Copies{two.Nodes[0].Member: 1}) {
		t.Errorf("sources %+v", s)
	}
}
