package engine_test

import (
	"fmt"
	"path"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// crashRates are how many percent of what was not synced survive a crash.
var crashRates = []int{0, 30, 100}

// crash is a disk as a crash has left it before some operation, and what a test knew by then.
type crash[T any] struct {
	label   string
	disk    *testkit.Disk
	percent int // of what was not synced survived: with 100 the process ended, below that the power was cut
	known   T
}

// crashing says where a disk crashes: before every operation that writes, unless it says otherwise.
type crashing[T any] struct {
	short int                      // in a short run only one operation in so many; 0 is all
	push  int                      // at a push only one in so many; 0 is all
	seed  uint64                   // of what survives
	rates []int                    // a crash for each of these; nil is crashRates
	fits  func(op errorfs.Op) bool // which of the operations that write; nil is all. It is called by many at a time
	known func() T                 // what the test knows. It is asked before the disk is looked at, so all that it says has happened
}

// on takes crashes of a disk from now on. stop ends that and returns them, and how many operations fitted.
func (c crashing[T]) on(t *testing.T, d *testkit.Disk) (stop func() (list []crash[T], operations int)) {
	share := tier.ShareOf(t, c.short, c.push)
	if c.rates == nil {
		c.rates = crashRates
	}
	var mu sync.Mutex
	var list []crash[T]
	operations := 0
	d.SetHook("crashes", func(op errorfs.Op) error {
		if !testkit.IsWrite(op) || c.fits != nil && !c.fits(op) {
			return nil
		}
		mu.Lock() // nobody else writes meanwhile
		defer mu.Unlock()
		if operations++; !share.Has(operations) {
			return nil
		}
		known := c.known()
		for _, percent := range c.rates {
			label := fmt.Sprintf("operation %d, %v of %s, %d %% survive", operations, op.Kind, path.Base(op.Path), percent)
			list = append(list, crash[T]{label, d.CrashClone(percent, c.seed+uint64(len(list))), percent, known})
		}
		return nil
	})
	return func() ([]crash[T], int) {
		d.SetHook("crashes", nil)
		mu.Lock()
		defer mu.Unlock()
		return list, operations
	}
}
