package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"bigset/bench/system"

	"bigset/client"
	"bigset/internal/halt"
	"bigset/server/cluster"
)

// faultClients is how many clients run during a fault of the third node. They are distributed over the other two nodes.
const faultClients = 8

// steady is a group of clients that add one element after another until they are stopped. They record when each add ended and how long it
// took.
type steady struct {
	clients []*client.Client
	wg      sync.WaitGroup
	over    atomic.Bool
	mu      sync.Mutex
	all     []timed
}

// timed is one operation.
type timed struct {
	end  time.Time
	took time.Duration
	err  error
}

// steady starts clients. pause is how long each waits after an answer.
func (l *lab) steady(ps *processes, pause time.Duration) (*steady, error) {
	s := &steady{}
	for g := range faultClients {
		c, err := ps.all[g%(len(ps.all)-1)].client()
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.clients = append(s.clients, c)
		s.wg.Go(func() {
			for began := time.Now(); !s.over.Load() && l.ctx.Err() == nil; began = time.Now() {
				set := fmt.Sprintf("steady-%d", g)
				_, err := c.Write(l.ctx, client.Write{Set: []byte(set), Ops: []client.Op{{Kind: client.OpAdd, Element: l.element()}}})
				now := time.Now()
				s.mu.Lock()
				s.all = append(s.all, timed{now, now.Sub(began), err})
				s.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	return s, nil
}

func (s *steady) stop() error {
	s.over.Store(true)
	s.wg.Wait()
	for _, c := range s.clients {
		_ = c.Close() // it never fails
	}
	return nil
}

// between returns the operations that ended in an interval, in the order of their ends.
func (s *steady) between(from, to time.Time) (list []timed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if !t.end.Before(from) && t.end.Before(to) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b timed) int { return a.end.Compare(b.end) })
	return list
}

// figures returns the figures of the operations in an interval.
func (s *steady) figures(from, to time.Time) (f Figures, hist histogram) {
	p := &phase{hist: newHistogram()}
	errs := uint64(0)
	for _, t := range s.between(from, to) {
		p.ops++
		p.observe(t.took)
		if t.err != nil {
			errs++
		}
	}
	p.figures(&f, to.Sub(from), 0)
	f.CPUMicros, f.Errors = nil, &errs
	return f, p.hist
}

// To see when a p99 is back to normal, it is taken over windows of recoverWindow, one starting every recoverStep. In a shorter window, a
// few slow operations of a busy machine would be the p99.
const (
	recoverWindow = time.Second
	recoverStep   = 100 * time.Millisecond
)

// back returns how long after from the p99 of the windows stays at or below the limit for good.
func (s *steady) back(from, to time.Time, limit time.Duration) time.Duration {
	back := time.Duration(0)
	for at := from; ; at = at.Add(recoverStep) {
		end := at.Add(recoverWindow)
		if end.After(to) {
			end = to
		}
		h := newHistogram()
		for _, t := range s.between(at, end) {
			_ = h.RecordValue(int64(min(t.took, latencyMax))) // in range
		}
		bad := h.TotalCount() == 0 || time.Duration(h.ValueAtPercentile(99)) > limit
		switch {
		case bad && end.Equal(to):
			return to.Sub(from)
		case bad:
			back = at.Add(recoverStep).Sub(from)
		}
		if end.Equal(to) {
			return back
		}
	}
}

func (l *lab) wait(d time.Duration) time.Time {
	select {
	case <-l.ctx.Done():
	case <-time.After(d):
	}
	return time.Now()
}

// duration records a time that is not the latency of a load.
func (l *lab) duration(workload, system string, d time.Duration) {
	p := &phase{hist: newHistogram(), ops: 1}
	p.observe(max(d, 1))
	var f Figures
	f.Latencies(p.hist)
	l.took(workload, system, 0, f, p.hist)
}

// faults kills a node while clients add on the others, starts it again, and then stops it for a while.
func (l *lab) faults() error {
	ps, err := l.started(systemCluster)
	if err != nil {
		return err
	}
	if err := ps.ready(readyTime); err != nil {
		return err
	}
	return errors.Join(l.kill(ps), l.pause(ps))
}

// spans returns how long to measure before and after a fault.
func (l *lab) spans() (before, after time.Duration) {
	if l.c.Short {
		return 100 * time.Millisecond, 200 * time.Millisecond
	}
	return 3 * time.Second, 6 * time.Second
}

func (l *lab) kill(ps *processes) (err error) {
	before, after := l.spans()
	s, err := l.steady(ps, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	began := l.wait(before / 3) // connections are open now
	killed := l.wait(before)
	victim := ps.all[len(ps.all)-1]
	victim.end(syscall.SIGKILL)
	end := l.wait(after)
	f, hist := s.figures(began, killed)
	l.took("kill/before", systemCluster, faultClients, f, hist)
	limit := 2 * time.Duration(*f.P99*float64(time.Microsecond))
	f, hist = s.figures(killed, end)
	l.took("kill/after", systemCluster, faultClients, f, hist)
	l.duration("kill/back", systemCluster, s.back(killed, end, limit))
	l.around("kill", s, began, end, moment{killed, "node c is killed"})
	return errors.Join(s.stop(), l.replay(ps, victim, f.OpsPerSecond))
}

// replay starts a node again and measures how fast it receives what was written while it was down, compared with how fast that was written.
// The clients are idle by then.
func (l *lab) replay(ps *processes, victim *process, rate float64) error {
	pending, err := l.hints(ps, victim)
	if err != nil {
		return err
	}
	cpu, err := ps.cpu()
	if err != nil {
		return err
	}
	if err := ps.run(victim); err != nil {
		return err
	}
	started := time.Now()
	var first time.Time // when the first hint was replayed
	for {
		left, err := l.hints(ps, victim)
		if err != nil {
			return err
		}
		if left < pending && first.IsZero() {
			first = time.Now().Add(-statusPause)
		}
		if left == 0 {
			break
		}
		if time.Since(started) > readyTime {
			return fmt.Errorf("%d of %d hints are left after %v", left, pending, readyTime)
		}
		l.wait(statusPause / 2)
	}
	took := time.Since(first)
	if first.IsZero() {
		took = statusPause
	}
	after, err := ps.cpu()
	f := Figures{Ops: uint64(pending), OpsPerSecond: float64(pending) / took.Seconds(), CPUMicros: new(micros(after-cpu) / max(1, float64(pending)))}
	l.took("kill/replay", systemCluster, 0, f, nil)
	l.took("kill/writes", systemCluster, 0, Figures{OpsPerSecond: rate}, nil)
	l.duration("kill/caught-up", systemCluster, time.Since(started))
	return errors.Join(err, ps.ready(readyTime))
}

// hints returns how many hints the other nodes keep for a member.
func (l *lab) hints(ps *processes, of *process) (n int, err error) {
	for _, p := range ps.all {
		if p == of {
			continue
		}
		s, err := ps.status(l.ctx, p)
		if err != nil {
			return 0, err
		}
		for _, m := range s.Members {
			if m.ID == of.id {
				n += m.Hints
			}
		}
	}
	return n, nil
}

// pause stops a node, which cuts no connection, and then continues it.
func (l *lab) pause(ps *processes) (err error) {
	before, after := l.spans()
	s, err := l.steady(ps, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(), ps.ready(readyTime)) }()
	began := l.wait(before / 3)
	stopped := l.wait(before)
	victim := ps.all[len(ps.all)-1]
	if err := victim.cmd.Process.Signal(halt.Stop); err != nil {
		return fmt.Errorf("stop node %s: %w", victim.id, err)
	}
	end := l.wait(after)
	if err := victim.cmd.Process.Signal(halt.Continue); err != nil {
		return err
	}
	f, hist := s.figures(began, stopped)
	l.took("stop/before", systemCluster, faultClients, f, hist)
	f, hist = s.figures(stopped, end)
	l.took("stop/during", systemCluster, faultClients, f, hist)
	goesOn := l.wait(before)
	l.around("stop", s, began, goesOn, moment{stopped, "node c is stopped"}, moment{end, "it goes on"})
	return s.stop()
}

const (
	// fillElement is the length of the elements that a member is filled with.
	fillElement = 1000
	// fillPause is how long each client waits between two adds while a member is filled: the clients share their nodes with the fill.
	fillPause = 5 * time.Millisecond
)

// filling loads a cluster of its own, wipes the disk of a member, and measures how fast the member is filled while clients add.
func (l *lab) filling() error {
	ps, err := l.start("fill", 3, false)
	if err != nil {
		return err
	}
	defer ps.stop()
	c, err := ps.all[0].client()
	if err != nil {
		return err
	}
	n := int(max(1, l.c.FillBytes/fillElement))
	err = l.loadMany(c, n)
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	if err := l.writeFile(); err != nil {
		return err
	}
	if err := ps.ready(readyTime); err != nil {
		return err
	}
	if err := l.refill(ps, "fill", int64(n)*fillElement); err != nil {
		return err
	}
	ps.extra = []string{"--copy-bytes-per-second", fmt.Sprint(fillLimit)}
	l.took("fill/limited", systemLimit, 0, Figures{MBPerSecond: new(float64(fillLimit) / 1e6)}, nil)
	return l.refill(ps, "fill/limited", int64(n)*fillElement)
}

// fillLimit bounds the copies of the second fill, in bytes a second: low enough that the machine is not the bottleneck.
const fillLimit = 32_000_000

// fillSets is how many sets the data is divided into, so that many ranges contain some.
const fillSets = 64

func (l *lab) loadMany(c *client.Client, n int) error {
	for i := range fillSets {
		element := func(dst []byte, k int) []byte {
			for j := 0; len(dst) < fillElement; j++ {
				dst = l.names().Append(dst, (i*n+k)*fillElement+j)
			}
			return dst[:fillElement]
		}
		if err := l.loadSet(c, fmt.Sprintf("fill-%d", i), (n+fillSets-1-i)/fillSets, element); err != nil {
			return err
		}
	}
	return nil
}

// writeFile measures how fast the disk takes a file that is synced every megabyte.
func (l *lab) writeFile() (err error) {
	f, err := os.Create(filepath.Join(l.root, "raw"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(system.Mix(uint64(i)))
	}
	began := time.Now()
	for left := l.c.FillBytes; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	l.took("fill", systemDisk, 0, Figures{MBPerSecond: new(float64(l.c.FillBytes) / 1e6 / time.Since(began).Seconds())}, nil)
	return nil
}

// refill takes its folder from a node, and measures how the node is filled again while clients add.
func (l *lab) refill(ps *processes, workload string, bytes int64) (err error) {
	before, _ := l.spans()
	s, err := l.steady(ps, fillPause)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	began := l.wait(before / 3)
	wiped := l.wait(before)
	victim := ps.all[len(ps.all)-1]
	victim.end(syscall.SIGKILL)
	// It is not deleted: a disk that discards what is deleted delays the others' syncs.
	if err := os.Rename(victim.dir, victim.dir+"-lost-"+strings.ReplaceAll(workload, "/", "-")); err != nil {
		return err
	}
	cpu, err := ps.cpu()
	if err != nil {
		return err
	}
	if err := ps.run(victim); err != nil {
		return err
	}
	started := time.Now()
	filled := func(s *cluster.Status) bool { return s.Serves && s.Sets && s.Filters }
	if err := ps.until(victim, 10*readyTime, filled); err != nil {
		return err
	}
	end := time.Now()
	after, err := ps.cpu()
	mb := float64(bytes) / 1e6
	l.took(workload, systemCluster, 0, Figures{MBPerSecond: new(mb / end.Sub(started).Seconds()), CPUMicros: new(micros(after-cpu) / mb)}, nil)
	l.duration(workload+"/time", systemCluster, end.Sub(started))
	f, hist := s.figures(began, wiped)
	l.took(workload+"/before", systemCluster, faultClients, f, hist)
	f, hist = s.figures(started, end)
	l.took(workload+"/clients", systemCluster, faultClients, f, hist)
	l.around(workload, s, began, end, moment{wiped, "node c loses its disk"}, moment{started, "it starts with an empty one"}, moment{end, "it is filled"})
	return errors.Join(err, s.stop())
}

// idleBuckets is how many ranges the cluster of idle members has.
const idleBuckets = 4096

// idle measures the memory of members that do nothing, compared with a node without a cluster.
func (l *lab) idle() error {
	alone, err := l.start("idle-alone", 1, false)
	if err != nil {
		return err
	}
	defer alone.stop()
	ps, err := l.start("idle", 3, false, "--buckets", fmt.Sprint(idleBuckets))
	if err != nil {
		return err
	}
	defer ps.stop()
	rest, _ := l.spans()
	l.wait(rest)
	for system, of := range map[string]*processes{systemAlone: alone, systemCluster: ps} {
		most := uint64(0)
		for _, p := range of.all {
			n, err := processRSS(p.cmd.Process.Pid)
			if err != nil {
				return err
			}
			most = max(most, n)
		}
		l.took("idle", system, idleBuckets, Figures{RSSBytes: &most}, nil)
	}
	return context.Cause(l.ctx)
}
