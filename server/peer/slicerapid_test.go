package peer_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

func sortDigests(all peer.SliceDigests) {
	slices.SortFunc(all, func(a, b bigset.SliceDigest) int { return peer.CompareSliceDigests(&a, &b) })
}

// list draws up to most values; none is nil, as decoders have it.
func list[T any](t *rapid.T, what string, most int, draw func(*rapid.T) T) []T {
	all := rapid.SliceOfN(rapid.Custom(draw), 0, most).Draw(t, what)
	if len(all) == 0 {
		return nil
	}
	return all
}

func drawSpec(t *rapid.T) bigset.SliceSpec {
	o := bigset.FilterOptions{Durability: bigset.FilterDurability(rapid.IntRange(0, int(bigset.FilterSync)).Draw(t, "durability"))}
	o.Slices = 1 << rapid.IntRange(0, 12).Draw(t, "log slices")
	o.Owners = rapid.Uint32Range(1, bloomslice.OwnersMax).Draw(t, "owners")
	o.Capacity = rapid.Uint64Range(100*uint64(o.Slices)*uint64(o.Owners)+bloomslice.CapacityMin, 1<<30).Draw(t, "capacity")
	o.Probability = rapid.Float64Range(1e-12, 0.09).Draw(t, "probability")
	o.Scale = rapid.SampledFrom([]uint32{2, 4}).Draw(t, "scale")
	o.Reduction = rapid.Float64Range(0.11, 0.99).Draw(t, "reduction")
	return bigset.SliceSpec{
		Name:       append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "name")...),
		Slice:      rapid.Uint32Range(0, o.Slices-1).Draw(t, "slice"),
		Generation: rapid.Uint64Min(1).Draw(t, "generation"), Options: o,
	}
}

// drawLayers draws layers in order.
func drawLayers(t *rapid.T) []bloomslice.Layer {
	layers := list(t, "layers", 6, func(t *rapid.T) bloomslice.Layer {
		return bloomslice.Layer{
			ID:    bloomslice.LayerID{Index: rapid.Uint16().Draw(t, "index"), Owner: rapid.StringN(0, 8, 255).Draw(t, "owner")},
			Shape: bloomslice.Shape{Bytes: rapid.Uint64Range(512, bloomslice.LayerBytesMax).Draw(t, "bytes"), K: rapid.Uint32Range(1, 4096).Draw(t, "k"), Capacity: rapid.Uint64Min(1).Draw(t, "capacity")},
			Count: rapid.Uint64().Draw(t, "count"),
		}
	})
	order := func(a, b bloomslice.Layer) int {
		return peerOrder(bigset.PagePlace{Layer: a.ID}, bigset.PagePlace{Layer: b.ID})
	}
	slices.SortFunc(layers, order)
	return slices.CompactFunc(layers, func(a, b bloomslice.Layer) bool { return order(a, b) == 0 })
}

// peerOrder is the order of places as it is documented.
func peerOrder(a, b bigset.PagePlace) int {
	for _, less := range [][2]bool{
		{a.Layer.Index < b.Layer.Index, b.Layer.Index < a.Layer.Index},
		{len(a.Layer.Owner) < len(b.Layer.Owner), len(b.Layer.Owner) < len(a.Layer.Owner)},
		{a.Layer.Owner < b.Layer.Owner, b.Layer.Owner < a.Layer.Owner},
		{a.Page < b.Page, b.Page < a.Page},
	} {
		if less[0] {
			return -1
		}
		if less[1] {
			return 1
		}
	}
	return 0
}

// drawPlaces draws places in those layers, in order.
func drawPlaces(t *rapid.T, layers []bloomslice.Layer) []bigset.PagePlace {
	if len(layers) == 0 {
		return nil
	}
	places := list(t, "places", 12, func(t *rapid.T) bigset.PagePlace {
		l := rapid.SampledFrom(layers).Draw(t, "layer")
		return bigset.PagePlace{Layer: l.ID, Page: rapid.Uint32Range(0, uint32((l.Shape.Bytes-1)/bloomslice.PageBytes)).Draw(t, "page")}
	})
	slices.SortFunc(places, peerOrder)
	return slices.Compact(places)
}

