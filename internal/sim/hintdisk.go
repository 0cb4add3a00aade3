package sim

import (
	"errors"
	"io"

	"bigset/internal/faultdisk"
	"bigset/server/coord"
)

// hintFolder keeps a coordinator's hints on a disk that loses power.
type hintFolder struct{ disk *faultdisk.Disk }

const hintDir = "hints"

func newHintFolder() (hintFolder, error) {
	f := hintFolder{faultdisk.New()}
	if err := f.disk.MkdirAll(hintDir, 0o755); err != nil {
		return f, err
	}
	return f, f.syncDir("")
}

func (f hintFolder) Create(name string) (coord.File, error) {
	return f.disk.Create(f.disk.PathJoin(hintDir, name), "hints")
}

func (f hintFolder) Open(name string) (coord.Reader, error) {
	file, err := f.disk.Open(f.disk.PathJoin(hintDir, name))
	if err != nil {
		return nil, err
	}
	return struct {
		io.ReaderAt
		io.Closer
	}{file, file}, nil
}

func (f hintFolder) Remove(name string) error { return f.disk.Remove(f.disk.PathJoin(hintDir, name)) }

func (f hintFolder) List() ([]string, error) { return f.disk.List(hintDir) }

func (f hintFolder) Sync() error { return f.syncDir(hintDir) }

func (f hintFolder) syncDir(name string) error {
	d, err := f.disk.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
