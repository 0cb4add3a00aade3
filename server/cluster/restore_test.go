package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/internal/testkit"
	"bigset/server/wire"
)

// backup is a copy of what a member keeps.
type backup struct {
	disk  *memDisk
	files *testkit.Disk
}

func (w *trio) backup(i int) backup {
	return backup{w.disks[i].clone(fmt.Sprintf("%d restored", i)), w.files[i].CrashClone(0, uint64(i))}
}

// put has a member start with a backup, or with an empty folder.
func (w *trio) put(t *testing.T, i int, b *backup) {
	t.Helper()
	if b == nil {
		w.disks[i], w.files[i] = newDisk(fmt.Sprintf("%d empty, %d", i, time.Now().UnixNano())), testkit.NewDisk()
		return
	}
	w.disks[i], w.files[i] = b.disk, b.files
	if _, err := PrepareRestore(context.Background(), b.disk); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreAll: a cluster starts again from one backup of each member, with all that any of them has, and forgets what came later.
func TestRestoreAll(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	for i := range 12 {
		must(t, w.procs[i%3].add(t, "s", fmt.Sprintf("e%02d", i)))
	}
	w.procs[0].create(t, "kept")
	w.procs[0].create(t, "dropped")
	keys := keysOf("k%d", 200)
	w.procs[1].mark(t, "kept", keys)
	w.procs[1].mark(t, "dropped", keys)
	must(t, w.procs[2].member.Filters().Drop(ctx1(t), []byte("dropped")))
	var backups []backup
	for i := range 3 {
		must(t, w.procs[i].store.Filters().Flush(ctx1(t)))
		backups = append(backups, w.backup(i))
		must(t, w.procs[i].add(t, "s", fmt.Sprintf("between%d", i)))
	}
	w.procs[0].create(t, "later")
	for i := range 3 {
		w.procs[i].stop()
		w.put(t, i, &backups[i])
	}
	for i := range 3 {
		w.start(i)
	}
	until(t, "the restored members", w.listed)
	for i, p := range w.procs {
		got := strings.Join(p.read(t, "s"), " ")
		if !strings.Contains(got, "e00 e01 e02 e03 e04 e05 e06 e07 e08 e09 e10 e11") || strings.Contains(got, "between2") {
			t.Errorf("node %d reads %s", i, got)
		}
		if n := p.has(t, "kept", keys); n != 200 {
			t.Errorf("node %d has %d of 200 keys", i, n)
		}
		for _, name := range []string{"dropped", "later"} {
			if _, err := p.member.Filters().Find(ctx1(t), []byte(name)); err == nil {
				t.Errorf("node %d serves filter %s", i, name)
			}
		}
		if r := p.member.View().Record; r.Generation != 2 || r.Epoch < 2 {
			t.Errorf("node %d: generation %d, epoch %d", i, r.Generation, r.Epoch)
		}
		must(t, p.add(t, "s", fmt.Sprintf("after%d", i)))
	}
}

// TestRestoreOne: two of three disks are lost, and that is accepted: what the third has counts.
func TestRestoreOne(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	for i := range 12 {
		must(t, w.procs[1].add(t, "s", fmt.Sprintf("e%02d", i)))
	}
	for i := range 3 {
		w.procs[i].stop()
	}
	w.put(t, 0, nil)
	w.put(t, 2, nil)
	time.Sleep(cloneTime)
	for i := range 3 {
		w.start(i)
	}
	until(t, "a sentence that says what to do", func() bool {
		s := w.procs[0].member.Status()
		return strings.Contains(s.Waits, "a and c joined with new ones") && strings.Contains(s.Waits, "bigset cluster restore")
	})
	time.Sleep(200 * time.Millisecond)
	if w.whole() {
		t.Fatal("the loss of two disks was accepted without anybody's word")
	}
	for i := range 3 {
		w.procs[i].stop()
	}
	if _, err := PrepareRestore(context.Background(), w.disks[1]); err != nil {
		t.Fatal(err)
	}
	w.put(t, 0, nil)
	w.put(t, 2, nil)
	for i := range 3 {
		w.start(i)
	}
	until(t, "the restored members", w.listed)
	for i, p := range w.procs {
		if n := len(p.read(t, "s")); n != 12 {
			t.Errorf("node %d reads %d elements of 12", i, n)
		}
	}
}

// TestRestoreTogether: a member that was not restored keeps the others from being, and one that comes with the folder of before is refused.
func TestRestoreTogether(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	old := w.disks[2]
	for i := range 3 {
		w.stop(i)
	}
	if _, err := PrepareRestore(context.Background(), newDisk("empty")); !errors.Is(err, ErrConfig) {
		t.Errorf("restore of a folder of no cluster: %v", err)
	}
	restored := func(i int) {
		if i > 0 { // the first one is the disk that it was
			w.disks[i] = w.disks[i].clone(string(w.disks[i].identity) + "r")
		}
		if r, err := PrepareRestore(context.Background(), w.disks[i]); err != nil || r.Epoch != 1 {
			t.Fatalf("%v, %v", r, err)
		}
	}
	restored(0)
	restored(1)
	w.startAll()
	w.rounds(3)
	if s, _ := w.members[0].State(context.Background()); !strings.Contains(s.Waits, "node c holds data and was not restored") {
		t.Errorf("with one that was not restored: %q", s.Waits)
	}
	for i, m := range w.members[:2] {
		if v := m.View(); v.Serves {
			t.Errorf("member %d serves before the restore", i)
		}
	}
	w.stop(2)
	w.disks[2] = newDisk("c-empty")
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	crashed := false
	w.before = func(i, j int, v wire.Verb) { // the proposer ends before it commits
		if v == verbCommit && !crashed {
			crashed = true
		}
	}
	if waits := w.rounds(6); waits != "" {
		t.Fatal(waits)
	}
	r := w.members[2].View().Record
	if r.Generation != 2 || r.Restored != r.Epoch || r.Members[0].Disk != 0 || r.Members[1].Disk != 0 || r.Members[2].Disk != r.Epoch {
		t.Errorf("%s", r.encode())
	}
	w.stop(2)
	w.disks[2] = old
	w.tick(3 * time.Second)
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	w.rounds(3)
	if v := w.members[2].View(); v.Serves {
		t.Errorf("a folder of the former generation serves: %s", v.Record.encode())
	}
	if s, _ := w.members[2].State(context.Background()); !strings.Contains(s.Waits, "restored as generation 2 without it") {
		t.Errorf("a folder of the former generation waits for %q", s.Waits)
	}
	w.stop(2)
	w.disks[2] = old.clone("copy of c") // another disk, with what the restore has given up
	w.disks[2].data = true
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	w.rounds(3)
	if s, _ := w.members[2].State(context.Background()); w.members[2].View().Serves || !strings.Contains(s.Waits, "restored as generation 2 without it") {
		t.Errorf("a copy of a folder of the former generation waits for %q", s.Waits)
	}
	if v := w.members[0].View(); v.Record.Epoch != r.Epoch {
		t.Errorf("the others are at epoch %d", v.Record.Epoch)
	}
	w.stop(2)
	w.disks[2] = old.clone("emptied c")
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	if waits := w.rounds(4); waits != "" {
		t.Errorf("a folder of the former generation without data waits for %q", waits)
	}
}

// TestRestoreBroken: a restore that ends between its agreement and its commit goes on when the members start again.
func TestRestoreBroken(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		w := newNet(t, 3)
		w.startAll()
		if waits := w.rounds(4); waits != "" {
			t.Fatal(waits)
		}
		for i := range 3 {
			w.stop(i)
			w.disks[i] = w.disks[i].clone(string(w.disks[i].identity) + "r")
			if _, err := PrepareRestore(context.Background(), w.disks[i]); err != nil {
				t.Fatal(err)
			}
		}
		w.startAll()
		calls := 0
		w.before = func(i, j int, v wire.Verb) {
			if v == verbPropose || v == verbCommit {
				if calls++; calls > at {
					w.mu.Lock()
					w.cut[[2]int{i, j}] = true
					w.mu.Unlock()
				}
			}
		}
		w.rounds(2)
		w.before, w.cut = nil, map[[2]int]bool{}
		for i := range 3 {
			w.stop(i)
		}
		w.startAll()
		if waits := w.rounds(6); waits != "" {
			t.Errorf("broken off after %d: %s", at, waits)
			continue
		}
		for i, m := range w.members {
			if r := m.View().Record; r.Generation != 2 {
				t.Errorf("broken off after %d: member %d is of generation %d", at, i, r.Generation)
			}
		}
	}
}

