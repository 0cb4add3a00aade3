package engine_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestOpenRefuses: a folder that is not to be opened in this way is left as it is.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		what   string
		fresh  bool // no store is there
		record compaction.Record
		opt    engine.Options
		want   error
	}{
		{"merge asked for, set there", false, compaction.Set, engine.Options{Record: compaction.Merge}, engine.ErrFormat},
		{"point deletes on merge", false, compaction.Merge, engine.Options{Strategy: compaction.PointDeletes()}, compaction.ErrStrategy},
		{"filter on set", false, compaction.Set, engine.Options{Strategy: compaction.Filter()}, compaction.ErrStrategy},
		{"default on set", false, compaction.Set, engine.Options{Strategy: compaction.Default()}, compaction.ErrStrategy},
		{"no store", true, 0, engine.Options{MustExist: true}, engine.ErrNoStore},
	} {
		fs := vfs.NewMem()
		must(t, fs.MkdirAll("store", 0o755), "folder")
		c.opt.FS, c.opt.Logger, c.opt.BackgroundInterval = fs, silent, -1
		if !c.fresh {
			s, err := engine.Open("store", &engine.Options{FS: fs, Record: c.record, Logger: silent})
			must(t, err, c.what)
			must(t, s.Close(), c.what)
		}
		before := fs.String()
		s, err := engine.Open("store", &c.opt)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil {
			must(t, s.Close(), c.what)
		}
		if after := fs.String(); after != before && !c.fresh {
			t.Errorf("%s: the folder has changed:\n%s\nwas\n%s", c.what, after, before)
		}
	}
}

// TestTwoStores: a folder is one store's at a time, in this process and in others.
func TestTwoStores(t *testing.T) {
	dir := t.TempDir()
	s, err := engine.Open(dir, &engine.Options{Logger: silent})
	must(t, err, "open")
	if _, err := engine.Open(dir, &engine.Options{Logger: silent}); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a second store in this process: %v", err)
	}
	if out := child(t, "open", dir); !strings.Contains(out, "locked") {
		t.Errorf("a second store in another process: %s", out)
	}
	_, err = s.Add(bg, []byte("s"), [][]byte{[]byte("a")}, bigset.WriteOptions{})
	must(t, err, "add")
	must(t, s.Close(), "close")
	if out := child(t, "open", dir); !strings.Contains(out, "opened") {
		t.Errorf("after the close: %s", out)
	}
}

// TestCopiedFolder: a copy of a store's folder, and a folder put back from an older copy, take a new incarnation; the very
// folder that was closed in order keeps its own, also when it was moved.
func TestCopiedFolder(t *testing.T) {
	if _, err := exec.LookPath("cp"); err != nil {
		t.Skip("no cp")
	}
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	minted := map[clock.Dot]string{}
	use := func(dir, element string) clock.Actor {
		t.Helper()
		s, err := engine.Open(dir, &engine.Options{Logger: silent})
		must(t, err, "open "+dir)
		r, err := s.Add(bg, []byte("s"), [][]byte{[]byte(element)}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
		must(t, err, "add")
		if was, ok := minted[r.Dots[0]]; ok {
			t.Errorf("%s: dot %v issued for %q and for %q", dir, r.Dots[0], was, element)
		}
		minted[r.Dots[0]] = element
		must(t, s.Close(), "close")
		return s.Replica().Actor()
	}
	first := use(at("a"), "1")
	if again := use(at("a"), "2"); again != first {
		t.Errorf("reopened: actor %x, want %x", string(again), string(first))
	}
	run("cp", "-a", at("a"), at("copy"))
	run("cp", "-a", at("a"), at("backup"))
	if copied := use(at("copy"), "3"); copied == first {
		t.Errorf("the copy goes on as %x", string(copied))
	}
	if original := use(at("a"), "4"); original != first {
		t.Errorf("the original has become %x", string(original))
	}
	run("mv", at("a"), at("moved"))
	if moved := use(at("moved"), "5"); moved != first {
		t.Errorf("moved: actor %x, want %x", string(moved), string(first))
	}
	// The backup is put back over the folder, file by file.
	run("cp", "-a", at("backup")+"/.", at("moved"))
	if restored := use(at("moved"), "6"); restored == first {
		t.Errorf("put back from an older copy, it goes on as %x", string(restored))
	}
}

// TestRestoredInPlace puts a folder back from an older copy the way rsync does: files that look the same are left alone,
// others are replaced, and those that the copy has not are removed.
func TestRestoredInPlace(t *testing.T) {
	top := t.TempDir()
	dir, backup := filepath.Join(top, "store"), filepath.Join(top, "backup")
	add := func(element string) clock.Dot {
		t.Helper()
		s, err := engine.Open(dir, &engine.Options{Logger: silent})
		must(t, err, "open")
		r, err := s.Add(bg, []byte("s"), [][]byte{[]byte(element)}, bigset.WriteOptions{})
		must(t, err, "add")
		must(t, s.Close(), "close")
		return r.Dots[0]
	}
	add("a")
	if out, err := exec.Command("cp", "-a", dir, backup).CombinedOutput(); err != nil {
		t.Skipf("no cp: %v %s", err, out)
	}
	later := add("b")
	syncFolder(t, backup, dir)
	if again := add("c"); again == later {
		t.Errorf("dot %v was issued for b and, after an older copy was put back, for c", again)
	}
}

// syncFolder makes to like from. Files of equal size and time are taken for equal.
func syncFolder(t *testing.T, from, to string) {
	t.Helper()
	list := func(dir string) map[string]os.FileInfo {
		files := map[string]os.FileInfo{}
		entries, err := os.ReadDir(dir)
		must(t, err, "list")
		for _, e := range entries {
			info, err := e.Info()
			must(t, err, "stat")
			files[e.Name()] = info
		}
		return files
	}
	want, have := list(from), list(to)
	for name := range have {
		if want[name] == nil {
			must(t, os.Remove(filepath.Join(to, name)), "remove")
		}
	}
	for name, info := range want {
		if h := have[name]; h != nil && h.Size() == info.Size() && h.ModTime().Equal(info.ModTime()) {
			continue
		}
		if out, err := exec.Command("cp", "-a", "--remove-destination", filepath.Join(from, name), filepath.Join(to, name)).CombinedOutput(); err != nil {
			t.Skipf("cp: %v %s", err, out)
		}
	}
}

// child runs this program again as another process, see TestChild, and returns what it printed.
func child(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "BIGSET_TEST_CHILD="+strings.Join(args, "\n"))
	out, _ := cmd.CombinedOutput() // it may well fail: what counts is what it said
	return string(out)
}

