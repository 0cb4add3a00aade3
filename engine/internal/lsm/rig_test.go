package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

var bg = context.Background()

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// rig is a store on a disk of its own, and all batches that were written to it. Each batch also sets keyCount to its number, so the
// store says how many batches it has, and must then have exactly what they have written.
type rig struct {
	label string
	disk  *testkit.Disk
	opt   Options
	hooks Hooks
	db    *DB
	log   []batch
	acked int // how many batches are on disk
}

// batch is what one write changes: each key gets a value, or is deleted by nil.
type batch map[string][]byte

// keyCount holds the number of the last batch. It is shorter than a slot, as all keys of the owner's own are.
const keyCount = "n#"

// newRig returns a rig that is not open yet, with options that give little data the shape of much.
func newRig(label string) *rig {
	return &rig{label: label, disk: testkit.NewDisk(), hooks: hooks(), opt: Options{
		MemTableBytes:   64 << 10,
		BlockCacheBytes: 1 << 20,
		Logger:          slog.New(slog.DiscardHandler),
		Tune:            testkit.SmallTables,
	}}
}

// on returns a rig for what a disk has of this one's store.
func (r *rig) on(label string, disk *testkit.Disk) *rig {
	return &rig{label: label, disk: disk, opt: r.opt, hooks: r.hooks, log: slices.Clone(r.log), acked: r.acked}
}

// tryOpen opens the store, and returns the error as an owner does.
func (r *rig) tryOpen(dir string) error {
	r.opt.FS = r.disk
	db, err := Open(dir, r.opt, r.hooks)
	if err != nil {
		return DiskError(err)
	}
	if err := db.Ready(); err != nil {
		db.Abandon()
		return DiskError(err)
	}
	r.db = db
	return nil
}

func (r *rig) open(t testing.TB) {
	t.Helper()
	must(t, r.tryOpen("store"), "open "+r.label)
}

// tryClose closes the store, to which the owner has nothing more to write.
func (r *rig) tryClose() error { return r.db.Close(func() error { return nil }) }

func (r *rig) close(t testing.TB) {
	t.Helper()
	must(t, r.tryClose(), "close "+r.label)
	r.acked = len(r.log)
}

// closeSoon closes a store that has failed; the error does not matter, but the close must end.
func (r *rig) closeSoon(t testing.TB) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.tryClose()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("%s: closing the failed store hangs", r.label)
	}
}

// try writes a batch. One that fails may have happened, unless it was refused for lack of room.
func (r *rig) try(changes batch, sync bool) error {
	changes[keyCount] = binary.BigEndian.AppendUint32(nil, uint32(len(r.log)+1))
	b := r.db.NewBatch()
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		var err error
		switch value := changes[key]; {
		case value == nil:
			err = b.Delete([]byte(key), nil)
		case key == keyCount:
			err = b.Set([]byte(key), value, nil)
		default:
			err = b.Merge([]byte(key), value, nil)
		}
		if err != nil {
			return errors.Join(err, b.Close())
		}
	}
	failed := r.db.Writable() != nil
	wait, err := r.db.Commit(b, sync)
	if failed || errors.As(err, new(*DiskSpaceError)) {
		return errors.Join(err, b.Close())
	}
	r.log = append(r.log, changes)
	if err == nil && sync {
		if err = wait(); err == nil {
			r.acked = len(r.log)
		}
	}
	return err
}

func (r *rig) write(t testing.TB, changes batch, sync bool) {
	t.Helper()
	must(t, r.try(changes, sync), r.label+": write")
}

// elements returns a batch of new keys, of elements from a number on.
func (r *rig) elements(set string, from, to int) batch {
	b := batch{}
	for i := from; i < to; i++ {
		dot := clock.Dot{Actor: "an actor", Counter: uint64(len(r.log)*1000 + len(b) + 1)}
		b[string(keyscheme.NewPrefix([]byte(set)).AppendElement(nil, fmt.Appendf(nil, "n%03d-padding", i), dot, keyscheme.OpAdd))] = keyscheme.ResolvedValue
	}
	return b
}

// add writes new keys of elements.
func (r *rig) add(t testing.TB, set string, from, to int, sync bool) {
	t.Helper()
	r.write(t, r.elements(set, from, to), sync)
}

// remove deletes all keys of elements.
func (r *rig) remove(t testing.TB, set string, from, to int, sync bool) {
	t.Helper()
	b := batch{}
	for key := range r.state(len(r.log)) {
		k, err := keyscheme.Decode([]byte(key))
		if err != nil || k.Kind != keyscheme.KindElement || string(k.Set) != set {
			continue
		}
		var i int
		if _, err := fmt.Sscanf(string(k.Element), "n%d-", &i); err == nil && from <= i && i < to {
			b[key] = nil
		}
	}
	r.write(t, b, sync)
}

