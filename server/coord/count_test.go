package coord_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// everywhere applies a change to some stores.
func (c *cluster) everywhere(d bigset.Delta, links ...*link) {
	c.t.Helper()
	for _, l := range links {
		if err := l.store.Replica().ApplyDelta(ctx, d, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// fills adds elements at the first replica, and has the others apply that.
func (c *cluster) fills(names []string, links ...*link) {
	c.t.Helper()
	for len(names) > 0 {
		n := min(len(names), bigset.BatchOpsMax)
		var elements [][]byte
		for _, name := range names[:n] {
			elements = append(elements, []byte(name))
		}
		r, err := links[0].store.Add(ctx, set, elements, bigset.WriteOptions{Durability: bigset.NoSync})
		if err != nil {
			c.t.Fatal(err)
		}
		c.everywhere(r.Delta, links[1:]...)
		names = names[n:]
	}
}

func numbered(from, to int) (names []string) {
	for i := range to - from {
		names = append(names, fmt.Sprintf("%06d", from+i))
	}
	return names
}

// tired is a replica that often stops where no part ends.
type tired struct {
	*link
	rng *rand.Rand
}

func (l *tired) CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	if to := fmt.Appendf(nil, "%05d", l.rng.IntN(400)); l.rng.IntN(3) > 0 && (r.To == nil || string(to) < string(r.To)) {
		short := r
		short.To = to
		if p, by, err := l.link.CountParts(ctx, set, short); err != nil || len(p.Parts) > 0 {
			p.Done = false
			return p, by, err
		}
	}
	return l.link.CountParts(ctx, set, r)
}

// TestCount: whatever replicas are missing, and wherever they stop, the count is that of the read, in parts of any size, and what they agree on is not read.
func TestCount(t *testing.T) {
	t.Parallel()
	skipped := 0
	for seed := range uint64(4) {
		mean := []int{1, 5, 20, 0}[seed]
		for i, o := range []bigset.ReadOptions{{}, {BatchSize: 7, Reverse: true}, {Prefix: []byte("002")}, {From: []byte("00100"), To: []byte("00250")}, {Limit: 5}, {Limit: 120},
			{After: []byte("00300"), Limit: 3}, {After: []byte("00300"), Reverse: true}, {After: []byte("00300"), To: []byte("00200"), Reverse: true},
			{After: []byte("00150"), To: []byte("00200"), Reverse: true, Limit: 20}, {After: []byte("")}, {After: []byte("x")}, {Limit: 1 << 40}} {
			c, want := scattered(t, newSched(seed*100+uint64(i)), 300)
			options := coord.Options{CountMean: mean}
			if seed%2 == 1 {
				options.Place = coord.List(func([]byte) (all []peer.Replica) {
					for _, l := range c.links {
						all = append(all, &tired{l, c.s.rng})
					}
					return all
				})
			}
			co := c.coordinator(options)
			names := testkit.Select(want.Elements(), o)
			c.s.run(t, minute, func() {
				n, err := co.Count(ctx, coord.Read{Set: set, Options: o})
				if err != nil || n.Elements != uint64(len(names)) {
					t.Errorf("seed %d, %+v: %d elements, want %d; %v", seed, o, n.Elements, len(names), err)
				}
				skipped += int(n.Elements) - int(min(n.Read, n.Elements))
				if union := c.links[0].state().Seen.Clone(); i == 0 {
					union.Union(c.links[1].state().Seen)
					union.Union(c.links[2].state().Seen)
					if !union.Descends(n.Context) || n.Context.Empty() {
						t.Errorf("seed %d: context %v, all have seen %v", seed, n.Context, union)
					}
				}
			})
		}
	}
	if skipped == 0 {
		t.Error("all elements were read")
	}
}

// TestCountReadsNothing: a large set is counted by some short questions, and its elements are read only in the parts where a replica is missing
// something.
func TestCountReadsNothing(t *testing.T) {
	t.Parallel()
	const elements = 60_000
	c := newCluster(t, newSched(1), 3)
	c.fills(numbered(0, elements), c.links...)
	co := c.coordinator(coord.Options{HedgeTime: time.Second})
	count := func(o bigset.ReadOptions, want uint64, read func(uint64) bool) {
		t.Helper()
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set, Options: o})
			if err != nil || n.Elements != want || !read(n.Read) {
				t.Errorf("%+v: %+v, want %d; %v", o, n, want, err)
			}
			if union := c.links[0].state().Seen.Clone(); true {
				if union.Union(c.links[1].state().Seen); n.Context.Len() != union.Len() || !union.Descends(n.Context) {
					t.Errorf("the context is %v, want %v", n.Context, union)
				}
			}
		})
	}
	none := func(n uint64) bool { return n == 0 }
	count(bigset.ReadOptions{}, elements, none)
	if c.links[0].calls < 3 || c.links[0].calls > 8 || c.links[0].calls != c.links[1].calls || c.links[2].calls+c.links[0].chunks+c.links[1].chunks > 0 {
		t.Errorf("%d and %d questions, %d of a third, %d chunks", c.links[0].calls, c.links[1].calls, c.links[2].calls, c.links[0].chunks)
	}
	count(bigset.ReadOptions{Limit: 1000}, 1000, none)
	count(bigset.ReadOptions{From: []byte("010000"), To: []byte("050000")}, 40_000, none)
	few := func(n uint64) bool { return n > 0 && n < 8000 }
	c.fills([]string{"020000+"}, c.links[0])
	c.fills([]string{"040000+"}, c.links[1])
	count(bigset.ReadOptions{}, elements+2, few) // and this has repaired them
	count(bigset.ReadOptions{}, elements+2, none)
	c.links[1].store.Remove(ctx, set, [][]byte{[]byte("000007"), []byte("059999")}, bigset.WriteOptions{Durability: bigset.NoSync})
	count(bigset.ReadOptions{}, elements, few)
}

