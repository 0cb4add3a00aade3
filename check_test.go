package bigset_test

import (
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// TestRefused has, for each thing that a check refuses, a value that is otherwise valid.
func TestRefused(t *testing.T) {
	long := make([]byte, bigset.ElementBytesMax+1)
	dots := make([]clock.Dot, bigset.ContextDotsMax+1)
	for i := range dots {
		dots[i] = dot("A", uint64(i+1))
	}
	wide := &clock.Clock{}
	for i := uint64(1); wide.HeapBytes() <= bigset.WideContextBytesMax; i++ {
		wide.Add(dot("A", i*i*3))
	}
	op := func(f func(*bigset.Op)) error {
		o := bigset.Op{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.Saw(dot("A", 1))}
		f(&o)
		return bigset.CheckOps([]byte("s"), []bigset.Op{o})
	}
	delta := func(f func(*bigset.Delta)) error {
		d := bigset.Delta{Set: []byte("s"), Actor: "A", First: 2, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: []clock.Dot{dot("A", 1)}}}}
		f(&d)
		return d.Check()
	}
	facts := func(f func(*bigset.Facts)) error {
		v := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot("A", 1)}}}}
		f(&v)
		return v.Check()
	}
	options := bloomslice.DefaultOptions()
	options.Slices, options.Owners = 2, 2
	shape, err := options.Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	alone := options
	alone.Owners = 1
	whole, err := alone.Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	layer := bloomslice.Layer{ID: bloomslice.LayerID{Owner: bloomslice.Seat(1).Owner()}, Shape: shape, Count: 1}
	spec := bigset.SliceSpec{Name: []byte("f"), Generation: 1, Options: bigset.FilterOptions{Options: options}}
	hash := bloomslice.Sum([]byte("key"))
	spec.Slice = hash.Slice(options.Slices)
	slice := func(f func(*bigset.SliceSpec)) error {
		s := spec
		f(&s)
		return errors.Join(s.Check(), s.CheckHashes([]bloomslice.Hash{hash}))
	}
	marks := func(f func(*bigset.Marks)) error {
		m := bigset.Marks{SliceSpec: spec, Layers: []bloomslice.Layer{layer}, Marks: []bigset.Mark{{Hash: hash}}}
		f(&m)
		return m.Check()
	}
	pages := func(f func(*bigset.SlicePages)) error {
		p := bigset.SlicePages{SliceSpec: spec, Layers: []bloomslice.Layer{layer}, Pages: []bigset.SlicePage{{PagePlace: bigset.PagePlace{Layer: layer.ID}}}}
		f(&p)
		return p.Check()
	}
	for what, c := range map[string]struct{ got, want error }{
		"op":                            {op(func(*bigset.Op) {}), nil},
		"op of no kind":                 {op(func(o *bigset.Op) { o.Kind = 0 }), bigset.ErrRequest},
		"op of a long element":          {op(func(o *bigset.Op) { o.Element = long }), bigset.ErrLimit},
		"op with many dots":             {op(func(o *bigset.Op) { o.Context.Dots = dots }), bigset.ErrLimit},
		"op with counter 0":             {op(func(o *bigset.Op) { o.Context.Dots = []clock.Dot{dot("A", 0)} }), bigset.ErrContext},
		"op with no actor":              {op(func(o *bigset.Op) { o.Context.Dots = []clock.Dot{dot("", 1)} }), bigset.ErrContext},
		"op with a large clock":         {op(func(o *bigset.Op) { o.Context = bigset.SawAll(wide) }), bigset.ErrLimit},
		"ops on no set":                 {bigset.CheckOps(nil, nil), bigset.ErrRequest},
		"ops on a long name":            {bigset.CheckOps(make([]byte, bigset.SetNameBytesMax+1), nil), bigset.ErrLimit},
		"many ops":                      {bigset.CheckOps([]byte("s"), make([]bigset.Op, bigset.BatchOpsMax+1)), bigset.ErrLimit},
		"a long request":                {bigset.CheckRequest(make([]byte, keyscheme.RequestIDBytesMax+1)), bigset.ErrLimit},
		"a read":                        {bigset.ReadOptions{Limit: 1, BatchSize: bigset.BatchSizeMax}.Check(), nil},
		"a read of large chunks":        {bigset.ReadOptions{BatchSize: bigset.BatchSizeMax + 1}.Check(), bigset.ErrRequest},
		"a read of less than none":      {bigset.ReadOptions{Limit: -1}.Check(), bigset.ErrRequest},
		"a read from a long bound":      {bigset.ReadOptions{After: long}.Check(), bigset.ErrLimit},
		"delta":                         {delta(func(*bigset.Delta) {}), nil},
		"delta from dot 0":              {delta(func(d *bigset.Delta) { d.First = 0 }), bigset.ErrDelta},
		"delta past the last dot":       {delta(func(d *bigset.Delta) { d.First, d.Items = 1<<64-1, append(d.Items, d.Items[0]) }), bigset.ErrDelta},
		"delta of no actor":             {delta(func(d *bigset.Delta) { d.Actor = "" }), bigset.ErrDelta},
		"delta of no kind":              {delta(func(d *bigset.Delta) { d.Items[0].Kind = 'x' }), bigset.ErrDelta},
		"delta with counter 0":          {delta(func(d *bigset.Delta) { d.Items[0].Context[0].Counter = 0 }), bigset.ErrDelta},
		"delta, retried and wide":       {delta(func(d *bigset.Delta) { d.Items[0].Wide, d.Request = &clock.Clock{}, []byte("r") }), bigset.ErrDelta},
		"delta of no set":               {delta(func(d *bigset.Delta) { d.Set = nil }), bigset.ErrRequest},
		"facts":                         {facts(func(*bigset.Facts) {}), nil},
		"facts of no set":               {facts(func(f *bigset.Facts) { f.Set = nil }), bigset.ErrRequest},
		"a key without a dot":           {facts(func(f *bigset.Facts) { f.Keys[0].Dots = nil }), bigset.ErrFacts},
		"a key with counter 0":          {facts(func(f *bigset.Facts) { f.Keys[0].Dots[0].Counter = 0 }), bigset.ErrFacts},
		"two keys with a dot":           {facts(func(f *bigset.Facts) { f.Keys = append(f.Keys, fold.Element{Name: []byte("y"), Dots: f.Keys[0].Dots}) }), bigset.ErrFacts},
		"slice":                         {slice(func(*bigset.SliceSpec) {}), nil},
		"slice in memory":               {slice(func(s *bigset.SliceSpec) { s.Options.InMemory = true }), bigset.ErrRequest},
		"slice of no generation":        {slice(func(s *bigset.SliceSpec) { s.Generation = 0 }), bigset.ErrRequest},
		"slice past the last":           {slice(func(s *bigset.SliceSpec) { s.Slice = 2 }), bigset.ErrRequest},
		"slice of another key":          {slice(func(s *bigset.SliceSpec) { s.Slice ^= 1 }), bigset.ErrRequest},
		"slice of a durability":         {slice(func(s *bigset.SliceSpec) { s.Options.Durability = 9 }), bigset.ErrRequest},
		"slice of a long name":          {slice(func(s *bigset.SliceSpec) { s.Name = make([]byte, keyscheme.FilterNameBytesMax+1) }), bigset.ErrLimit},
		"marks":                         {marks(func(*bigset.Marks) {}), nil},
		"marks of no layer":             {marks(func(m *bigset.Marks) { m.Marks[0].Layer = 1 }), bigset.ErrRequest},
		"marks of a full layer":         {marks(func(m *bigset.Marks) { m.Layers[0].Count = shape.Capacity + 1 }), bigset.ErrRequest},
		"marks of another shape":        {marks(func(m *bigset.Marks) { m.Layers[0].ID.Index = 1 }), bigset.ErrRequest},
		"marks of a seat too many":      {marks(func(m *bigset.Marks) { m.Layers[0].ID.Owner = bloomslice.Seat(2).Owner() }), bigset.ErrRequest},
		"marks of no seat":              {marks(func(m *bigset.Marks) { m.Layers[0].ID.Owner = "node" }), bigset.ErrRequest},
		"marks of seat 0, misspelt":     {marks(func(m *bigset.Marks) { m.Layers[0].ID.Owner = "\x00" }), bigset.ErrRequest},
		"marks of seat 0, from before":  {marks(func(m *bigset.Marks) { m.Layers[0].ID.Owner, m.Layers[0].Shape = "", whole }), nil},
		"marks of seat 1, from before":  {marks(func(m *bigset.Marks) { m.Layers[0].Shape = whole }), bigset.ErrRequest},
		"marks of seat 0, of any shape": {marks(func(m *bigset.Marks) { m.Layers[0].ID.Owner = ""; m.Layers[0].Shape.Bytes++ }), bigset.ErrRequest},
		"pages of no seat":              {pages(func(p *bigset.SlicePages) { p.Layers[0].ID.Owner = "node" }), bigset.ErrRequest},
		"many marks":                    {marks(func(m *bigset.Marks) { m.Marks = make([]bigset.Mark, bigset.MarksMax+1) }), bigset.ErrLimit},
		"pages":                         {pages(func(*bigset.SlicePages) {}), nil},
		"a page without its layer":      {pages(func(p *bigset.SlicePages) { p.Pages[0].Layer.Owner = "b" }), bigset.ErrRequest},
		"many pages":                    {pages(func(p *bigset.SlicePages) { p.Pages = make([]bigset.SlicePage, bigset.PagesMax+1) }), bigset.ErrLimit},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
		var limit *bigset.LimitError
		if errors.Is(c.got, bigset.ErrLimit) && (!errors.As(c.got, &limit) || limit.Got <= limit.Max) {
			t.Errorf("%s: %v does not say how much is too much", what, c.got)
		}
	}
}

