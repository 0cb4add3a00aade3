package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"bigset"
	membership "bigset/server/cluster"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// silenceLimit is how long a silent member counts as connected.
const silenceLimit = 10 * time.Second

// errNoWay says that a call can't be made, and that nothing has happened.
var errNoWay = fmt.Errorf("%w: no way", peer.ErrUnavailable)

// way is the path from one member to another. It sends requests of package wire, which take as long as the schedule says, and reach
// whichever incarnation runs then.
type way struct {
	*link
	from string
}

var _ membership.Way = (*way)(nil)

func (y *way) Start()       {}
func (y *way) Wake()        {}
func (y *way) Close() error { return nil }
func (y *way) Up() bool     { return y.unreachable() == nil }

func (y *way) Remote() (*wire.Remote, error) { return nil, y.lost(y.unreachable()) }

// lost converts an error of the network to the kind that package wire returns.
func (y *way) lost(err error) error {
	if errors.Is(err, errNoWay) {
		return fmt.Errorf("%w: %w", wire.ErrNotSent, err)
	}
	return err
}

// request returns a call as the other side sees it. It belongs to the handler.
func (y *way) request(call *wire.Call) *wire.Request {
	return &wire.Request{Verb: call.Verb, Epoch: call.Epoch, Priority: call.Priority, Body: slices.Clone(call.Body), From: &wire.Remote{Role: wire.RoleNode, Name: y.from}}
}

// address returns the number that distinguishes the current incarnation of the member from others, as its Hello gives it to those
// that connect. In some schedules it is not used, and a late request reaches an incarnation for which it is not meant: then the
// epoch has to reveal that.
func (y *way) address() (uint64, error) {
	if y.down {
		return 0, fmt.Errorf("%w: %s is down", wire.ErrNotSent, y.node)
	}
	if !y.c.addressed {
		return 0, nil
	}
	_, address, err := y.self.Hello(&wire.Remote{Role: wire.RoleClient})
	return address, err
}

// met maps requests to the names of the mechanisms that they belong to.
var met = map[wire.Verb]string{
	remote.VerbDigests: "digests", remote.VerbRangeDigests: "digests", remote.VerbSliceDigests: "slice digests",
	remote.VerbApplyMany + wire.Verb(bigset.Sync): "deltas together",
	remote.VerbMergePages:                         "slice pages merged", remote.VerbDropGeneration: "slices dropped",
}

// serve lets the current incarnation of the member answer a request that has an address.
func (y *way) serve(address uint64, call *wire.Call, send func([]byte) error) (answer []byte, err error) {
	if membership.Control(call.Verb) {
		y.self.own.alone(func() { answer, err = y.answer(address, call, send) })
		return answer, err
	}
	return y.answer(address, call, send)
}

func (y *way) answer(address uint64, call *wire.Call, send func([]byte) error) ([]byte, error) {
	now, err := y.address()
	switch {
	case err != nil:
		return nil, err
	case now != address: // as package wire refuses it
		y.c.count("another incarnation")
		return nil, fmt.Errorf("%w: another member is here, or another incarnation of it", wire.ErrNotSent)
	}
	if what := met[call.Verb]; what != "" {
		y.c.count(what)
	}
	answer, err := y.self.Handler()(context.Background(), y.request(call), send)
	if err == nil {
		if membership.Proposes(call.Verb) && y.deafness > 0 {
			y.deaf, y.deafness = y.c.turns.Now().Add(y.deafness), 0
		}
		return answer, nil
	}
	var epoch *peer.EpochError
	if errors.As(err, &epoch) {
		y.c.count("another epoch")
	}
	return nil, membership.Errors.Decode(membership.Errors.Append(nil, err))
}

// patience bounds how long a call waits for a silent member, as connections of package wire do.
func (y *way) patience(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := y.c.turns.After(silenceLimit, func() { cancel(wire.ErrLost) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Do implements wire.Caller.
func (y *way) Do(ctx context.Context, call wire.Call) (answer []byte, err error) {
	call, err = call.Encoded(peer.FrameVersionMost)
	if err != nil {
		return nil, err
	}
	address, err := y.address()
	if err != nil {
		return nil, err
	}
	ctx, done := y.patience(ctx)
	defer done()
	do := func() (err error) {
		answer, err = y.serve(address, &call, func([]byte) error { return nil })
		return err
	}
	switch {
	case membership.Control(call.Verb):
		err = y.news(ctx, do)
	case membership.Decides(call.Verb): // not twice, and not within a crash: the member asks others before it ends
		fault, by := y.fault()
		if fault == "duplicate" || fault == "power" {
			fault = ""
		}
		err = y.through(ctx, fault, by, do)
	default:
		err = y.over(ctx, do)
	}
	if err != nil {
		return nil, y.lost(err)
	}
	return answer, nil
}

// news makes a call by which members agree. Faults of single calls apply only to other calls; some of these calls are lost.
func (y *way) news(ctx context.Context, do func() error) error {
	from, now := y.c.members[y.c.memberOf(y.from)], y.c.turns.Now()
	switch {
	case now.Before(y.deaf), now.Before(from.deaf):
		y.c.count("deaf")
		return y.through(ctx, "refuse", nil, do)
	case !y.c.calm && y.c.rand.IntN(100) < y.c.newsLost:
		return y.through(ctx, "loss", nil, do)
	}
	return y.through(ctx, "", nil, do)
}

// errStopped ends a stream that is no longer read.
var errStopped = errors.New("sim: the stream has ended")

// Stream implements wire.Caller.
func (y *way) Stream(ctx context.Context, call wire.Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		call, err := call.Encoded(peer.FrameVersionMost)
		if err == nil {
			var address uint64
			if address, err = y.address(); err == nil {
				err = y.stream(ctx, address, &call, yield)
			}
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, y.lost(err))
		}
	}
}

func (y *way) stream(ctx context.Context, address uint64, call *wire.Call, yield func([]byte, error) bool) error {
	if len(y.faults) > 0 && y.faults[0].kind == "power" { // a stream takes more than one turn
		y.faults = y.faults[1:]
	}
	life, asked, stopped := y.lives, false, false
	send := func(part []byte) error {
		y.c.turns.Yield(nil)
		switch {
		case stopped:
			return errStopped
		case y.lives != life || y.unreachable() != nil:
			return wire.ErrLost
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !yield(part, nil):
			stopped = true
			return errStopped
		}
		return nil
	}
	ctx, done := y.patience(ctx)
	defer done()
	err := y.over(ctx, func() error {
		if asked { // a duplicated request
			return nil
		}
		asked, life = true, y.lives
		last, err := y.serve(address, call, send)
		if err == nil {
			err = send(last)
		}
		return err
	})
	if stopped {
		return errStopped
	}
	return err
}