// TestCountUnlike: of a set that one replica does not have, or hardly has, little is counted and then read as well.
func TestCountUnlike(t *testing.T) {
	t.Parallel()
	for _, has := range []int{0, 100} {
		c := newCluster(t, newSched(1), 2)
		c.fills(numbered(0, has), c.links...)
		c.fills(numbered(has, 120_000), c.links[0])
		co := c.coordinator(coord.Options{Quorum: coord.Quorum{N: 2}, HedgeTime: time.Second})
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 10_000}})
			if err != nil || n.Elements != 120_000 || n.Read < 119_000 || n.Read > 120_000 {
				t.Errorf("%+v, %v", n, err)
			}
			if !c.links[0].state().Seen.Descends(n.Context) || n.Context.Len() != 120_000 {
				t.Errorf("context %v", n.Context)
			}
		})
		if calls := c.links[0].calls - c.links[0].chunks; calls > 4 {
			t.Errorf("%d has: %d questions", has, calls)
		}
	}
}

// TestCountContext: a replica is away after the first question. What only it had seen after the elements that it has counted is not in the
// context, or a drop of what was counted would also drop what was not.
func TestCountContext(t *testing.T) {
	t.Parallel()
	for _, hedged := range []time.Duration{0, time.Second} {
		c := newCluster(t, newSched(1), 3)
		c.fills(numbered(0, 60_000), c.links...)
		c.fills([]string{"zebra"}, c.links[0]) // nobody else has seen it
		zebra := clock.Dot{Actor: c.links[0].Member().Incarnation, Counter: 60_001}
		co := c.coordinator(coord.Options{HedgeTime: hedged, Quorum: coord.Quorum{R: 2}})
		first := c.links[0]
		first.after = func() { first.down = true }
		if hedged == 0 { // all three are asked: the third is slow at first
			c.links[2].fault = func() string { return map[bool]string{true: "mute"}[c.links[2].calls == 1] }
		}
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set})
			if err != nil || n.Elements != 60_000 || n.Context.Contains(zebra) || n.Context.Len() != 60_000 {
				t.Errorf("%v: %d elements, context %v, %v", hedged, n.Elements, n.Context, err)
			}
		})
		if first.calls < 2 {
			t.Errorf("the first one was asked %d times", first.calls)
		}
	}
}

