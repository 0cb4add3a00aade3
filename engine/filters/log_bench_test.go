package filters_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
)

// markers is how many goroutines mark at a time.
const markers = 64

// BenchmarkMarkSync: many goroutines mark new keys under bigset.FilterSync. For comparison, as many goroutines append the same
// number of bytes to a plain file, with one write and one sync for all that wait.
func BenchmarkMarkSync(b *testing.B) {
	for name, d := range map[string]bigset.FilterDurability{"log": bigset.FilterLog, "sync": bigset.FilterSync, "interval": bigset.FilterInterval} {
		b.Run(name, func(b *testing.B) {
			s, _ := benchStore(b, options{})
			f, err := s.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Options: bloomslice.Options{Capacity: 10_000_000}, Durability: d})
			if err != nil {
				b.Fatal(err)
			}
			together(b, func(i int64) error {
				_, err := f.Mark(bg, fmt.Appendf(nil, "key%012d", i))
				return err
			})
		})
	}
	b.Run("raw", func(b *testing.B) {
		file, err := vfs.Default.Create(filepath.Join(b.TempDir(), "raw"), vfs.WriteCategoryUnspecified)
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		l := rawLog{file: file}
		l.ended.L = &l.mu
		together(b, func(i int64) error {
			return l.append(fmt.Appendf(nil, "key%012d and what else a record of a mark has in it", i))
		})
	})
}

// together does something b.N times, by many goroutines.
func together(b *testing.B, do func(i int64) error) {
	var next atomic.Int64
	b.SetParallelism(max(1, markers/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(next.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// rawLog is a group commit and nothing else.
type rawLog struct {
	file vfs.File

	mu               sync.Mutex
	pending, spare   []byte
	appended, synced uint64
	leading          bool
	ended            sync.Cond
}

func (l *rawLog) append(record []byte) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, record...)
	l.appended++
	for at := l.appended; l.synced < at && err == nil; {
		if l.leading {
			l.ended.Wait()
			continue
		}
		l.leading = true
		chunk, upTo := l.pending, l.appended
		l.pending = l.spare[:0]
		l.mu.Unlock()
		if _, err = l.file.Write(chunk); err == nil {
			err = l.file.SyncData()
		}
		l.mu.Lock()
		l.leading, l.synced, l.spare = false, upTo, chunk
		l.ended.Broadcast()
	}
	return err
}
