package coord_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// nearlyAlike makes a cluster of three replicas that have the same elements, except for some changes; one of the three has missed each of them. It returns what
// all of them have together.
func nearlyAlike(t *testing.T, s *sched, elements, changes int) (*cluster, *testkit.Set) {
	t.Helper()
	c := newCluster(t, s, 3)
	var deltas []bigset.Delta
	done := func(l *link, misses int, kind keyscheme.Op, names ...string) {
		var ops []bigset.Op
		for _, name := range names {
			ops = append(ops, bigset.Op{Kind: kind, Element: []byte(name)})
		}
		r, err := l.store.Write(ctx, set, ops, bigset.WriteOptions{Durability: bigset.NoSync})
		if err != nil {
			t.Fatal(err)
		}
		deltas = append(deltas, r.Delta)
		for k, other := range c.links {
			if other != l && k != misses {
				c.everywhere(r.Delta, other)
			}
		}
	}
	var names []string
	for i := range elements {
		names = append(names, fmt.Sprintf("%05d", i))
	}
	done(c.links[0], -1, keyscheme.OpAdd, names[:elements/2]...)
	done(c.links[1], -1, keyscheme.OpAdd, names[elements/2:]...)
	for range changes {
		by, at := s.rng.IntN(3), s.rng.IntN(elements)
		switch s.rng.IntN(3) {
		case 0:
			done(c.links[by], (by+1+s.rng.IntN(2))%3, keyscheme.OpAdd, names[at]+"+")
		case 1:
			done(c.links[by], (by+1+s.rng.IntN(2))%3, keyscheme.OpAdd, names[at]) // by another dot
		default:
			done(c.links[by], (by+1+s.rng.IntN(2))%3, keyscheme.OpRemove, names[at])
		}
	}
	return c, testkit.Specified(deltas)
}

// asked counts the questions for digests at a replica.
type asked struct {
	*link
	parts  func(n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) // nil is the replica's own
	digest int
}

func (a *asked) CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	if a.digest++; a.parts != nil {
		return a.parts(a.digest, r)
	}
	return a.link.CountParts(ctx, set, r)
}

// counted returns a coordinator, and its replicas, which count how often they are asked for digests.
func (c *cluster) counted(o coord.Options) (*coord.Coordinator, []*asked) {
	var all []*asked
	for _, l := range c.links {
		all = append(all, &asked{link: l})
	}
	o.Place = coord.List(func([]byte) (list []peer.Replica) {
		for _, a := range all {
			list = append(list, a)
		}
		return list
	})
	return c.coordinator(o), all
}

// TestReadDigests: a read that asks for digests shows what one that does not shows, whatever replicas have missed, wherever their chunks and parts end, and
// also when replicas fail. With all replicas it repairs the same.
func TestReadDigests(t *testing.T) {
	t.Parallel()
	saved, failed := 0, 0
	for seed := range uint64(60) {
		s := newSched(seed)
		c, want := nearlyAlike(t, s, 1200, []int{0, 1, 3, 20}[seed%4])
		co, all := c.counted(coord.Options{DigestAfter: 1 + s.rng.IntN(60)})
		for _, a := range all {
			stops := &tired{a.link, s.rng}
			if s.rng.IntN(2) == 0 {
				a.parts = func(_ int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
					return stops.CountParts(ctx, set, r)
				}
			}
		}
		if seed%3 == 2 {
			faults := 3 // few enough for a read at two of three replicas, each asked twice, to end
			for _, a := range all {
				a.fault = func() string {
					if faults == 0 || s.rng.IntN(60) > 0 {
						return ""
					}
					faults--
					failed++
					return []string{"lost", "mute", "reset"}[s.rng.IntN(3)]
				}
			}
		}
		r := coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 5 + s.rng.IntN(150)}, Quorum: coord.Quorum{R: 2 + int(seed/4)%2}}
		if seed%5 == 4 {
			r.Options.From, r.Options.To = []byte("00050"), []byte("01100")
		}
		c.s.run(t, time.Hour, func() {
			got, _, err := gather(co, r)
			if err != nil {
				if seed%3 == 2 && errors.Is(err, coord.ErrNoQuorum) && r.Quorum.R == 3 {
					return
				}
				t.Fatalf("seed %d: %v", seed, err)
			}
			var shown []fold.Element
			for _, e := range want.Elements() {
				if (r.Options.From == nil || string(e.Name) >= "00050") && (r.Options.To == nil || string(e.Name) < "01100") {
					shown = append(shown, e)
				}
			}
			if err := testkit.SameElements(got, shown); err != nil {
				t.Errorf("seed %d, %+v: %v", seed, r, err)
			}
		})
		for _, a := range all {
			if r.Quorum.R == 3 && r.Options.To == nil && seed%3 != 2 {
				if err := testkit.SameElements(a.elements(), want.Elements()); err != nil {
					t.Errorf("seed %d: %v was not repaired: %v", seed, a.Member(), err)
				}
			}
			saved += a.digest
		}
	}
	if saved < 60 || failed < 10 {
		t.Errorf("%d questions for digests, %d faults", saved, failed)
	}
}

