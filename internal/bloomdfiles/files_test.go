package bloomdfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bigset/bloomslice"
)

// zipzab are the bits of the key zipzab alone, as they were read from a real bloomd's files.
var zipzab = []struct {
	o    bloomslice.Options
	k    uint32
	size int64
	bits []int
}{
	{options(20_000, 0.01), 10, 36_456, []int{13807, 55735, 69391, 101482, 126381, 146487, 190459, 210565, 254537, 274643}},
	{options(10_001, 0.0999999), 7, 12_495, []int{4022, 18341, 36881, 45354, 66393, 72453, 90419}},
}

func options(capacity uint64, probability float64) bloomslice.Options {
	o := bloomslice.DefaultOptions()
	o.Capacity, o.Probability = capacity, probability
	return o
}

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// layersOf returns the first n layers, each with the given number of keys.
func layersOf(t testing.TB, o bloomslice.Options, n int, keys uint64) (layers []bloomslice.Layer) {
	for i := range n {
		shape, err := o.Shape(i)
		must(t, err, "shape")
		layers = append(layers, bloomslice.Layer{ID: bloomslice.LayerID{Index: uint16(i)}, Shape: shape, Count: keys})
	}
	return layers
}

// write writes a filter whose layers have only the given pages.
func write(t testing.TB, dir, name string, o bloomslice.Options, layers []bloomslice.Layer, pages ...Page) string {
	t.Helper()
	w, err := Create(dir, name, o, false, layers)
	must(t, err, "create")
	for _, p := range pages {
		must(t, w.Write(p), "write")
	}
	must(t, w.Finish(), "finish")
	return filepath.Join(dir, "bloomd."+name)
}

// TestZipzab writes the bits of one key and finds them where a real bloomd has them, with its head, and reads them again.
func TestZipzab(t *testing.T) {
	for i, c := range zipzab {
		dir, name := t.TempDir(), fmt.Sprint(i)
		layers := layersOf(t, c.o, 1, 1)
		bits := make([]byte, layers[0].Shape.Bytes)
		for _, bit := range c.bits {
			bits[bit/8] |= 0x80 >> (bit % 8)
		}
		var pages []Page
		for page := range slices.Chunk(bits, bloomslice.PageBytes) {
			pages = append(pages, Page{0, uint32(len(pages)), page})
		}
		path := write(t, dir, name, c.o, layers, pages...)
		data, err := os.ReadFile(filepath.Join(path, "data.000.mmap"))
		must(t, err, "read")
		head := append([]byte{0xDD, 0x05, 0x10, 0xCB, byte(c.k), 0, 0, 0, 1}, make([]byte, 512-9)...)
		if int64(len(data)) != c.size || !bytes.Equal(data[:512], head) || !bytes.Equal(data[512:], bits) {
			t.Errorf("%d: %d bytes, head %x", i, len(data), data[:16])
		}
		f, err := Open(dir, name)
		must(t, err, "open")
		if f.Derived != (i == 1) || !slices.Equal(f.Layers, layers) || f.Keys() != 1 || f.Bytes() != uint64(c.size) {
			t.Errorf("%d: %+v, %d keys, %d bytes", i, f.Options, f.Keys(), f.Bytes())
		}
		var back []byte
		for p, err := range f.Pages() {
			must(t, err, "page")
			back = append(back, p.Bits...)
		}
		if !bytes.Equal(back, bits) {
			t.Errorf("%d: other bits came back", i)
		}
	}
}

