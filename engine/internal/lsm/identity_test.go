package lsm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestOpenRefuses: a folder that this program must not open, or not with these options, is left as it is.
func TestOpenRefuses(t *testing.T) {
	write := func(file, text string) func(vfs.FS) {
		return func(fs vfs.FS) { testkit.WriteFile(t, fs, "store/"+file, []byte(text)) }
	}
	nothing := func(vfs.FS) {}
	unfit := errors.New("unfit")
	for _, c := range []struct {
		what   string
		fresh  bool // no store exists
		record compaction.Record
		change func(fs vfs.FS)
		opt    Options
		want   error
	}{
		{"older format", false, 0, write("BIGSET", "bigset store\nformat 1\nrecord merge\n"), Options{}, ErrFormat},
		{"newer format", false, 0, write("BIGSET", "bigset store\nformat 4\nrecord merge\n"), Options{}, ErrFormat},
		{"damaged format", false, 0, write("BIGSET", "bigset st"), Options{}, bigset.ErrCorrupt},
		{"empty format", false, 0, write("BIGSET", ""), Options{}, bigset.ErrCorrupt},
		{"format without its last line", false, 0, write("BIGSET", "bigset store\nformat 2\n"), Options{}, bigset.ErrCorrupt},
		{"format without its end", false, 0, write("BIGSET", "bigset store\nformat 2\nrecord mer"), Options{}, bigset.ErrCorrupt},
		{"empty format, record asked for", false, 0, write("BIGSET", ""), Options{Record: compaction.Set}, bigset.ErrCorrupt},
		{"unknown record", false, 0, write("BIGSET", "bigset store\nformat 2\nrecord delete\n"), Options{}, ErrFormat},
		{"foreign folder", true, 0, write("notes.txt", "hello"), Options{}, ErrFormat},
		{"foreign Pebble store", true, 0, write("MANIFEST-000001", ""), Options{}, ErrFormat},
		{"merge asked for, set there", false, compaction.Set, nothing, Options{Record: compaction.Merge}, ErrFormat},
		{"set asked for, merge there", false, compaction.Merge, nothing, Options{Record: compaction.Set}, ErrFormat},
		{"records that the owner can't work on", false, compaction.Set, nothing, Options{}, unfit},
		{"no store", true, 0, nothing, Options{MustExist: true}, ErrNoStore},
		{"open already", false, 0, func(fs vfs.FS) {
			lock, err := fs.Lock("store/LOCK")
			must(t, err, "lock")
			t.Cleanup(func() { _ = lock.Close() })
		}, Options{}, ErrLocked},
	} {
		fs := vfs.NewMem()
		must(t, fs.MkdirAll("store", 0o755), "folder")
		r := newRig(c.what)
		o := r.opt
		o.FS = fs
		if !c.fresh {
			o.Record = c.record
			d, err := Open("store", o, r.hooks)
			must(t, err, c.what)
			must(t, errors.Join(d.Ready(), d.Close(func() error { return nil })), c.what)
		}
		c.change(fs)
		before := fs.String()
		o.Record, o.MustExist = c.opt.Record, c.opt.MustExist
		if c.want == unfit {
			r.hooks.Fits = func(compaction.Record) error { return unfit }
		}
		d, err := Open("store", o, r.hooks)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil {
			must(t, d.Close(func() error { return nil }), c.what)
		}
		if after := fs.String(); after != before && !c.fresh {
			t.Errorf("%s: the folder has changed:\n%s\nwas\n%s", c.what, after, before)
		}
	}
}

// TestRenewActor: the new actor of some slots counts at once, with the batch that comes with it, and stays after a close. The other
// slots keep theirs, in a store of the newest format. After a crash all slots have another one.
func TestRenewActor(t *testing.T) {
	t.Parallel()
	const slot, other = keyscheme.Slot(7), keyscheme.Slot(10)
	for number := formatLeast; number <= formatNewest; number++ {
		r := newRig(fmt.Sprintf("format %d", number))
		var told clock.Actor
		r.hooks.Event = func(e Event) {
			if e.Kind == EventIncarnation {
				told = e.Actor
			}
		}
		r.open(t)
		must(t, writeFormat(r.db.fs, r.db.dir, format{number, r.db.record}), "format")
		r.db.format.Store(int32(number))
		r.add(t, "s", 0, 3, true)
		first := r.db.Actor()
		b := r.db.NewBatch()
		must(t, b.Set([]byte("nx"), []byte("renewed"), nil), "set")
		must(t, r.db.RenewActor(b, 5, 9, func(commit func() error) error { return commit() }), "renew")
		must(t, b.Close(), "close")
		second := r.db.ActorAt(slot)
		if second == first || told != second || r.db.Actor() != second {
			t.Errorf("%s: actor %x after %x, reported %x, newest %x", r.label, string(second), string(first), string(told), string(r.db.Actor()))
		}
		whole := number < formatSalts
		if (r.db.ActorAt(other) != first) != whole || r.db.FirstIncarnation() == whole {
			t.Errorf("%s: actor %x of another slot after %x", r.label, string(r.db.ActorAt(other)), string(first))
		}
		want := r.db.id.minting.Load()
		r.hooks = hooks()
		left := r.on("crashed", r.disk.CrashClone(0, 0))
		must(t, r.tryClose(), "close")
		r.open(t)
		if got := r.db.id.minting.Load(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: after a close %+v, before it %+v", r.label, got, want)
		}
		left.open(t)
		for _, slot := range []keyscheme.Slot{slot, other} {
			if a := left.db.ActorAt(slot); a == first || a == second || a != left.db.Actor() || len(a) != actorBytes {
				t.Errorf("%s: actor %x of slot %d after %x and %x", left.label, string(a), slot, string(first), string(second))
			}
		}
		for _, q := range []*rig{left, r} {
			if value, _, err := q.db.Get([]byte("nx")); string(value) != "renewed" || err != nil {
				t.Errorf("%s: the batch has left %q, %v", q.label, value, err)
			}
			must(t, q.tryClose(), "close")
		}
	}
}

