package bloomdfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bigset/bloomslice"
)

// ErrName is returned for a name that no filter in bloomd can have.
var ErrName = errors.New("bloomdfiles: bad name")

// ErrLayers is returned for layers that no filter in bloomd can have.
var ErrLayers = errors.New("bloomdfiles: bad layers")

// Writer writes one filter. It belongs to one goroutine.
type Writer struct {
	dir, temporary string
	config         Config
	files          []*os.File
}

// Create begins a filter in a data folder, which it makes if necessary. The filter exists once Finish returns. Errors are ErrName,
// ErrLayers, and fs.ErrExist if the filter exists.
func Create(dataDir, name string, o bloomslice.Options, inMemory bool, layers []bloomslice.Layer) (_ *Writer, err error) {
	if name == "" || strings.ContainsAny(name, "/\x00 \t\r\n") {
		return nil, fmt.Errorf("%w: bloomd does not allow the name %q", ErrName, name)
	}
	for i, l := range layers {
		if l.ID != (bloomslice.LayerID{Index: uint16(i)}) {
			return nil, fmt.Errorf("%w: layer %d is number %d, of %q", ErrLayers, i, l.ID.Index, l.ID.Owner)
		}
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return nil, err
	}
	w := &Writer{dir: filepath.Join(dataDir, folderPrefix+name)}
	if _, err := os.Lstat(w.dir); err == nil {
		return nil, &fs.PathError{Op: "export", Path: w.dir, Err: fs.ErrExist}
	}
	sums := bloomslice.FiguresOf(layers)
	w.config = Config{Options: o, InMemory: inMemory, Size: sums.Size, Keys: sums.Capacity, Bytes: sums.Storage}
	if w.temporary, err = os.MkdirTemp(dataDir, ".bigset-"); err != nil { // bloomd does not look at such names
		return nil, err
	}
	if inMemory {
		return w, nil
	}
	for _, l := range layers {
		if err := w.create(l); err != nil {
			return nil, errors.Join(err, w.Abort())
		}
	}
	return w, nil
}

func (w *Writer) create(l bloomslice.Layer) error {
	file, err := os.OpenFile(filepath.Join(w.temporary, dataName(len(w.files))), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w.files = append(w.files, file)
	head := binary.LittleEndian.AppendUint32(nil, magic)
	head = binary.LittleEndian.AppendUint32(head, l.Shape.K)
	head = binary.LittleEndian.AppendUint64(head, l.Count)
	_, err = file.Write(head)
	return errors.Join(err, file.Truncate(int64(bloomslice.HeaderBytes+l.Shape.Bytes)))
}

// Config returns the content of config.ini.
func (w *Writer) Config() Config { return w.config }

// Write writes a page. Pages that are not written are zero.
func (w *Writer) Write(p Page) error {
	if p.Layer >= len(w.files) {
		return fmt.Errorf("%w: a page of layer %d", ErrLayers, p.Layer)
	}
	_, err := w.files[p.Layer].WriteAt(p.Bits, bloomslice.HeaderBytes+int64(p.Page)*bloomslice.PageBytes)
	return err
}

// Finish syncs everything to disk, and then moves it into place. After an error nothing is left.
func (w *Writer) Finish() error {
	err := os.WriteFile(filepath.Join(w.temporary, configName), AppendConfig(nil, w.config), 0o644)
	for _, f := range w.files {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	w.files = nil
	err = errors.Join(err, syncPath(filepath.Join(w.temporary, configName)), os.Chmod(w.temporary, 0o755), syncPath(w.temporary))
	if err == nil {
		err = os.Rename(w.temporary, w.dir)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return syncPath(filepath.Dir(w.dir))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Abort removes what was written, if Finish was not called.
func (w *Writer) Abort() error {
	var err error
	for _, f := range w.files {
		err = errors.Join(err, f.Close())
	}
	w.files = nil
	return errors.Join(err, os.RemoveAll(w.temporary))
}
