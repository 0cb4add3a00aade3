package transfer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/handoff"
	"bigset/internal/testkit/tier"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// TestPullSendsWhatDiffers: if one page of a filter of 3 MB differs, that page is sent, and sums.
func TestPullSendsWhatDiffers(t *testing.T) {
	a, b := newSlices(t, "a"), newSlices(t, "b")
	spec := specOf("f", 0, 5, largeFilter)
	pages := fillSlice(t, a, spec, "\x01", 1)
	from := &line{SliceReplica: a}
	pull := func(compared, want, bytesMax int) {
		t.Helper()
		from.sent = 0
		r, err := transfer.PullSlice(bg, from, b, spec)
		must(t, err, "pull")
		if r.Compared != uint64(compared) || r.Pages != uint64(want) || r.Bytes != uint64(from.sent) || from.sent > bytesMax {
			t.Errorf("%+v, %d bytes sent", r, from.sent)
		}
		sameSlices(t, a, b, "pulled")
	}
	if pages < 700 || pages > 800 {
		t.Fatalf("%d pages", pages)
	}
	pull(pages, pages, 3_100_000)
	pull(pages, 0, 12*pages)
	shape, err := spec.Options.Shape(0)
	must(t, err, "shape")
	layers := []bloomslice.Layer{{ID: bloomslice.LayerID{Owner: "\x01"}, Shape: shape, Count: shape.Capacity/2 + 1}}
	page := randomPage(t, rand.New(rand.NewPCG(2, 2)), shape, "\x01", 77)
	_, err = a.MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{page}})
	must(t, err, "merge")
	pull(pages, 1, 12*pages+5000)
	layers[0].Count++ // no page differs, and a count does
	_, err = a.MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers})
	must(t, err, "merge")
	pull(pages, 0, 12*pages)
}

// TestPullInterrupted has each call of a pull fail, at either end, and pulls again: it comes to its end, and nothing is sent twice.
func TestPullInterrupted(t *testing.T) {
	spec := specOf("f", 0, 5, largeFilter)
	source := newSlices(t, "a")
	pages := fillSlice(t, source, spec, "\x01", 1)
	share := tier.ShareOf(t, 2, 2)
	for end := range 2 {
		for call := 1; ; call++ {
			if !share.Has(call) {
				continue
			}
			from, to := &line{SliceReplica: source}, &line{SliceReplica: newSlices(t, "b")}
			[]*line{from, to}[end].fails = call
			first, err := transfer.PullSlice(bg, from, to, spec)
			if err == nil {
				if call < 4 {
					t.Errorf("only %d calls", call-1)
				}
				break
			}
			if !errors.Is(err, errDown) || !strings.Contains(err.Error(), `slice 0 of filter "f"`) {
				t.Fatal(err)
			}
			second, err := transfer.PullSlice(bg, from, to, spec)
			must(t, err, "again")
			if sum := first.Pages + second.Pages; sum != uint64(pages) {
				t.Errorf("end %d, call %d: %d pages came, the slice has %d", end, call, sum, pages)
			}
			sameSlices(t, source, to, "pulled again")
		}
	}
}

// TestPullWhileMarked marks at both ends before each call: what was marked when the pull began comes.
func TestPullWhileMarked(t *testing.T) {
	a, b := newSlices(t, "a"), newSlices(t, "b")
	spec := specOf("f", 0, 5, smallFilter)
	markKeys(t, a, spec, 0, 500)
	markKeys(t, b, spec, 400, 500)
	from, to := &line{SliceReplica: a}, &line{SliceReplica: b}
	key := 10_000
	from.before = func(int) { markKeys(t, a, spec, key, 60); key += 60 }
	to.before = func(int) { markKeys(t, b, spec, key, 60); key += 60 }
	_, err := transfer.PullSlice(bg, from, to, spec)
	must(t, err, "pull")
	present, _, err := b.Check(bg, spec, hashesOf(spec, 0, 900))
	must(t, err, "check")
	for i, has := range present {
		if !has {
			t.Fatalf("key %d is not there", i)
		}
	}
	from.before, to.before = nil, nil
	_, err = transfer.PullSlice(bg, from, to, spec)
	must(t, err, "pull")
	_, err = transfer.PullSlice(bg, to, from, spec)
	must(t, err, "pull")
	sameSlices(t, a, b, "pulled both ways")
}

