package transfer_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// newSlices returns a replica of slices.
func newSlices(t testing.TB, name string) peer.SliceReplica { return newNode(t, name).local }

// line is the way to a replica: it counts what goes over, and it breaks.
type line struct {
	peer.SliceReplica
	calls  int
	fails  int                           // the call that fails, from 1
	before func(call int)                // of each call
	by     func(peer.Member) peer.Member // who answers
	bad    map[bigset.PagePlace]bool     // pages that can't be read
	pages  func(*bigset.SlicePages)      // changes an answer
	sums   func(*bigset.PageSums)
	sent   int // bytes of sums and pages
	drops  int
}

var errDown = fmt.Errorf("%w: the line is down", peer.ErrUnavailable)

func (l *line) over() error {
	if l.calls++; l.before != nil {
		l.before(l.calls)
	}
	if l.calls == l.fails {
		return errDown
	}
	return nil
}

func (l *line) Member() peer.Member {
	if l.by != nil {
		return l.by(l.SliceReplica.Member())
	}
	return l.SliceReplica.Member()
}

func (l *line) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	if err := l.over(); err != nil {
		return l.Member(), err
	}
	l.drops++
	return l.SliceReplica.DropGeneration(ctx, name, slices, generation)
}

func (l *line) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return func(yield func(bigset.SliceDigest, error) bool) {
		for d, err := range l.SliceReplica.SliceDigests(ctx, first, last) {
			if e := l.over(); e != nil {
				err = e
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func (l *line) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	if err := l.over(); err != nil {
		return bigset.PageSums{}, l.Member(), err
	}
	s, _, err := l.SliceReplica.PageSums(ctx, spec, after, most)
	for i := range s.Sums {
		if l.bad[s.Sums[i].PagePlace] {
			return bigset.PageSums{}, l.Member(), fmt.Errorf("%w: a block", bigset.ErrCorrupt)
		}
	}
	if l.sent += 12 * len(s.Sums); err == nil && l.sums != nil {
		l.sums(&s)
	}
	return s, l.Member(), err
}

func (l *line) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	if err := l.over(); err != nil {
		return bigset.SlicePages{}, l.Member(), err
	}
	for _, at := range places {
		if l.bad[at] {
			return bigset.SlicePages{}, l.Member(), fmt.Errorf("%w: a block", bigset.ErrCorrupt)
		}
	}
	p, _, err := l.SliceReplica.Pages(ctx, spec, places)
	for i := range p.Pages {
		l.sent += len(p.Pages[i].Value)
	}
	if err == nil && l.pages != nil {
		l.pages(&p)
	}
	return p, l.Member(), err
}

func (l *line) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	if err := l.over(); err != nil {
		return l.Member(), err
	}
	for i := range p.Pages {
		if l.bad[p.Pages[i].PagePlace] {
			return l.Member(), fmt.Errorf("%w: %w: a block", peer.ErrUnavailable, bigset.ErrCorrupt)
		}
	}
	return l.SliceReplica.MergePages(ctx, p)
}

func (l *line) FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error) {
	if err := l.over(); err != nil {
		return l.Member(), err
	}
	return l.SliceReplica.FlushSlice(ctx, spec)
}

// smallFilter has layers of 100 keys, so that they grow soon; mediumFilter a first layer of 300 KB, largeFilter one of 3 MB.
var (
	smallFilter = bigset.FilterOptions{
		Options:    bloomslice.Options{Capacity: 10_001, Probability: 1e-3, Scale: 2, Reduction: 0.9, Slices: 2, Owners: 50},
		Durability: bigset.FilterInterval,
	}
	mediumFilter = bigset.FilterOptions{
		Options:    bloomslice.Options{Capacity: 100_000, Probability: 1e-4, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1},
		Durability: bigset.FilterInterval,
	}
	largeFilter = bigset.FilterOptions{
		Options:    bloomslice.Options{Capacity: 1_000_000, Probability: 1e-4, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1},
		Durability: bigset.FilterInterval,
	}
)

func specOf(name string, slice uint32, generation uint64, o bigset.FilterOptions) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte(name), Slice: slice, Generation: generation, Options: o}
}