// flush moves all that was written to tables.
func (r *rig) flush(t testing.TB) {
	t.Helper()
	must(t, errors.Join(r.db.SyncLog(), r.db.FlushTables(bg)), r.label+": flush")
	r.acked = len(r.log)
}

// state returns what the first n batches have written.
func (r *rig) state(n int) map[string]string {
	state := map[string]string{}
	for _, changes := range r.log[:n] {
		for key, value := range changes {
			if state[key] = string(value); value == nil {
				delete(state, key)
			}
		}
	}
	return state
}

// stored returns all that the store has of batches.
func (r *rig) stored(t testing.TB) map[string]string {
	t.Helper()
	it, err := r.db.NewIter(nil)
	must(t, err, r.label)
	stored := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		must(t, err, r.label)
		if key := string(it.Key()); key == keyCount || len(key) > keyscheme.SlotBytes { // the others are the store's
			stored[key] = string(value)
		}
	}
	must(t, errors.Join(it.Error(), it.Close()), r.label)
	return stored
}

// check fails the test unless the store has exactly what was written.
func (r *rig) check(t testing.TB) {
	t.Helper()
	r.has(t, len(r.log))
}

// lookedUp is the number of keys for each one that is looked up, when all are read.
const lookedUp = 17

// has fails the test unless the store has what the first n batches have written. All keys are read, and some are looked up.
func (r *rig) has(t testing.TB, n int) {
	t.Helper()
	state, stored := r.state(n), r.stored(t)
	if !maps.Equal(state, stored) {
		t.Fatalf("%s: the store has %d keys, want the %d of %d batches", r.label, len(stored), len(state), n)
	}
	i := 0
	for key, want := range state {
		if i++; i%lookedUp > 0 {
			continue
		}
		if value, ok, err := r.db.Get([]byte(key)); err != nil || !ok || string(value) != want {
			t.Fatalf("%s: key %q is %q, %v, %v, want %q", r.label, key, value, ok, err, want)
		}
	}
}

// recovered forgets the batches that a crash took back, and returns their number. They must be the last ones, and none may have
// been on disk.
func (r *rig) recovered(t testing.TB) (lost int) {
	t.Helper()
	value, ok, err := r.db.Get([]byte(keyCount))
	must(t, err, r.label)
	n := 0
	if ok {
		n = int(binary.BigEndian.Uint32(value))
	}
	if n < r.acked || n > len(r.log) {
		t.Fatalf("%s: the store has %d batches, of %d; %d were on disk", r.label, n, len(r.log), r.acked)
	}
	r.has(t, n)
	lost = len(r.log) - n
	r.log = r.log[:n]
	return lost
}

// survivor opens what a crash has left, checks it, and returns how many batches it lost.
func (r *rig) survivor(t testing.TB, label string, left *testkit.Disk) (lost int) {
	t.Helper()
	q := r.on(label, left)
	q.open(t)
	defer q.close(t)
	return q.recovered(t)
}

// damagedAt fails the test unless an open is refused with an error that names the damaged file.
func (r *rig) damagedAt(t testing.TB, path, format string, args ...any) {
	t.Helper()
	err := r.tryOpen("store")
	if err == nil {
		_ = r.tryClose()
	}
	var damage *CorruptionError
	if !errors.Is(err, bigset.ErrCorrupt) || !errors.As(err, &damage) || damage.Path != path {
		t.Fatalf(format+": %v", append(args, err)...)
	}
}

// crashed goes on with what is left of the disk if the power is cut now and nothing survives that was not synced, and closes the
// store.
func (r *rig) crashed(t testing.TB) {
	t.Helper()
	left := r.disk.CrashClone(0, 0)
	must(t, r.tryClose(), "close")
	r.disk = left
}

// fileOn returns the path of the file in a disk's store whose name has this beginning and end; of several the last.
func fileOn(t testing.TB, disk vfs.FS, prefix, suffix string) string {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	found := ""
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("no %s…%s among %v", prefix, suffix, names)
	}
	return "store/" + found
}

// folder lists the files of the store, with their sizes.
func folder(t testing.TB, disk vfs.FS) string {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	var list strings.Builder
	for _, name := range names {
		info, err := disk.Stat("store/" + name)
		must(t, err, "stat")
		fmt.Fprintf(&list, "%s:%d ", name, info.Size())
	}
	return list.String()
}

// restore makes a store of one that is not open.
func (r *rig) restore(src, dest string) error {
	_, err := Restore(bg, src, dest, RestoreOptions{FS: r.disk, IsFile: r.hooks.IsFile, Progress: func(RestoreReport) {}})
	return err
}