// TestElementDigestsJoin: joined parts have the digest of one part of all elements, in whatever order they were added.
func TestElementDigestsJoin(t *testing.T) {
	low := [16]byte{0xff, 8: 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	sums := [][16]byte{low, {0x80, 7: 1, 15: 1}, {3: 9}}
	var all, first, rest bigset.ElementDigest
	for i := range sums {
		all.Add(&sums[len(sums)-1-i])
	}
	first.Add(&sums[0])
	rest.Add(&sums[1])
	rest.Add(&sums[2])
	rest.Bound = []byte("z")
	if first.Join(&rest); !first.Same(&all) || first.Elements != 3 || string(first.Bound) != "z" {
		t.Errorf("%+v, want %+v", first, all)
	}
	if want := [16]byte{0x7f, 3: 9, 7: 2}; all.Sum != want {
		t.Errorf("sum %x, want %x: a carry goes up", all.Sum, want)
	}
}

// TestNextGeneration: a generation is above the last, and above those of nodes that are alone, whose clocks may be ahead, or before
// 1970.
func TestNextGeneration(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	for _, c := range []struct {
		last uint64
		now  time.Time
		want uint64
	}{{0, now, 1_000_000}, {999_999, now, 1_000_000}, {1_000_000, now, 1_000_001}, {5_000_000, now, 5_000_001}, {0, time.UnixMicro(-7), 1}} {
		if got := bigset.NextGeneration(c.last, c.now); got != c.want {
			t.Errorf("after %d at %v: %d, want %d", c.last, c.now, got, c.want)
		}
	}
}

// TestChanged: the answers of a replica are not trusted.
func TestChanged(t *testing.T) {
	t.Parallel()
	a := clock.Actor("a")
	r := bigset.Result{Delta: bigset.Delta{Actor: a, First: 5, Items: []bigset.Item{{Kind: keyscheme.OpAdd}, {Kind: keyscheme.OpAdd, Context: []clock.Dot{{Actor: a, Counter: 1}}}, {Kind: keyscheme.OpRemove}}},
		Dots: []clock.Dot{{Actor: a, Counter: 5}, {Actor: a, Counter: 6}, {}, {Actor: a, Counter: 7}, {Actor: a, Counter: 8}, {Actor: a, Counter: 4}, {Actor: "b", Counter: 5}}}
	for i, want := range []bool{true, false, false, true, false, false, false} {
		if got := r.Changed(i); got != want {
			t.Errorf("operation %d: %v, want %v", i, got, want)
		}
	}
	if r := (bigset.Result{Dots: make([]clock.Dot, 1)}); r.Changed(0) {
		t.Error("nothing changed something")
	}
}
