//go:build race

package lockorder

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// locks are what the tests take.
type locks struct {
	passes        RWMutex[StorePasses]
	viewing       [2]RWMutex[SetViewing]
	lead          Turn[SetLead]
	life          Mutex[FiltersLife]
	flushing      [2]Mutex[SliceFlushing]
	mu            [2]Mutex[SliceMu]
	load          Once[SetLoad]
	pebble        Turn[Pebble]
	retry         Mutex[RetryMu]
	notInTheOrder Mutex[stranger]
}

type stranger struct{ place }

// TestWhileHeld: which locks may be taken while others are held.
func TestWhileHeld(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l *locks)
		want string // of the panic; empty is none
	}{
		{"in order", func(l *locks) { l.passes.RLock(); l.life.Lock(); l.flushing[0].Lock(); l.mu[0].Lock(); l.retry.Lock() }, ""},
		{"against it", func(l *locks) { l.mu[0].Lock(); l.life.Lock() }, "Filters.life is taken while filterSlice.mu is held, which comes after it"},
		{"against it, shared", func(l *locks) { l.mu[0].Lock(); l.passes.RLock() }, "Store.passes is taken while filterSlice.mu is held, which"},
		{"against one of several", func(l *locks) { l.mu[0].Lock(); l.retry.Lock(); l.retry.Unlock(); l.life.Lock() }, "Filters.life is taken while filterSlice.mu"},
		{"after it was given up", func(l *locks) { l.mu[0].Lock(); l.mu[0].Unlock(); l.life.Lock() }, ""},
		{"given up in another order", func(l *locks) {
			l.passes.Lock()
			l.life.Lock()
			l.passes.Unlock()
			l.mu[0].Lock()
			l.life.Unlock()
			l.life.Lock()
		},
			"Filters.life is taken while filterSlice.mu"},
		{"twice", func(l *locks) { l.life.Lock(); l.life.Lock() }, "Filters.life is taken while it is held"},
		{"shared twice", func(l *locks) { l.passes.RLock(); l.passes.RLock() }, "Store.passes is taken while it is held"},
		{"two of a place", func(l *locks) { l.mu[0].Lock(); l.mu[1].Lock() }, "filterSlice.mu is taken while it is held"},
		{"two of a place, under the lock for it", func(l *locks) { l.life.Lock(); l.mu[0].Lock(); l.mu[1].Lock() }, ""},
		{"one of two given up", func(l *locks) { l.life.Lock(); l.mu[0].Lock(); l.mu[1].Lock(); l.mu[0].Unlock(); l.flushing[0].Lock() },
			"filterSlice.flushing is taken while filterSlice.mu"},
		{"two given up", func(l *locks) {
			l.life.Lock()
			l.mu[0].Lock()
			l.mu[1].Lock()
			l.mu[1].Unlock()
			l.mu[0].Unlock()
			l.flushing[0].Lock()
		}, ""},
		{"two of a place, the lock for it shared", func(l *locks) { l.passes.RLock(); l.viewing[0].Lock(); l.viewing[1].Lock() }, "set.viewing is taken while it is held"},
		{"two of a place, the lock for it not shared", func(l *locks) { l.passes.Lock(); l.viewing[0].Lock(); l.viewing[1].Lock() }, ""},
		{"tried against it", func(l *locks) { l.mu[0].Lock(); l.life.TryLock() }, ""},
		{"against what was tried", func(l *locks) { l.mu[0].TryLock(); l.life.Lock() }, "Filters.life is taken while filterSlice.mu"},
		{"tried in vain", func(l *locks) {
			l.life.Lock()
			done := make(chan bool)
			go func() { // that holds nothing then
				l.life.TryLock()
				l.passes.Lock()
				l.passes.Unlock()
				close(done)
			}()
			<-done
		}, ""},
		{"a turn", func(l *locks) { l.life.Lock(); l.lead.Take() }, "set.lead is taken while Filters.life"},
		{"in a turn", func(l *locks) { l.lead.Take(); l.passes.RLock() }, "Store.passes is taken while set.lead"},
		{"after a turn", func(l *locks) { l.lead.Take(); l.lead.Leave(); l.passes.RLock() }, ""},
		{"within what is done once", func(l *locks) { l.load.Do(func() { l.passes.RLock() }) }, "Store.passes is taken while set.loadOnce"},
		{"what was done once", func(l *locks) { l.load.Do(func() {}); l.life.Lock(); l.load.Do(func() {}) }, "set.loadOnce is taken while Filters.life"},
		{"Pebble within Pebble", func(l *locks) { l.pebble.Take(); l.pebble.Take(); l.pebble.Leave(); l.life.Lock() }, "Filters.life is taken while Pebble"},
		{"given up and not held", func(l *locks) { l.life.Unlock() }, "Filters.life is released by a goroutine that did not take it"},
		{"given up by another", func(l *locks) {
			done := make(chan bool)
			go func() {
				l.life.Lock()
				self().used = 0
				close(done)
			}()
			<-done
			l.life.Unlock()
		}, "Filters.life is released by a goroutine that did not take it"},
		{"not in the order", func(l *locks) { l.notInTheOrder.Lock() }, "stranger is not in Order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := make(chan string)
			go func() { // each in a goroutine of its own: it ends with locks held
				defer func() {
					self().used = 0
					r, _ := recover().(string)
					said <- r
				}()
				c.do(&locks{})
			}()
			if got := <-said; got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
				t.Errorf("panic %q, want %q", got, c.want)
			}
		})
	}
}

// TestConcurrentGoroutinesHaveTheirOwn: as long as goroutines run, each has a record of its own, and always the same one.
func TestConcurrentGoroutinesHaveTheirOwn(t *testing.T) {
	const rounds, many = 20, 500
	for range rounds {
		var found sync.Map
		var begun, done sync.WaitGroup
		begun.Add(many)
		for range many {
			done.Go(func() {
				me, number := self(), number()
				if other, taken := found.LoadOrStore(me, number); taken {
					t.Errorf("goroutines %s and %s have one record", other, number)
				}
				begun.Done()
				begun.Wait() // all run until here
				for range 10 {
					runtime.Gosched()
					if self() != me {
						t.Errorf("goroutine %s has another record", number)
					}
				}
			})
		}
		done.Wait()
	}
}

// number returns the runtime's number of the calling goroutine.
func number() string {
	buf := make([]byte, 64)
	number, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf, false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}

// TestManyGoroutinesTogether: a goroutine for which the table has no room is not checked.
func TestManyGoroutinesTogether(t *testing.T) {
	var l locks
	var done sync.WaitGroup
	begun, end := make(chan bool), make(chan bool)
	for range goroutinesMax + 10 {
		done.Go(func() {
			l.life.Lock()
			l.retry.Lock()
			l.retry.Unlock()
			l.life.Unlock()
			begun <- true
			<-end
		})
		<-begun
	}
	close(end)
	done.Wait()
}

// BenchmarkLock measures the cost of the check.
func BenchmarkLock(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
	b.Run("checked", func(b *testing.B) {
		var mu Mutex[SetMu]
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
}