// TestChild is what child runs.
func TestChild(t *testing.T) {
	args := strings.Split(os.Getenv("BIGSET_TEST_CHILD"), "\n")
	switch args[0] {
	case "":
		t.Skip("only for the other tests")
	case "open":
		s, err := engine.Open(args[1], &engine.Options{Logger: silent})
		switch {
		case errors.Is(err, engine.ErrLocked):
			fmt.Println("locked")
		case err == nil:
			fmt.Println("opened")
			must(t, s.Close(), "close")
		default:
			fmt.Println(err)
		}
	case "write":
		childWrites(t, args[1], args[2], args[3])
	case "excise":
		childExcises(t, args[1])
	case "churn":
		childChurns(t, args[1], args[2])
	}
}

// childExcises cuts tables of a store while they can't be read.
func childExcises(t *testing.T, dir string) {
	opt := exciseOptions()
	opt.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && testkit.WithinCut() {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	}))
	s, err := engine.Open(dir, &opt)
	must(t, err, "open")
	fmt.Println("went on:", exciseSome(s))
}

// exciseOptions are those of a store whose blocks are read from the disk again and again, and hold one key each: what lies on
// both sides of a cut is not in one block.
func exciseOptions() engine.Options {
	p := newPair("")
	p.opt.Tune(func(po *pebble.Options) {
		testkit.SmallTables(po)
		for i := range po.Levels {
			po.Levels[i].BlockSize = 1
		}
	})
	p.opt.Strategy, p.opt.SpanBytes, p.opt.BlockCacheBytes = eager(compaction.Default()), 2<<10, 1
	return p.opt
}

// exciseSome swaps spans of one set, and cuts one out.
func exciseSome(s *engine.Store) (err error) {
	for from, spans := []byte(nil), 0; err == nil && (spans == 0 || from != nil); spans++ {
		var pass engine.Pass
		pass, err = s.RewriteSpan(bg, []byte("v"), from, 1)
		from = pass.Next
	}
	return errors.Join(err, s.RunnerTick(bg))
}

