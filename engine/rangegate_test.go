package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bigset/keyscheme"
)

// TestGateWaits: a goroutine that comes while the range is swapped goes on after that, and the gate counts how long it waited; others do not wait.
func TestGateWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g rangeGate
		in, out := keyscheme.NewPrefix([]byte("in")), keyscheme.NewPrefix([]byte("out"))
		w := &sweep{bounds: keyscheme.Bounds{Lower: in, Upper: in.AppendEnd(nil)}}
		if err := g.begin(w, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		g.enter(in, true) // noted
		g.leave()
		went := make(chan time.Duration, 1)
		failed := errors.New("failed")
		if err := g.holding(w.bounds.Upper, func() error {
			began, passed := time.Now(), make(chan struct{})
			go func() {
				g.enter(in, true)
				g.leave()
				went <- time.Since(began)
			}()
			go func() {
				g.enter(out, true)
				g.leave()
				close(passed)
			}()
			<-passed
			synctest.Wait()
			time.Sleep(time.Second)
			return failed
		}); err != failed {
			t.Errorf("%v", err)
		}
		if took := <-went; took != time.Second {
			t.Errorf("it went on after %v", took)
		}
		g.end()
		if l := latencyOf(&g.waited); l.Count != 1 || l.Seconds != 1 {
			t.Errorf("%+v", l)
		}
		if len(w.late.prefixes) != 1 {
			t.Errorf("%d sets are noted", len(w.late.prefixes))
		}
	})
}
