package filters_test

import (
	"errors"
	"slices"
	"testing"

	"bigset"
	"bigset/bloomslice"
)

// TestDigestChanges: every change of a slice changes its digest, nothing else does, and a restart does not.
func TestDigestChanges(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterSync)
	r := openReplicas(t, 2)
	hashes := sliceKeys(&spec, 0, 400)
	r[0].marks(t, spec, hashes[:10])
	last := r[0].digestOf(t, spec).Sum
	changed := func(what string, want bool) {
		t.Helper()
		for range 2 {
			if now := r[0].digestOf(t, spec).Sum; now != last != want {
				t.Errorf("%s: the digest was %x, is %x", what, last, now)
			}
		}
		last = r[0].digestOf(t, spec).Sum
	}
	changed("nothing", false)
	r[0].marks(t, spec, hashes[10:20])
	changed("marks", true)
	r[0].marks(t, spec, hashes[:20])
	changed("marks of keys that it has", false)
	m, _ := r[1].marks(t, spec, hashes[20:30])
	r[0].applies(t, m)
	changed("marks of another", true)
	r[0].applies(t, m)
	changed("marks of another, again", false)
	r[1].marks(t, spec, hashes[30:40])
	pull(t, spec, r[1], r[0])
	changed("pages", true)
	pull(t, spec, r[1], r[0])
	changed("pages, again", false)
	layers := r[0].layersOf(t, spec)
	layers[0].Count++
	must(t, r[0].store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers}), "merge")
	changed("a count", true)
	none := bloomslice.Layer{ID: bloomslice.LayerID{Index: 0, Owner: bloomslice.Seat(2).Owner()}, Shape: layers[0].Shape}
	m.Layers = append(m.Layers, none)
	r[0].applies(t, m)
	changed("a layer that no mark names", true)
	m.Layers[0].Count += 100
	r[0].applies(t, m)
	changed("the count of a layer, by marks of keys that it has", true)
	next, err := spec.Options.Shape(1)
	must(t, err, "shape")
	layers = append(layers, none, bloomslice.Layer{ID: bloomslice.LayerID{Index: 1, Owner: none.ID.Owner}, Shape: next})
	must(t, r[0].store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers}), "merge")
	changed("a layer", true)
	r[0].crash(0)
	r[0].open(t)
	pull(t, spec, r[1], r[0])
	must(t, r[0].store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers}), "merge")
	changed("a restart", false)
	for _, r := range r {
		r.close(t)
	}
}

// TestDigestOfPlaces: the same page in another place gives another digest.
func TestDigestOfPlaces(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterSync)
	shape, err := spec.Options.Shape(2)
	must(t, err, "shape")
	value, err := bloomslice.AppendPage(nil, []byte{1})
	must(t, err, "page")
	layers := []bloomslice.Layer{{ID: bloomslice.LayerID{Index: 2, Owner: "\x02"}, Shape: shape}, {ID: bloomslice.LayerID{Index: 2, Owner: "\x01"}, Shape: shape}}
	sums := map[[16]byte]bigset.PagePlace{}
	for _, at := range []bigset.PagePlace{{Layer: layers[0].ID, Page: 0}, {Layer: layers[0].ID, Page: 1}, {Layer: layers[1].ID, Page: 0}} {
		r := openReplicas(t, 1)[0]
		must(t, r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{{PagePlace: at, Value: value}}}), "merge")
		sum := r.digestOf(t, spec).Sum
		if other, ok := sums[sum]; ok {
			t.Errorf("%+v and %+v have one digest", at, other)
		}
		sums[sum] = at
		r.close(t)
	}
}

