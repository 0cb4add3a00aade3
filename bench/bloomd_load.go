package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"bigset/bench/system"

	"github.com/HdrHistogram/hdrhistogram-go"
)

type histogram = *hdrhistogram.Histogram

// bloomdLoad contains the requests to send. They have equal length and stand one after another in one piece of memory, so that any number
// of them is sent by one write. After the last request the first follows again.
type bloomdLoad struct {
	mode     bloomdMode
	requests []byte
	length   int // bytes of a request
	count    int
}

// newBloomdLoad makes the requests for keys keys. Those that write add keys 0, 1, 2 … Of the keys to check, every other one is one of
// these, and the others were never added.
func newBloomdLoad(mode bloomdMode, filter string, keys int) *bloomdLoad {
	l := &bloomdLoad{mode: mode, count: keys / mode.keys}
	l.length = len(mode.command) + 1 + len(filter) + mode.keys*(1+bloomdKeyBytes) + 1
	l.requests = make([]byte, 0, l.length*l.count)
	for i := range keys {
		if i%mode.keys == 0 {
			l.requests = append(append(append(l.requests, mode.command...), ' '), filter...)
		}
		n := i
		if !mode.writes && i%2 == 1 {
			n += keys
		}
		l.requests = fmt.Appendf(append(l.requests, ' '), "%0*d", bloomdKeyBytes, n)
		if i%mode.keys == mode.keys-1 {
			l.requests = append(l.requests, '\n')
		}
	}
	return l
}

// part returns up to n requests from the at-th on, in one piece, and their number.
func (l *bloomdLoad) part(at, n int) ([]byte, int) {
	at %= l.count
	n = min(n, l.count-at)
	return l.requests[at*l.length : (at+n)*l.length], n
}

// bloomdConn is one connection of a load. One goroutine uses it: for each answer that it has read, it sends one more request.
type bloomdConn struct {
	conn     net.Conn
	buf      []byte
	hist     histogram
	sent     []bloomdSent // waiting for answers, oldest first
	requests int          // answered
	yes, no  int          // words in answers
}

// bloomdSent are requests that were sent at one time.
type bloomdSent struct {
	at time.Time
	n  int
}

// send sends n requests from the at-th on.
func (c *bloomdConn) send(l *bloomdLoad, at, n int, now time.Time) error {
	c.sent = append(c.sent, bloomdSent{now, n})
	for n > 0 {
		part, k := l.part(at, n)
		if _, err := c.conn.Write(part); err != nil {
			return err
		}
		at, n = at+k, n-k
	}
	return nil
}

// drive sends requests from the at-th on, at most most, until the given time, and waits for all answers.
func (c *bloomdConn) drive(l *bloomdLoad, at, depth, most int, until time.Time) error {
	if err := c.conn.SetDeadline(until.Add(bloomdWait)); err != nil {
		return err
	}
	sent := min(depth, most)
	if err := c.send(l, at, sent, time.Now()); err != nil {
		return err
	}
	for c.requests < sent {
		n, err := c.conn.Read(c.buf)
		if err != nil {
			return err
		}
		now := time.Now()
		answers := c.take(c.buf[:n], now)
		if c.requests > sent {
			return fmt.Errorf("%w: %d answers to %d requests", system.ErrWrong, c.requests, sent)
		}
		if answers = min(answers, most-sent); answers > 0 && now.Before(until) {
			if err := c.send(l, at+sent, answers, now); err != nil {
				return err
			}
			sent += answers
		}
	}
	// Every key is answered by Yes or No; no error contains either word.
	return system.Expect("Yes and No", c.yes+c.no, sent*l.mode.keys)
}

// take counts the answers in b and records how long they took.
func (c *bloomdConn) take(b []byte, now time.Time) (answers int) {
	answers = bytes.Count(b, []byte{'\n'})
	c.yes += bytes.Count(b, []byte{'Y'})
	c.no += bytes.Count(b, []byte{'N'})
	c.requests += answers
	done := 0
	for left := answers; left > 0 && done < len(c.sent); {
		s := &c.sent[done]
		n := min(left, s.n)
		_ = c.hist.RecordValues(int64(min(now.Sub(s.at), latencyMax)), int64(n)) // in range
		left -= n
		if s.n -= n; s.n == 0 {
			done++
		}
	}
	c.sent = c.sent[:copy(c.sent, c.sent[done:])]
	return answers
}