// TestRestoreLate: a folder that was marked for a restore and missed it is refused, and stays as it is; so is one of another restore of the same backups.
func TestRestoreLate(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	var backups [3]*memDisk
	for i := range 3 {
		w.stop(i)
		backups[i] = w.disks[i].clone(fmt.Sprintf("backup %d", i))
		if _, err := PrepareRestore(context.Background(), backups[i]); err != nil {
			t.Fatal(err)
		}
	}
	restored := func(try string, disks ...*memDisk) []*memDisk {
		for i, d := range disks {
			w.disks[i] = newDisk(fmt.Sprintf("%d, empty at %s", i, try))
			if d != nil {
				w.disks[i] = d.clone(fmt.Sprintf("%d, %s", i, try))
			}
		}
		w.tick(3 * time.Second)
		w.startAll()
		if waits := w.rounds(6); waits != "" {
			t.Fatalf("%s: %s", try, waits)
		}
		return slices.Clone(w.disks)
	}
	first := restored("first", backups[0], backups[1], nil)
	late := func(what string, d *memDisk, want string) {
		t.Helper()
		w.stop(2)
		was := string(d.kept[keyLedger])
		w.disks[2] = d
		w.tick(3 * time.Second)
		if _, err := w.start(2); err != nil {
			t.Fatal(err)
		}
		w.rounds(3)
		s, _ := w.members[2].State(context.Background())
		if v := w.members[2].View(); v.Serves && what == "late" || !strings.Contains(s.Waits, want) {
			t.Errorf("%s: serves %v, waits for %q", what, v.Serves, s.Waits)
		}
		if what == "late" && string(d.kept[keyLedger]) != was {
			t.Errorf("%s: its mark is gone", what)
		}
	}
	late("late", backups[2], "restore all folders again")
	for i := range 3 {
		w.stop(i)
	}
	restored("second", backups[0], backups[1], nil)
	late("of another restore", first[2], "two restores")
}