// TestPageSums: runs of hashes, also runs of one, have every page once, in order; they and the pages include what was marked
// before; a page that is not stored is left out.
func TestPageSums(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	r := openReplicas(t, 2)
	r[0].seat = 1
	for round := range 3 {
		from := 3000 * round // the first layer is full in the end
		r[0].marks(t, spec, sliceKeys(&spec, from, from+3000))
		whole, err := r[0].store.Filters().PageSums(bg, spec, nil, 0)
		must(t, err, "sums")
		var each []bigset.PageSum
		for done, after := false, (*bigset.PagePlace)(nil); !done; {
			if round%2 > 0 { // it has kept them, or reads them
				f, err := r[0].store.Filters().Get(spec.Name)
				must(t, err, "filter")
				f.DropSums(0)
			}
			run, err := r[0].store.Filters().PageSums(bg, spec, after, 1)
			must(t, err, "sums")
			each, done = append(each, run.Sums...), run.Done
			if len(each) > 0 {
				after = &each[len(each)-1].PagePlace
			}
			if len(each) > len(whole.Sums) || len(run.Sums) > 1 || len(run.Sums) == 0 && !done {
				t.Fatalf("%d pages, %d in a run, of %d", len(each), len(run.Sums), len(whole.Sums))
			}
		}
		if !slices.Equal(each, whole.Sums) || !whole.Done || len(each) == 0 {
			t.Errorf("round %d: one by one %v, at once %v", round, each, whole.Sums)
		}
	}
	places := []bigset.PagePlace{{}} // of no layer, before all others
	for _, sum := range allSums(t, spec, r[0]).Sums {
		places = append(places, sum.PagePlace)
	}
	r[0].marks(t, spec, sliceKeys(&spec, 9000, 9100))
	pages, err := r[0].store.Filters().Pages(bg, spec, places)
	must(t, err, "pages")
	if len(pages.Pages) != len(places)-1 {
		t.Errorf("%d pages of %d", len(pages.Pages), len(places)-1)
	}
	must(t, r[1].store.Filters().MergePages(bg, pages), "merge")
	r[1].acked = r[0].acked
	r[1].denies(t, spec, "pages that were marked last")
	for _, r := range r {
		r.close(t)
	}
}

// pagesOf are pages of a slice in which keys were marked, a table full or more.
func pagesOf(t *testing.T, spec bigset.SliceSpec) (bigset.SlicePages, []bloomslice.Hash) {
	t.Helper()
	r := openReplicas(t, 1)[0]
	r.marks(t, spec, sliceKeys(&spec, 0, 100))
	var places []bigset.PagePlace
	for _, sum := range allSums(t, spec, r).Sums {
		places = append(places, sum.PagePlace)
	}
	pages, err := r.store.Filters().Pages(bg, spec, places[:min(len(places), bigset.PagesMax)])
	must(t, err, "pages")
	r.close(t)
	return pages, r.acked
}

// TestMergeRefused: if pages can't be joined, their counts are not raised, and no slice is made for pages without their layers.
func TestMergeRefused(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterSync)
	pages, hashes := pagesOf(t, spec)
	r := openReplicas(t, 1)[0]
	bad := pages
	bad.Layers = nil
	if err := r.store.Filters().MergePages(bg, bad); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("pages without layers: %v", err)
	}
	if d := r.digestOf(t, spec); d != nil {
		t.Errorf("it has %+v", d)
	}
	bad = pages
	bad.Pages = slices.Clone(pages.Pages)
	bad.Pages[len(bad.Pages)-1].Value = []byte("garbage")
	if err := r.store.Filters().MergePages(bg, bad); !errors.Is(err, bigset.ErrCorrupt) {
		t.Errorf("a damaged page: %v", err)
	}
	for _, l := range r.layersOf(t, spec) {
		if l.Count != 0 {
			t.Errorf("layer %+v counts what did not come", l)
		}
	}
	must(t, r.store.Filters().MergePages(bg, pages), "merge")
	r.close(t)
	r.open(t)
	if n := r.has(t, spec, hashes); n != len(hashes) {
		t.Errorf("%d keys of %d", n, len(hashes))
	}
	if got := r.layersOf(t, spec); !slices.Equal(got, pages.Layers) {
		t.Errorf("layers %+v, want %+v", got, pages.Layers)
	}
	r.close(t)
}

// TestMergeHalfway: if a merge ends halfway after pages of a new layer have left memory, these are stored with their layer.
func TestMergeHalfway(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	spec.Options.Capacity = 600_000
	pages, hashes := pagesOf(t, spec)
	r := openReplicas(t, 1)[0]
	r.opt.FilterCacheBytes = 1
	r.close(t)
	r.open(t)
	r.seat = 1
	r.marks(t, spec, hashes[:1])
	bad := pages
	bad.Pages = slices.Clone(pages.Pages)
	bad.Pages[len(bad.Pages)-1].Value = []byte("garbage")
	if err := r.store.Filters().MergePages(bg, bad); !errors.Is(err, bigset.ErrCorrupt) || len(bad.Pages) < 20 {
		t.Errorf("%d pages, one is damaged: %v", len(bad.Pages), err)
	}
	must(t, r.store.Filters().Flush(bg), "flush")
	r.crash(0)
	r.open(t)
	r.verified(t, "halfway")
	if n := len(r.layersOf(t, spec)); n != 2 {
		t.Errorf("%d layers", n)
	}
	must(t, r.store.Filters().MergePages(bg, pages), "merge again")
	if n := r.has(t, spec, hashes); n != len(hashes) {
		t.Errorf("%d keys of %d", n, len(hashes))
	}
	r.close(t)
}
