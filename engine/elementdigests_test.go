package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// parts returns all parts of a range, asking on until it is done, and by how many calls.
func (p *pair) parts(t *testing.T, r bigset.ElementRange) (all []bigset.ElementDigest, calls int) {
	t.Helper()
	for {
		d, err := p.store.Replica().ElementDigests(bg, []byte(healSet), r)
		must(t, err, p.label+": digests of elements")
		for _, part := range d.Parts {
			if r.After != nil && string(part.Bound) <= string(r.After) {
				t.Fatalf("%s: a part ends at %q, not after %q", p.label, part.Bound, r.After)
			}
			r.After = part.Bound
		}
		all, calls = append(all, d.Parts...), calls+1
		if d.Done {
			return all, calls
		}
	}
}

func sumOf(parts []bigset.ElementDigest) (sum bigset.ElementDigest) {
	for i := range parts {
		sum.Join(&parts[i])
	}
	return sum
}

// TestElementDigests: stores with the same live keys answer the same whatever lies on disk, part by part; a key that is lost, or under
// another element, shows in its part alone; dots that were not asked about do not.
func TestElementDigests(t *testing.T) {
	t.Parallel()
	const n = 5000
	p, q := newPair("one"), newPair("other")
	p.open(t)
	q.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, n), bigset.NoSync)
	p.all(t, healSet, keyscheme.OpRemove, elementNames(100, 200), bigset.NoSync)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(150, 160), bigset.NoSync)
	for _, s := range p.portions(t, healSet, 0) { // q has never had the keys that are dead
		q.ingest(t, s)
	}
	state := p.known(t, healSet)
	live := state.Seen.Clone()
	live.Subtract(state.Dead)
	must(t, q.store.CompactTables(bg), "compact")
	for _, mean := range []int{1, 32, 64, bigset.ElementsMeanMax} {
		ps, calls := p.parts(t, bigset.ElementRange{Within: live, Mean: mean})
		qs, _ := q.parts(t, bigset.ElementRange{Within: live, Mean: mean})
		if sum := sumOf(ps); !slices.EqualFunc(ps, qs, func(a, b bigset.ElementDigest) bool { return a.Same(&b) && string(a.Bound) == string(b.Bound) }) || sum.Elements != n-90 {
			t.Errorf("mean %d: %d and %d parts, %+v", mean, len(ps), len(qs), sum)
		}
		if want := (n - 90) / mean; len(ps) < want*2/3 || len(ps) > want*3/2+1 || mean == 1 && (len(ps) != want || calls != 2) {
			t.Errorf("mean %d: %d parts in %d calls", mean, len(ps), calls)
		}
	}
	whole, _ := p.parts(t, bigset.ElementRange{Within: live, Mean: 32})
	var joined []bigset.ElementDigest
	for i := range whole { // each by itself
		r := bigset.ElementRange{UpTo: whole[i].Bound, Within: live, Mean: 1}
		if i > 0 {
			r.After = whole[i-1].Bound
		}
		part, _ := p.parts(t, r)
		joined = append(joined, part...)
		if sum := sumOf(part); !sum.Same(&whole[i]) || string(sum.Bound) != string(whole[i].Bound) {
			t.Fatalf("part %d: %+v, %+v", i, sum, whole[i])
		}
	}
	if len(joined) != n-90 {
		t.Errorf("%d elements", len(joined))
	}
	q.all(t, healSet, keyscheme.OpAdd, []string{"new"}, bigset.NoSync)
	lost := q.loses(t, bulkName(4000))
	keys, err := q.store.StoredKeys(lost.Set)
	must(t, err, "keys")
	for dot, name := range keys {
		if name == bulkName(1000) {
			q.swaps(t, name, bulkName(1000)+"~", dot)
		}
	}
	differ := map[string]bool{}
	ones, _ := p.parts(t, bigset.ElementRange{Within: live, Mean: 1})
	others, _ := q.parts(t, bigset.ElementRange{Within: live, Mean: 1})
	count := map[string][16]byte{}
	for _, d := range ones {
		count[string(d.Bound)] = d.Sum
	}
	for _, d := range others {
		if count[string(d.Bound)] != d.Sum {
			differ[string(d.Bound)] = true
		}
		delete(count, string(d.Bound))
	}
	for e := range count {
		differ[e] = true
	}
	for e := range differ {
		if e != bulkName(1000) && e != bulkName(1000)+"~" && e != bulkName(4000) {
			t.Errorf("%q differs", e)
		}
	}
	if len(differ) != 3 {
		t.Errorf("%d elements differ", len(differ))
	}
	few := clock.Of(lost.Keys[0].Dots...)
	if got, _ := p.parts(t, bigset.ElementRange{Within: few, Mean: 1}); len(got) != 1 || string(got[0].Bound) != bulkName(4000) {
		t.Errorf("of one dot: %+v", got)
	}
	if got, _ := q.parts(t, bigset.ElementRange{Within: few, Mean: 1}); len(got) != 0 {
		t.Errorf("of one dot that is lost: %+v", got)
	}
	if got, _ := p.parts(t, bigset.ElementRange{Mean: 1}); len(got) != 0 {
		t.Errorf("of no dot: %+v", got)
	}
	p.close(t)
	q.close(t)
}

// TestElementDigestsAreFixed: what is hashed, and where parts end, are part of the protocol.
func TestElementDigestsAreFixed(t *testing.T) {
	p := newPair("store")
	p.open(t)
	f := bigset.Facts{Set: []byte(healSet)}
	for i := range 64 {
		f.Keys = append(f.Keys, element(bulkName(i), clock.Dot{Actor: "a", Counter: uint64(i + 1)}))
	}
	f.Keys[5].Dots = append(f.Keys[5].Dots, clock.Dot{Actor: "b", Counter: 1})
	p.facts(t, f, bigset.Sync)
	parts, _ := p.parts(t, bigset.ElementRange{Within: p.known(t, healSet).Seen, Mean: 16})
	if got := fixed(parts); got != elementDigestsFixed {
		t.Errorf("got\n%s", got)
	}
	for what, r := range map[string]bigset.ElementRange{"no mean": {}, "mean": {Mean: bigset.ElementsMeanMax + 1}} {
		if _, err := p.store.Replica().ElementDigests(bg, f.Set, r); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.store.Replica().ElementDigests(bg, f.Set, bigset.ElementRange{Mean: 1, UpTo: make([]byte, bigset.ElementBytesMax+1)}); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("long element: %v", err)
	}
	if _, err := p.store.Replica().ElementDigests(bg, []byte("unknown"), bigset.ElementRange{Mean: 1}); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := p.store.Replica().Lost(bg, []byte("unknown")); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	p.close(t)
	if _, err := p.store.Replica().ElementDigests(bg, f.Set, bigset.ElementRange{Mean: 1}); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func fixed(parts []bigset.ElementDigest) (text string) {
	for _, d := range parts {
		text += fmt.Sprintf("%s %d %x\n", d.Bound, d.Elements, d.Sum)
	}
	return text
}

const elementDigestsFixed = `n006-padding 7 6d07c7a8ec1b13b0dea524ed062648d5
n023-padding 17 789466f1c4a88b804e2478ce7597595e
n033-padding 10 171ca14ad87fe318a2508e8cda4ee48e
n036-padding 3 5ee1ccb7221b2e3678457a32fec5cb6f
n049-padding 13 37ed004001749a91b7ab0010b68bf8af
n050-padding 1 5e6ee2db84ce5e8113a45083da20d64e
n062-padding 12 008856b26f088f1d3e48322fb33cd04f
n063-padding 1 d56fdc82410a8bd0780119bfe5ece6a1
`
