package keyscheme_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

// filterNames draws names, the longest ones too.
var filterNames = rapid.OneOf(names(0, 9), names(keyscheme.FilterNameBytesMax, keyscheme.FilterNameBytesMax))

var directoryEntries = rapid.Custom(func(t *rapid.T) keyscheme.DirectoryEntry {
	return keyscheme.DirectoryEntry{Name: filterNames.Draw(t, "name"), Slice: rapid.Uint32().Draw(t, "slice"),
		Generation: rapid.OneOf(rapid.Uint64(), rapid.Just(uint64(math.MaxUint64))).Draw(t, "generation"),
		Kind:       rapid.SampledFrom([]keyscheme.EntryKind{keyscheme.EntryDropped, keyscheme.EntryPresent, keyscheme.EntryLeft}).Draw(t, "kind")}
})

// TestFilterKeys: keys of filters are decoded to what they were made of, and lie in the bounds that they belong to, and in no
// other.
func TestFilterKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, slice := filterNames.Draw(t, "name"), rapid.Uint32Range(0, 3).Draw(t, "slice")
		p := keyscheme.NewFilterPrefix(name, slice)
		want := keyscheme.FilterKey{Name: name, Part: rapid.SampledFrom([]keyscheme.FilterPart{'h', 'l', 'p'}).Draw(t, "part")}
		want.Generation = rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Just(uint64(math.MaxUint64))).Draw(t, "generation")
		if want.Part != keyscheme.FilterHead {
			want.Layer = bloomslice.LayerID{Index: rapid.Uint16().Draw(t, "layer"), Owner: string(rapid.OneOf(names(0, 4), names(bloomslice.OwnerBytesMax, bloomslice.OwnerBytesMax)).Draw(t, "owner"))}
		}
		var key []byte
		switch want.Part {
		case keyscheme.FilterHead:
			key = p.AppendHead(nil, want.Generation)
		case keyscheme.FilterLayer:
			key = p.AppendLayer(nil, want.Generation, want.Layer)
		default:
			want.Page = rapid.Uint32().Draw(t, "page")
			key = p.AppendPage(nil, want.Generation, want.Layer, want.Page)
		}
		k, err := keyscheme.Decode(key)
		if err != nil || k.Kind != keyscheme.KindSlotBloom || k.Slot != keyscheme.SlotOf(keyscheme.PartitionFilter, name, slice) {
			t.Fatalf("%x: %+v, %v", key, k, err)
		}
		got, ok := keyscheme.DecodeFilterKey(k.Rest)
		if !ok || !bytes.Equal(got.Name, want.Name) || got.Part != want.Part || got.Generation != want.Generation || got.Layer != want.Layer || got.Page != want.Page {
			t.Fatalf("%x: %+v, want %+v", key, got, want)
		}
		for i := range k.Rest {
			if _, ok := keyscheme.DecodeFilterKey(k.Rest[:i]); ok {
				t.Fatalf("%x is taken", k.Rest[:i])
			}
		}
		if _, ok := keyscheme.DecodeFilterKey(append(bytes.Clone(k.Rest), 0)); ok {
			t.Fatalf("%x is taken with a byte more", k.Rest)
		}
		in := func(b keyscheme.Bounds) bool {
			return bytes.Compare(key, b.Lower) >= 0 && bytes.Compare(key, b.Upper) < 0
		}
		if !in(p.All()) || !in(keyscheme.SlotRange(k.Slot, k.Slot)) {
			t.Fatal("out of its bounds")
		}
		for g := range uint64(4) {
			if in(p.Generation(g)) != (want.Generation == g) || in(p.Layers(g)) != (want.Part == 'l' && want.Generation == g) {
				t.Fatalf("%x: wrong about generation %d", key, g)
			}
		}
		longer := keyscheme.NewFilterPrefix(append(bytes.Clone(name), 0), slice)
		if in(keyscheme.NewFilterPrefix(append([]byte("x"), name...), slice).All()) || in(longer.All()) ||
			in(keyscheme.NewFilterPrefix(name, slice^1).All()) || in(keyscheme.Directory()) {
			t.Fatal("in the bounds of others")
		}
	})
}

