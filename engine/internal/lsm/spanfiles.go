package lsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files that are not part of the store yet end in tempSuffix; those for a swap or an ingest begin with spanFilePrefix.
const (
	spanFilePrefix = "span-"
	tempSuffix     = ".tmp"
)

// SpanFiles writes the tables of one swap or one ingest.
type SpanFiles struct {
	db    *DB
	paths []string // all that were written
	Bytes int64
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
	f.paths = append(f.paths, path)
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), d.pebbleOpts.MakeWriterOptions(6, d.pebble.TableFormat()))
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
	return path, nil
}

// RemoveFiles removes what was written but not swapped in; Pebble has linked what was.
func (f *SpanFiles) RemoveFiles() {
	for _, path := range f.paths {
		_ = f.db.fs.Remove(path) // the next open removes what is left
	}
}
