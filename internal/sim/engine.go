package sim

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/faultdisk"
	"bigset/keyscheme"
)

// usesMax is how many schedules an engine serves, each with its own set, before a new engine replaces it.
const usesMax = 40

// strategies are the strategies of engines, in turn.
var strategies = []compaction.Strategy{
	compaction.Policy{Label: "eager", Record: compaction.Merge, Filter: true, Rewrite: true, KeysMin: 1, Excess: 0.01, Idle: 0.01, DeadsMin: 0.01},
	compaction.Filter(),
	compaction.Policy{Label: "eager-rewriter", Record: compaction.Merge, Rewrite: true, KeysMin: 1, Excess: 0.01, Idle: 0.01, DeadsMin: 0.01},
	compaction.PointDeletes(),
}

// pool keeps engines that are used for several schedules. One goroutine uses it.
type pool struct {
	idle []*host
	made int
}

// host is an engine on a disk in memory, and the set in it that the schedule is about.
type host struct {
	disk     *faultdisk.Disk
	dir      string
	strategy compaction.Strategy
	*engine.Store
	uses int
}

// open opens an engine. A nil now is the machine's time, and a nil random its random numbers.
func open(disk *faultdisk.Disk, dir string, strategy compaction.Strategy, now func() time.Time, random io.Reader) (*host, error) {
	o := &engine.Options{
		FS: disk, Strategy: strategy, BackgroundInterval: -1, SlowDisk: -1, MemTableBytes: 64 << 10, BlockCacheBytes: 1 << 20,
		SpanBytes: 1 << 10, Now: now, Random: random, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if strategy.WorksOn(compaction.Merge) != nil {
		o.Record = compaction.Set
	}
	s, err := engine.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &host{disk: disk, dir: dir, strategy: strategy, Store: s}, nil
}

// get returns an idle engine, or a new one.
func (p *pool) get() (*host, error) {
	if n := len(p.idle); n > 0 {
		h := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return h, nil
	}
	p.made++
	return open(faultdisk.New(), "db", strategies[p.made%len(strategies)], nil, nil)
}

// put takes an engine back when a schedule has ended.
func (p *pool) put(h *host) {
	if h.uses++; h.uses >= usesMax || h.Failed() != nil {
		_ = h.Close() // ignored: an engine that failed can't be closed cleanly
		return
	}
	p.idle = append(p.idle, h)
}

// close closes all idle engines.
func (p *pool) close() (err error) {
	for _, h := range p.idle {
		err = errors.Join(err, h.Close())
	}
	p.idle = nil
	return err
}

// hostDisk is a disk with an engine's folder.
type hostDisk struct {
	disk     *faultdisk.Disk
	dir      string
	strategy compaction.Strategy
	uses     int
}

// left returns what remains of an engine after it has ended.
func (h *host) left(disk *faultdisk.Disk, dir string) hostDisk {
	return hostDisk{disk, dir, h.strategy, h.uses}
}

// open opens what is left of an engine. Its disk still holds the sets and notes of its earlier schedules, so their number is
// bounded.
func (d hostDisk) open(disk *faultdisk.Disk) (*host, error) {
	h, err := open(disk, d.dir, d.strategy, nil, nil)
	if err == nil {
		h.uses = d.uses
	}
	return h, err
}

// engineStore is a store in an engine.
type engineStore struct {
	pool *pool
	host *host
	set  []byte
	rand *rand.Rand
	some func(state string)

	fault   string        // its log fails
	failed  *atomic.Int64 // writes that failed
	backups int
	torn    *faultdisk.Disk // as a power cut in the middle of the last call would have left it; nil means that it was not taken
}

func openEngine(p *pool, set []byte, disk any, r *rand.Rand, some func(string)) (*engineStore, error) {
	s := &engineStore{pool: p, set: set, rand: r, some: some}
	var err error
	if d, ok := disk.(hostDisk); ok { // a backup may be opened more than once
		s.host, err = d.open(d.disk.CrashClone(100, 1))
	} else {
		s.host, err = p.get()
	}
	return s, err
}

// midway runs f, and sometimes takes the disk as it is in the middle of f. The next crash leaves that disk, unless something else
// is done before, or f has made something durable.
func (s *engineStore) midway(durable bool, f func() error) error {
	s.torn = nil
	if durable || s.rand.IntN(3) > 0 {
		return f()
	}
	left := s.host.disk.CrashAt(int64(s.rand.IntN(12)), 25*s.rand.IntN(5), s.rand.Uint64())
	err := f()
	s.torn = left()
	return err
}

func (s *engineStore) Actor() clock.Actor { return s.host.Store.Replica().Actor() }

// durability returns Sync while the disk fails: what is acknowledged without a sync may be lost with the store.
func (s *engineStore) durability(d bigset.Durability) bigset.Durability {
	if s.fault != "" {
		return bigset.Sync
	}
	return d
}

func (s *engineStore) Write(ops []bigset.Op, d bigset.Durability) (bigset.Result, error) {
	s.torn = nil // once the client has its answer, no crash is in the middle of the call
	return s.host.Write(bg, s.set, ops, bigset.WriteOptions{Durability: s.durability(d)})
}

func (s *engineStore) Drop(seen *clock.Clock, d bigset.Durability) (bigset.Delta, error) {
	s.torn = nil
	return s.host.Drop(bg, s.set, bigset.DropOptions{Seen: seen, Durability: s.durability(d)})
}

func (s *engineStore) ApplyDelta(m bigset.Delta, d bigset.Durability) error {
	return s.midway(d == bigset.Sync, func() error {
		return s.host.Replica().ApplyDelta(bg, m, bigset.ApplyOptions{Durability: s.durability(d)})
	})
}

func (s *engineStore) ApplyFacts(m bigset.Facts, d bigset.Durability) error {
	return s.midway(d == bigset.Sync, func() error {
		_, err := s.host.Replica().ApplyFacts(bg, m, bigset.ApplyOptions{Durability: s.durability(d)})
		return err
	})
}

func (s *engineStore) State() (bigset.State, error) { return s.host.Replica().State(bg, s.set) }

func (s *engineStore) Locate(dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return s.host.Replica().Locate(bg, s.set, dots)
}

func (s *engineStore) Read(o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return s.host.Read(bg, s.set, o)
}

func (s *engineStore) Export(after []byte, bytesMax int) (*bigset.Portion, error) {
	return s.host.Replica().ExportPortion(bg, s.set, after, bytesMax)
}

func (s *engineStore) Ingest(portion *bigset.Portion) error {
	s.torn = nil
	_, err := s.host.Replica().IngestPortion(bg, portion, nil)
	return err
}

func (s *engineStore) SetNote(name string, value []byte, d bigset.Durability) error {
	slot := keyscheme.SetSlot(s.set)
	return s.midway(d == bigset.Sync, func() error { return s.host.Replica().SetNote(bg, name, slot, slot, value, s.durability(d)) })
}

func (s *engineStore) Note(name string) ([]byte, error) { return s.host.Replica().Note(bg, name) }

// errFaulty says that an operation is not tried while the disk fails.
var errFaulty = errors.New("sim: the disk fails")

// Leave drops the set's slot, and with it the notes about it.
func (s *engineStore) Leave() error {
	if s.fault != "" {
		return errFaulty
	}
	s.torn = nil
	slot := keyscheme.SetSlot(s.set)
	return s.host.Replica().DropRange(bg, slot, slot)
}

// Sync makes everything durable, by a synced write, which follows the others in the log, or by a flush.
func (s *engineStore) Sync() error {
	s.torn = nil
	if s.fault != "" || s.rand.IntN(4) > 0 {
		_, err := s.host.Store.Write(bg, []byte("sync"), mark, bigset.WriteOptions{Durability: bigset.Sync})
		return err
	}
	return s.host.Flush(bg)
}

// Verify verifies the set, and now and then the whole store.
func (s *engineStore) Verify() error {
	o := engine.VerifyOptions{Set: s.set}
	if s.rand.IntN(100) == 0 {
		o.Set = nil
	}
	rep, err := s.host.Verify(bg, o)
	switch {
	case errors.Is(err, bigset.ErrNotFound):
		return nil
	case err != nil:
		return err
	case rep.ProblemCount > 0:
		return fmt.Errorf("verify: %+v", rep.Problems)
	case rep.LiveKeys != rep.LiveDots:
		return fmt.Errorf("verify: %d live keys, %d live dots", rep.LiveKeys, rep.LiveDots)
	}
	return nil
}

// Maintain flushes, or removes dead keys from the disk: of this set, or of all sets. A disk that fails during a flush ends a
// process.
func (s *engineStore) Maintain(n int) (what string, err error) {
	if s.fault != "" {
		return "", nil
	}
	err = s.midway(false, func() error {
		if n%4 == 0 {
			what = "flush"
			return s.host.Flush(bg)
		}
		o := engine.CompactOptions{Set: s.set}
		if n == 5 {
			o.Set = nil
		}
		rep, err := s.host.Compact(bg, o)
		switch {
		case errors.Is(err, bigset.ErrNotFound):
			return nil
		case rep.Spans > 0:
			what = "rewrite"
		default:
			what = "compaction"
		}
		return err
	})
	return what, err
}

// Fault makes the log fail. Everything that was acknowledged before, or is during the fault, is durable, so that the store may be
// opened again.
func (s *engineStore) Fault(kind string) error {
	s.torn = nil
	if kind == "" {
		return s.heal()
	}
	if err := s.heal(); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	cause := error(syscall.EIO)
	if kind == "disk-full" {
		cause = syscall.ENOSPC
	}
	s.fault = kind
	s.failed = s.host.disk.FailWrites(".log", s.rand.IntN(4), cause)
	return nil
}

// heal ends a fault. A store that has failed because of it is opened again, as by a new process.
func (s *engineStore) heal() (err error) {
	if s.fault == "" {
		return nil
	}
	if s.failed.Load() > 0 {
		s.some(effect + s.fault)
	}
	s.fault = ""
	s.host.disk.Heal()
	if s.host.Failed() == nil {
		return nil
	}
	s.some("store failed and was opened again")
	old := s.host
	disk := old.disk.CrashClone(100, 1)
	_ = old.Close() // ignored: it reports that it can't close cleanly
	s.host, err = old.left(disk, old.dir).open(disk)
	return err
}

// Backup makes a checkpoint, on a copy of the disk.
func (s *engineStore) Backup() (any, error) {
	s.torn = nil
	s.backups++
	dir := fmt.Sprintf("%s-%d", s.host.dir, s.backups)
	if err := s.host.Checkpoint(bg, dir); err != nil {
		return nil, err
	}
	return s.host.left(s.host.disk.CrashClone(0, 1), dir), nil
}

func (s *engineStore) Crash(quarters int) any {
	disk := s.torn
	if disk == nil {
		disk = s.host.disk.CrashClone(25*min(quarters, 4), s.rand.Uint64())
	} else {
		s.some("crash in the middle of a call")
	}
	s.host.disk.Heal()
	_ = s.host.Close() // what it leaves is not needed
	return s.host.left(disk, s.host.dir)
}

func (s *engineStore) Stop() (any, error) {
	if err := s.Fault(""); err != nil {
		return nil, err
	}
	err := s.host.Close()
	return s.host.left(s.host.disk, s.host.dir), err
}

func (s *engineStore) Close() {
	s.host.disk.Heal()
	s.pool.put(s.host)
}
