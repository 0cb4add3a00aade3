package engine_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// killLoops is how often TestKillLoop kills; 2,000 of them take some minutes:
//
//	go test ./engine -run TestKillLoop -engine.kills 2000 -timeout 1h
var killLoops = flag.Int("engine.kills", 20, "how often TestKillLoop kills a process")

// TestKillLoop kills a process that writes, removes, flushes and rewrites on real files, at a random acknowledgement, and
// opens what it has left, over and over in one folder. What was acknowledged is as the child reported it, no dot is issued twice, every
// life has an actor of its own, and the store proves itself right.
func TestKillLoop(t *testing.T) {
	t.Parallel()
	loops := *killLoops
	if testing.Short() {
		loops = min(loops, 3)
	}
	r := tier.Random(t)
	dir := filepath.Join(t.TempDir(), "store")
	dots, actors, told := map[string]string{}, map[string]bool{}, map[string]bool{}
	for loop := range loops {
		next := map[int]int{} // of each writer, the number of the write that was under way
		for _, line := range killChild(t, dir, loop, 1+r.IntN(150)) {
			switch f := strings.Fields(line); f[0] {
			case "actor":
				if actors[f[1]] {
					t.Fatalf("loop %d: actor %s again", loop, f[1])
				}
				actors[f[1]] = true
			case "added":
				told[f[1]] = true
				if was, ok := dots[f[2]]; ok {
					t.Fatalf("loop %d: dot %s of %s was issued for %s", loop, f[2], f[1], was)
				}
				dots[f[2]] = f[1]
				if len(f) > 3 {
					told[f[3]] = false
				}
				var w, i int
				if _, err := fmt.Sscanf(f[1], fmt.Sprint(loop)+"-%d-%d", &w, &i); err != nil {
					t.Fatalf("loop %d: %s: %v", loop, line, err)
				}
				next[w] = i + 1
			default:
				t.Fatalf("loop %d: %s", loop, line)
			}
		}
		for w, i := range next { // what it may have removed
			delete(told, fmt.Sprintf("%d-%d-%05d", loop, w, i-5))
		}
		s, err := engine.Open(dir, &engine.Options{Logger: silent, BackgroundInterval: -1})
		must(t, err, fmt.Sprintf("open after kill %d", loop))
		rep, err := s.Verify(bg, engine.VerifyOptions{})
		must(t, err, "verify")
		if !rep.OK() {
			t.Fatalf("after kill %d: %+v", loop, rep)
		}
		have := map[string]bool{}
		all, err := readAll(s, "s", bigset.ReadOptions{})
		must(t, err, "read")
		for _, e := range all {
			have[string(e.Name)] = true
		}
		for e, present := range told {
			if have[e] != present {
				t.Fatalf("after kill %d: %q was told present %v, is %v", loop, e, present, have[e])
			}
		}
		must(t, s.Close(), "close")
	}
	tier.Count(t, "kills", loops)
	t.Logf("%d kills, %d elements and %d dots told", loops, len(told), len(dots))
}

// killChild runs a writer and kills it when it has reported enough. It returns the lines that it wrote whole.
func killChild(t *testing.T, dir string, loop, acks int) (lines []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "BIGSET_TEST_CHILD="+strings.Join([]string{"churn", dir, fmt.Sprint(loop)}, "\n"))
	out, err := cmd.StdoutPipe()
	must(t, err, "pipe")
	must(t, cmd.Start(), "start")
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // after the kill: half a line reports nothing
		}
		lines = append(lines, strings.TrimSpace(line))
		if len(lines) == acks {
			must(t, cmd.Process.Kill(), "kill")
		}
	}
	if err := cmd.Wait(); err == nil || len(lines) < acks {
		t.Fatalf("loop %d: it was not killed: %v, %q", loop, err, lines)
	}
	return lines
}

// childChurns adds and removes for ever, in several goroutines, and reports what was acknowledged as synced.
func childChurns(t *testing.T, dir, loop string) {
	o := newPair("child").opt
	o.Strategy, o.BackgroundInterval = eager(compaction.Default()), time.Millisecond
	s, err := engine.Open(dir, &o)
	must(t, err, "open")
	fmt.Printf("actor %x\n", string(s.Replica().Actor()))
	var tell sync.Mutex
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				e := []byte(fmt.Sprintf("%s-%d-%05d", loop, w, i))
				ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: e}}
				if i >= 5 && i%2 == 1 {
					ops = append(ops, bigset.Op{Kind: keyscheme.OpRemove, Element: []byte(fmt.Sprintf("%s-%d-%05d", loop, w, i-5))})
				}
				r, err := s.Write(bg, []byte("s"), ops, bigset.WriteOptions{Durability: bigset.Sync})
				must(t, err, "write")
				removed := ""
				if len(ops) > 1 {
					removed = string(ops[1].Element)
				}
				tell.Lock()
				fmt.Printf("added %s %x:%d %s\n", e, string(r.Dots[0].Actor), r.Dots[0].Counter, removed)
				tell.Unlock()
			}
		})
	}
	wg.Wait()
}
