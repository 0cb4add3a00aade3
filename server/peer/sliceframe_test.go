package peer_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

var (
	plainFilter  = bigset.FilterOptions{Options: bloomslice.Options{Capacity: 100_000, Probability: 1e-4, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1}}
	slicedFilter = bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1e6, Probability: 0.01, Scale: 2, Reduction: 0.5, Slices: 8, Owners: 3}, Durability: bigset.FilterSync}
)

func slice(name string, i uint32, generation uint64, o bigset.FilterOptions) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte(name), Slice: i, Generation: generation, Options: o}
}

func layerOf(owner string, index uint16) bloomslice.LayerID {
	return bloomslice.LayerID{Index: index, Owner: owner}
}

func place(id bloomslice.LayerID, page uint32) bigset.PagePlace {
	return bigset.PagePlace{Layer: id, Page: page}
}

// sliceLayers are in order: of 3, 300 and 1 pages.
func sliceLayers() []bloomslice.Layer {
	return []bloomslice.Layer{
		{ID: layerOf("bob", 0), Shape: bloomslice.Shape{Bytes: 2*bloomslice.PageBytes + 1, K: 16, Capacity: 5_000}, Count: 5_000},
		{ID: layerOf("alice", 0), Shape: bloomslice.Shape{Bytes: 300 * bloomslice.PageBytes, K: 16, Capacity: 500_000}, Count: 300},
		{ID: layerOf("alice", 1), Shape: bloomslice.Shape{Bytes: 1, K: 1, Capacity: 1}},
	}
}

// sliceSamples has messages about slices of bloom filters.
func sliceSamples() []sample {
	first, second := bloomslice.Hash{1, 2, 3, 1 << 63}, bloomslice.Hash{0xFFFFFFFFFFFFFFFF}
	spec, layers := slice("filter", 5, 300, slicedFilter), sliceLayers()
	marks := bigset.Marks{SliceSpec: spec, Layers: layers[1:], Marks: []bigset.Mark{{Layer: 1, Hash: first}, {Hash: second}, {Layer: 1, Hash: second}}}
	alone := slice("", 0, 1, plainFilter)
	return []sample{
		{"mark", peer.Mark{Spec: spec, Hashes: []bloomslice.Hash{first, second}}},
		{"check", peer.Check{Spec: alone, Hashes: []bloomslice.Hash{second}}},
		{"check-nothing", peer.Check{Spec: alone}},
		{"marks", peer.Marks(marks)},
		{"marks-none", peer.Marks{SliceSpec: alone}},
		{"marked", peer.Marked{Marks: marks, Added: []bool{true, false, true}}},
		{"key-answers", peer.KeyAnswers{false, true, false, false, false, false, false, true, true, false, true}},
		{"key-answers-eight", peer.KeyAnswers{true, true, true, true, true, true, true, true}},
		{"key-answers-none", peer.KeyAnswers(nil)},
		{"drop-generation", peer.DropGeneration{Name: []byte("filter"), Slices: 8, Generation: math.MaxUint64}},
		{"flush-slice", peer.FlushSlice{Spec: spec}},
		{"slice-digests", sliceDigestSample()},
		{"slice-digests-none", peer.SliceDigests(nil)},
		{"ask-page-sums", peer.AskPageSums{Spec: spec, After: &bigset.PagePlace{Layer: layerOf("alice", 1), Page: 299}, Most: 1000}},
		{"ask-page-sums-first", peer.AskPageSums{Spec: alone}},
		{"page-sums", peer.PageSums{Layers: layers, Sums: []bigset.PageSum{
			{PagePlace: place(layers[1].ID, 0), Sum: 1}, {PagePlace: place(layers[1].ID, 1), Sum: 1 << 63}, {PagePlace: place(layers[1].ID, 299)}, {PagePlace: place(layers[2].ID, 0), Sum: 7}}}},
		{"page-sums-last", peer.PageSums{Layers: layers[:1], Sums: []bigset.PageSum{{PagePlace: place(layers[0].ID, 2), Sum: 3}}, Done: true}},
		{"page-sums-none", peer.PageSums{Done: true}},
		{"ask-pages", peer.AskPages{Spec: spec, Places: []bigset.PagePlace{place(layers[0].ID, 2), place(layers[1].ID, 7), place(layers[1].ID, 16_777_215)}}},
		{"ask-pages-none", peer.AskPages{Spec: spec}},
		{"slice-pages", peer.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{
			{PagePlace: place(layers[0].ID, 0), Value: []byte("w\x80\x01")}, {PagePlace: place(layers[0].ID, 2), Value: []byte("s")}, {PagePlace: place(layers[1].ID, 5), Value: []byte("s\x00\x07")}}}},
		{"slice-pages-of-counts", peer.SlicePages{SliceSpec: spec, Layers: layers}},
	}
}

