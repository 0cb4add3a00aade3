package cluster

import (
	"errors"
	"fmt"
	"testing"

	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
)

// TestFailureSaysItOnce: the error of a change whose outcome is unknown has its numbers once, and its causes can be found.
func TestFailureSaysItOnce(t *testing.T) {
	cause := fmt.Errorf("b: %w", peer.ErrUnavailable)
	for _, c := range []struct {
		unanswered int
		want       string
	}{
		{0, `outcome unknown, it may have happened: 2 of 3 replicas have it, 2 of 2 on disk: "s": b: replica not available`},
		{1, `outcome unknown, it may have happened: 2 of 3 replicas have it, 2 of 2 on disk: "s", 1 have not answered: b: replica not available`},
	} {
		err := failure(&coord.UnknownError{Set: []byte("s"), Acked: 2, Durable: 2, W: 3, DW: 2, Unanswered: c.unanswered, Err: cause})
		if got := door.Text(err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		var u *coord.UnknownError
		if !errors.Is(err, door.ErrUnknown) || !errors.Is(err, coord.ErrUnknown) || !errors.Is(err, peer.ErrUnavailable) || !errors.As(err, &u) {
			t.Errorf("%v has lost a cause", err)
		}
	}
}