// TestRenewBesideFirstWrite: locks that an owner takes around a commit are taken before the identity's lock, by RenewActor as by
// the first write after an open, so that the two can't deadlock.
func TestRenewBesideFirstWrite(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	var owners sync.Mutex
	owners.Lock()
	begun, renewed := make(chan struct{}), make(chan error, 1)
	go func() {
		b := r.db.NewBatch()
		renewed <- errors.Join(r.db.RenewActor(b, 0, 9, func(commit func() error) error {
			close(begun)
			owners.Lock()
			defer owners.Unlock()
			return commit()
		}), b.Close())
	}()
	<-begun
	wrote := make(chan error, 1)
	go func() {
		defer owners.Unlock()
		wrote <- r.try(batch{"nx": nil}, true)
	}()
	for what, done := range map[string]chan error{"write": wrote, "renew": renewed} {
		select {
		case err := <-done:
			must(t, err, what)
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits for the other", what)
		}
	}
	r.close(t)
}

func FuzzParseFormat(f *testing.F) {
	for _, text := range []string{
		"", "bigset store\n", "bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 1\nrecord set\n",
		"bigset store\nformat 3\nrecord set\n", "bigset store\nformat 4\nrecord set\n",
		"bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 99999999999999999999\nrecord merge\n",
		"bigset store\nformat 2\nrecord delete\n", "bigset store\r\nformat 1\r\nrecord merge\r\n", "bigset store\nformat %d\nrecord %s\n",
	} {
		for _, want := range []byte{0, byte(compaction.Merge), byte(compaction.Set), 'x'} {
			f.Add(text, want)
		}
	}
	f.Fuzz(func(t *testing.T, text string, want byte) {
		got, err := parseFormat("BIGSET", text, compaction.Record(want))
		record := got.record
		if err != nil {
			if record != 0 || !errors.Is(err, ErrFormat) && !errors.Is(err, bigset.ErrCorrupt) {
				t.Errorf("parseFormat(%q, %d) = %v, %v", text, want, record, err)
			}
			return
		}
		if record != compaction.Merge && record != compaction.Set || want != 0 && record != compaction.Record(want) {
			t.Errorf("parseFormat(%q, %d) = %v", text, want, record)
		}
		if got.number < 2 || got.number > 3 || got.String() != text {
			t.Errorf("parseFormat(%q, %d) = %v, which it does not name", text, want, record)
		}
	})
}

// TestRandom: stores with equal sources of random bytes get equal names and keys, and a store that goes on in doubt draws from its source
// too. By default no two stores have anything in common.
func TestRandom(t *testing.T) {
	names := func(seeded bool) (all []string) {
		disk := testkit.NewDisk()
		for life := range 2 {
			r := newRig("store")
			r.disk, r.opt.Random = disk, nil
			if seeded {
				r.opt.Random = rand.NewChaCha8([32]byte{byte(life)})
			}
			r.open(t)
			r.write(t, batch{"key of the store": []byte("value")}, true)
			k := r.db.Keyring()
			all = append(all, string(r.db.Actor()), string(r.db.DiskID()), string(k.Current[:]), string(k.Domain[:]))
			disk = disk.CrashClone(100, 1)
			r.close(t)
		}
		return all
	}
	a, b, c := names(true), names(true), names(false)
	if !slices.Equal(a, b) {
		t.Errorf("equal sources: %x, then %x", a, b)
	}
	for i := range c {
		if a[i] == c[i] {
			t.Errorf("a store without a source draws %x, as one with a source did", c[i])
		}
	}
}
