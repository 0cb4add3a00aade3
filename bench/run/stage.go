package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"

	"bigset/bench/load"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/bench/system/all"
	"bigset/compaction"
)

// stage is a system that runs the phases of a round: its store, and the store's model. Only one goroutine may use it.
type stage struct {
	*runner
	contender
	at     At
	sys    system.System
	model  *load.Model
	groups []*sample.Latencies // of clients

	stream hash.Hash          // of all operations
	timed  bool               // a phase has ended by time: its operations, and those after it, differ between runs
	speeds map[string]float64 // of phases in this round
}

func newStage(r *runner, c contender, at At) *stage {
	return &stage{runner: r, contender: c, at: at, model: load.NewModel(r.w, c.system, at.Size, r.o.Seed), groups: load.Groups(r.w),
		stream: sha256.New(), speeds: map[string]float64{}}
}

// run runs all phases on a store of its own.
func (s *stage) run() (err error) {
	if err := s.open(s.strategy, s.folder(), nil); err != nil {
		return err
	}
	defer func() {
		s.o.Observer.StepBegan("closing the store")
		err = errors.Join(err, s.discard())
	}()
	for i := range s.w.Phases {
		p := &s.w.Phases[i]
		for _, step := range p.First {
			s.o.Observer.StepBegan("before " + p.Name + ": " + doing(step))
			if err := s.step(step); err != nil {
				return fmt.Errorf("phase %s: %s: %w", p.Name, step, err)
			}
		}
		if err := s.phase(i, p); err != nil {
			return fmt.Errorf("phase %s: %w", p.Name, err)
		}
	}
	if s.model.Live() > verifyMax {
		return nil
	}
	s.o.Observer.StepBegan("verifying the store")
	return s.model.Verify(s.sys, verifySets)
}

const (
	verifyMax  = 1_000_000 // elements up to which a store is verified after a round
	verifySets = 1000      // largest number of sets that are verified
)

// options returns the options to open the store with.
func (s *stage) options(strategy string, before system.System) (system.Options, error) {
	st := &s.w.Store
	o := system.Options{
		MemTableBytes: st.MemTableBytes, CacheBytes: st.CacheBytes, SetCacheBytes: st.SetCacheBytes, Sync: st.Sync || s.o.Sync,
		Warm: st.Warm && before == nil, KeepContexts: st.KeepContexts, Deletes: s.model.Deletes(), ReadsClocks: st.SetCacheBytes > 0, Pebble: st.Pebble, Before: before,
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = s.o.MemTableBytes
	}
	if st.MemTableAt > 0 {
		share := min(1, float64(s.at.Size)/float64(st.MemTableAt))
		o.MemTableBytes = max(min(o.MemTableBytes, memTableMin), int(float64(o.MemTableBytes)*share))
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = s.o.CacheBytes
	}
	if st.CacheShare > 0 {
		element := (s.w.Elements.MinBytes+s.w.Elements.MaxBytes)/2 + keyBytes
		o.CacheBytes = int64(st.CacheShare * float64(s.at.Size) * float64(element))
	}
	switch {
	case st.Record != "":
		o.Record = recordNamed(st.Record)
	case s.system != spec.Bigset && s.model.Deletes():
		o.Record = compaction.Set // the classical way
	default:
		if strategy == "" {
			strategy = s.o.Strategy
		}
		by, err := s.o.strategyNamed(strategy)
		if err != nil {
			return o, err
		}
		o.Record = system.RecordFor(by)
	}
	return o, nil
}

const (
	memTableMin = 1 << 20
	keyBytes    = 43 // of an element's key beside the element
)

// open opens a store. before is the system that has written the contents of the folder, or nil.
func (s *stage) open(strategy, dir string, before system.System) error {
	o, err := s.options(s.strategy, before)
	if err != nil {
		return err
	}
	if s.system == spec.Bigset {
		if o.Strategy, err = s.o.strategyNamed(strategy); err != nil {
			return err
		}
	}
	if s.sys, err = all.Open(s.ctx, string(s.system), strategy, dir, o); err != nil {
		return err
	}
	if s.o.wrap != nil {
		s.sys = s.o.wrap(s.sys)
	}
	s.o.Observer.Opened(s.at, s.sys, s.groups)
	return nil
}

