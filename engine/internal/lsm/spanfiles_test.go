package lsm

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/clock"
	"bigset/keyscheme"
)

// TestTableIsSyncedInSteps: a new table is never far ahead of its syncs, and is on disk when it is finished.
func TestTableIsSyncedInSteps(t *testing.T) {
	r := newRig("steps")
	r.open(t)
	defer r.close(t)
	writes, unsynced, most := 0, 0, 0
	r.disk.SetHook("steps", func(op errorfs.Op) error {
		if !strings.Contains(op.Path, spanFilePrefix) {
			return nil
		}
		switch op.Kind {
		case errorfs.OpFileWrite:
			writes, unsynced = writes+1, unsynced+1
			most = max(most, unsynced)
		case errorfs.OpFileSync, errorfs.OpFileSyncData:
			unsynced = 0
		}
		return nil
	})
	f := r.db.SpanFiles()
	prefix, noise := keyscheme.NewPrefix([]byte("s")), rand.NewChaCha8([32]byte{})
	_, err := f.WriteTable(func(yield func(key, value []byte) error) error {
		for i := range 1200 {
			element := make([]byte, 1000)
			_, _ = noise.Read(element)
			binary.BigEndian.PutUint32(element, uint32(i))
			if err := yield(prefix.AppendElement(nil, element, clock.Dot{Actor: "a", Counter: uint64(i + 1)}, keyscheme.OpAdd), keyscheme.ResolvedValue); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err, "write")
	r.disk.SetHook("steps", nil)
	if want := int(f.Bytes+stepBytes-1) / stepBytes; want < 4 || writes != want || most != 1 || unsynced != 0 {
		t.Errorf("%d bytes: %d writes, %d without a sync, %d at the end", f.Bytes, writes, most, unsynced)
	}
	f.RemoveFiles()
}