// TestDirectoryKeys: entries are decoded to what they were made of; they are in the directory and in no slot.
func TestDirectoryKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := directoryEntries.Draw(t, "entry")
		key := keyscheme.AppendDirectoryKey(nil, want)
		k, err := keyscheme.Decode(key)
		if err != nil || k.Kind != keyscheme.KindDirectory {
			t.Fatalf("%x: %+v, %v", key, k, err)
		}
		got, ok := keyscheme.DecodeDirectoryKey(k.Rest)
		if !ok || !bytes.Equal(got.Name, want.Name) || got.Slice != want.Slice || got.Kind != want.Kind || got.Generation != want.Generation {
			t.Fatalf("%+v, want %+v", got, want)
		}
		of, other := keyscheme.DirectoryOf(want.Kind, want.Name), keyscheme.DirectoryOf(want.Kind^1, want.Name)
		longer := keyscheme.DirectoryOf(want.Kind, append(bytes.Clone(want.Name), 0xFF))
		in := func(b keyscheme.Bounds) bool {
			return bytes.Compare(key, b.Lower) >= 0 && bytes.Compare(key, b.Upper) < 0
		}
		if !in(of) || in(other) || in(longer) {
			t.Fatal("out of the filter's entries, or in another's")
		}
		for _, odd := range [][]byte{append(bytes.Clone(k.Rest), 0), k.Rest[:len(k.Rest)-1], append([]byte{k.Rest[0] + 7}, k.Rest[1:]...)} {
			if e, ok := keyscheme.DecodeDirectoryKey(odd); ok {
				t.Fatalf("%x is taken for %+v", odd, e)
			}
		}
		all, slots := keyscheme.Directory(), keyscheme.SlotRange(0, keyscheme.SlotMax)
		if bytes.Compare(key, all.Lower) < 0 || bytes.Compare(key, all.Upper) >= 0 || bytes.Compare(key, slots.Upper) < 0 {
			t.Fatal("out of the directory")
		}
	})
}

func filterOptions() keyscheme.FilterOptions {
	return keyscheme.FilterOptions{
		Options:    bloomslice.Options{Capacity: 1_000_000, Probability: 1e-7, Scale: 2, Reduction: 0.5, Slices: 1, Owners: 1},
		Generation: 0x0102030405060708, InMemory: true, Durability: keyscheme.FilterSync,
	}
}

func filterLayer() bloomslice.Layer {
	return bloomslice.Layer{Shape: bloomslice.Shape{Bytes: 29957, K: 17, Capacity: 10001}, Count: 10000}
}