// TestReadDigestsSave: of a large set that is the same everywhere one replica sends the elements. Where replicas differ in one, elements are read for a while.
func TestReadDigestsSave(t *testing.T) {
	t.Parallel()
	const elements = 60_000
	c := newCluster(t, newSched(1), 3)
	c.fills(numbered(0, elements), c.links...)
	co, all := c.counted(coord.Options{DigestAfter: 2000})
	read := func(o bigset.ReadOptions, want, least, most int) {
		t.Helper()
		first, second := all[0].chunks, all[1].chunks
		c.s.run(t, minute, func() {
			got, contexts, err := gather(co, coord.Read{Set: set, Options: o})
			if err != nil || len(got) != want || contexts != 1 {
				t.Errorf("%d elements, want %d, %d contexts, %v", len(got), want, contexts, err)
			}
		})
		if first, second = all[0].chunks-first, all[1].chunks-second; first*1000 < want || second < least || second > most {
			t.Errorf("%d chunks of the first, %d of the second, want %d to %d", first, second, least, most)
		}
	}
	read(bigset.ReadOptions{}, elements, 2, 8)
	if all[1].digest == 0 || all[0].digest+all[2].digest > 0 {
		t.Errorf("%d, %d and %d questions for digests", all[0].digest, all[1].digest, all[2].digest)
	}
	asked := all[1].digest
	read(bigset.ReadOptions{Reverse: true}, elements, 60, 62) // digests are of ascending elements
	read(bigset.ReadOptions{Limit: 30_000}, 30_000, 30, 36)
	if all[1].digest != asked {
		t.Error("a read that is limited, or descends, asks for digests")
	}
	c.fills([]string{"030000+"}, c.links[0])
	read(bigset.ReadOptions{}, elements+1, 5, 20) // and this has repaired it
	read(bigset.ReadOptions{}, elements+1, 2, 8)
	never, all := c.counted(coord.Options{DigestAfter: -1})
	c.s.run(t, minute, func() {
		if got, _, err := gather(never, coord.Read{Set: set}); err != nil || len(got) != elements+1 || all[1].digest > 0 {
			t.Errorf("%d elements, %d questions for digests, %v", len(got), all[1].digest, err)
		}
	})
}

// TestReadDigestsAhead: while the reader takes its time, a replica sends three answers with digests more than are being compared, and does not pass for late.
func TestReadDigestsAhead(t *testing.T) {
	t.Parallel()
	const elements = 4000
	c := newCluster(t, newSched(1), 3)
	c.fills(numbered(0, elements), c.links...)
	co, all := c.counted(coord.Options{DigestAfter: 100})
	var bounds []string // of the answers, a part each
	all[1].parts = func(_ int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
		p, by, err := c.links[1].CountParts(ctx, set, r)
		if len(p.Parts) > 1 {
			p.Parts, p.Done = p.Parts[:1], false
		}
		for i := range p.Parts {
			bounds = append(bounds, string(p.Parts[i].Bound))
		}
		return p, by, err
	}
	c.s.run(t, 2*time.Hour, func() {
		got, contexts, waited := 0, 0, false
		for part, err := range co.Read(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 50}}) {
			if err != nil {
				t.Fatal(err)
			}
			if part.Context != nil {
				contexts++
			}
			if got += len(part.Elements); got < elements/2 || waited {
				continue
			}
			waited = true
			c.s.Sleep(time.Hour)
			n := 0
			for _, b := range bounds {
				if b > string(part.Bound) {
					n++
				}
			}
			if n < 3 || n > 4 { // three ahead, and one that goes on after what is shown
				t.Errorf("%d answers are ahead, of %d", n, len(bounds))
			}
		}
		if got != elements || contexts != 1 || !waited {
			t.Errorf("%d elements, %d contexts, waited %v", got, contexts, waited)
		}
	})
}