// childWrites writes elements, and prints each that was acknowledged, until the disk fails: the n-th operation on a file
// whose name holds part, and all after it. With "kill" for the part it ends itself.
func childWrites(t *testing.T, dir, part, nth string) {
	n, err := strconv.ParseInt(nth, 10, 64)
	must(t, err, "n")
	var armed atomic.Bool
	var count atomic.Int64
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && testkit.IsWrite(op) && strings.Contains(filepath.Base(op.Path), part) && count.Add(1) > n {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	}))
	opt := engine.Options{FS: fs, Logger: silent, MemTableBytes: 64 << 10}
	opt.Tune(testkit.SmallTables)
	s, err := engine.Open(dir, &opt)
	must(t, err, "open")
	fmt.Printf("actor %x\n", string(s.Replica().Actor()))
	armed.Store(true)
	for i := range 20000 {
		if part == "kill" && int64(i) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		e := fmt.Sprintf("%06d", i)
		d := bigset.NoSync
		if i%7 == 0 {
			d = bigset.Sync
		}
		if _, err := s.Add(bg, []byte("s"), [][]byte{[]byte(e)}, bigset.WriteOptions{Durability: d}); err != nil {
			fmt.Println("error", err)
			return
		}
		if d == bigset.Sync {
			fmt.Println("ack", e)
		}
	}
	fmt.Println("never failed")
}

// TestProcessEnds kills a writing process, and fails the disk operations that end it: whatever it had acknowledged as synced
// is there afterwards, and its incarnation is not taken up again.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	for part, at := range map[string][]int{"kill": {1, 500, 3000}, "MANIFEST": {0, 1}, ".log": {40, 110}} {
		for _, n := range at {
			if part != "kill" && testing.Short() {
				continue
			}
			t.Run(fmt.Sprint(part, n), func(t *testing.T) { processEnds(t, part, n) })
		}
	}
}

func processEnds(t *testing.T, part string, n int) {
	dir := filepath.Join(t.TempDir(), "store")
	var acked []string
	actor := ""
	lines := bufio.NewScanner(strings.NewReader(child(t, "write", dir, part, strconv.Itoa(n))))
	for lines.Scan() {
		if e, ok := strings.CutPrefix(lines.Text(), "ack "); ok {
			acked = append(acked, e)
		} else if a, ok := strings.CutPrefix(lines.Text(), "actor "); ok {
			actor = a
		} else if strings.HasPrefix(lines.Text(), "never failed") {
			t.Error("the process was not disturbed")
		}
	}
	if len(acked) == 0 && n > 10 {
		t.Fatal("nothing was acknowledged")
	}
	p := newPair("afterwards")
	s, err := engine.Open(dir, &engine.Options{Logger: silent, BackgroundInterval: -1})
	must(t, err, "open")
	p.store = s
	for _, e := range acked {
		if got, err := s.Look(bg, []byte("s"), []byte(e)); err != nil || !got.Present {
			t.Fatalf("%q was acknowledged: %v, %v", e, got, err)
		}
	}
	if fmt.Sprintf("%x", string(s.Replica().Actor())) == actor && len(acked) > 0 {
		t.Errorf("actor %s again", actor)
	}
	p.verify(t)
	t.Logf("%d acknowledged", len(acked))
	must(t, s.Close(), "close")
}

// TestFolderIsDurable: a store made by Open is there after a power cut, with the folders that Open made for it.
func TestFolderIsDurable(t *testing.T) {
	disk := testkit.NewDisk()
	o := &engine.Options{FS: disk, Logger: silent, BackgroundInterval: -1}
	s, err := engine.Open("a/b/store", o)
	must(t, err, "open")
	_, err = s.Add(bg, []byte("s"), [][]byte{[]byte("x")}, bigset.WriteOptions{Durability: bigset.Sync})
	must(t, err, "add")
	o2 := *o
	o2.FS, o2.MustExist = disk.CrashClone(0, 0), true
	after, err := engine.Open("a/b/store", &o2)
	must(t, err, "open after a power cut")
	if got, err := after.Look(bg, []byte("s"), []byte("x")); err != nil || !got.Present {
		t.Errorf("after a power cut: %v, %v", got, err)
	}
	must(t, after.Close(), "close")
	must(t, s.Close(), "close")
}

// TestCompactBesideCompact: compactions of one set, on demand and in the background, wait for each other.
func TestCompactBesideCompact(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Rewriter()) // the drop filter would leave it nothing to do
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 150), bigset.Sync)
	second := make(chan error, 1)
	var once atomic.Bool
	p.disk.SetHook("beside", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !once.Swap(true) {
			entered := make(chan struct{})
			go func() {
				close(entered)
				_, err := p.store.Compact(bg, engine.CompactOptions{})
				second <- err
			}()
			<-entered
			select { // let it come as far as it can
			case err := <-second:
				second <- err
			case <-settled(p):
			}
		}
		return nil
	})
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "the first")
	if !once.Load() {
		t.Fatal("no span was written: nothing was tested")
	}
	must(t, <-second, "the one beside it")
	p.disk.SetHook("beside", nil)
	p.checkClean(t, "s")
	p.verify(t)
	p.close(t)
}