// TestCountWaitsOnce: a replica that has stopped is waited for at the first question, and not at each.
func TestCountWaitsOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 3)
	c.fills(numbered(0, 60_000), c.links...)
	c.links[0].fault = lost
	co := c.coordinator(coord.Options{HedgeTime: second})
	c.s.run(t, minute, func() {
		began := c.s.Now()
		n, err := co.Count(ctx, coord.Read{Set: set})
		if took := c.s.Now().Sub(began); err != nil || n.Elements != 60_000 || n.Read != 0 || took < second || took >= 2*second {
			t.Errorf("%+v after %v, %v", n, took, err)
		}
	})
	if n := c.saw(coord.EventHedged); n != 1 {
		t.Errorf("%d events say that another replica was asked, want 1", n)
	}
}

// counts answers questions for counts in another way.
type counts struct {
	*link
	count func(asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error)
	asked int
}

func (l *counts) CountParts(_ context.Context, _ []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	l.asked++
	return l.count(l.asked, r)
}

// counting returns a coordinator of two replicas, one of which answers in another way.
func (c *cluster) counting(count func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error)) (*coord.Coordinator, *counts) {
	odd := &counts{link: c.links[1]}
	odd.count = func(asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
		return count(c.links[1], asked, r)
	}
	return c.coordinator(coord.Options{Quorum: coord.Quorum{N: 2}, CountMean: 16, Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{c.links[0], odd} })}), odd
}

// TestCountStops: a replica stops where the other one has nothing more, and then goes on; so does one with a part that is longer than it reads at once.
func TestCountStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 100), c.links...)
	c.fills(numbered(100, 200), c.links[1])
	for step := range 3 {
		co, odd := c.counting(func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			short := r
			if short.To = fmt.Appendf(nil, "%06d", []int{100, 50, 7}[step]*asked); string(short.To) >= "000200" {
				return l.Replica.CountParts(ctx, set, r)
			}
			p, by, err := l.Replica.CountParts(ctx, set, short)
			p.Done = false
			return p, by, err
		})
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{To: []byte("000300")}})
			if err != nil || n.Elements != 200 || odd.asked < 2 {
				t.Errorf("step %d: %+v in %d questions, %v", step, n, odd.asked, err)
			}
		})
		c = newCluster(t, newSched(1), 2)
		c.fills(numbered(0, 100), c.links...)
		c.fills(numbered(100, 200), c.links[1])
	}
}

// TestCountSplitElsewhere: two replicas whose parts never end at the same element are asked a few times, and then the set is read.
func TestCountSplitElsewhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 30_000), c.links...)
	co, odd := c.counting(func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
		short := r
		short.To = fmt.Appendf(nil, "%06d", 1000*asked+1)
		p, by, err := l.Replica.CountParts(ctx, set, short)
		if len(p.Parts) > 0 {
			whole := p.Parts[0]
			for i := range p.Parts[1:] {
				whole.Join(&p.Parts[1+i])
			}
			whole.Bound = short.To
			p.Parts, p.Done = []bigset.ElementDigest{whole}, false
		}
		return p, by, err
	})
	c.s.run(t, minute, func() {
		n, err := co.Count(ctx, coord.Read{Set: set})
		if err != nil || n.Elements != 30_000 || n.Read != 30_000 || odd.asked > 5 { // the read asks, too
			t.Errorf("%+v in %d questions, %v", n, odd.asked, err)
		}
	})
}

// TestCountOlder: a replica of the program before does not know the question; then the set is read.
func TestCountOlder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 30_000), c.links...)
	for knows := range 3 { // it is replaced by the program before while the count is under way
		co, _ := c.counting(func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			if asked > knows {
				return bigset.PartCounts{}, l.Member(), fmt.Errorf("far: %w: 'o'", peer.ErrFrameKind)
			}
			return l.Replica.CountParts(ctx, set, r)
		})
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 1000}})
			if err != nil || n.Elements != 30_000 || n.Context.Len() != 30_000 || (n.Read == 30_000) != (knows == 0) || (n.Read == 0) != (knows == 2) {
				t.Errorf("knows %d: %+v, %v", knows, n, err)
			}
		})
	}
}

