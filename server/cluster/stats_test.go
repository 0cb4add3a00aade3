package cluster

import (
	"fmt"
	"testing"
	"time"

	"bigset/server/peer"
	"bigset/server/wire"
)

// TestStatsOfOlderMember: a call that an older version does not know is not made. So it has not failed, and says nothing about how near the member is.
func TestStatsOfOlderMember(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := &counted{s: &PeerStats{}, now: func() time.Time { return now }}
	began := now
	now = now.Add(time.Second)
	c.observe(1, began, nil)
	average := c.s.average.Load()
	c.observe(1, now, fmt.Errorf("%w: %w", wire.ErrNotSent, peer.ErrOneByOne))
	v := &c.s.Verbs[1]
	if calls, failed := v.Calls.Load(), v.Failed.Load(); calls != 1 || failed != 0 || average == 0 || c.s.average.Load() != average {
		t.Errorf("%d calls, %d failed, average %d, want 1, 0, %d", calls, failed, c.s.average.Load(), average)
	}
	c.observe(1, now, wire.ErrNotSent)
	if v.Calls.Load() != 2 || v.Failed.Load() != 1 {
		t.Errorf("%d calls, %d failed after a failure", v.Calls.Load(), v.Failed.Load())
	}
}