// TestConfig has the text of a real bloomd's config.ini.
func TestConfig(t *testing.T) {
	const text = `[bloomd]
initial_capacity = 10001
default_probability = 0.000100
scale_size = 4
probability_reduction = 0.900000
in_memory = 0
size = 2
capacity = 10001
bytes = 30469
`
	c, err := ParseConfig(text)
	must(t, err, "parse")
	if want := (Config{options(10_001, 0.0001), false, 2, 10_001, 30_469}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if got := string(AppendConfig(nil, c)); got != text {
		t.Errorf("written as %s", got)
	}
	for _, bad := range []string{"", strings.Replace(text, "size = 2", "size = two", 1), strings.Replace(text, "0.000100", "nan", 1),
		strings.Replace(text, "bytes = 30469\n", "", 1), strings.Replace(text, "10001", "-10001", 1)} {
		if _, err := ParseConfig(bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLostProbability: digits that six decimals do not hold are derived, as few as suffice.
func TestLostProbability(t *testing.T) {
	for _, c := range []struct {
		p     float64
		exact bool // no number with as few digits has the same layers
	}{
		{1e-7, true}, {1e-12, true}, {1.5e-6, true}, {2e-300, true}, {0.00001, true}, {0.0123456, false}, {0.0999999, false}, {1.0 / 1024, false},
	} {
		for _, n := range []int{1, 2, 4} {
			dir, o := t.TempDir(), options(10_001, c.p)
			layers := layersOf(t, o, n, 0)
			write(t, dir, "f", o, layers)
			f, err := Open(dir, "f")
			must(t, err, fmt.Sprint(c.p))
			if c.exact && f.Options != o || !slices.Equal(f.Layers, layers) || !slices.Equal(layersOf(t, f.Options, n, 0), layers) {
				t.Errorf("%v came back as %v, of %d layers", c.p, f.Options.Probability, n)
			}
			if lost := c.p < 1e-5; c.exact && f.Derived != lost {
				t.Errorf("%v: derived %v", c.p, f.Derived)
			}
		}
	}
}

// TestGrownByDefault has a filter that grew after a restart in which its bloomd had lost the probability.
func TestGrownByDefault(t *testing.T) {
	dir, o := t.TempDir(), options(10_001, 1e-7)
	layers := layersOf(t, o, 2, 0)
	layers[1] = layersOf(t, options(10_001, 1e-4), 2, 0)[1]
	write(t, dir, "f", o, layers)
	f, err := Open(dir, "f")
	must(t, err, "open")
	if f.Options.Probability != 1e-7 || !slices.Equal(f.Layers, layers) {
		t.Errorf("%v, %+v", f.Options.Probability, f.Layers)
	}
}

// TestDamaged changes one thing at a time in a good filter.
func TestDamaged(t *testing.T) {
	data := func(n int, change func(b []byte) []byte) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, dataName(n))
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(b), 0o644)
		}
	}
	config := func(old, new string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, configName)
			b, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(b, []byte(old)) {
				return fmt.Errorf("no %q: %w", old, err)
			}
			return os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(new), 1), 0o644)
		}
	}
	remove := func(name string) func(dir string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	for what, damage := range map[string]func(dir string) error{
		"empty":                   data(0, func([]byte) []byte { return nil }),
		"a head only":             data(0, func(b []byte) []byte { return b[:512] }),
		"half a head":             data(0, func(b []byte) []byte { return b[:100] }),
		"wrong magic":             data(1, func(b []byte) []byte { b[0]++; return b }),
		"a byte short":            data(0, func(b []byte) []byte { return b[:len(b)-1] }),
		"half":                    data(1, func(b []byte) []byte { return b[:len(b)/2] }),
		"a byte long":             data(1, func(b []byte) []byte { return append(b, 0) }),
		"wrong k":                 data(0, func(b []byte) []byte { b[4]++; return b }),
		"too many keys":           data(0, func(b []byte) []byte { binary.LittleEndian.PutUint64(b[8:], 10_002); return b }),
		"zeroed":                  data(0, func(b []byte) []byte { clear(b[512:]); return b }),
		"a fifth zeroed":          data(0, func(b []byte) []byte { clear(b[len(b)*4/5:]); return b }),
		"no config":               remove(configName),
		"first file missing":      remove(dataName(0)),
		"last file missing":       remove(dataName(1)),
		"other capacity":          config("initial_capacity = 10001", "initial_capacity = 10002"),
		"other probability":       config("0.010000", "0.010100"),
		"impossible probability":  config("0.010000", "7.000000"),
		"probability 0":           config("0.010000", "0.000000"),
		"other scale":             config("scale_size = 4", "scale_size = 2"),
		"impossible scale":        config("scale_size = 4", "scale_size = 3"),
		"other reduction":         config("0.900000", "0.800000"),
		"impossible reduction":    config("0.900000", "1.900000"),
		"no number":               config("size = 4", "size = x"),
		"more bytes than it has":  config("bytes = ", "bytes = 1"),
		"fewer bytes than it has": config("bytes = 9", "bytes = "),
	} {
		dir, o := t.TempDir(), options(10_001, 0.01)
		layers := layersOf(t, o, 2, 0)
		layers[0].Count = 10_000
		path := write(t, dir, "f", o, layers, halfFull(layers[0].Shape)...)
		must(t, readAll(dir), "good filter")
		must(t, damage(path), what)
		if err := readAll(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		}
	}
}