// TestCountOtherIncarnation: a replica comes back as another one, which has seen less: its clock is asked for again.
func TestCountOtherIncarnation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 30_000), c.links[0])
	var clocks []bool
	co, _ := c.counting(func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
		clocks = append(clocks, r.Clock)
		by := l.Member()
		if asked > 1 {
			by.Incarnation = "another"
		}
		p, _, err := c.links[0].Replica.CountParts(ctx, set, r) // what the first one has
		if asked > 1 && p.Clock != nil {
			p.Clock = clock.Of(clock.Dot{Actor: c.links[0].Member().Incarnation, Counter: 1})
		}
		return p, by, err
	})
	// The other replica has seen no more than the new one, by the time it is asked.
	c.links[0].after = func() {}
	c.s.run(t, minute, func() {
		n, err := co.Count(ctx, coord.Read{Set: set})
		if err != nil || n.Elements != 30_000 || fmt.Sprint(clocks) != "[true false true]" {
			t.Errorf("%+v, %v; the clock was asked for: %v", n, err, clocks)
		}
	})
}

// TestCountStrange: answers that do not go on, or are of no member that may count, count for nothing.
func TestCountStrange(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 30_000), c.links...)
	for name, tt := range map[string]struct {
		spoil func(asked int, p *bigset.PartCounts, by *peer.Member)
		want  error
	}{
		"parts that were counted": {func(asked int, p *bigset.PartCounts, _ *peer.Member) {
			if asked > 1 {
				p.Parts[0].Bound = []byte("000001")
			}
		}, peer.ErrAnswer},
		"nothing, and not done": {func(_ int, p *bigset.PartCounts, _ *peer.Member) { p.Parts = nil }, peer.ErrAnswer},
		"joining":               {func(_ int, _ *bigset.PartCounts, by *peer.Member) { by.State = peer.Joining }, peer.ErrJoining},
	} {
		co, _ := c.counting(func(l *link, asked int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := l.Replica.CountParts(ctx, set, r)
			tt.spoil(asked, &p, &by)
			return p, by, err
		})
		c.s.run(t, minute, func() {
			n, err := co.Count(ctx, coord.Read{Set: set})
			if !errors.Is(err, tt.want) || !errors.Is(err, coord.ErrNoQuorum) || n.Elements != 0 {
				t.Errorf("%s: %+v, %v", name, n, err)
			}
		})
	}
}

// TestCountNotFound: a set that no replica knows is not found; one that the replicas that answer do not know, while another has counted
// it, has no elements that they have.
func TestCountNotFound(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{HedgeTime: time.Second})
	c.s.run(t, minute, func() {
		if n, err := co.Count(ctx, coord.Read{Set: set}); !errors.Is(err, bigset.ErrNotFound) || n.Elements != 0 {
			t.Errorf("%+v, %v", n, err)
		}
		if _, err := co.Count(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{Limit: -1}}); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("limit -1: %v", err)
		}
		if _, err := co.Count(ctx, coord.Read{Set: set, NotFoundFails: true}); !errors.Is(err, coord.ErrNoQuorum) {
			t.Errorf("where not found fails: %v", err)
		}
		c.fills([]string{"a", "b"}, c.links[0])
		first := c.links[0]
		first.after = func() { first.down = true } // after it has counted
		if n, err := co.Count(ctx, coord.Read{Set: set}); err != nil || n.Elements != 0 || n.Context == nil || !n.Context.Empty() {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// TestCountBesideWrites counts while elements come and go: what was in the set all the time is counted, what was never in it is not.
func TestCountBesideWrites(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		c := newCluster(t, newSched(seed), 3)
		c.fills(numbered(0, 20_000), c.links...)
		co := c.coordinator(coord.Options{CountMean: 64})
		rng := rand.New(rand.NewPCG(seed, 3))
		c.s.run(t, 10*minute, func() {
			writes, done := 0, false
			c.s.Go(func() {
				for ; !done && writes < 1000; writes++ {
					op := bigset.Op{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "%06d+", rng.IntN(20_000))}
					if _, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{op}}); err != nil {
						t.Error(err)
					}
				}
			})
			c.s.Yield(func() bool { return writes > 3 })
			n, err := co.Count(ctx, coord.Read{Set: set})
			if done = true; err != nil || n.Elements < 20_000 || n.Elements > uint64(20_001+writes) {
				t.Errorf("seed %d: %+v beside %d writes, %v", seed, n.Elements, writes, err)
			}
			if n.Read >= 20_000 || writes == 0 {
				t.Errorf("seed %d: %d were read, %d writes", seed, n.Read, writes)
			}
		})
	}
}
