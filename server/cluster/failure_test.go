package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/wire"
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

// TestUndecided: a change of a filter that the first member has not made is not unknown, and only members that are away make it hopeless.
func TestUndecided(t *testing.T) {
	away := fmt.Errorf("%w: to drop a filter takes all members: c can't be reached: %w", door.ErrMembersAway, context.DeadlineExceeded)
	for _, c := range []struct {
		err                        error
		membersAway, unknown, none bool
	}{
		{nil, false, false, false},
		{Errors.Decode(Errors.Append(nil, away)), true, false, true},
		{fmt.Errorf("%w: no way", wire.ErrNotSent), true, false, true},
		{wire.ErrBusy, false, false, true},
		{wire.ErrLost, false, true, false},
		{context.DeadlineExceeded, false, true, false},
		{Errors.Decode(Errors.Append(nil, &door.UnknownError{Err: wire.ErrNotSent})), false, true, false},
	} {
		err := (&Filters{}).undecided(doDrop, "a", c.err)
		if errors.Is(err, door.ErrMembersAway) != c.membersAway || errors.Is(err, door.ErrUnknown) != c.unknown || errors.Is(err, door.ErrUnavailable) != c.none {
			t.Errorf("%v of %v", err, c.err)
		}
	}
}
