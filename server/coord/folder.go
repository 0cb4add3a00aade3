package coord

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Folder stores hints in append-only files. OSFolder is one of the operating system; tests and simulations have one that crashes.
type Folder interface {
	// Create makes an empty file. The file survives a crash once both it and the folder have been synced.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (Reader, error)
	// Remove removes a file.
	Remove(name string) error
	// List returns the names of the files.
	List() ([]string, error)
	// Sync makes the creation and removal of files durable.
	Sync() error
}

// File is an append-only file. Data written before a Sync that returned nil survives a crash; any part of the data written after it may
// survive.
type File interface {
	io.WriteCloser
	Sync() error
}

// Reader is a file to be read, at any offset.
type Reader interface {
	io.ReaderAt
	io.Closer
}

// OSFolder returns the folder at a path of the operating system, and creates it if necessary.
func OSFolder(path string) (Folder, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return osFolder(path), nil
}

type osFolder string

func (f osFolder) Create(name string) (File, error) {
	return os.OpenFile(filepath.Join(string(f), name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
}

func (f osFolder) Open(name string) (Reader, error) { return os.Open(filepath.Join(string(f), name)) }

func (f osFolder) Remove(name string) error { return os.Remove(filepath.Join(string(f), name)) }

func (f osFolder) List() (names []string, err error) {
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f osFolder) Sync() error {
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
