package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
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
		{Errors.Decode(Errors.Append(nil, fmt.Errorf("%w: node c, asked which filters exist: %w", door.ErrUnavailable, context.DeadlineExceeded))), false, false, true},
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

// TestUnready: a member that is busy is not called away, and if no member is away the change may be asked for again.
func TestUnready(t *testing.T) {
	busy, down := fmt.Errorf("node b: %w", wire.ErrBusy), fmt.Errorf("node c: %w: refused", wire.ErrNotSent)
	for _, c := range []struct {
		errs        map[string]error
		membersAway bool
		text        string
	}{
		{map[string]error{"b": busy}, false, "this node can't do it now: node b: "},
		{map[string]error{"c": down}, true, ": c can't be reached: node c: "},
		{map[string]error{"b": busy, "c": down}, true, ": c can't be reached: node b: "},
		{map[string]error{"c": fmt.Errorf("node c: %w: its store has failed", door.ErrMembersAway)}, true, "takes all members: node c: "},
	} {
		err := (&Filters{}).unready(doDrop, c.errs)
		if !errors.Is(err, door.ErrUnavailable) || errors.Is(err, door.ErrMembersAway) != c.membersAway || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v of %v", err, c.errs)
		}
	}
}

// TestPassing: a member that is down or slow needs nobody; one with a bad certificate or a name that leads nowhere does.
func TestPassing(t *testing.T) {
	dial := func(err error) error { return fmt.Errorf("%w: dial: %w", wire.ErrNotSent, err) }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{dial(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), true},
		{dial(&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}), true},
		{dial(io.EOF), true},
		{fmt.Errorf("%w: b has said nothing", wire.ErrLost), true},
		{dial(context.DeadlineExceeded), true},
		{dial(x509.UnknownAuthorityError{}), false},
		{dial(&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}), false},
		{dial(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "b", IsNotFound: true}}), false},
		{fmt.Errorf("%w: %w", wire.ErrRefused, ErrForeign), false},
	} {
		if passing(c.err) != c.want {
			t.Errorf("%v: passing is %v", c.err, !c.want)
		}
	}
}

// lostWay is a way to a member that is not connected.
type lostWay struct {
	Way
	err error
}

func (l lostWay) Remote() (*wire.Remote, error) { return nil, l.err }

// TestUnconnected: a request to a member that is not connected was not sent, and says why not.
func TestUnconnected(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "wire: request not sent: not connected"},
		{io.EOF, "wire: request not sent: EOF"},
		{fmt.Errorf("%w: refused", wire.ErrNotSent), "wire: request not sent: refused"},
	} {
		if err := unconnected(lostWay{err: c.err}); !errors.Is(err, wire.ErrNotSent) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestUnsettled: a question about an element that is written again and again may be asked again.
func TestUnsettled(t *testing.T) {
	if err := failure(fmt.Errorf("%w: x of s", coord.ErrUnsettled)); !errors.Is(err, door.ErrUnavailable) || !errors.Is(err, coord.ErrUnsettled) {
		t.Error(err)
	}
}
