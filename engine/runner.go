package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"bigset/compaction"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
)

// runner does the background work that is not Pebble's. One goroutine excises emptied sets and rewrites spans as the
// strategy says; another forgets unused sets.
type runner struct {
	s      *Store
	cancel context.CancelFunc
	done   chan struct{}

	mu      lockorder.Mutex[lockorder.RunnerMu]
	emptied []*set // pinned

	surveyed uint64      // the state of the tables when they were last read; 0 is never
	tables   []lsm.Table // the tables found then
	picker   setPicker
	sweeps   sweepPicker
	idle     atomic.Bool // the last tick found nothing to do
}

func (r *runner) start(s *Store) {
	r.s, r.done, r.picker = s, make(chan struct{}), newSetPicker()
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go r.run(ctx)
}

func (r *runner) stop() {
	r.cancel()
	<-r.done
	for _, st := range r.emptied {
		r.s.sets.release(st)
	}
}

func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	if r.s.opt.BackgroundInterval < 0 {
		<-ctx.Done()
		return
	}
	var trimming sync.WaitGroup
	trimming.Go(func() { r.s.sets.trimming(ctx) })
	defer trimming.Wait()
	t := time.NewTicker(r.s.opt.BackgroundInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r.s.db.HasFailed() {
			_ = r.s.db.Room()
			continue
		}
		if err := r.tick(ctx); err != nil && ctx.Err() == nil {
			r.s.db.Counters.BackgroundErrors.Add(1)
			r.s.event(Event{Kind: EventBackground, Err: lsm.DiskError(err)})
		}
	}
}

// tick does what is due.
func (r *runner) tick(ctx context.Context) error {
	r.idle.Store(true)
	_ = r.s.db.Room() // it reports by events
	if r.s.filters.Owes() && !r.s.db.Holds() {
		if err := r.s.filters.Flush(ctx); err != nil {
			return err
		}
	}
	if r.s.db.FlushFull() || r.s.db.Stalled() != nil { // all that follows writes, or waits for flushes
		return nil
	}
	if err := r.s.db.FlushSmallMemTables(r.s.counters.lookUps.Load()); err != nil {
		return err
	}
	err := errors.Join(r.s.forgetRequests(ctx), r.exciseSome(ctx))
	if r.s.strategy.Rewrites() {
		err = errors.Join(err, r.rewriteSome(ctx), r.sweepSome(ctx))
	}
	return err
}

// reclaims reports whether the strategy ever removes anything from the disk.
func (s *Store) reclaims() bool {
	return s.strategy.Filters() || s.strategy.Deletes() || s.strategy.Rewrites()
}

// dropped registers a set that may have become empty. A whole set is excised, however the strategy treats single
// keys.
func (r *runner) dropped(st *set) {
	if !r.s.reclaims() {
		return
	}
	r.s.sets.pin(st)
	r.mu.Lock()
	r.emptied = append(r.emptied, st)
	r.mu.Unlock()
}

func (r *runner) exciseSome(ctx context.Context) error {
	r.mu.Lock()
	all := r.emptied
	r.emptied = nil
	r.mu.Unlock()
	var errs []error
	for _, st := range all {
		err := ctx.Err()
		if err == nil {
			err = r.s.exciseEmptied(ctx, st)
		}
		if err == nil {
			r.s.sets.release(st)
			continue
		}
		errs = append(errs, err) // the others continue
		r.mu.Lock()
		r.emptied = append(r.emptied, st)
		r.mu.Unlock()
	}
	return errors.Join(errs...)
}

// worth reports whether a span is worth copying now. The copy takes room before the span gives it back. If little
// room is left, a span is worth it only if it gives back more than it takes.
func (r *runner) worth(span compaction.Span) bool {
	return r.s.strategy.Worth(span) && (!r.s.db.Tight() || span.Dead > span.Keys-span.Dead)
}

// pause waits for as long as that many bytes take at a rate.
func pause(ctx context.Context, bytes, bytesPerSecond int64) error {
	d := time.Duration(float64(bytes) / float64(bytesPerSecond) * float64(time.Second))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// survey reads the counts of all tables, if something has changed since the last survey.
func (r *runner) survey() ([]lsm.Table, error) {
	c, l := &r.s.counters, &r.s.db.Counters
	state := 1 + l.Flushes.Load() + l.Compactions.Load() + c.rewrites.Load() + c.excises.Load()
	if state == r.surveyed {
		return r.tables, nil
	}
	tables, err := r.s.db.ReadTables()
	if err != nil {
		return nil, err
	}
	r.surveyed, r.tables = state, tables
	return tables, nil
}
