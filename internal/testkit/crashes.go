package testkit

import (
	"fmt"
	"path"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/internal/testkit/tier"
)

// crashRates are the percentages of what was not synced that survive a crash.
var crashRates = []int{0, 30, 100}

// Crash is a disk as a crash has left it before some operation, and what a test knew by then.
type Crash[T any] struct {
	Label   string
	Disk    *Disk
	Percent int // of what was not synced survived: with 100 the process ended, below that the power was cut
	Known   T
}

// Crashing says where a disk crashes: by default before every write operation.
type Crashing[T any] struct {
	Short int                      // in a short run only one operation in this many; 0 is all
	Push  int                      // at a push only one in this many; 0 is all
	Seed  uint64                   // of what survives
	Rates []int                    // a crash for each of these; nil is crashRates
	Fits  func(op errorfs.Op) bool // which of the write operations; nil is all. It is called by several goroutines at a time
	Known func() T                 // what the test knows. It is called before the disk is looked at, so everything that it returns has happened
}

// On takes crashes of a disk from now on. stop ends that, and returns them and the number of operations that fitted.
func (c Crashing[T]) On(t *testing.T, d *Disk) (stop func() (list []Crash[T], operations int)) {
	share := tier.ShareOf(t, c.Short, c.Push)
	if c.Rates == nil {
		c.Rates = crashRates
	}
	var mu sync.Mutex
	var list []Crash[T]
	operations := 0
	d.SetHook("crashes", func(op errorfs.Op) error {
		if !IsWrite(op) || c.Fits != nil && !c.Fits(op) {
			return nil
		}
		mu.Lock() // no other goroutine writes
		defer mu.Unlock()
		if operations++; !share.Has(operations) {
			return nil
		}
		known := c.Known()
		for _, percent := range c.Rates {
			label := fmt.Sprintf("operation %d, %v of %s, %d %% survive", operations, op.Kind, path.Base(op.Path), percent)
			list = append(list, Crash[T]{label, d.CrashClone(percent, c.Seed+uint64(len(list))), percent, known})
		}
		return nil
	})
	return func() ([]Crash[T], int) {
		d.SetHook("crashes", nil)
		mu.Lock()
		defer mu.Unlock()
		return list, operations
	}
}