// sliceDigestSample has slices of two filters, in order; one was dropped.
func sliceDigestSample() peer.SliceDigests {
	dropped := bigset.SliceDigest{SliceSpec: slice("gone", 1, 9, bigset.FilterOptions{Options: bloomslice.Options{Slices: 2}}), Dropped: true}
	all := peer.SliceDigests{
		{SliceSpec: slice("filter", 0, 300, slicedFilter), Sum: [16]byte{1, 15: 2}}, {SliceSpec: slice("filter", 7, 300, slicedFilter), Sum: [16]byte{3}},
		{SliceSpec: slice("other", 0, 4, plainFilter)}, dropped,
	}
	sortDigests(all)
	return all
}

// TestDecodedSliceValues looks at values, which vectors do not show.
func TestDecodedSliceValues(t *testing.T) {
	for _, s := range sliceSamples() {
		b := encode(t, alice, s.m)
		m, _, err := peer.Decode(b)
		if err != nil || !reflect.DeepEqual(m, s.m) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", s.name, err, m, s.m)
		}
		for i := range b {
			b[i] = 0xEE
		}
		if !reflect.DeepEqual(m, s.m) {
			t.Errorf("%s: the message is part of the frame", s.name)
		}
	}
}

// be is a number of 8 bytes.
func be(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }

func TestRefusedSliceFrames(t *testing.T) {
	head := func(kind byte) []byte { return append([]byte{1, kind, 5}, "alice\x02A1\x01"...) }
	options := func(capacity string, probability float64, scale string, reduction float64, slicesOwners string, durability byte) string {
		return capacity + be(math.Float64bits(probability)) + scale + be(math.Float64bits(reduction)) + slicesOwners + string(rune(durability))
	}
	good := options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x02\x01", 0)
	spec := "\x01f\x01\x09" + good
	hash := strings.Repeat("h", 32)
	layer := func(index, owner string) string { return index + owner + "\x81\x40\x10\x64\x05" } // 8193 bytes: 3 pages
	two := "\x02" + layer("\x00", "\x00\x01A") + layer("\x01", "\x00")
	for _, c := range []struct {
		name string
		kind byte
		body string
		want error // beside ErrFrame; nil is a frame that is taken: the rest differ from one by what they are refused for
	}{
		{"good spec", 'f', spec, nil},
		{"good options", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x02\x01", 3), nil},
		{"long name", 'f', "\xC9\x01" + strings.Repeat("f", 201) + spec[2:], peer.ErrFrameTooLarge},
		{"slice that is not there", 'f', "\x01f\x02\x09" + good, peer.ErrFrame},
		{"generation 0", 'f', "\x01f\x01\x00" + good, peer.ErrFrame},
		{"slice beyond 32 bits", 'f', "\x01f\x81\x80\x80\x80\x10\x09" + good, peer.ErrFrame},
		{"low capacity", 'f', "\x01f\x01\x09" + options("\x07", 1e-4, "\x04", 0.9, "\x02\x01", 0), bloomslice.ErrOptions},
		{"no probability", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", math.NaN(), "\x04", 0.9, "\x02\x01", 0), bloomslice.ErrOptions},
		{"scale 3", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x03", 0.9, "\x02\x01", 0), bloomslice.ErrOptions},
		{"scale beyond 32 bits", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x84\x80\x80\x80\x10", 0.9, "\x02\x01", 0), peer.ErrFrame},
		{"reduction 1", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 1, "\x02\x01", 0), bloomslice.ErrOptions},
		{"slices by default", 'f', "\x01f\x00\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x00\x01", 0), peer.ErrFrame},
		{"three slices", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x03\x01", 0), peer.ErrFrame},
		{"owners by default", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x02\x00", 0), peer.ErrFrame},
		{"many owners", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x02\x81\x02", 0), bloomslice.ErrOptions},
		{"no such durability", 'f', "\x01f\x01\x09" + options("\xA0\x8D\x06", 1e-4, "\x04", 0.9, "\x02\x01", 4), peer.ErrFrame},

		{"good keys", 'm', spec + "\x02" + hash + hash, nil},
		{"half a hash", 'c', spec + "\x01" + hash[:31], peer.ErrFrame},
		{"more keys than may be", 'c', spec + "\x81\x80\x01" + strings.Repeat(hash, bigset.MarksMax+1), peer.ErrFrameTooLarge},
		{"more keys than bytes", 'm', spec + "\x03" + hash + hash, peer.ErrFrame},

		{"good marks", 'd', spec + two + "\x01\x01" + hash, nil},
		{"mark in no layer", 'd', spec + two + "\x01\x02" + hash, peer.ErrFrame},
		{"layer twice", 'd', spec + "\x02" + layer("\x00", "\x00\x01A") + layer("\x00", "\x00") + "\x00", peer.ErrFrame},
		{"more layers than may be", 'd', spec + "\x81\x20" + strings.Repeat("\x00", 6*4097), peer.ErrFrameTooLarge},
		{"more layers than bytes", 'd', spec + "\x03" + two[1:], peer.ErrFrame},
		{"long name of an owner", 'd', spec + "\x01" + layer("\x00", "\x00\x80\x02"+strings.Repeat("A", 256)) + "\x00", peer.ErrFrameTooLarge},
		{"owner that was not named", 'd', spec + "\x01" + layer("\x00", "\x01\x01A") + "\x00", peer.ErrFrame},
		{"owner named twice", 'd', spec + "\x02" + layer("\x00", "\x00\x01A") + layer("\x01", "\x01\x01A") + "\x00", peer.ErrFrame},
		{"index beyond 16 bits", 'd', spec + "\x01" + layer("\x80\x80\x04", "\x00\x01A") + "\x00", peer.ErrFrame},
		{"layer of no bytes", 'd', spec + "\x01\x00\x00\x01A\x00\x10\x64\x05" + "\x00", bloomslice.ErrOptions},
		{"more bits a key than bits", 'd', spec + "\x01\x00\x00\x01A\x01\x10\x64\x05" + "\x00", bloomslice.ErrOptions},
		{"bits a key beyond 32 bits", 'd', spec + "\x01\x00\x00\x01A\x81\x40\x90\x80\x80\x80\x10\x64\x05" + "\x00", peer.ErrFrame},
		{"layer for no keys", 'd', spec + "\x01\x00\x00\x01A\x81\x40\x10\x00\x05" + "\x00", bloomslice.ErrOptions},
		{"largest layer and a byte", 'd', spec + "\x01\x00\x00\x01A\x81\x80\x80\x80\x80\x02\x10\x64\x05" + "\x00", bloomslice.ErrOptions},

		{"good answers", 'v', "\x09\xFF\x01", nil},
		{"answers after the last", 'v', "\x09\xFF\x02", peer.ErrFrame},
		{"fewer answers", 'v', "\x09\xFF", peer.ErrFrame},
		{"more answers than may be", 'v', "\x81\x80\x01" + strings.Repeat("\x00", 2049), peer.ErrFrame},
		{"marked without answers", 'n', spec + two + "\x00", peer.ErrFrame},

		{"good drop", 'x', "\x01f\x02\x01", nil},
		{"drop of no generation", 'x', "\x01f\x02\x00", peer.ErrFrame},
		{"drop of three slices", 'x', "\x01f\x03\x01", peer.ErrFrame},
		{"drop of too many slices", 'x', "\x01f\x80\x40\x01", peer.ErrFrame},

		{"good digests", 'g', "\x02\x01f\x00\x09\x00\x02\x01f\x01\x09\x01" + good + "0123456789abcdef", nil},
		{"digests in no order", 'g', "\x02\x01f\x01\x09\x01" + good + "0123456789abcdef" + "\x01f\x00\x09\x00\x02", peer.ErrFrame},
		{"digest twice", 'g', "\x02\x01f\x00\x09\x00\x02\x01f\x00\x0A\x00\x02", peer.ErrFrame},
		{"options out of their place", 'g', "\x01\x01f\x01\x09\x02" + good + "0123456789abcdef", peer.ErrFrame},
		{"options named twice", 'g', "\x02\x01f\x00\x09\x01" + good + "0123456789abcdef" + "\x01f\x01\x09\x02" + good + "0123456789abcdef", peer.ErrFrame},
		{"dropped slice that is not there", 'g', "\x01\x01f\x02\x09\x00\x02", peer.ErrFrame},
		{"more digests than may be", 'g', "\x81\x80\x04" + strings.Repeat("\x00", 65537*5), peer.ErrFrameTooLarge},
		{"more digests than bytes", 'g', "\x02\x01f\x00\x09\x00\x02", peer.ErrFrame},

		{"good question for sums", 'h', spec + "\x05\x01\x07\x01\x00\x01A", nil},
		{"more sums than may be asked for", 'h', spec + "\x81\x80\x02\x00", peer.ErrFrame},
		{"page that no layer has", 'h', spec + "\x05\x01\x80\x80\x80\x08\x01\x00\x01A", peer.ErrFrame},
		{"neither from the start nor not", 'h', spec + "\x05\x02\x07\x01\x00\x01A", peer.ErrFrame},

		{"good sums", 'k', "\x01" + two + "\x02\x00" + be(1) + "\x01" + be(2) + "\x00", nil},
		{"sum after the last page", 'k', "\x01" + two + "\x02\x00" + be(1) + "\x02" + be(2) + "\x00", peer.ErrFrame},
		{"sum far after the last page", 'k', "\x01" + two + "\x02\x00" + be(1) + "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01" + be(2) + "\x00", peer.ErrFrame},
		{"layers in no order", 'k', "\x01\x02" + layer("\x01", "\x00\x01A") + layer("\x00", "\x00") + "\x00\x00", peer.ErrFrame},
		{"owners in no order", 'k', "\x01\x02" + layer("\x00", "\x00\x01B") + layer("\x00", "\x01\x01A") + "\x00\x00", peer.ErrFrame},
		{"no sums and not done", 'k', "\x00" + two + "\x00\x00", peer.ErrFrame},
		{"more sums than bytes", 'k', "\x01" + two + "\x00\x02\x00" + be(1), peer.ErrFrame},
		{"more sums than may be", 'k', "\x01" + two + "\x00\x81\x80\x02" + strings.Repeat("\x00", 9*32769), peer.ErrFrameTooLarge},

		{"good question for pages", 'e', spec + "\x02\x00\x00\x01A\x01\x00" + "\x01\x07\x02\x00\x05", nil},
		{"layer without pages", 'e', spec + "\x02\x00\x00\x01A\x01\x00" + "\x00\x02\x00\x05", peer.ErrFrame},
		{"places in no order", 'e', spec + "\x02\x01\x00\x01A\x00\x00" + "\x01\x07\x02\x00\x05", peer.ErrFrame},
		{"more pages than may be asked for", 'e', spec + "\x01\x00\x00\x01A\x81\x04" + strings.Repeat("\x00", 513), peer.ErrFrameTooLarge},
		{"more pages of two layers", 'e', spec + "\x02\x00\x00\x01A\x01\x00\x80\x04" + strings.Repeat("\x00", 512) + "\x01\x00", peer.ErrFrameTooLarge},

		{"good pages", 'p', spec + two + "\x01\x02\x01w\x00", nil},
		{"page after the last", 'p', spec + two + "\x01\x03\x01w\x00", peer.ErrFrame},
		{"page of no bytes", 'p', spec + two + "\x01\x02\x00\x00", peer.ErrFrame},
		{"page of a byte more", 'p', spec + two + "\x01\x02\x82\x20" + strings.Repeat("w", 4098) + "\x00", peer.ErrFrameTooLarge},
		{"pages of layers in no order", 'p', spec + "\x02" + layer("\x01", "\x00\x01A") + layer("\x00", "\x00") + "\x00\x00", peer.ErrFrame},
	} {
		b := seal(append(head(c.kind), c.body...))
		m, _, err := peer.Decode(b)
		if c.want == nil {
			if again, e := peer.AppendVersion(nil, 1, alice, m); err != nil || e != nil || !bytes.Equal(again, b) {
				t.Errorf("%s: %v, %v", c.name, err, e)
			}
			continue
		}
		if !errors.Is(err, c.want) || !errors.Is(err, peer.ErrFrame) || m != nil {
			t.Errorf("%s: %v, error %v, want %v", c.name, m, err, c.want)
		}
	}
}

func TestUnsendableOfSlices(t *testing.T) {
	spec, layers := slice("f", 1, 9, slicedFilter), sliceLayers()
	options := func(change func(*bigset.FilterOptions)) bigset.SliceSpec {
		s := spec
		change(&s.Options)
		return s
	}
	sum := func(id bloomslice.LayerID, page uint32) bigset.PageSum {
		return bigset.PageSum{PagePlace: place(id, page)}
	}
	page := func(id bloomslice.LayerID, page uint32, n int) bigset.SlicePage {
		return bigset.SlicePage{PagePlace: place(id, page), Value: make([]byte, n)}
	}
	backwards := []bloomslice.Layer{layers[1], layers[0]}
	long := bloomslice.LayerID{Owner: strings.Repeat("o", bloomslice.OwnerBytesMax+1)}
	for i, c := range []struct {
		m    peer.Message
		want error
	}{
		{peer.FlushSlice{Spec: options(func(o *bigset.FilterOptions) { o.InMemory = true })}, peer.ErrFrame},
		{peer.FlushSlice{Spec: options(func(o *bigset.FilterOptions) { o.Owners = 0 })}, peer.ErrFrame},
		{peer.FlushSlice{Spec: options(func(o *bigset.FilterOptions) { o.Slices = 0 })}, peer.ErrFrame},
		{peer.FlushSlice{Spec: options(func(o *bigset.FilterOptions) { o.Durability = 4 })}, peer.ErrFrame},
		{peer.FlushSlice{Spec: options(func(o *bigset.FilterOptions) { o.Capacity = 1 })}, bloomslice.ErrOptions},
		{peer.FlushSlice{Spec: slice("f", 8, 9, slicedFilter)}, peer.ErrFrame},
		{peer.FlushSlice{Spec: slice("f", 1, 0, slicedFilter)}, peer.ErrFrame},
		{peer.FlushSlice{Spec: slice(strings.Repeat("f", 201), 1, 9, slicedFilter)}, peer.ErrFrameTooLarge},
		{peer.Mark{Spec: spec, Hashes: make([]bloomslice.Hash, bigset.MarksMax+1)}, peer.ErrFrameTooLarge},
		{peer.Check{Hashes: make([]bloomslice.Hash, 1)}, peer.ErrFrame},
		{peer.KeyAnswers(make([]bool, bigset.MarksMax+1)), peer.ErrFrameTooLarge},
		{peer.Marks{SliceSpec: spec, Layers: layers, Marks: []bigset.Mark{{Layer: 3}}}, peer.ErrFrame},
		{peer.Marks{SliceSpec: spec, Layers: layers, Marks: []bigset.Mark{{Layer: -1}}}, peer.ErrFrame},
		{peer.Marks{SliceSpec: spec, Layers: layers, Marks: make([]bigset.Mark, bigset.MarksMax+1)}, peer.ErrFrameTooLarge},
		{peer.Marks{SliceSpec: spec, Layers: append(sliceLayers(), layers[0])}, peer.ErrFrame},
		{peer.Marks{SliceSpec: spec, Layers: []bloomslice.Layer{{ID: layers[0].ID}}}, bloomslice.ErrOptions},
		{peer.Marks{SliceSpec: spec, Layers: []bloomslice.Layer{{ID: long, Shape: layers[0].Shape}}}, peer.ErrFrameTooLarge},
		{peer.DropGeneration{Name: []byte("f"), Slices: 3, Generation: 1}, peer.ErrFrame},
		{peer.DropGeneration{Name: []byte("f"), Slices: 2}, peer.ErrFrame},
		{peer.SliceDigests{{SliceSpec: spec}, {SliceSpec: spec}}, peer.ErrFrame},
		{peer.SliceDigests{{SliceSpec: spec, Dropped: true}}, peer.ErrFrame},
		{peer.SliceDigests{{SliceSpec: slice("f", 0, 9, bigset.FilterOptions{Options: bloomslice.Options{Slices: 1}}), Dropped: true, Sum: [16]byte{1}}}, peer.ErrFrame},
		{peer.SliceDigests{{SliceSpec: slice("f", 0, 9, bigset.FilterOptions{Options: bloomslice.Options{Slices: 1}})}}, peer.ErrFrame},
		{peer.AskPageSums{Spec: spec, Most: -1}, peer.ErrFrameTooLarge},
		{peer.AskPageSums{Spec: spec, Most: bigset.PageSumsMax + 1}, peer.ErrFrameTooLarge},
		{peer.AskPageSums{Spec: spec, After: &bigset.PagePlace{Page: 1 << 24}}, peer.ErrFrame},
		{peer.AskPageSums{Spec: spec, After: &bigset.PagePlace{Layer: long}}, peer.ErrFrameTooLarge},
		{peer.PageSums{Layers: layers}, peer.ErrFrame},
		{peer.PageSums{Layers: backwards, Done: true}, peer.ErrFrame},
		{peer.PageSums{Layers: layers, Done: true, Sums: []bigset.PageSum{sum(layers[0].ID, 1), sum(layers[0].ID, 1)}}, peer.ErrFrame},
		{peer.PageSums{Layers: layers, Done: true, Sums: []bigset.PageSum{sum(layers[1].ID, 1), sum(layers[0].ID, 1)}}, peer.ErrFrame},
		{peer.PageSums{Layers: layers, Done: true, Sums: []bigset.PageSum{sum(layers[0].ID, 3)}}, peer.ErrFrame},
		{peer.PageSums{Layers: layers[:1], Done: true, Sums: []bigset.PageSum{sum(layers[1].ID, 3)}}, peer.ErrFrame},
		{peer.PageSums{Layers: layers, Sums: make([]bigset.PageSum, bigset.PageSumsMax+1)}, peer.ErrFrameTooLarge},
		{peer.AskPages{Spec: spec, Places: make([]bigset.PagePlace, bigset.PagesMax+1)}, peer.ErrFrameTooLarge},
		{peer.AskPages{Spec: spec, Places: make([]bigset.PagePlace, 2)}, peer.ErrFrame},
		{peer.AskPages{Spec: spec, Places: []bigset.PagePlace{place(layerOf("b", 0), 1), place(layerOf("a", 0), 1)}}, peer.ErrFrame},
		{peer.AskPages{Spec: spec, Places: []bigset.PagePlace{place(layerOf("b", 0), 1<<24)}}, peer.ErrFrame},
		{peer.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{page(layers[0].ID, 0, 0)}}, peer.ErrFrame},
		{peer.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{page(layers[0].ID, 0, bloomslice.PageBytes+2)}}, peer.ErrFrame},
		{peer.SlicePages{SliceSpec: spec, Layers: layers, Pages: []bigset.SlicePage{page(layers[2].ID, 1, 1)}}, peer.ErrFrame},
		{peer.SlicePages{SliceSpec: spec, Layers: layers, Pages: make([]bigset.SlicePage, bigset.PagesMax+1)}, peer.ErrFrameTooLarge},
		{peer.SlicePages{SliceSpec: spec, Layers: backwards}, peer.ErrFrame},
	} {
		if b, err := peer.Append([]byte("kept"), alice, c.m); !errors.Is(err, c.want) || !errors.Is(err, peer.ErrFrame) || string(b) != "kept" {
			t.Errorf("%d: %T: %d bytes, error %v, want %v", i, c.m, len(b), err, c.want)
		}
	}
}

// TestLargestOfSlicesFit sends the most that a message about slices may hold.
func TestLargestOfSlicesFit(t *testing.T) {
	spec := slice(strings.Repeat("f", 200), 7, math.MaxUint64, slicedFilter)
	var layers []bloomslice.Layer
	for i := range bloomslice.LayersMax {
		layers = append(layers, bloomslice.Layer{ID: layerOf(fmt.Sprintf("%0255d", i), uint16(i)), Shape: bloomslice.Shape{Bytes: bloomslice.LayerBytesMax, K: bloomslice.HashesMax, Capacity: math.MaxUint64}, Count: math.MaxUint64})
	}
	last := len(layers) - 1
	marks := bigset.Marks{SliceSpec: spec, Layers: layers, Marks: make([]bigset.Mark, bigset.MarksMax)}
	for i := range marks.Marks {
		marks.Marks[i].Layer = last
	}
	sums, asked := peer.PageSums{Layers: layers}, peer.AskPages{Spec: spec}
	pages := peer.SlicePages{SliceSpec: spec, Layers: layers}
	for i := range bigset.PageSumsMax {
		sums.Sums = append(sums.Sums, bigset.PageSum{PagePlace: place(layers[last].ID, uint32(i*512))})
	}
	for i := range bigset.PagesMax {
		at := place(layers[i].ID, 1<<24-1)
		asked.Places = append(asked.Places, at)
		pages.Pages = append(pages.Pages, bigset.SlicePage{PagePlace: at, Value: make([]byte, bloomslice.PageBytes+1)})
	}
	digests := make(peer.SliceDigests, peer.DigestsMax)
	for i := range digests {
		o := slicedFilter
		o.Capacity = 1<<33 + uint64(i)
		digests[i].SliceSpec = slice(fmt.Sprintf("%0200d", i), 0, math.MaxUint64, o)
	}
	sortDigests(digests)
	for _, m := range []peer.Message{peer.Marked{Marks: marks, Added: make([]bool, bigset.MarksMax)}, sums, asked, pages, digests} {
		b := encode(t, alice, m)
		got, _, err := peer.Decode(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T of %d bytes: %v", m, len(b), err)
		}
		t.Logf("%T: %d bytes", m, len(b))
	}
}

func TestRefusedOfSlices(t *testing.T) {
	for _, err := range []error{bigset.ErrNoFilter, bloomslice.ErrOptions, peer.ErrFrame} {
		if wrapped := fmt.Errorf("on its way: %w", err); !peer.Refused(wrapped) {
			t.Errorf("%v may be done by others", err)
		}
	}
	if peer.Refused(peer.ErrJoining) {
		t.Error("what a replica that is joining can't do others can")
	}
}
