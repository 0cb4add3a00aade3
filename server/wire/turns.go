package wire

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// turnsEach is how many requests of clients run at once for each processor, unless ServerOptions.RunMax says otherwise.
const turnsEach = 16

// Turns are looked at every turnTime while requests wait. A turn ends at the second look that finds a processor free: its request waits for a
// disk or for a member. If all processors have work, it may wait for one of them; then its turn ends at the eighth look.
const (
	turnTime  = 5 * time.Millisecond
	looksFree = 2
	looksMost = 8
)

// turns bounds how many requests of clients run at once. The goroutines of a process share its processors equally: if thousands of them ran
// for clients, each request of a node would wait for all of them.
//
// A request has its turn until it is answered, or waits for its client. The connections take turns, so that one with a thousand requests delays
// another one's by one call: one request, or togetherMost that have waited. On one connection the others wait in the order in which they
// came. Those that have rested have a line of their own, and the two lines alternate: a stream does not keep others out, nor they it.
//
// A request may wait for other nodes during its turn, and for a disk. Soon it does so without a turn, so that a member that hangs keeps only
// those that need it, and a slow disk bounds no more than it must. Requests of nodes need no turn. So no request waits for ever.
type turns struct {
	most int
	time time.Duration // between two looks
	do   func(work)    // begins work in another goroutine

	mu    sync.Mutex
	held  []*turn // less than most only if nothing waits
	rows  []*row  // of the connections with requests that wait, the next one first
	looks uint64  // how often turns were looked at
	free  uint64  // and how often a processor was free
	timed bool    // the next look is awaited
}

// row contains the requests of a connection that wait for their turn.
type row struct {
	waiting []*queued // have not begun
	rested  []*queued // have begun
	was     bool      // the last turn was that of one that had rested
}

// line returns the line of a request.
func (r *row) line(w *queued) *[]*queued {
	if w.going != nil {
		return &r.rested
	}
	return &r.waiting
}

// len returns how many requests wait.
func (r *row) len() int { return len(r.waiting) + len(r.rested) }

// turn is that of one request, or of several that run in one call of a function of ServerOptions.Together.
type turn struct {
	place       int    // in turns.held, counted from 1; 0 is no turn
	looks, free uint64 // those of turns when it began
}

// queued is a request that waits for its turn.
type queued struct {
	row   *row
	job   *job
	going chan struct{} // closed when its turn has come, for a request that has begun before; else nil
	stop  func() bool   // ends the wait for the end of its context
}

func newTurns(most int, do func(work)) *turns {
	if most < 1 {
		most = turnsEach * runtime.GOMAXPROCS(0)
	}
	return &turns{most: most, time: turnTime, do: do}
}

// begin reports whether work of a connection may run now. Otherwise it runs when its turn comes.
func (t *turns) begin(r *row, w work) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) < t.most {
		t.hold(w.turn())
		return true
	}
	for j := range w.jobs() {
		wait := &queued{row: r, job: j}
		wait.stop = context.AfterFunc(j.ctx, func() {
			if t.leave(wait) {
				j.late()
			}
		})
		t.enter(wait)
	}
	return false
}

// end ends a turn, and returns the work whose turn comes, if any.
func (t *turns) end(u *turn) work {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.release(u) {
		return work{}
	}
	return t.next()
}

// rest ends a turn while its request waits.
func (t *turns) rest(u *turn) {
	if w := t.end(u); w.some() {
		t.do(w)
	}
}

// resume waits for a turn of a request that has rested. It reports false if the request has ended before.
func (t *turns) resume(r *row, j *job) bool {
	t.mu.Lock()
	if len(t.held) < t.most {
		t.hold(&j.turn)
		t.mu.Unlock()
		return true
	}
	w := &queued{row: r, job: j, going: make(chan struct{})}
	t.enter(w)
	t.mu.Unlock()
	select {
	case <-w.going:
		return true
	case <-j.ctx.Done():
		t.leave(w)
		return false
	}
}

