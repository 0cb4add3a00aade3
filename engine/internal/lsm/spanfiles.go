package lsm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/keyscheme"
)

// Files that are not part of the store yet end in tempSuffix; those for a swap or an ingest begin with spanFilePrefix.
const (
	spanFilePrefix = "span-"
	tempSuffix     = ".tmp"
)

// SpanFiles writes the tables of one swap or one ingest.
type SpanFiles struct {
	db    *DB
	files []spanFile // all that were written
	Bytes int64
	// Whole makes a table synced once, at its end. It is for callers that hold up writers: a sync for each step takes longer.
	Whole bool
}

// spanFile is a new table.
type spanFile struct {
	path string
	span keyscheme.Bounds // from its least key to its greatest, which Upper is
}

// SpanFiles returns an empty set of files.
func (d *DB) SpanFiles() SpanFiles { return SpanFiles{db: d} }

// WriteTable writes keys, in order, to one new table, as SET records, which the drop filter does not see again.
func (f *SpanFiles) WriteTable(keys func(yield func(key, value []byte) error) error) (path string, err error) {
	return f.WriteRecords(func(w *sstable.Writer) error { return keys(w.Set) })
}

// WriteRecords writes records, in order, to one new table.
func (f *SpanFiles) WriteRecords(records func(*sstable.Writer) error) (path string, err error) {
	d := f.db
	path = d.fs.PathJoin(d.dir, fmt.Sprintf("%s%d%s", spanFilePrefix, d.Counters.spanFiles.Add(1), tempSuffix))
	file, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	f.files = append(f.files, spanFile{path: path})
	w := sstable.NewWriter(&steadyFile{file: file, whole: f.Whole}, d.pebbleOpts.MakeWriterOptions(6, d.pebble.TableFormat()))
	err = records(w)
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		return "", err
	}
	meta, err := w.Metadata()
	if err != nil {
		return "", err
	}
	f.Bytes += int64(meta.Size)
	f.files[len(f.files)-1].span = keyscheme.Bounds{Lower: meta.SmallestPoint.UserKey, Upper: meta.LargestPoint.UserKey}
	return path, nil
}

// spans returns the spans of some of the tables.
func (f *SpanFiles) spans(paths []string) (spans []keyscheme.Bounds) {
	for i := range f.files {
		if slices.Contains(paths, f.files[i].path) {
			spans = append(spans, f.files[i].span)
		}
	}
	return spans
}

// Warm reads the blocks around the tables, and where the keys of their set begin, so that Ingest finds them in memory. What can't be read is left to
// Ingest.
func (f *SpanFiles) Warm(set keyscheme.Prefix) {
	at := ends{db: f.db.pebble}
	err := at.read(keyscheme.Bounds{Lower: set, Upper: set}, true)
	for i := 0; i < len(f.files) && err == nil; i++ {
		err = at.read(f.files[i].span, true)
	}
	_ = at.Close() // err is left to Ingest
}

// RemoveFiles removes what was written but not swapped in; Pebble has linked what was.
func (f *SpanFiles) RemoveFiles() {
	for i := range f.files {
		_ = f.db.fs.Remove(f.files[i].path) // the next open removes what is left
	}
}

// stepBytes is how much of a table is written and synced at a time. A sync of the log waits for what the disk was given before it: for no more
// than this, instead of a whole table.
const stepBytes = 256 << 10

// steadyFile is the file of a new table. It is synced step by step while it is written.
type steadyFile struct {
	file  vfs.File
	whole bool
	buf   []byte // written, but not to the file yet
}

var _ objstorage.Writable = (*steadyFile)(nil)

// Write implements objstorage.Writable.
func (f *steadyFile) Write(p []byte) error {
	for len(p) > 0 {
		if f.buf == nil {
			f.buf = make([]byte, 0, stepBytes)
		}
		n := min(len(p), stepBytes-len(f.buf))
		f.buf, p = append(f.buf, p[:n]...), p[n:]
		if len(f.buf) == stepBytes {
			err := f.flush()
			if err == nil && !f.whole {
				err = f.file.SyncData()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *steadyFile) flush() error {
	_, err := f.file.Write(f.buf)
	f.buf = f.buf[:0]
	return err
}

// Finish implements objstorage.Writable.
func (f *steadyFile) Finish() error {
	err := f.flush()
	if err == nil {
		err = f.file.Sync()
	}
	return errors.Join(err, f.file.Close())
}

// Abort implements objstorage.Writable.
func (f *steadyFile) Abort() { _ = f.file.Close() } // the file is removed