// TestPullDamaged: pages that can't be read are named, and the others come; whichever end it is.
func TestPullDamaged(t *testing.T) {
	spec := specOf("f", 0, 5, largeFilter)
	a := newSlices(t, "a")
	pages := fillSlice(t, a, spec, "\x01", 1)
	bad := map[bigset.PagePlace]bool{}
	for _, page := range []uint32{0, 300, 301, uint32(pages - 1)} {
		bad[bigset.PagePlace{Layer: bloomslice.LayerID{Owner: "\x01"}, Page: page}] = true
	}
	for end := range 2 {
		from, to := &line{SliceReplica: a}, &line{SliceReplica: newSlices(t, "b")}
		[]*line{from, to}[end].bad = bad
		r, err := transfer.PullSlice(bg, from, to, spec)
		if !errors.Is(err, bigset.ErrCorrupt) || r.Pages != uint64(pages-len(bad)) {
			t.Fatalf("end %d: %+v, %v", end, r, err)
		}
		for at := range bad {
			if want := fmt.Sprintf(`slice 0 of filter "f": page %d of layer 0 of seat 1`, at.Page); !strings.Contains(err.Error(), want) {
				t.Errorf("not named: %s in %v", want, err)
			}
		}
		from.bad, to.bad = nil, nil // repaired
		if r, err = transfer.PullSlice(bg, from, to, spec); err != nil || r.Pages != uint64(len(bad)) {
			t.Errorf("%+v, %v", r, err)
		}
		sameSlices(t, a, to, "repaired")
	}
}

// TestPullRefused: answers that can't be are errors, and nothing has changed; a receiver that knows better receives nothing.
func TestPullRefused(t *testing.T) {
	spec := specOf("f", 0, 5, mediumFilter)
	for _, c := range []struct {
		name string
		line line
		want error
	}{
		{"another slice", line{pages: func(p *bigset.SlicePages) { p.Slice++ }}, handoff.ErrOrder},
		{"another filter", line{pages: func(p *bigset.SlicePages) { p.Name = []byte("g") }}, handoff.ErrOrder},
		{"another generation", line{pages: func(p *bigset.SlicePages) { p.Generation++ }}, handoff.ErrOrder},
		{"a page twice", line{pages: func(p *bigset.SlicePages) { p.Pages = append(p.Pages, p.Pages[0]) }}, handoff.ErrOrder},
		{"out of order", line{sums: func(s *bigset.PageSums) { slices.Reverse(s.Sums) }}, handoff.ErrOrder},
		{"no end", line{sums: func(s *bigset.PageSums) { s.Sums, s.Done = nil, false }}, handoff.ErrOrder},
		{"the same again", line{sums: func(s *bigset.PageSums) { s.Done = false }}, handoff.ErrOrder},
	} {
		a, b := newSlices(t, "a"), newSlices(t, "b")
		markKeys(t, a, spec, 0, 10)
		c.line.SliceReplica = a
		_, err := transfer.PullSlice(bg, &c.line, b, spec)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if present, _, _ := b.Check(bg, spec, hashesOf(spec, 0, 1)); present[0] && c.name != "the same again" {
			t.Errorf("%s: something has come", c.name)
		}
	}

	// The member that answers changes between two answers.
	a, b := newSlices(t, "a"), newSlices(t, "b")
	markKeys(t, a, spec, 0, 10)
	sums, _, err := a.PageSums(bg, spec, nil, 0)
	must(t, err, "sums")
	pages := uint64(len(sums.Sums))
	from := &line{SliceReplica: a}
	from.by = func(m peer.Member) peer.Member {
		if from.calls == 2 {
			m.Node = "c"
		}
		return m
	}
	if _, err := transfer.PullSlice(bg, from, b, spec); !errors.Is(err, peer.ErrSender) {
		t.Errorf("another node: %v", err)
	}
	from.by = func(m peer.Member) peer.Member {
		if from.calls >= 2 {
			m.Incarnation = clock.Actor("later")
		}
		return m
	}
	from.calls = 0
	r, err := transfer.PullSlice(bg, from, b, spec)
	if err != nil || r.Restarts != 1 || r.Compared != 2*pages {
		t.Errorf("another incarnation: %+v, %v", r, err)
	}
	sameSlices(t, a, b, "restarted")

	for _, c := range []struct {
		name string
		do   func(r peer.SliceReplica)
	}{
		{"dropped", func(r peer.SliceReplica) { r.DropGeneration(bg, spec.Name, 1, 5) }},
		{"later", func(r peer.SliceReplica) { markKeys(t, r, specOf("f", 0, 6, smallFilter), 5, 1) }},
	} {
		a, b := newSlices(t, "a"), newSlices(t, "b")
		markKeys(t, a, spec, 0, 10)
		c.do(b)
		was := dump(t, b)
		from := &line{SliceReplica: a}
		if _, err := transfer.PullSlice(bg, from, b, spec); !errors.Is(err, bigset.ErrNoFilter) || dump(t, b) != was || from.calls > 1 {
			t.Errorf("%s at the receiver: %v", c.name, err)
		}
		c.do(a)
		if _, err := transfer.PullSlice(bg, a, newSlices(t, "c"), spec); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("%s at the sender: %v", c.name, err)
		}
	}
}