// hold begins a turn, if the request has none. The caller holds mu.
func (t *turns) hold(u *turn) {
	if u.place > 0 {
		return
	}
	t.held = append(t.held, u)
	u.place, u.looks, u.free = len(t.held), t.looks, t.free
}

// release ends a turn, if it has not ended. The caller holds mu.
func (t *turns) release(u *turn) bool {
	if u.place == 0 {
		return false
	}
	last := t.held[len(t.held)-1]
	t.held[u.place-1], last.place = last, u.place
	t.held[len(t.held)-1] = nil
	t.held, u.place = t.held[:len(t.held)-1], 0
	return true
}

// enter adds a request that waits to its row. The caller holds mu.
func (t *turns) enter(w *queued) {
	if w.row.len() == 0 {
		t.rows = append(t.rows, w.row)
	}
	line := w.row.line(w)
	*line = append(*line, w)
	if !t.timed {
		t.timed = true
		time.AfterFunc(t.time, t.tick)
	}
}

// leave takes a request from its row. It reports false if its turn has come before.
func (t *turns) leave(w *queued) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := w.row.line(w)
	i := slices.Index(*line, w)
	if i < 0 {
		return false
	}
	*line = slices.Delete(*line, i, i+1)
	if w.row.len() == 0 {
		i := slices.Index(t.rows, w.row)
		t.rows = slices.Delete(t.rows, i, i+1)
	}
	return true
}

// togetherMost is how many requests that have waited run in one call of a function of ServerOptions.Together.
const togetherMost = 64

// next gives a turn that has ended to the next row, which then is the last. It returns the work to do; none if the request has begun
// before, or if nothing waits. The caller holds mu.
func (t *turns) next() (w work) {
	if len(t.rows) == 0 {
		return w
	}
	r := t.rows[0]
	t.rows = t.rows[1:]
	first := r.first()
	switch {
	case first.going != nil:
		close(first.going)
	case first.job.task.j == nil:
		w.alone = first.job
	default:
		w.together = append(w.together, &first.job.task)
		for len(r.waiting) > 0 && len(w.together) < togetherMost && first.job.joins(r.waiting[0]) {
			w.together = append(w.together, &take(&r.waiting).job.task)
		}
	}
	t.hold(&first.job.turn)
	if r.len() > 0 {
		t.rows = append(t.rows, r)
	}
	return w
}

// first takes the request whose turn comes.
func (r *row) first() *queued {
	if r.was = len(r.rested) > 0 && (!r.was || len(r.waiting) == 0); r.was {
		return take(&r.rested)
	}
	return take(&r.waiting)
}

// take takes the first request of a line.
func take(line *[]*queued) *queued {
	w := (*line)[0]
	(*line)[0] = nil
	if *line = (*line)[1:]; w.stop != nil {
		w.stop()
	}
	return w
}

// joins reports whether a request that waits may run in the same call as j.
func (j *job) joins(w *queued) bool {
	return w.job.task.j != nil && w.job.req.Verb == j.req.Verb
}

// tick looks at the turns. To learn whether a processor is free, it lets other goroutines run.
func (t *turns) tick() {
	began := time.Now()
	runtime.Gosched()
	t.look(time.Since(began) < t.time)
}

// look ends the turns that have lasted long enough.
func (t *turns) look(free bool) {
	var begin []work
	t.mu.Lock()
	if t.looks++; free {
		t.free++
	}
	for i := len(t.held) - 1; i >= 0; i-- {
		if u := t.held[i]; t.free-u.free >= looksFree || t.looks-u.looks >= looksMost {
			t.release(u)
			begin = append(begin, t.next())
		}
	}
	if t.timed = len(t.rows) > 0; t.timed {
		time.AfterFunc(t.time, t.tick)
	}
	t.mu.Unlock()
	for _, w := range begin {
		if w.some() {
			t.do(w)
		}
	}
}
