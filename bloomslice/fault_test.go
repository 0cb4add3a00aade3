package bloomslice

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// slowDisk is a disk whose first answer comes late.
type slowDisk struct {
	*disk
	asked atomic.Bool
	began chan struct{}
}

func (d *slowDisk) Page(id LayerID, page uint32) ([]byte, error) {
	value, err := d.disk.Page(id, page)
	if d.asked.CompareAndSwap(false, true) {
		close(d.began)
		time.Sleep(50 * time.Millisecond)
	}
	return value, err
}

// TestSlowFault adds keys while a reader waits for a page: the page that the reader brings must not replace the newer one.
func TestSlowFault(t *testing.T) {
	d := &slowDisk{disk: newDisk(), began: make(chan struct{})}
	s := slice(t, options(10001, 0.01), nil, d)
	add(t, s, "there")
	s = slice(t, options(10001, 0.01), d.store(t, s, 100), d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !has(t, s, "there") {
			t.Error("a stored key is denied")
		}
	}()
	<-d.began
	for i := range 100 {
		add(t, s, fmt.Sprint(i))
	}
	<-done
	for i := range 100 {
		if !has(t, s, fmt.Sprint(i)) {
			t.Fatalf("%d is denied", i)
		}
	}
}