// hashesOf returns keys of a slice: those of a number are the same each time.
func hashesOf(spec bigset.SliceSpec, from, n int) (all []bloomslice.Hash) {
	for i := range n {
		for salt := 0; len(all) == i; salt++ {
			if h := bloomslice.Sum(fmt.Appendf(nil, "key %d of %d", from+i, salt)); h.Slice(spec.Options.Slices) == spec.Slice {
				all = append(all, h)
			}
		}
	}
	return all
}

func markKeys(t testing.TB, r peer.SliceReplica, spec bigset.SliceSpec, from, n int) bigset.Marks {
	t.Helper()
	m, _, _, err := r.Mark(bg, spec, hashesOf(spec, from, n))
	must(t, err, "mark")
	return m
}

// fillSlice fills the first layer of a slice with pages of random bits, which is quicker than keys.
func fillSlice(t testing.TB, r peer.SliceReplica, spec bigset.SliceSpec, owner string, seed uint64) (pages int) {
	t.Helper()
	shape, err := spec.Options.Shape(0)
	must(t, err, "shape")
	rng := rand.New(rand.NewPCG(seed, 1))
	p := bigset.SlicePages{SliceSpec: spec, Layers: []bloomslice.Layer{{ID: bloomslice.LayerID{Owner: owner}, Shape: shape, Count: shape.Capacity / 2}}}
	for page := uint32(0); uint64(page)*bloomslice.PageBytes < shape.Bytes; page++ {
		p.Pages = append(p.Pages, randomPage(t, rng, shape, owner, page))
		if pages++; len(p.Pages) == bigset.PagesMax {
			_, err = r.MergePages(bg, p)
			must(t, err, "merge")
			p.Pages = nil
		}
	}
	_, err = r.MergePages(bg, p)
	must(t, err, "merge")
	return pages
}

func randomPage(t testing.TB, rng *rand.Rand, shape bloomslice.Shape, owner string, page uint32) bigset.SlicePage {
	t.Helper()
	b := make([]byte, min(bloomslice.PageBytes, shape.Bytes-uint64(page)*bloomslice.PageBytes))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	value, err := bloomslice.AppendPage(nil, b)
	must(t, err, "page")
	return bigset.SlicePage{PagePlace: bigset.PagePlace{Layer: bloomslice.LayerID{Owner: owner}, Page: page}, Value: value}
}

// dump is all that a replica has of slices, bit by bit, and what is dropped.
func dump(t testing.TB, r peer.SliceReplica) string {
	t.Helper()
	var b strings.Builder
	for d, err := range r.SliceDigests(bg, 0, keyscheme.SlotMax) {
		must(t, err, "digests")
		fmt.Fprintf(&b, "%s/%d generation %d dropped %v\n", d.Name, d.Slice, d.Generation, d.Dropped)
		if d.Dropped {
			continue
		}
		layers, pages := contents(t, r, d.SliceSpec)
		fmt.Fprintf(&b, "%+v %+v\n", layers, bloomslice.FiguresOf(layers))
		for _, p := range pages {
			bits, err := bloomslice.DecodePage(nil, p.Value)
			must(t, err, "page")
			if strings.Trim(string(bits), "\x00") != "" { // a page without bits is as one that is not stored
				fmt.Fprintf(&b, "%v %x\n", p.PagePlace, bits)
			}
		}
	}
	return b.String()
}

func contents(t testing.TB, r peer.SliceReplica, spec bigset.SliceSpec) (layers []bloomslice.Layer, pages []bigset.SlicePage) {
	t.Helper()
	var after *bigset.PagePlace
	for {
		s, _, err := r.PageSums(bg, spec, after, bigset.PagesMax)
		must(t, err, "sums")
		var places []bigset.PagePlace
		for i := range s.Sums {
			places = append(places, s.Sums[i].PagePlace)
		}
		p, _, err := r.Pages(bg, spec, places)
		must(t, err, "pages")
		pages = append(pages, p.Pages...)
		if s.Done {
			return s.Layers, pages
		}
		after = &places[len(places)-1]
	}
}

func sameSlices(t testing.TB, a, b peer.SliceReplica, when string) {
	t.Helper()
	if da, db := dump(t, a), dump(t, b); da != db || da == "" {
		t.Fatalf("%s: %.3000s\n--- differs from\n%.3000s", when, da, db)
	}
}
