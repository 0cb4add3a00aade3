package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files that are not part of the store yet end in tempSuffix; the rewriter's begin with spanFilePrefix.
const (
	spanFilePrefix = "span-"
	tempSuffix     = ".tmp"
)

// spanFiles writes the tables of one swap.
type spanFiles struct {
	s     *Store
	paths []string // all that were written
	bytes int64
}

// writeTable writes keys, in order, to one new table, as SET records: nothing is asked about them again.
func (f *spanFiles) writeTable(keys func(yield func(key, value []byte) error) error) (path string, err error) {
	return f.writeRecords(func(w *sstable.Writer) error { return keys(w.Set) })
}

// writeRecords writes records, in order, to one new table.
func (f *spanFiles) writeRecords(records func(*sstable.Writer) error) (path string, err error) {
	s := f.s
	path = s.fs.PathJoin(s.dir, fmt.Sprintf("%s%d%s", spanFilePrefix, s.counters.spanFiles.Add(1), tempSuffix))
	file, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	f.paths = append(f.paths, path)
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), s.pebbleOpts.MakeWriterOptions(6, s.db.TableFormat()))
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
	f.bytes += int64(meta.Size)
	return path, nil
}

// removeFiles removes what was written and not swapped in; Pebble has linked what was.
func (f *spanFiles) removeFiles() {
	for _, path := range f.paths {
		_ = f.s.fs.Remove(path) // what is left over is removed by the next open
	}
}
