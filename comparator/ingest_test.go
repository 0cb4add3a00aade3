package comparator_test

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ingest replaces a range by a table without every second key.
func (h *harness) ingest(a, b []byte) {
	pairs := h.between(a, b)
	if refCompare(a, b) >= 0 || len(pairs) < 4 || len(pairs) > h.model.Len()/4 {
		return
	}
	h.wrote++
	path := fmt.Sprintf("ingest-%d", h.wrote)
	f, err := h.fs.Create(path, vfs.WriteCategoryUnspecified)
	h.must(err)
	opts := options(h.fs)
	opts.EnsureDefaults()
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), opts.MakeWriterOptions(0, h.db.TableFormat()))
	for i, p := range pairs {
		if i%2 == 0 {
			h.must(w.Set(p.key, p.value))
		} else {
			h.model.Delete(p)
		}
	}
	h.must(w.Close())
	_, err = h.db.IngestAndExcise(h.t.Context(), []string{path}, nil, nil, pebble.KeyRange{Start: a, End: b})
	h.must(err)
}