// TestFilterValues: values are decoded to what they were made of, small probabilities with their whole precision; all other bytes
// are refused.
func TestFilterValues(t *testing.T) {
	head := keyscheme.AppendFilterHead(nil, filterOptions())
	if got, err := keyscheme.DecodeFilterHead(head); err != nil || got != filterOptions() {
		t.Errorf("%+v, %v", got, err)
	}
	cut := filterOptions()
	cut.Slices, cut.Owners = 16, 3
	if got, err := keyscheme.DecodeFilterHead(keyscheme.AppendFilterHead(nil, cut)); err != nil || got != cut {
		t.Errorf("%+v, %v", got, err)
	}
	layer := keyscheme.AppendFilterLayer(nil, filterLayer())
	if got, err := keyscheme.DecodeFilterLayer(layer); err != nil || got != filterLayer() {
		t.Errorf("%+v, %v", got, err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, keyscheme.ErrCorruptValue) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range head {
		_, err := keyscheme.DecodeFilterHead(head[:i])
		refused("short head", err)
	}
	for i := range layer {
		_, err := keyscheme.DecodeFilterLayer(layer[:i])
		refused("short layer", err)
	}
	bad := filterOptions()
	bad.Probability = 7
	_, err := keyscheme.DecodeFilterHead(keyscheme.AppendFilterHead(nil, bad))
	refused("probability", err)
	_, err = keyscheme.DecodeFilterHead(append(bytes.Clone(head), 0))
	refused("long head", err)
	for at, most := range []byte{1, 1, byte(keyscheme.FilterSync)} { // version, flags, durability
		odd := bytes.Clone(head)
		odd[at] = most + 1
		_, err := keyscheme.DecodeFilterHead(odd)
		refused("odd head", err)
	}
	for d := keyscheme.FilterServer; d <= keyscheme.FilterSync; d++ {
		for _, inMemory := range []bool{false, true} {
			o := filterOptions()
			o.Durability, o.InMemory = d, inMemory
			if got, err := keyscheme.DecodeFilterHead(keyscheme.AppendFilterHead(nil, o)); err != nil || got != o {
				t.Errorf("%+v, %v, want %+v", got, err, o)
			}
		}
	}
	_, err = keyscheme.DecodeFilterLayer(keyscheme.AppendFilterLayer(nil, bloomslice.Layer{}))
	refused("no shape", err)
	_, err = keyscheme.DecodeFilterLayer(append(layer, 0))
	refused("long layer", err)
	for _, version := range []byte{0, 2} {
		odd := bytes.Clone(layer)
		odd[0] = version
		_, err = keyscheme.DecodeFilterLayer(odd)
		refused("odd layer", err)
	}
	wide := binary.AppendUvarint([]byte{1}, 29957)
	for _, n := range []uint64{1<<32 + 17, 10001, 1} { // k would fit without its highest bit
		wide = binary.AppendUvarint(wide, n)
	}
	_, err = keyscheme.DecodeFilterLayer(wide)
	refused("wide k", err)
}

func TestFilterNames(t *testing.T) {
	long := []byte(strings.Repeat("n", keyscheme.FilterNameBytesMax))
	if err := keyscheme.CheckFilterName(long); err != nil {
		t.Error(err)
	}
	longer := append(long, 'n')
	if err := keyscheme.CheckFilterName(longer); !errors.Is(err, keyscheme.ErrNameTooLong) {
		t.Error(err)
	}
	if k, ok := keyscheme.DecodeFilterKey(keyscheme.NewFilterPrefix(longer, 0).AppendHead(nil, 1)[9:]); ok {
		t.Errorf("a key with a name of %d bytes is taken", len(k.Name))
	}
	if e, ok := keyscheme.DecodeDirectoryKey(keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: longer})[9:]); ok {
		t.Errorf("an entry with a name of %d bytes is taken", len(e.Name))
	}
}

func FuzzFilterKeys(f *testing.F) {
	p := keyscheme.NewFilterPrefix([]byte("f"), 0)
	f.Add(p.AppendPage(nil, 1, bloomslice.LayerID{Owner: "o"}, 2)[9:])
	f.Add(keyscheme.AppendFilterHead(nil, filterOptions()))
	f.Add(keyscheme.AppendFilterLayer(nil, filterLayer()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, ok := keyscheme.DecodeFilterKey(b); ok {
			p := keyscheme.NewFilterPrefix(k.Name, 0)
			again := map[keyscheme.FilterPart][]byte{'h': p.AppendHead(nil, k.Generation), 'l': p.AppendLayer(nil, k.Generation, k.Layer), 'p': p.AppendPage(nil, k.Generation, k.Layer, k.Page)}
			if !bytes.Equal(again[k.Part][9:], b) {
				t.Errorf("%x came back as %x", b, again[k.Part][9:])
			}
		}
		if o, err := keyscheme.DecodeFilterHead(b); err == nil && !bytes.Equal(keyscheme.AppendFilterHead(nil, o), b) {
			t.Errorf("head %x came back otherwise", b)
		}
		if l, err := keyscheme.DecodeFilterLayer(b); err == nil && !bytes.Equal(keyscheme.AppendFilterLayer(nil, l), b) {
			t.Errorf("layer %x came back otherwise", b)
		}
	})
}
