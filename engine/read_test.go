package engine_test

import (
	"slices"
	"testing"

	"bigset"
	"bigset/fold"
	"bigset/keyscheme"
)

// TestReadScrap: a chunk that is given back is where the next one is, and one that is not is left alone.
func TestReadScrap(t *testing.T) {
	p := newPair("n")
	p.open(t)
	names := elementNames(0, 60)
	p.all(t, "s", keyscheme.OpAdd, names, bigset.NoSync)
	slices.Sort(names)
	var kept, last *fold.Chunk
	o := bigset.ReadOptions{BatchSize: 10, Scrap: func() (c *fold.Chunk) { c, last = last, nil; return c }}
	var place *fold.Element
	var got []string
	reused := 0
	for c, err := range p.store.Read(bg, []byte("s"), o) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Elements {
			got = append(got, string(e.Name))
		}
		if kept == nil {
			kept = c
			continue
		}
		if &c.Elements[0] == place {
			reused++
		}
		last, place = c, &c.Elements[0]
	}
	if reused != 4 || !slices.Equal(got, names) {
		t.Errorf("%d chunks in the memory of another, %d elements", reused, len(got))
	}
	for i, e := range kept.Elements {
		if string(e.Name) != names[i] {
			t.Errorf("%q has become %q", names[i], e.Name)
		}
	}
	p.close(t)
}
