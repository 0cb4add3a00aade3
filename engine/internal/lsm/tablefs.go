package lsm

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableFS is a file system that refuses to open a table whose last bytes name another format than that of the store. No checksum
// covers that number, and Pebble panics on a table that claims columnar blocks without a schema for them. If a table that Pebble is
// about to cut can't be read, tableFS ends the process. The creation of a table waits after a flush has failed.
type tableFS struct {
	vfs.FS
	flushes *retry
}

// Every table ends in its format, as 4 bytes LE, and 8 bytes that identify what wrote it.
const (
	tableFormat   = 4
	tableEndBytes = 12
)

// Unwrap returns the underlying file system.
func (t tableFS) Unwrap() vfs.FS { return t.FS }

// Create implements vfs.FS.
func (t tableFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, tableSuffix) {
		t.flushes.wait()
	}
	return t.FS.Create(name, category)
}

// Open implements vfs.FS.
func (t tableFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := t.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, tableSuffix) {
		return f, err
	}
	if err := checkTableEnd(f, name); err != nil {
		_ = f.Close()
		return nil, err
	}
	return tableFile{f, name}, nil
}

// tableFile is a table that is open for reading.
type tableFile struct {
	vfs.File
	name string
}

// ReadAt implements io.ReaderAt. It panics on a read error that Pebble would take for the end of the table, because Pebble would
// lose what lies after it: see DB.exciseChecked, in which the panic ends the process.
func (f tableFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	if err != nil && err != io.EOF && excising() {
		panic(fatalError{fmt.Errorf("engine: table %s can't be read where it is to be cut: %w", f.name, err)})
	}
	return n, err
}

// excising reports whether Pebble has called in order to find out where a table that it cuts continues (excise.go, v2.1.7). Only
// the stack shows that; excising is called only after an error.
func excising() bool {
	stack := string(debug.Stack())
	return strings.Contains(stack, ".determineLeftTableBounds(") || strings.Contains(stack, ".determineRightTableBounds(")
}

func checkTableEnd(f vfs.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := make([]byte, tableEndBytes)
	if info.IsDir() || info.Size() < tableEndBytes {
		return fmt.Errorf("%w: table %s has %d bytes", pebble.ErrCorruption, name, info.Size())
	}
	if _, err := f.ReadAt(end, info.Size()-tableEndBytes); err != nil && err != io.EOF {
		return err
	}
	if format := binary.LittleEndian.Uint32(end); format != tableFormat {
		return fmt.Errorf("%w: table %s claims format %d, not %d", pebble.ErrCorruption, name, format, tableFormat)
	}
	return nil
}
