package testkit

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// WriteFile makes or replaces a file, and syncs it.
func WriteFile(t testing.TB, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Flipped returns a copy of a file with 16 bytes changed.
func Flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	for i := at; i < min(at+16, len(data)); i++ {
		data[i] ^= 0xFF
	}
	return data
}