// dial opens connections.
func (r *bloomdRunner) dial(t *bloomdTarget, n int) ([]*bloomdConn, error) {
	var list []*bloomdConn
	for range n {
		conn, err := (&net.Dialer{Timeout: bloomdWait}).DialContext(r.ctx, "tcp", t.server.Addr)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, &bloomdConn{conn: conn, buf: make([]byte, 64<<10), hist: newHistogram()})
	}
	return list, nil
}

func closeAll(list []*bloomdConn) (err error) {
	for _, c := range list {
		if e := c.conn.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// load runs one load on one server for a span.
func (r *bloomdRunner) load(t *bloomdTarget, p bloomdPoint, l *bloomdLoad) (f Figures, hist histogram, own float64, err error) {
	conns, err := r.dial(t, p.connections)
	if err != nil {
		return f, nil, 0, err
	}
	defer func() { err = errors.Join(err, closeAll(conns)) }()
	defer context.AfterFunc(r.ctx, func() { _ = closeAll(conns) })() // so that no goroutine waits for an answer any longer
	cpu, err := t.cpuNow()
	if err != nil {
		return f, nil, 0, err
	}
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	began, loader := time.Now(), cpuNow()
	for i, c := range conns {
		wg.Go(func() {
			at := i * l.count / len(conns) &^ 1 // even: the filter contains the first key that is checked
			most, until := math.MaxInt, began.Add(r.cfg.Span)
			if p.once {
				most, until = l.count/len(conns), began.Add(time.Hour)
				at = i * most
			}
			errs[i] = c.drive(l, at, p.depth, most, until)
		})
	}
	profile := t.profiled(p.name())
	wg.Wait()
	took := time.Since(began)
	loader = cpuNow() - loader
	after, e := t.cpuNow()
	if err := errors.Join(r.ctx.Err(), errors.Join(errs...), e, profile()); err != nil {
		return f, nil, 0, err
	}
	ph := &phase{hist: newHistogram()}
	var yes int
	for _, c := range conns {
		ph.ops += uint64(c.requests)
		yes += c.yes
		ph.hist.Merge(c.hist)
	}
	if err := l.expectYes(p, ph.ops, yes); err != nil {
		return f, nil, 0, err
	}
	ph.figures(&f, took, after-cpu)
	if t.cpu == nil {
		f.CPUMicros = nil
	}
	return f, ph.hist, micros(loader) / float64(ph.ops), nil
}

// expectYes checks the number of yes answers. A load of checks must get yes for half of its keys, give or take the last request of each
// connection and false positives. A load that adds each key once must get yes for all but 1 % of them.
func (l *bloomdLoad) expectYes(p bloomdPoint, requests uint64, yes int) error {
	keys := int(requests) * l.mode.keys
	half := keys / 2
	switch {
	case !l.mode.writes && (yes < half-p.connections || yes > half+p.connections+keys/100):
		return fmt.Errorf("%w: %d of %d keys are present, half of them were added", system.ErrWrong, yes, keys)
	case l.mode.writes && p.once && yes < keys-keys/100:
		return fmt.Errorf("%w: %d of %d keys are new, and all of them should be", system.ErrWrong, yes, keys)
	}
	return nil
}

// profiled begins a profile of the server if profiles are configured.
func (t *bloomdTarget) profiled(workload string) (wait func() error) {
	if t.profile == nil {
		return func() error { return nil }
	}
	return t.profile(workload)
}

// cpuNow returns the CPU time that the server has used, or 0 if it is unknown.
func (t *bloomdTarget) cpuNow() (time.Duration, error) {
	if t.cpu == nil {
		return 0, nil
	}
	return t.cpu()
}
