package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"bigset/bench/system"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

// handOff is the workload handoff: a set is copied to an empty store, durably. An operation is one element, the latency is that of the whole copy. In the bare row,
// a chunk is read after the one before is written, as raw Pebble does; in handoff/ahead it is read during that write. Raw Pebble copies its
// range by ingested tables (handoff/tables) and by batches (handoff/batches); its bare row is the faster of the two.
func handOff(e *env) error {
	return e.turns([]contender{{system: system.NameBigset}, {system: system.NamePebble}}, func(c contender) error {
		if c.system == system.NamePebble {
			return e.with(c, system.Options{Warm: true}, func(from system.System) error { return e.handoffRaw(c, from.(*system.Raw)) })
		}
		return e.replicated(1, system.Options{Warm: true}, e.handoffBigset)
	})
}

func (e *env) handoffBigset(list []*replica) error {
	if err := e.replicatedLoad(system.SetName, list, e.elements); err != nil {
		return err
	}
	for _, name := range e.inTurn("handoff", "handoff/ahead") {
		err := e.replicated(1, system.Options{Warm: true}, func(to []*replica) error {
			m := &meter{}
			_, err := e.copied(to[0], name, m, func() error { return e.copySet(list[0], to[0], name == "handoff/ahead", m) })
			if err != nil {
				return err
			}
			return e.check(to[0], system.SetName, e.elements)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// inTurn returns names in an order that changes from round to round.
func (e *env) inTurn(names ...string) []string {
	if e.round%2 == 1 {
		slices.Reverse(names)
	}
	return names
}

// copied measures one copy of the set into a system, with the work that it leaves.
func (e *env) copied(to system.System, workload string, m *meter, copied func() error) (Figures, error) {
	f, hist, err := e.figures(to, func(p *phase) error {
		if err := p.loop(1, func(int) error { return copied() }); err != nil {
			return err
		}
		p.ops = uint64(e.elements)
		return p.settle(to)
	})
	if err != nil {
		return f, err
	}
	key := keyscheme.NewPrefix([]byte(system.SetName)).AppendElement(nil, e.names().Append(nil, 0), clock.Dot{Actor: system.RawActor, Counter: 1}, keyscheme.OpAdd)
	f.MBPerSecond = new(f.OpsPerSecond * float64(len(key)+len(keyscheme.ResolvedValue)) / 1e6)
	if m != nil {
		f.BytesMoved = &m.bytes
	}
	row := Row{Workload: workload, Elements: e.elements}
	label(to, &row)
	e.rows.Add(row, f, hist)
	return f, nil
}

// handoffRaw copies a range of raw Pebble in both ways.
func (e *env) handoffRaw(c contender, from *system.Raw) error {
	s := from.Handle(system.SetName)
	if err := e.loaded(from, e.elements); err != nil {
		return err
	}
	var faster Figures
	for _, name := range e.inTurn("handoff/tables", "handoff/batches") {
		err := e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			to := sys.(*system.Raw)
			copying := copyByBatches
			if name == "handoff/tables" {
				copying = copyByTables
			}
			f, err := e.copied(to, name, nil, func() error { return copying(to, from, s.KeyPrefix().All()) })
			if err != nil {
				return err
			}
			if f.OpsPerSecond > faster.OpsPerSecond {
				faster = f
			}
			return e.check(to, system.SetName, e.elements)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	row := Row{Workload: "handoff", Elements: e.elements}
	label(from, &row)
	e.rows.Add(row, faster, nil)
	return nil
}

// Sizes in which raw Pebble copies, in bytes of keys and values: a batch, and a table.
const (
	copyBatchBytes = 1 << 20
	copyTableBytes = 32 << 20
)

// eachKey calls f for each record in a range.
func eachKey(r *system.Raw, b keyscheme.Bounds, f func(key, value []byte) error) (err error) {
	it, err := r.DB().NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyByBatches copies a range of another store. The last batch is synced, which syncs all before it.
func copyByBatches(r, from *system.Raw, b keyscheme.Bounds) (err error) {
	batch := r.DB().NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	err = eachKey(from, b, func(key, value []byte) error {
		write := batch.Set
		if r.Record() == compaction.Merge {
			write = batch.Merge
		}
		if err := write(key, value, nil); err != nil || batch.Len() < copyBatchBytes {
			return err
		}
		if err := batch.Commit(pebble.NoSync); err != nil {
			return err
		}
		batch.Reset()
		return nil
	})
	if err != nil {
		return err
	}
	return batch.Commit(pebble.Sync)
}

// copyByTables copies a range of another store into tables and ingests them all at once.
func copyByTables(r, from *system.Raw, b keyscheme.Bounds) (err error) {
	var paths []string
	var w *sstable.Writer
	defer func() {
		if w != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	size := 0
	err = eachKey(from, b, func(key, value []byte) error {
		if w == nil {
			path := filepath.Join(r.Dir(), "copy-"+strconv.Itoa(len(paths))+".tmp")
			file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			w = sstable.NewWriter(objstorageprovider.NewFileWritable(file), r.PebbleOptions().MakeWriterOptions(6, r.DB().TableFormat()))
			paths, size = append(paths, path), 0
		}
		if size += len(key) + len(value); size < copyTableBytes {
			return w.Set(key, value)
		}
		full := w
		w = nil
		return errors.Join(full.Set(key, value), full.Close())
	})
	if err == nil && w != nil {
		full := w
		w = nil
		err = full.Close()
	}
	if err != nil {
		return err
	}
	return r.DB().Ingest(context.Background(), paths)
}