// halfFull returns pages in which every other bit is set.
func halfFull(s bloomslice.Shape) (pages []Page) {
	for page := range slices.Chunk(bytes.Repeat([]byte{0x55}, int(s.Bytes)), bloomslice.PageBytes) {
		pages = append(pages, Page{0, uint32(len(pages)), page})
	}
	return pages
}

func readAll(dir string) error {
	f, err := Open(dir, "f")
	if err != nil {
		return err
	}
	for _, err := range f.Pages() {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestOlderConfig: a bloomd that was killed after it added a layer has a text that lists less than its files have.
func TestOlderConfig(t *testing.T) {
	dir, o := t.TempDir(), options(10_001, 0.01)
	path := write(t, dir, "f", o, layersOf(t, o, 2, 0))
	c := Config{Options: o, Size: 5, Keys: 10_001, Bytes: 18_486}
	must(t, os.WriteFile(filepath.Join(path, configName), AppendConfig(nil, c), 0o644), "config")
	f, err := Open(dir, "f")
	must(t, err, "open")
	if len(f.Layers) != 2 || f.Config.Size != 5 || f.Keys() != 0 {
		t.Errorf("%+v", f)
	}
}

// TestWritten: a file that is written while it is read is noticed.
func TestWritten(t *testing.T) {
	dir, o := t.TempDir(), options(10_001, 0.01)
	path := write(t, dir, "f", o, layersOf(t, o, 1, 0))
	f, err := Open(dir, "f")
	must(t, err, "open")
	data := filepath.Join(path, dataName(0))
	must(t, os.Chtimes(data, f.files[0].ModTime(), f.files[0].ModTime().Add(1)), "touch")
	var last error
	for _, err := range f.Pages() {
		last = err
	}
	if !errors.Is(last, ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", last)
	}
}

// TestCreateRefuses: Create overwrites nothing, writes nothing outside the folder, and an abort leaves nothing.
func TestCreateRefuses(t *testing.T) {
	dir, o := t.TempDir(), options(10_001, 0.01)
	layers := layersOf(t, o, 1, 0)
	write(t, dir, "there", o, layers)
	if _, err := Create(dir, "there", o, false, layers); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a filter that exists: %v", err)
	}
	for _, name := range []string{"", "a/b", "../x", "a b", "a\x00b", "a\nb"} {
		if _, err := Create(dir, name, o, false, layers); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	owned := slices.Clone(layers)
	owned[0].ID.Owner = "a"
	if _, err := Create(dir, "owned", o, false, owned); !errors.Is(err, ErrLayers) {
		t.Errorf("a layer with an owner: %v", err)
	}
	w, err := Create(dir, "f", o, false, layers)
	must(t, err, "create")
	must(t, w.Abort(), "abort")
	entries, err := os.ReadDir(dir)
	must(t, err, "list")
	if names, _ := Names(dir); len(entries) != 1 || !slices.Equal(names, []string{"there"}) {
		t.Errorf("left: %v, %v", entries, names)
	}
}

// TestInMemory: a filter in memory has its options on disk and nothing else.
func TestInMemory(t *testing.T) {
	dir, o := t.TempDir(), options(20_000, 0.01)
	w, err := Create(dir, "m", o, true, nil)
	must(t, err, "create")
	must(t, w.Finish(), "finish")
	f, err := Open(dir, "m")
	must(t, err, "open")
	if !f.Config.InMemory || f.Options != o || len(f.Layers) != 0 {
		t.Errorf("%+v", f)
	}
}
