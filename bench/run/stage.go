package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"slices"
	"sync/atomic"

	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/compaction"
)

// stage is a system that runs the phases of a round: its store, and what is known of the elements in it. One goroutine uses it; while a phase
// runs, each client uses the populations of its own parts.
type stage struct {
	*runner
	contender
	at    At
	sys   system.System
	names names

	// The elements of each set are in parts, whatever a phase's clients are: those of part j have the numbers base + i*parts + j. Each client of a
	// phase owns some of the parts, all clients as many.
	sets, parts int
	base        uint64
	pops        []*population // of set s and part j at s*parts+j; nil where nothing was added
	cursors     []map[int]int // by part and set, of choosers that go on from phase to phase

	dots    bool        // of elements, are kept
	deletes bool        // raw Pebble deletes what is removed
	stale   atomic.Bool // the system may have more keys than elements live: raw Pebble that notes removes alone

	stream hash.Hash          // of all operations
	timed  bool               // a phase has ended by time: its operations, and those after it, are not the same in each run
	speeds map[string]float64 // of phases in this round
}

// partsMax is the greatest number of parts where each client gets as many as others.
const partsMax = 1024

func newStage(r *runner, c contender, at At) *stage {
	s := &stage{runner: r, contender: c, at: at, names: names{r.o.Seed, r.w.Elements}, stream: sha256.New(), speeds: map[string]float64{}}
	s.sets, s.parts = max(1, r.w.Sets.Count.At(at.Size)), 1
	most := 1
	for i := range r.w.Phases {
		n := clientsOf(&r.w.Phases[i])
		most = max(most, n)
		if s.parts <= partsMax {
			s.parts = s.parts / gcd(s.parts, max(1, n)) * max(1, n)
		}
		for _, role := range r.w.Phases[i].Roles {
			s.deletes = s.deletes || slices.ContainsFunc(role.Mix, func(k spec.Share) bool { return k.Kind == spec.Take })
			s.dots = s.dots || role.ByDot && c.system == spec.Pebble
			for _, k := range role.Mix {
				replaces := k.Kind == spec.Replace || k.Kind == spec.Remove || k.Kind == spec.Exchange
				s.dots = s.dots || replaces && (role.Context == spec.Narrow || role.Context == "" || c.system != spec.Bigset)
			}
		}
	}
	if s.parts > partsMax {
		s.parts = most
	}
	s.deletes = s.deletes || slices.Contains(r.w.Strategies, compaction.PointDeletes().Name())
	s.forget()
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// clientsOf returns how many clients a phase has, without probes.
func clientsOf(p *spec.Phase) (n int) {
	for _, role := range p.Roles {
		if role.Every == (spec.Count{}) {
			n += role.Clients
		}
	}
	return n
}

// forget begins without elements. Those that come get other numbers.
func (s *stage) forget() {
	last := uint64(0)
	for _, p := range s.pops {
		if p != nil {
			last = max(last, p.next)
		}
	}
	s.base += last * uint64(s.parts)
	s.pops = make([]*population, s.sets*s.parts)
	s.cursors = make([]map[int]int, s.parts)
	s.stale.Store(false)
}

// population returns that of a set and part.
func (s *stage) population(set, part int) *population {
	p := s.pops[set*s.parts+part]
	if p == nil {
		p = newPopulation(s.dots)
		s.pops[set*s.parts+part] = p
	}
	return p
}

// live returns how many elements a set has.
func (s *stage) live(set int) (n int) {
	for _, p := range s.pops[set*s.parts : (set+1)*s.parts] {
		if p != nil {
			n += p.live
		}
	}
	return n
}

func (s *stage) setName(set int) string {
	if s.sets == 1 {
		return system.SetName
	}
	return fmt.Sprintf("%s-%07d", system.SetName, set)
}

// run runs all phases on a store of its own.
func (s *stage) run() (err error) {
	if err := s.open(s.strategy, s.folder(), nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.discard()) }()
	for i := range s.w.Phases {
		p := &s.w.Phases[i]
		for _, step := range p.First {
			if err := s.step(step); err != nil {
				return fmt.Errorf("phase %s: %s: %w", p.Name, step, err)
			}
		}
		if err := s.phase(i, p); err != nil {
			return fmt.Errorf("phase %s: %w", p.Name, err)
		}
	}
	total := 0
	for set := range s.sets {
		total += s.live(set)
	}
	if total > verifyMax {
		return nil
	}
	return s.verify(verifySets)
}

const (
	verifyMax  = 1_000_000 // elements up to which a store is verified after a round
	verifySets = 1000      // sets that are verified then, at most
)

