package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"bigset"
)

// TestGather: how long a leader waits for more requests, depending on those before and those that come.
func TestGather(t *testing.T) {
	const sync, part = 600 * time.Microsecond, 300 * time.Microsecond
	for _, c := range []struct {
		name   string
		expect int
		ended  time.Duration // ago
		first  bigset.Durability
		sync   time.Duration
		come   int // after a third of part
		want   time.Duration
	}{
		{"alone", 1, 0, bigset.Sync, sync, 0, 0},
		{"nobody comes", 8, 0, bigset.Sync, sync, 0, part},
		{"some come", 8, 0, bigset.Sync, sync, 6, part},
		{"all come", 8, 0, bigset.Sync, sync, 7, part / 3},
		{"few", gatherCrowd - 1, 0, bigset.Sync, sync, 0, 0},
		{"long ago", 8, time.Second, bigset.Sync, sync, 0, 0},
		{"not synced", 8, 0, bigset.NoSync, sync, 0, 0},
		{"a fast disk", 8, 0, bigset.Sync, 2*gatherLeast - 2, 0, 0},
		{"a slow disk", 8, 0, bigset.Sync, time.Second, 0, gatherMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := &Store{}, &set{}
				s.syncTime.nanos.Store(int64(c.sync))
				st.queue = []*request{newRequest(nil, c.first)}
				st.gathering = gathering{expect: c.expect, ended: time.Now().Add(-c.ended)}
				began, came := time.Now(), make(chan struct{})
				go func() {
					defer close(came)
					time.Sleep(part / 3)
					for range c.come {
						st.queueMu.Lock()
						st.queue = append(st.queue, newRequest(nil, bigset.Sync))
						st.gathering.joined(len(st.queue))
						st.queueMu.Unlock()
					}
				}()
				s.gather(st)
				if took := time.Since(began); took != c.want {
					t.Errorf("it waited %v, want %v", took, c.want)
				}
				<-came
			})
		})
	}
}

// TestEarly: only a writer that seems to be alone passes the lead on before its sync, and what was under way when a sync ended is expected again.
func TestEarly(t *testing.T) {
	st := &set{}
	if !st.beginSync(1) {
		t.Error("one writer does not pass the lead on")
	}
	if st.beginSync(1) {
		t.Error("a second one, beside the sync of the first, passes it on")
	}
	st.queue = []*request{newRequest(nil, bigset.Sync), newRequest(nil, bigset.Sync)}
	st.endSync(1)
	if got := st.gathering.expect; got != 4 {
		t.Errorf("%d requests are expected, want 4: one answered, one that waits for its sync, two in the queue", got)
	}
	st.endSync(1)
	st.queue = nil
	if st.beginSync(1) {
		t.Error("a writer who expects others passes the lead on")
	}
	st.endSync(1)
	if !st.beginSync(1) {
		t.Error("a writer who is alone again does not pass it on")
	}
}
