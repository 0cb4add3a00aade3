package coord

import (
	"errors"
	"testing"
)

// TestNoRoomLeavesNothing: sends to an idle node that find no room leave it idle.
func TestNoRoomLeavesNothing(t *testing.T) {
	t.Parallel()
	c := &Coordinator{opt: Options{SendsMax: 2, SendBytesMax: 100}, sends: map[string]*load{}}
	if err := c.takeMany("a", 3, 10); !errors.Is(err, ErrBusy) || len(c.sends) != 0 || c.running != 0 {
		t.Errorf("three sends: %v, %d nodes, %d running", err, len(c.sends), c.running)
	}
	if err := c.takeMany("a", 2, 10); err != nil || len(c.sends) != 1 || c.running != 2 {
		t.Errorf("two sends: %v, %d nodes, %d running", err, len(c.sends), c.running)
	}
	c.give("a", 4)
	c.give("a", 6)
	if len(c.sends) != 0 || c.running != 0 {
		t.Errorf("given back one by one: %d nodes, %d running", len(c.sends), c.running)
	}
}