func drawHash(t *rapid.T) (h bloomslice.Hash) {
	for i := range h {
		h[i] = rapid.Uint64().Draw(t, "hash")
	}
	return h
}

func drawMarks(t *rapid.T) bigset.Marks {
	m := bigset.Marks{SliceSpec: drawSpec(t), Layers: drawLayers(t)}
	if len(m.Layers) > 0 {
		m.Layers = rapid.Permutation(m.Layers).Draw(t, "order")
		m.Marks = list(t, "marks", 20, func(t *rapid.T) bigset.Mark {
			return bigset.Mark{Layer: rapid.IntRange(0, len(m.Layers)-1).Draw(t, "layer"), Hash: drawHash(t)}
		})
	}
	return m
}

func drawSum(t *rapid.T) (sum [16]byte) {
	copy(sum[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "sum"))
	return sum
}

func drawDigests(t *rapid.T) peer.SliceDigests {
	specs := list(t, "filters", 3, drawSpec)
	if len(specs) == 0 {
		return nil
	}
	all := peer.SliceDigests(list(t, "digests", 10, func(t *rapid.T) bigset.SliceDigest {
		s := bigset.SliceDigest{SliceSpec: rapid.SampledFrom(specs).Draw(t, "spec"), Sum: drawSum(t)}
		s.Slice = rapid.Uint32Range(0, s.Options.Slices-1).Draw(t, "slice")
		if rapid.Bool().Draw(t, "dropped") {
			s.Dropped, s.Sum, s.Options = true, [16]byte{}, bigset.FilterOptions{Options: bloomslice.Options{Slices: s.Options.Slices}}
		}
		return s
	}))
	sortDigests(all)
	return slices.CompactFunc(all, func(a, b bigset.SliceDigest) bool { return peer.CompareSliceDigests(&a, &b) == 0 })
}

// drawSliceMessage draws a message of any kind about slices.
func drawSliceMessage(t *rapid.T) peer.Message {
	bools := func() []bool {
		return list(t, "answers", 40, func(t *rapid.T) bool { return rapid.Bool().Draw(t, "answer") })
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		return peer.Mark{Spec: drawSpec(t), Hashes: list(t, "keys", 20, drawHash)}
	case 1:
		return peer.Check{Spec: drawSpec(t), Hashes: list(t, "keys", 20, drawHash)}
	case 2:
		return peer.Marks(drawMarks(t))
	case 3:
		return peer.Marked{Marks: drawMarks(t), Added: bools()}
	case 4:
		return peer.KeyAnswers(bools())
	case 5:
		s := drawSpec(t)
		return peer.DropGeneration{Name: s.Name, Slices: s.Options.Slices, Generation: s.Generation}
	case 6:
		return peer.FlushSlice{Spec: drawSpec(t)}
	case 7:
		return drawDigests(t)
	case 8:
		m := peer.AskPageSums{Spec: drawSpec(t), Most: rapid.IntRange(0, bigset.PageSumsMax).Draw(t, "most")}
		if places := drawPlaces(t, drawLayers(t)); len(places) > 0 {
			m.After = &places[0]
		}
		return m
	case 9:
		m := peer.PageSums{Layers: drawLayers(t)}
		for _, p := range drawPlaces(t, m.Layers) {
			m.Sums = append(m.Sums, bigset.PageSum{PagePlace: p, Sum: rapid.Uint64().Draw(t, "sum")})
		}
		m.Done = len(m.Sums) == 0 || rapid.Bool().Draw(t, "done")
		return m
	case 10:
		return peer.AskPages{Spec: drawSpec(t), Places: drawPlaces(t, drawLayers(t))}
	}
	m := peer.SlicePages{SliceSpec: drawSpec(t), Layers: drawLayers(t)}
	for _, p := range drawPlaces(t, m.Layers) {
		m.Pages = append(m.Pages, bigset.SlicePage{PagePlace: p, Value: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "value")})
	}
	return m
}

// TestSliceFramesRoundTrip sends messages of any content: what comes is what went.
func TestSliceFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawSliceMessage(t)
		b, err := peer.Append(nil, alice, m)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		got, from, err := peer.Decode(b)
		if err != nil || from != alice || !reflect.DeepEqual(got, m) {
			t.Fatalf("from %v: %v\ngot  %+v\nwant %+v", from, err, got, m)
		}
	})
}