// options say how the store is opened.
func (s *stage) options(strategy string, before system.System) (system.Options, error) {
	st := &s.w.Store
	o := system.Options{
		MemTableBytes: st.MemTableBytes, CacheBytes: st.CacheBytes, SetCacheBytes: st.SetCacheBytes, Sync: st.Sync || s.o.Sync,
		Warm: st.Warm && before == nil, OpenContexts: st.OpenContexts, Deletes: s.deletes, Pebble: st.Pebble, Before: before,
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
		o.Record = compaction.Merge
		if st.Record == compaction.Set.String() {
			o.Record = compaction.Set
		}
	case s.system != spec.Bigset && s.deletes:
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

// open opens a store. before is the one that has written what the folder holds; nil is none.
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
	if s.sys, err = system.Open(s.ctx, string(s.system), strategy, dir, o); err != nil {
		return err
	}
	if s.o.wrap != nil {
		s.sys = s.o.wrap(s.sys)
	}
	s.o.Observer.Opened(s.at, s.sys)
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
	case spec.StepRestart:
		return s.reopen(s.strategy)
	case spec.StepKill:
		return s.kill()
	case spec.StepVerify:
		return s.verify(s.sets)
	case spec.StepDrop:
		for set := range s.sets {
			if err := s.sys.Drop(s.setName(set)); err != nil {
				return err
			}
		}
		s.forget()
		return nil
	case spec.StepBottom:
		return s.bottom()
	case spec.StepEmpty:
		s.forget()
		if err := s.discard(); err != nil {
			return err
		}
		return s.open(s.strategy, s.folder(), nil)
	case spec.StepFresh:
		return s.fresh()
	}
	return fmt.Errorf("%w: no step %q", ErrOptions, step)
}

func (s *stage) compact() error {
	for set := range s.sets {
		if err := s.sys.Compact(s.ctx, s.setName(set)); err != nil {
			return err
		}
	}
	return nil
}

// reopen closes the store in order and opens it with a strategy.
func (s *stage) reopen(strategy string) error {
	before := s.sys
	if err := s.close(); err != nil {
		s.sys = nil
		return err
	}
	s.sys = nil
	return s.open(strategy, before.Dir(), before)
}

// kill goes on with what the disk would hold after a crash.
func (s *stage) kill() error {
	before, dir := s.sys, s.folder()
	if err := before.Checkpoint(s.ctx, dir); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	return s.open(s.strategy, dir, before)
}

// bottom brings everything to the bottommost level.
func (s *stage) bottom() error {
	if s.system == spec.Bigset { // which strategy none does
		if err := s.reopen(compaction.None().Name()); err != nil {
			return err
		}
	}
	if err := s.sys.Bottom(s.ctx); err != nil || s.system != spec.Bigset {
		return err
	}
	return s.reopen(s.strategy)
}

// freshBatch is how many elements a batch has when a fresh store is loaded.
const freshBatch = 1000

// fresh goes on with a new store that has the elements that live.
func (s *stage) fresh() error {
	if err := s.discard(); err != nil {
		return err
	}
	if err := s.open(s.strategy, s.folder(), nil); err != nil {
		return err
	}
	size := freshBatch
	if s.system == spec.Blob {
		size = s.at.Size // it would be rewritten with each batch
	}
	var c system.Change
	var arena []byte
	for set := range s.sets {
		h := s.sys.Set(s.setName(set))
		for part := range s.parts {
			p := s.pops[set*s.parts+part]
			for from := 0; p != nil && from < p.live; from += len(c.Fresh) {
				if err := s.ctx.Err(); err != nil {
					return err
				}
				arena, c.Fresh, c.FreshDots = arena[:0], c.Fresh[:0], c.FreshDots[:0]
				for rank := from; rank < min(p.live, from+size); rank++ {
					at := len(arena)
					arena = s.names.append(arena, s.number(p.seq(p.at(rank)), part))
					c.Fresh, c.FreshDots = append(c.Fresh, arena[at:len(arena):len(arena)]), append(c.FreshDots, 0)
				}
				if err := h.Change(&c); err != nil {
					return err
				}
				for i, dot := range c.FreshDots {
					p.setDot(p.at(from+i), dot)
				}
			}
		}
	}
	s.stale.Store(false)
	_, err := s.sys.Settle(s.ctx)
	return err
}

// number returns the number of an element of a part.
func (s *stage) number(seq uint64, part int) uint64 {
	return s.base + seq*uint64(s.parts) + uint64(part)
}

// verify proves the store right, and compares the number of elements of so many sets.
func (s *stage) verify(sets int) error {
	if s.stale.Load() {
		return nil // it was not asked to forget what was removed
	}
	step := max(1, s.sets/max(1, sets))
	for set := 0; set < s.sets; set += step {
		n := s.live(set)
		if n == 0 && !slices.ContainsFunc(s.pops[set*s.parts:(set+1)*s.parts], func(p *population) bool { return p != nil }) {
			continue // it was never made
		}
		if err := s.sys.Verify(s.setName(set), n); err != nil {
			return fmt.Errorf("set %s: %w", s.setName(set), err)
		}
	}
	return nil
}

// note takes the operations of a phase's clients into the hash of all.
func (s *stage) note(phase int, clients []*client) {
	for _, c := range clients {
		_, _ = fmt.Fprintf(s.stream, "%d %d %d %x\n", phase, c.index, c.done, c.hash)
	}
}

// hashDigits is how much of the hash is shown.
const hashDigits = 16

// hashNow returns the hash of all operations so far, "" if there is none that is the same in each run.
func (s *stage) hashNow() string {
	if s.timed {
		return ""
	}
	return hex.EncodeToString(s.stream.Sum(nil))[:hashDigits]
}
