package bloomdfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bigset/bloomslice"
)

// ErrDamaged is wrapped by errors about a filter's files that bloomd cannot have written like that.
var ErrDamaged = errors.New("bloomdfiles: damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

const (
	folderPrefix = "bloomd."
	configName   = "config.ini"
	magic        = 0xCB1005DD
)

func dataName(layer int) string { return fmt.Sprintf("data.%03d.mmap", layer) }

// Names returns the names of the filters in a data folder, sorted bytewise.
func Names(dataDir string) (names []string, err error) {
	entries, err := os.ReadDir(dataDir)
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), folderPrefix); ok && name != "" {
			names = append(names, name)
		}
	}
	return names, err
}

// Filter is a filter on disk whose files have been checked, except for their bits.
type Filter struct {
	Name    string
	Config  Config
	Options bloomslice.Options // the config's, with the probability with which the filter was made
	Derived bool               // that probability is derived: the config has lost it
	Layers  []bloomslice.Layer // by index; none for a filter that is only in memory

	dir   string
	files []fs.FileInfo
}

// Open reads a filter's options and the heads of its files. Its error is ErrDamaged if they do not agree.
func Open(dataDir, name string) (*Filter, error) {
	f := &Filter{Name: name, dir: filepath.Join(dataDir, folderPrefix+name)}
	text, err := os.ReadFile(filepath.Join(f.dir, configName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("%w", err)
	}
	if err != nil {
		return nil, err
	}
	if f.Config, err = ParseConfig(string(text)); err != nil {
		return nil, err
	}
	f.Options = f.Config.Options
	if f.Config.InMemory {
		if err := f.Options.Validate(); err != nil {
			return nil, damaged("config.ini: %w", err)
		}
		return f, nil
	}
	if err := f.openFiles(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Filter) openFiles() error {
	paths, err := filepath.Glob(filepath.Join(globEscape.Replace(f.dir), "*.mmap"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return damaged("%s is missing", dataName(0))
	}
	var heads []found
	total, agrees := uint64(0), false
	for i := range paths {
		if !slices.Contains(paths, filepath.Join(f.dir, dataName(i))) {
			return damaged("%s is missing, of %d files", dataName(i), len(paths))
		}
		head, info, err := readHead(filepath.Join(f.dir, dataName(i)))
		if err != nil {
			return err
		}
		heads, f.files = append(heads, head), append(f.files, info)
		total += uint64(info.Size())
		agrees = agrees || total == f.Config.Bytes
	}
	if f.Options, f.Layers, f.Derived, err = fit(f.Config, heads); err != nil {
		return err
	}
	if !agrees { // layers that it does not count are from a bloomd that was killed
		return damaged("config.ini counts %d bytes, the files have %d: one was cut short, or is missing", f.Config.Bytes, total)
	}
	for _, l := range f.Layers {
		if l.Count > l.Shape.Capacity {
			return damaged("%s counts %d keys, but its layer has room for %d", dataName(int(l.ID.Index)), l.Count, l.Shape.Capacity)
		}
	}
	return nil
}

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func readHead(path string) (found, fs.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return found{}, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return found{}, nil, err
	}
	var head [bloomslice.HeaderBytes]byte
	if _, err := io.ReadFull(file, head[:]); err != nil || info.Size() == bloomslice.HeaderBytes {
		return found{}, nil, damaged("%s has %d bytes", filepath.Base(path), info.Size())
	}
	if got := binary.LittleEndian.Uint32(head[:]); got != magic {
		return found{}, nil, damaged("%s begins with %08x, not with %08x", filepath.Base(path), got, uint32(magic))
	}
	return found{
		bytes: uint64(info.Size()) - bloomslice.HeaderBytes,
		k:     binary.LittleEndian.Uint32(head[4:]),
		count: binary.LittleEndian.Uint64(head[8:]),
	}, info, nil
}

// Keys returns how many keys the files count.
func (f *Filter) Keys() uint64 { return bloomslice.FiguresOf(f.Layers).Size }

// Bytes returns how many bytes the files have.
func (f *Filter) Bytes() uint64 { return bloomslice.FiguresOf(f.Layers).Storage }

// Page is a page of the bits of a layer.
type Page struct {
	Layer int
	Page  uint32
	Bits  []byte // bloomslice.PageBytes, fewer at the layer's end
}

// Pages returns all pages, by layer, then by number. The bits are valid until the next page. An error comes last: it is ErrDamaged
// if a layer has fewer bits than its keys set, or if a file has changed since it was opened.
func (f *Filter) Pages() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for i := range f.Layers {
			more, err := f.layerPages(i, yield)
			if err != nil {
				yield(Page{}, err)
			}
			if err != nil || !more {
				return
			}
		}
	}
}

func (f *Filter) layerPages(i int, yield func(Page, error) bool) (more bool, err error) {
	file, err := os.Open(filepath.Join(f.dir, dataName(i)))
	if err != nil {
		return false, err
	}
	defer file.Close()
	if _, err := file.Seek(bloomslice.HeaderBytes, io.SeekStart); err != nil {
		return false, err
	}
	var buf [bloomslice.PageBytes]byte
	ones := 0
	left := f.Layers[i].Shape.Bytes
	for page := uint32(0); left > 0; page++ {
		b := buf[:min(left, bloomslice.PageBytes)]
		if _, err := io.ReadFull(file, b); err != nil {
			return false, fmt.Errorf("%s: %w", dataName(i), err)
		}
		for _, c := range b {
			ones += bits.OnesCount8(c)
		}
		if !yield(Page{i, page, b}, nil) {
			return false, nil
		}
		left -= uint64(len(b))
	}
	return true, errors.Join(f.unchanged(i, file), enough(f.Layers[i], ones))
}

func (f *Filter) unchanged(i int, file *os.File) error {
	now, err := file.Stat()
	if err != nil {
		return err
	}
	if was := f.files[i]; now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
		return damaged("%s was written at %s, while it was read: stop its bloomd", dataName(i), now.ModTime().Format(time.TimeOnly))
	}
	return nil
}

// enough returns ErrDamaged if a layer has clearly fewer bits than its count of keys sets: some of them are lost.
func enough(l bloomslice.Layer, ones int) error {
	k := float64(l.Shape.K)
	run := float64(l.Shape.Bytes * 8 / uint64(l.Shape.K))
	expected := k * run * -math.Expm1(-float64(l.Count)/run)
	if float64(ones) < 0.95*expected-k {
		return damaged("%s has %d bits set, but its %d keys set about %.0f", dataName(int(l.ID.Index)), ones, l.Count, expected)
	}
	return nil
}
