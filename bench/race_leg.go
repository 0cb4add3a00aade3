package bench

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bigset/bench/system"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset"
	"bigset/compaction"
)

// leg is a running leg.
type leg struct {
	*race
	memTable int
	load     int  // elements at the beginning
	bottom   bool // in the bottommost level
	left     int  // elements that must be left at the end
	work     func(*leg) error

	racers [2]*racing
	turn   int
	began  time.Time

	mu        sync.Mutex // guards the fields below, which the sampler reads
	state     Leg
	measuring bool
}

// racing is a racer in a leg. One goroutine and the sampler use it.
type racing struct {
	*system.Bigset
	set          *system.BigsetSet
	batch, fresh *system.Batch
	dots         []uint64 // of elements, by their numbers
	length       int      // of the queue
	stream       hash.Hash
	ops          uint64
	took         time.Duration
	before       system.Usage

	mu         sync.Mutex // guards the histograms of reads: of all, and of those since the last sample
	all, since *hdrhistogram.Histogram
}

// run runs a leg and keeps its results.
func (r *race) run(l *leg) (err error) {
	l.race, l.began = r, time.Now()
	dir, err := os.MkdirTemp(r.root, l.state.Name+"-")
	if err != nil {
		return err
	}
	defer func() {
		for _, x := range l.racers {
			if x != nil && x.Bigset != nil {
				err = errors.Join(err, x.Close())
			}
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for i := range l.racers {
		l.racers[i] = newRacing()
		s := raceStrategies[i]
		l.state.Racers[i] = Racer{Name: RacerNames[i], Strategy: s.Name(), Record: system.RecordFor(s).String()}
	}
	stop := l.sampler()
	err = l.measured(dir)
	if e := stop(); err == nil {
		err = e
	}
	l.state.Finished = err == nil
	for i, x := range l.racers {
		l.state.Racers[i].Seconds = x.took.Seconds()
	}
	if a, b := l.racers[0], l.racers[1]; a.hash() == b.hash() { // otherwise the leg ended in the middle of a turn
		l.state.Ops, l.state.Stream = a.ops, a.hash()[:streamDigits]
	}
	r.legs = append(r.legs, l.state)
	r.conf.Show(l.state)
	return err
}

func newRacing() *racing {
	return &racing{batch: system.NewBatch(batchSize), fresh: system.NewBatch(batchSize), stream: sha256.New(), all: newHistogram(), since: newHistogram()}
}

// measured runs all of a leg.
func (l *leg) measured(dir string) error {
	for i := range l.racers {
		if err := l.prepare(i, filepath.Join(dir, raceStrategies[i].Name())); err != nil {
			return err
		}
	}
	if err := l.start(); err != nil {
		return err
	}
	if err := l.work(l); err != nil {
		return err
	}
	if err := l.rest(); err != nil {
		return err
	}
	return l.check()
}

// prepare makes the store of a racer with its initial contents.
func (l *leg) prepare(i int, dir string) error {
	x, c := l.racers[i], contender{system: system.NameBigset, strategy: raceStrategies[i].Name()}
	if l.bottom {
		none := c
		none.strategy = compaction.None().Name() // it compacts everything
		if err := l.open(x, none, dir, system.RecordFor(raceStrategies[i])); err != nil {
			return err
		}
		if err := l.fill(i); err != nil {
			return err
		}
		l.phase("compacting the store for "+RacerNames[i], 0)
		if err := x.Compact(l.ctx, system.SetName); err != nil {
			return err
		}
		if err := x.Close(); err != nil {
			return err
		}
		x.Bigset = nil
	}
	if err := l.open(x, c, dir, system.RecordFor(raceStrategies[i])); err != nil || l.bottom {
		return err
	}
	return l.fill(i)
}

func (l *leg) open(x *racing, c contender, dir string, record compaction.Record) error {
	sys, err := l.env.open(c, dir, system.Options{MemTableBytes: l.memTable, Record: record})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.Bigset = sys.(*system.Bigset)
	x.set = x.Handle(system.SetName)
	return nil
}

// fill loads the store of a racer.
func (l *leg) fill(i int) error {
	if l.load == 0 {
		return nil
	}
	x := l.racers[i]
	x.dots = make([]uint64, 0, l.load)
	err := l.each("loading the store for "+RacerNames[i], (l.load+batchSize-1)/batchSize, func(i int) error {
		b := x.batch.Reset()
		for k := i * batchSize; k < min(l.load, (i+1)*batchSize); k++ {
			b.Add(l.names(), k, 0)
		}
		err := x.add(b)
		x.dots = append(x.dots, b.Dots...)
		return err
	})
	if err == nil {
		l.phase("settling the store for "+RacerNames[i], 0)
		_, err = x.Settle(l.ctx)
	}
	return err
}

// start begins the measurement.
func (l *leg) start() error {
	for _, x := range l.racers {
		var err error
		if x.before, err = x.Usage(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.racers {
		l.state.Racers[i].BytesBefore = x.before.Tables
	}
	l.measuring, l.began = true, time.Now()
	return nil
}

// phase begins a phase.
func (l *leg) phase(name string, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Phase, l.state.Done, l.state.Of = name, 0, int64(of)
	if l.measuring {
		l.state.Marks = append(l.state.Marks, RaceMark{time.Since(l.began), name})
	}
}

// each does the steps of a phase.
func (l *leg) each(phase string, steps int, f func(i int) error) error {
	l.phase(phase, steps)
	for i := range steps {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
		l.mu.Lock()
		l.state.Done++
		l.mu.Unlock()
	}
	return nil
}

// steps makes both racers do the steps of a phase, in turns.
func (l *leg) steps(phase string, steps int, f func(i int, x *racing) error) error {
	return l.each(phase, steps, func(i int) error { return l.turns(func(x *racing) error { return f(i, x) }) })
}

// turns calls f for each racer. The racer that comes first changes.
func (l *leg) turns(f func(*racing) error) error {
	l.turn++
	for k := range l.racers {
		x := l.racers[(l.turn+k)%2]
		began := time.Now()
		err := f(x)
		if x.took += time.Since(began); err != nil {
			return err
		}
	}
	return nil
}

// rest leaves both stores alone until they have nothing more to do.
func (l *leg) rest() error {
	l.phase("resting", 0)
	for _, x := range l.racers {
		if err := x.Store().Flush(l.ctx); err != nil {
			return err
		}
	}
	for _, x := range l.racers {
		if _, err := x.Bigset.Rest(l.ctx, l.conf.quiet); err != nil {
			return err
		}
		if err := x.RestFully(l.ctx); err != nil {
			return err
		}
	}
	return nil
}

// check verifies both stores, and that the racers did the same.
func (l *leg) check() error {
	l.phase("verifying", 0)
	for _, x := range l.racers {
		if err := x.Verify(system.SetName, l.left); err != nil {
			return err
		}
	}
	return system.Expect("the second racer's operations", l.racers[1].hash(), l.racers[0].hash())
}

// streamDigits is how many digits of the hash are shown.
const streamDigits = 12

func (x *racing) hash() string { return hex.EncodeToString(x.stream.Sum(nil)) }

// note adds an operation to the hash of all operations.
func (x *racing) note(kind byte, elements [][]byte) {
	_, _ = x.stream.Write(binary.AppendUvarint([]byte{kind}, uint64(len(elements)))) // a hash accepts everything
	for _, e := range elements {
		_, _ = x.stream.Write(e)
	}
	x.ops += uint64(len(elements))
}

func (x *racing) add(b *system.Batch) error {
	x.note('+', b.List)
	return x.set.Insert(b.List, b.Dots)
}

func (x *racing) remove(b *system.Batch) error {
	x.note('-', b.List)
	return system.RemoveAll(x.set, b)
}

func (x *racing) exchange(gone, fresh *system.Batch) error {
	x.note('-', gone.List)
	x.note('+', fresh.List)
	return x.set.Exchange(gone.List, gone.Dots, fresh.List, fresh.Dots)
}

// take removes the first n elements.
func (x *racing) take(n int) error {
	if n == 0 {
		return nil
	}
	x.note('t', nil)
	x.ops += uint64(n)
	x.length -= n
	return x.set.TakeFirst(n)
}

// page reads up to a hundred elements and records how long that took.
func (x *racing) page(from []byte) error {
	began := time.Now()
	for _, err := range x.Store().Read(x.Context(), x.set.Name(), bigset.ReadOptions{From: from, Limit: racePage, BatchSize: racePage}) {
		if err != nil {
			return err
		}
	}
	took := int64(min(time.Since(began), latencyMax))
	x.mu.Lock()
	defer x.mu.Unlock()
	return cmp.Or(x.all.RecordValue(took), x.since.RecordValue(took))
}

// sampler samples both racers until it is stopped, and once more at the end.
func (l *leg) sampler() (stop func() error) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		t := time.NewTicker(l.conf.Tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				state, err := l.sample()
				if err != nil {
					done <- err
					return
				}
				l.conf.Show(state)
			case <-quit:
				_, err := l.sample()
				done <- err
				return
			}
		}
	}()
	return func() error {
		close(quit)
		return <-done
	}
}

// sample samples both racers if they are being measured, and returns the state of the leg.
func (l *leg) sample() (Leg, error) {
	l.mu.Lock()
	state, began := l.state, l.began
	measuring := l.measuring
	l.mu.Unlock()
	if !measuring {
		return state, nil
	}
	for i, x := range l.racers {
		u, err := x.Usage()
		if err != nil {
			return state, err
		}
		state.Racers[i].sampled(x, u, time.Since(began), l.bottom)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Racers = state.Racers
	return l.state, nil
}

// sampled stores what a store reports at a moment.
func (f *Racer) sampled(x *racing, u system.Usage, at time.Duration, settled bool) {
	d := u.Since(x.before)
	f.BytesBelow = d.Flush + d.Compact + d.Rewrite
	f.BytesWritten = d.WAL + f.BytesBelow
	f.KeysLive, f.KeysDead, f.BytesTables = u.Live, u.Keys-min(u.Keys, u.Live), u.Tables
	s := RaceSample{At: at, BytesWritten: f.BytesWritten, KeysDead: f.KeysDead, BytesTables: u.Tables, SpaceBack: math.NaN(), ReadP99: math.NaN()}
	if settled {
		s.SpaceBack = spaceBack(x.before, u)
		f.SpaceBack = new(s.SpaceBack)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.since.TotalCount() > 0 {
		s.ReadP99 = micros(time.Duration(x.since.ValueAtPercentile(99)))
		x.since.Reset()
	}
	f.Reads = x.all.TotalCount()
	f.ReadP50, f.ReadP99 = micros(time.Duration(x.all.ValueAtPercentile(50))), micros(time.Duration(x.all.ValueAtPercentile(99)))
	f.Samples = append(f.Samples, s)
}

// spaceBack returns the share of the space of dead elements in tables that is free again. All elements take equal space.
func spaceBack(before, now system.Usage) float64 {
	dead := 1 - float64(now.Live)/float64(max(1, before.Live))
	if dead <= 0 {
		return 0
	}
	free := 1 - float64(now.Tables)/float64(max(1, before.Tables))
	return min(1, max(0, free/dead))
}
