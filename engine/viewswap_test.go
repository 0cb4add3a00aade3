package engine_test

import (
	"reflect"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

// TestSwapAfterView: a reader has taken its view; before it opens its iterator, one batch removes two elements, and the rewriter
// swaps a span with the key of one of them. The reader shows both elements or none.
func TestSwapAfterView(t *testing.T) {
	names := elementNames(0, 200)
	first, last := names[0], names[len(names)-1]
	for _, c := range []struct {
		what string
		read func(t *testing.T, p *pair) (hasFirst, hasLast bool)
	}{
		{"read", func(t *testing.T, p *pair) (bool, bool) { return shows(p, t, bigset.ReadOptions{}, first, last) }},
		{"reverse", func(t *testing.T, p *pair) (bool, bool) {
			return shows(p, t, bigset.ReadOptions{Reverse: true}, first, last)
		}},
		{"digests", func(t *testing.T, p *pair) (bool, bool) {
			x := bigset.ElementRange{Within: p.model.Set("s").Seen.Clock(), Mean: 1}
			during, err := p.store.Replica().ElementDigests(bg, []byte("s"), x)
			must(t, err, "digests")
			after, err := p.store.Replica().ElementDigests(bg, []byte("s"), x)
			must(t, err, "digests")
			if !reflect.DeepEqual(during, after) {
				t.Errorf("%d parts in the middle of it, %d afterwards", len(during.Parts), len(after.Parts))
			}
			return false, false
		}},
		{"portion", func(t *testing.T, p *pair) (bool, bool) { return exports(p, t, first, last) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPair("store")
			p.opt.Strategy, p.opt.SpanBytes = eager(compaction.Default()), 1<<10
			p.open(t)
			defer p.close(t)
			p.all(t, "s", keyscheme.OpAdd, names, bigset.Sync)
			calls := 0
			p.store.WhenViewed(func() {
				if calls++; calls > 1 {
					return
				}
				swapped := make(chan struct{})
				go func() {
					defer close(swapped)
					_, err := p.store.Remove(bg, []byte("s"), [][]byte{[]byte(first), []byte(last)}, bigset.WriteOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					if pass, err := p.store.RewriteSpan(bg, []byte("s"), nil, 1); err != nil || !pass.Swapped || pass.Next == nil {
						t.Errorf("%+v, %v", pass, err)
					}
				}()
				<-swapped
			})
			if a, b := c.read(t, p); a != b {
				t.Errorf("of two elements that one batch removed, the reader has %v and %v", a, b)
			}
		})
	}
}

func shows(p *pair, t *testing.T, o bigset.ReadOptions, first, last string) (hasFirst, hasLast bool) {
	for _, e := range p.read(t, "s", o) {
		hasFirst, hasLast = hasFirst || string(e.Name) == first, hasLast || string(e.Name) == last
	}
	return hasFirst, hasLast
}

// exports reports which of two elements a portion of the whole set has. What its Seen has and its Dead has not, it must have a key of.
func exports(p *pair, t *testing.T, first, last string) (hasFirst, hasLast bool) {
	portion, err := p.store.Replica().ExportPortion(bg, []byte("s"), nil, 0)
	must(t, err, "export")
	facts, err := portion.Facts()
	must(t, err, "unpack")
	keys := &clock.Clock{}
	for _, e := range facts.Keys {
		for _, d := range e.Dots {
			keys.Add(d)
		}
		hasFirst, hasLast = hasFirst || string(e.Name) == first, hasLast || string(e.Name) == last
	}
	live := portion.Seen.Clone()
	live.Subtract(portion.Dead)
	if !keys.Descends(live) {
		live.Subtract(keys)
		t.Errorf("seen, not dead, and without a key in the portion: %v", live)
	}
	return hasFirst, hasLast
}