// TestReadDigestsUnlike: replicas that often differ cost few questions for digests.
func TestReadDigestsUnlike(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 60_000), c.links...)
	for i := range 300 {
		c.fills([]string{fmt.Sprintf("%06d+", 200*i)}, c.links[i%2])
	}
	co, all := c.counted(coord.Options{Quorum: coord.Quorum{N: 2}, DigestAfter: 100, RepairsMax: 1})
	c.s.run(t, minute, func() {
		got, contexts, err := gather(co, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 20}})
		if err != nil || len(got) != 60_300 || contexts != 1 {
			t.Errorf("%d elements, %d contexts, %v", len(got), contexts, err)
		}
	})
	if all[1].digest < 2 || all[1].digest > 30 {
		t.Errorf("%d questions for digests", all[1].digest)
	}
}

// TestReadDigestsStrange: answers for digests that are wrong, of another kind, or late end them, and not the read.
func TestReadDigestsStrange(t *testing.T) {
	t.Parallel()
	// Each is asked once of the second replica, or again and again; the read then has that many contexts.
	for what, x := range map[string]struct {
		contexts, asked int
		answer          func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error)
	}{
		"the program before": {1, 1, func(c *cluster, _ int, _ bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			return bigset.PartCounts{}, c.links[1].Member(), fmt.Errorf("far: %w: 'o'", peer.ErrFrameKind)
		}},
		"an error": {2, 1, func(c *cluster, _ int, _ bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			return bigset.PartCounts{}, c.links[1].Member(), peer.ErrUnavailable
		}},
		"one that is joining": {2, 1, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			by.State = peer.Joining
			return p, by, err
		}},
		"no parts": {2, 1, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			return bigset.PartCounts{Clock: c.links[1].state().Seen}, c.links[1].Member(), nil
		}},
		"the same parts again": {2, 2, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			if n > 1 {
				r.After = []byte("002000")
			}
			return c.links[1].Replica.CountParts(ctx, set, r)
		}},
		"another one, which has seen as much": {2, 2, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			if n > 1 {
				by.Incarnation = "another"
			}
			return p, by, err
		}},
		"one that has forgotten, at first": {2, 0, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			p.Clock = clock.Of(clock.Dot{Actor: "someone", Counter: 1})
			return p, by, err
		}},
		"one that has forgotten, later": {2, 2, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			if n > 1 {
				p.Clock = clock.Of(clock.Dot{Actor: "someone", Counter: 1})
			}
			return p, by, err
		}},
		"one part": {1, 0, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			r.Mean = bigset.ElementsMeanMax
			return c.links[1].Replica.CountParts(ctx, set, r)
		}},
		"less": {1, 0, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			p.Parts, p.Done = p.Parts[:1], true
			return p, by, err
		}},
		"more": {1, 0, func(c *cluster, n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
			p, by, err := c.links[1].Replica.CountParts(ctx, set, r)
			if p.Done {
				p.Parts = append(p.Parts, bigset.ElementDigest{Bound: []byte("x"), Elements: 1, Sum: [16]byte{1}})
			}
			return p, by, err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			elements := 10_000
			if x.asked > 1 { // more than one answer holds
				elements = 40_000
			}
			c := newCluster(t, newSched(1), 3)
			c.fills(numbered(0, elements), c.links...)
			c.fills([]string{fmt.Sprintf("%06d+", elements-1000)}, c.links[1:]...) // the context must not lose it
			co, all := c.counted(coord.Options{DigestAfter: 2000})
			all[1].parts = func(n int, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) { return x.answer(c, n, r) }
			c.s.run(t, minute, func() {
				got, contexts, err := gather(co, coord.Read{Set: set})
				if err != nil || len(got) != elements+1 || contexts != x.contexts {
					t.Errorf("%d elements, %d contexts, want %d, %v", len(got), contexts, x.contexts, err)
				}
			})
			if n := all[1].digest; n == 0 || x.asked > 0 && n != x.asked {
				t.Errorf("%d questions for digests, want %d", n, x.asked)
			}
		})
	}
}

// TestReadDigestsFail: the first replica fails while the others send digests, and so does one of those, or it takes too long.
func TestReadDigestsFail(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"reset", "lost", "mute"} {
		for k, elements := range []int{40_000, 10_000} { // of the first replica the second answer fails, of the second one the first
			c := newCluster(t, newSched(uint64(k)), 3)
			c.fills(numbered(0, elements), c.links...)
			co, all := c.counted(coord.Options{DigestAfter: 2000, ChunkTimeout: second})
			failed := 0
			all[k].fault = func() string {
				if all[1].digest < 2-k || failed > 0 {
					return ""
				}
				failed++
				return fault
			}
			c.s.run(t, minute, func() {
				got, contexts, err := gather(co, coord.Read{Set: set})
				if err != nil || len(got) != elements || contexts != 2 {
					t.Errorf("%s of %d: %d elements, %d contexts, %v", fault, k, len(got), contexts, err)
				}
			})
			if running, timers := c.s.Left(); failed != 1 || running+timers > 0 {
				t.Errorf("%s of %d: %d faults, %d tasks and %d timers are left", fault, k, failed, running, timers)
			}
		}
	}
}