func (s *stage) close() error {
	s.o.Observer.Closing(s.sys)
	return s.sys.Close()
}

// discard closes the store and removes its folder.
func (s *stage) discard() error {
	if s.sys == nil {
		return nil
	}
	dir := s.sys.Dir()
	err := errors.Join(s.close(), os.RemoveAll(dir))
	s.sys = nil
	return err
}

// step does something to the store between two phases.
func (s *stage) step(step spec.Step) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	switch step {
	case spec.StepSettle:
		_, err := s.sys.Settle(s.ctx)
		return err
	case spec.StepCompact:
		return s.compact()
	case spec.StepRestart, spec.StepKill:
		open, err := s.shut(step, s.strategy)
		if err != nil {
			return err
		}
		return open()
	case spec.StepVerify:
		return s.model.Verify(s.sys, 0)
	case spec.StepDrop:
		for _, set := range s.model.Sets() {
			if err := s.sys.Drop(set); err != nil {
				return err
			}
		}
		s.model.Forget()
		return nil
	case spec.StepBottom:
		return s.bottom()
	case spec.StepEmpty:
		s.model.Forget()
		if err := s.discard(); err != nil {
			return err
		}
		return s.open(s.strategy, s.folder(), nil)
	case spec.StepFresh:
		return s.fresh()
	}
	return fmt.Errorf("%w: no step %q", ErrOptions, step)
}

// doing returns what a step does, for people.
func doing(step spec.Step) string {
	switch step {
	case spec.StepSettle:
		return "settling"
	case spec.StepCompact:
		return "compacting"
	case spec.StepRestart:
		return "closing and opening the store"
	case spec.StepKill:
		return "opening the store after a kill"
	case spec.StepVerify:
		return "verifying the store"
	case spec.StepDrop:
		return "dropping all sets"
	case spec.StepBottom:
		return "moving everything to the bottommost level"
	case spec.StepEmpty:
		return "opening an empty store"
	case spec.StepFresh:
		return "loading a new store"
	}
	return string(step)
}

func (s *stage) compact() error {
	for _, set := range s.model.Sets() {
		if err := s.sys.Compact(s.ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// reopen closes the store cleanly and opens it with a strategy.
func (s *stage) reopen(strategy string) error {
	open, err := s.shut(spec.StepRestart, strategy)
	if err != nil {
		return err
	}
	return open()
}

// shut closes the store cleanly or simulates a kill. It returns a function that opens what the disk then contains.
func (s *stage) shut(by spec.Step, strategy string) (open func() error, err error) {
	before, dir := s.sys, s.sys.Dir()
	if by == spec.StepKill {
		dir = s.folder()
		if err := before.Checkpoint(s.ctx, dir); err != nil {
			return nil, err
		}
		err = s.discard()
	} else {
		err = s.close()
	}
	s.sys = nil
	return func() error { return s.open(strategy, dir, before) }, err
}

// bottom moves everything to the bottommost level.
func (s *stage) bottom() error {
	if s.system == spec.Bigset { // the strategy none does this
		if err := s.reopen(compaction.None().Name()); err != nil {
			return err
		}
	}
	if err := s.sys.Bottom(s.ctx); err != nil || s.system != spec.Bigset {
		return err
	}
	return s.reopen(s.strategy)
}

// fresh continues with a new store that contains the live elements.
func (s *stage) fresh() error {
	if err := s.discard(); err != nil {
		return err
	}
	if err := s.open(s.strategy, s.folder(), nil); err != nil {
		return err
	}
	if err := s.model.Fill(s.ctx, s.sys); err != nil {
		return err
	}
	_, err := s.sys.Settle(s.ctx)
	return err
}

// hashDigits is how many digits of the hash are shown.
const hashDigits = 16

// hashNow returns the hash of all operations so far, or "" if the operations differ between runs.
func (s *stage) hashNow() string {
	if s.timed {
		return ""
	}
	return hex.EncodeToString(s.stream.Sum(nil))[:hashDigits]
}
