package ring_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/internal/ring"
)

// TestJudge: each verdict, and each reason for it.
func TestJudge(t *testing.T) {
	abc, abd := seats("abc"), seats("abd")
	a, d := member("a", "1"), member("d", "1")
	mine := &ring.Assignment{Epoch: 7, Since: 7, State: ring.Copying, Owners: abc, Next: abd}
	settling := &ring.Assignment{Epoch: 7, Since: 7, State: ring.Settling, Owners: abc, Next: abd}
	at := func(e uint64) *ring.Assignment {
		n := mine.At(e)
		return &n
	}
	for _, c := range []struct {
		what string
		mine *ring.Assignment
		me   ring.Member
		q    ring.Request
		want ring.Verdict
	}{
		{"an owner reads", mine, a, ring.Request{To: a, Epoch: 7}, ring.Serve},
		{"a joiner is written to", mine, d, ring.Request{To: d, Epoch: 7, Need: ring.NeedMember}, ring.Serve},
		{"a joiner does not answer reads", mine, d, ring.Request{To: d, Epoch: 7}, ring.NoReader},
		{"one that leaves does not, once it settles", settling, member("c", "1"), ring.Request{To: member("c", "1"), Epoch: 7}, ring.NoReader},
		{"one that leaves is written to", settling, member("c", "1"), ring.Request{To: member("c", "1"), Epoch: 7, Need: ring.NeedMember}, ring.Serve},
		{"a joiner reads, once it settles", settling, d, ring.Request{To: d, Epoch: 7}, ring.Serve},
		{"a lower epoch", mine, a, ring.Request{To: a, Epoch: 6, Need: ring.NeedMember}, ring.OldEpoch},
		{"a higher epoch with its assignment", mine, a, ring.Request{To: a, Epoch: 8, Assignment: at(8)}, ring.Adopt},
		{"a higher epoch alone", mine, a, ring.Request{To: a, Epoch: 8}, ring.Behind},
		{"a higher epoch with another assignment", mine, a, ring.Request{To: a, Epoch: 8, Assignment: at(9)}, ring.Behind},
		{"the highest that is believed", mine, a, ring.Request{To: a, Epoch: 7 + 1024, Assignment: at(7 + 1024)}, ring.Adopt},
		{"one higher", mine, a, ring.Request{To: a, Epoch: 7 + 1025, Assignment: at(7 + 1025)}, ring.TooFar},
		{"the highest there is", mine, a, ring.Request{To: a, Epoch: 1<<64 - 1}, ring.TooFar},
		{"another incarnation", mine, member("a", "2"), ring.Request{To: a, Epoch: 7}, ring.OtherIncarnation},
		{"another incarnation, of a higher epoch", mine, member("a", "2"), ring.Request{To: a, Epoch: 9, Assignment: at(9)}, ring.OtherIncarnation},
		{"a stranger", mine, member("x", "1"), ring.Request{To: member("x", "1"), Epoch: 7, Need: ring.NeedMember}, ring.NoMember},
		{"an owner in another incarnation", mine, member("a", "2"), ring.Request{To: member("a", "2"), Epoch: 7}, ring.NoMember},
		{"nothing is known", nil, a, ring.Request{To: a, Epoch: 7}, ring.Unknown},
		{"nothing is known, and it comes with its assignment", nil, a, ring.Request{To: a, Epoch: 7, Assignment: at(7)}, ring.Adopt},
		{"nothing is known, and it is far ahead", nil, a, ring.Request{To: a, Epoch: 2000, Assignment: at(2000)}, ring.TooFar},
	} {
		if got := ring.Judge(c.mine, c.me, &c.q); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestJudgeAllocates: a verdict allocates nothing.
func TestJudgeAllocates(t *testing.T) {
	m := static(t, usual, nodes(3, nil))
	me := m.Nodes[0].Member
	if n := testing.AllocsPerRun(100, func() {
		if ring.Judge(m.Lookup(5), me, &ring.Request{To: me, Epoch: 1}) != ring.Serve {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestView: a view knows for each slot the assignment with the highest epoch that it has adopted, in whatever order and for
// whatever buckets they came.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := ring.NewView()
		var taken []*ring.Assignment
		for range rapid.IntRange(1, 12).Draw(t, "adoptions") {
			e := rapid.Uint64Range(1, 9).Draw(t, "epoch")
			a := &ring.Assignment{Bucket: drawBucket(t, 5), Epoch: e, Since: e, Owners: seats("abc"), Next: seats("abc")}
			before := v.Clone()
			changed, err := v.Adopt(a)
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, a)
			if changed == slices.EqualFunc(slices.Collect(v.All()), slices.Collect(before.All()), func(a, b *ring.Assignment) bool { return a.Bucket == b.Bucket && a.Epoch == b.Epoch }) {
				t.Fatalf("changed: %t", changed)
			}
			compare(t, v, taken)
		}
	})
}

func compare(t *rapid.T, v *ring.View, taken []*ring.Assignment) {
	n := 0
	var next uint64
	for a := range v.All() {
		n++
		if err := a.Bucket.Check(); err != nil || uint64(a.Bucket.First()) < next {
			t.Fatalf("bucket %v: %v", a.Bucket, err)
		}
		next = uint64(a.Bucket.Last()) + 1
	}
	if n != v.Len() {
		t.Fatalf("%d assignments, Len is %d", n, v.Len())
	}
	for s := ring.Slot(0); ; s += 1 << 27 {
		var want uint64
		for _, a := range taken {
			if a.Bucket.Has(s) {
				want = max(want, a.Epoch)
			}
		}
		var got uint64
		if a := v.At(s); a != nil {
			got = a.Epoch
		}
		if got != want {
			t.Fatalf("slot %08x is at epoch %d, want %d", s, got, want)
		}
		if s == 31<<27 {
			return
		}
	}
}

// TestViewRange: a request for a bucket is served only if all its parts have its epoch.
func TestViewRange(t *testing.T) {
	a := member("a", "1")
	whole := &ring.Assignment{Bucket: ring.Bucket{Mask: 0xF, Key: 4}, Epoch: 3, Since: 3, Owners: seats("abc"), Next: seats("abc")}
	v := ring.NewView()
	judge := func(b ring.Bucket, epoch uint64) ring.Verdict {
		verdict, _ := v.JudgeRange(b, a, &ring.Request{To: a, Epoch: epoch})
		return verdict
	}
	if got := judge(whole.Bucket, 3); got != ring.Unknown {
		t.Errorf("of a bucket of which nothing is known: %v", got)
	}
	if _, err := v.Adopt(whole); err != nil {
		t.Fatal(err)
	}
	parts := whole.Bucket.Split(4)
	for what, c := range map[string]struct {
		b     ring.Bucket
		epoch uint64
		want  ring.Verdict
	}{
		"the bucket":         {whole.Bucket, 3, ring.Serve},
		"a part":             {parts[5], 3, ring.Serve},
		"more than is known": {whole.Bucket.Parent(1), 3, ring.Unknown},
	} {
		if got := judge(c.b, c.epoch); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	part := whole.At(4)
	part.Bucket, part.Since, part.Owners = parts[5], 4, seats("bcd")
	part.Next = part.Owners
	if changed, err := v.Adopt(&part); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := judge(whole.Bucket, 3); got != ring.OldEpoch {
		t.Errorf("one part is newer: %v", got)
	}
	if got := judge(parts[4], 3); got != ring.Serve {
		t.Errorf("beside the part that is newer: %v", got)
	}
	if got := judge(parts[5], 4); got != ring.NoMember {
		t.Errorf("in the part that is elsewhere: %v", got)
	}
	if !v.Holds(parts[4].First(), a) || v.Holds(parts[5].First(), a) || !v.Holds(0, a) {
		t.Error("the member holds the part that it has left, or not the others")
	}
	other := part
	other.Owners = seats("xyz")
	other.Next = other.Owners
	if _, err := v.Adopt(&other); !errors.Is(err, ring.ErrEpoch) {
		t.Errorf("one epoch with two contents: %v", err)
	}
	higher := whole.At(4)
	q := ring.Request{To: a, Epoch: 4, Assignment: &higher}
	if got := v.Judge(0, a, &q); got != ring.Unknown {
		t.Errorf("an assignment of another bucket is adopted: %v", got)
	}
	if got := v.Judge(parts[4].First(), a, &q); got != ring.Adopt {
		t.Errorf("a newer assignment: %v", got)
	}
}

// TestViewOf: a view of a map knows what the map says.
func TestViewOf(t *testing.T) {
	m := static(t, usual, nodes(4, nil))
	v := ring.ViewOf(m)
	for a := range m.All() {
		if v.At(a.Bucket.First()) != a || v.At(a.Bucket.Last()) != a {
			t.Fatalf("bucket %v is %+v", a.Bucket, v.At(a.Bucket.First()))
		}
	}
}

// TestRefusal: the answer has the addresses of the members, and of no other node.
func TestRefusal(t *testing.T) {
	m := static(t, usual, nodes(5, nil))
	a := m.Lookup(0)
	n := ring.Refusal(ring.OldEpoch, a, m)
	if len(n.Addrs) != 3 || n.Assignment != a {
		t.Errorf("answer %+v", n)
	}
	for _, who := range a.Owners {
		if n.Addrs[who.Node] != m.Node(who.Node).Addr {
			t.Errorf("node %s is at %q", who.Node, n.Addrs[who.Node])
		}
	}
	b, err := ring.AppendNotMine(nil, &n)
	if err != nil || len(b) > 120 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