// TestReadDigestsAmidWrites reads by digests while elements are added, replaced and removed. Elements that nobody touches are in each read, once; one that was
// removed before a read began is not.
func TestReadDigestsAmidWrites(t *testing.T) {
	t.Parallel()
	digests := 0
	for seed := range uint64(12) {
		s := newSched(seed)
		c := newCluster(t, s, 3)
		stay := numbered(0, 600)
		c.fills(stay, c.links...)
		co, all := c.counted(coord.Options{DigestAfter: 20, Quorum: coord.Quorum{R: 2 + int(seed%2)}})
		s.run(t, time.Hour, func() {
			left := 3
			gone := map[string]bool{}
			for w := range left {
				s.Go(func() {
					for i := range 12 {
						name := fmt.Sprintf("%06d+%d%d", s.rng.IntN(600), w, i)
						if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add(name, fmt.Sprintf("%06d", 10*w+i))}); err != nil {
							t.Error(err)
						}
						remove := []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte(name)}}
						if _, err := co.Write(ctx, coord.Write{Set: set, Ops: remove}); err != nil {
							t.Error(err)
						}
						gone[name] = true
					}
					left--
				})
			}
			for reads := 0; left > 0 || reads < 2; reads++ {
				was := map[string]bool{}
				for name := range gone {
					was[name] = true
				}
				got, _, err := gather(co, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 16}})
				if err != nil {
					t.Fatal(err)
				}
				var there []string
				for i, e := range got {
					if i > 0 && string(got[i-1].Name) >= string(e.Name) {
						t.Fatalf("seed %d: %q after %q", seed, e.Name, got[i-1].Name)
					}
					if was[string(e.Name)] {
						t.Fatalf("seed %d: %q is back", seed, e.Name)
					}
					if len(e.Name) == 6 {
						there = append(there, string(e.Name))
					}
				}
				if !slices.Equal(there, stay) {
					t.Fatalf("seed %d: %d of %d that stay", seed, len(there), len(stay))
				}
			}
		})
		for _, a := range all {
			digests += a.digest
		}
	}
	if digests < 50 { // how many depends on how the writes fall
		t.Errorf("%d questions for digests", digests)
	}
}

// late says only after its last element that there are no more.
type late struct{ *link }

func (l *late) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		for c, err := range l.link.Read(ctx, set, o) {
			if err == nil && c.Done && len(c.Elements) > 0 {
				if !yield(&fold.Chunk{Clock: c.Clock, Elements: c.Elements, Bound: c.Elements[len(c.Elements)-1].Name}, nil) {
					return
				}
				c = &fold.Chunk{Clock: c.Clock, Done: true}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// TestReadDigestsAtTheEnd: where the first replica has no more elements, and another one has not said so yet, it is too late for digests.
func TestReadDigestsAtTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 2)
	c.fills(numbered(0, 100), c.links...)
	co := c.coordinator(coord.Options{DigestAfter: 100, Quorum: coord.Quorum{N: 2}, Place: coord.List(func([]byte) []peer.Replica {
		return []peer.Replica{c.links[0], &late{c.links[1]}}
	})})
	c.s.run(t, minute, func() {
		if got, contexts, err := gather(co, coord.Read{Set: set}); err != nil || len(got) != 100 || contexts != 1 {
			t.Errorf("%d elements, %d contexts, %v", len(got), contexts, err)
		}
	})
}

// TestReadDigestsOfNothing: a first replica that has never heard of the set has nothing to compare digests with: none are asked for.
func TestReadDigestsOfNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 3)
	c.fills(numbered(0, 40_000), c.links[1:]...)
	for r := 2; r <= 3; r++ {
		co, all := c.counted(coord.Options{DigestAfter: 2000})
		c.s.run(t, minute, func() {
			if got, contexts, err := gather(co, coord.Read{Set: set, Quorum: coord.Quorum{R: r}}); err != nil || len(got) != 40_000 || contexts != 1 {
				t.Errorf("R %d: %d elements, %d contexts, %v", r, len(got), contexts, err)
			}
		})
		if n := all[1].digest + all[2].digest; n > 0 {
			t.Errorf("R %d: %d questions for digests", r, n)
		}
	}
}
