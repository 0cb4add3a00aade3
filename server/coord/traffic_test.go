package coord_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// counting is a replica whose exchanges go through frames, questions and answers, which are counted.
type counting struct {
	*local.Replica
	t         *testing.T
	questions int
	bytes     int
}

// carry counts the frame of a message, and takes it apart again.
func (c *counting) carry(m peer.Message) peer.Message {
	c.t.Helper()
	b, err := peer.Append(nil, c.Member(), m)
	if err != nil {
		c.t.Fatal(err)
	}
	c.bytes += len(b)
	m, from, err := peer.Decode(b)
	if err != nil || from != c.Member() {
		c.t.Fatal(from, err)
	}
	return m
}

// questionBytes is more than a question takes that has no frame yet: the name of a set, or a range.
const questionBytes = 64

func (c *counting) ask() {
	c.questions++
	c.bytes += questionBytes
}

func (c *counting) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		c.ask()
		var all peer.Digests
		for d, err := range c.Replica.Digests(ctx, first, last) {
			if err != nil {
				c.t.Fatal(err)
			}
			all = append(all, d)
		}
		for _, d := range c.carry(all).(peer.Digests) {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (c *counting) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	c.ask()
	all, m, err := c.Replica.RangeDigests(ctx, first, last, parts)
	if err != nil {
		return nil, m, err
	}
	return c.carry(peer.RangeDigests(all)).(peer.RangeDigests), m, nil
}

func (c *counting) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	c.ask()
	s, m, err := c.Replica.State(ctx, set)
	if err != nil {
		return s, m, err
	}
	return bigset.State(c.carry(peer.State(s)).(peer.State)), m, nil
}

func (c *counting) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		c.questions++
		asked := c.carry(peer.Locate{Set: set, Dots: dots}).(peer.Locate)
		for f, err := range c.Replica.Locate(ctx, asked.Set, asked.Dots) {
			if err != nil {
				c.t.Fatal(err)
			}
			if !yield(bigset.Facts(c.carry(peer.Facts(f)).(peer.Facts)), nil) {
				return
			}
		}
	}
}

func (c *counting) ApplyFacts(ctx context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	c.questions++
	return c.Replica.ApplyFacts(ctx, bigset.Facts(c.carry(peer.Facts(f)).(peer.Facts)), d)
}

// twins are two replicas that have the same sets, of one element each.
func twins(t *testing.T, sets int) (a, b *counting, stores [2]*engine.Store) {
	t.Helper()
	c := newCluster(t, newSched(1), 2)
	for i := range sets {
		r, err := c.links[0].store.Add(ctx, fmt.Appendf(nil, "set-%06d", i), [][]byte{[]byte("x")}, bigset.WriteOptions{Durability: bigset.NoSync})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.links[1].store.Replica().ApplyDelta(ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	both := [2]*counting{}
	for i, l := range c.links {
		both[i], stores[i] = &counting{Replica: l.Replica, t: t}, l.store
	}
	return both[0], both[1], stores
}

// TestTrafficOfFewDifferences: what goes between two replicas is in proportion to what differs, not to the number of sets.
func TestTrafficOfFewDifferences(t *testing.T) {
	const sets = 20_000
	a, b, stores := twins(t, sets)
	exchange := func(want coord.Exchanged, bytesMax, questionsMax int) {
		t.Helper()
		a.bytes, b.bytes, a.questions, b.questions = 0, 0, 0, 0
		sum, err := coord.Exchange(ctx, a, b, 0, keyscheme.SlotMax)
		if err != nil || sum != want {
			t.Errorf("%+v, %v, want %+v", sum, err, want)
		}
		bytes, questions := a.bytes+b.bytes, a.questions+b.questions
		t.Logf("%d of %d sets differ: %d bytes, %d questions", sum.Differ, sum.Sets, bytes, questions)
		if bytes > bytesMax || questions > questionsMax {
			t.Errorf("%d bytes, want at most %d; %d questions, want at most %d", bytes, bytesMax, questions, questionsMax)
		}
	}
	exchange(coord.Exchanged{Sets: sets}, 4<<10, 2)
	for i, name := range []string{"set-000017", "set-011111", "set-019999"} {
		if _, err := stores[i%2].Add(ctx, []byte(name), [][]byte{[]byte("y")}, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	exchange(coord.Exchanged{Sets: sets, Differ: 3, Keys: 3}, 12<<10, 30)
	if _, err := stores[1].Add(ctx, []byte("new"), [][]byte{[]byte("y")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Remove(ctx, []byte("set-000017"), [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	exchange(coord.Exchanged{Sets: sets + 1, Differ: 2, Keys: 1, Dead: 2}, 12<<10, 30)
	exchange(coord.Exchanged{Sets: sets + 1}, 4<<10, 2)
}

// TestTrafficOfOneSet: a large set that differs in few elements costs those and its clocks, not its elements.
func TestTrafficOfOneSet(t *testing.T) {
	a, b, stores := twins(t, 1)
	var elements [][]byte
	for i := range 20_000 {
		elements = append(elements, fmt.Appendf(nil, "element-%08d", i))
	}
	r, err := stores[0].Add(ctx, set, elements, bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stores[1].Replica().ApplyDelta(ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Remove(ctx, set, elements[100:110], bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[1].Add(ctx, set, [][]byte{[]byte("new")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	sum, err := coord.Exchange(ctx, a, b, 0, keyscheme.SlotMax)
	if want := (coord.Exchanged{Sets: 2, Differ: 1, Keys: 1, Dead: 20}); err != nil || sum != want {
		t.Errorf("%+v, %v, want %+v", sum, err, want)
	}
	if n := a.bytes + b.bytes; n > 4<<10 {
		t.Errorf("%d bytes went over", n)
	}
}
