package convergence

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// running is a file that says which schedule has begun, in case the process ends in it: by a panic in a goroutine of a replica, by
// the system, or by a time limit of the test. Its name contains the process id, so that tests that run concurrently do not collide.
type running struct {
	mu   sync.Mutex
	file *os.File
	seed uint64
}

func scriptDir() string {
	if dir := os.Getenv(envDir); dir != "" {
		return dir
	}
	return os.TempDir()
}

// startRunning makes the file. If it can't, it returns nil.
func startRunning(sys System, seed uint64) *running {
	f, err := os.CreateTemp(scriptDir(), fmt.Sprintf("convergence-%s-%d-*.running", plain(sys.Name), os.Getpid()))
	if err != nil {
		return nil
	}
	return &running{file: f, seed: seed}
}

// begin records that a schedule begins, and from which plan it was made.
func (r *running) begin(n int, p *plan) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		line := fmt.Sprintf("%d %d %v", r.seed, n, p)
		fmt.Fprintf(io.NewOffsetWriter(r.file, int64(n%killedMost*runningLine)), "%-*s\n", runningLine-1, line)
	}
}

func (r *running) end() {
	if r != nil {
		r.file.Close()
		os.Remove(r.file.Name())
	}
}

// killedMost is how many of the schedules that began last are in the file: with several workers the last one need not be the
// culprit. Each has a line of runningLine bytes.
const (
	killedMost  = 8
	runningLine = 1024
)

// began is a line of the file.
type began struct {
	seed uint64
	n    int
	plan *plan
}

// readRunning returns the schedules that the file names, in order.
func readRunning(text string) (list []began) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\x00", "")) {
		var b began
		var of string
		if _, err := fmt.Sscan(line, &b.seed, &b.n, &of); err != nil {
			continue
		}
		var ok bool
		if b.plan, ok = readPlan(of); ok {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b began) int { return a.n - b.n })
	return list
}

// killed looks for files of processes that ended in a schedule of the system, and writes the scripts of the schedules that had
// begun last. It returns their names.
func killed(sys System, o Options) (scripts []string) {
	o, err := o.withDefaults()
	if err != nil {
		return nil
	}
	if sys.Alone {
		o.Workers = 1
	}
	can, err := probe(sys, o.StepLimit)
	if err != nil {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(scriptDir(), "convergence-"+plain(sys.Name)+"-*.running"))
	for _, name := range names {
		rest := strings.TrimPrefix(filepath.Base(name), "convergence-"+plain(sys.Name)+"-")
		pid, _, _ := strings.Cut(rest, "-")
		id, err := strconv.Atoi(pid)
		if err != nil || alive(id) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		os.Remove(name)
		began := readRunning(string(text))
		for _, b := range began[max(0, len(began)-o.Workers):] {
			o.Seed = b.seed
			scripts = append(scripts, saveScript(sys, generate(sys, can, &o, b.n, b.plan), nil))
		}
	}
	return scripts
}

// alive reports whether a process is running.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// saveScript writes a script to a file, followed by what it violates as comments. It returns the file's name, or why it could not
// write it.
func saveScript(sys System, s *Script, v *Violation) string {
	text := s.String()
	if v != nil {
		text += "# " + strings.ReplaceAll(strings.TrimSpace(v.String()+"\n"+v.Stack), "\n", "\n# ") + "\n"
	}
	name := filepath.Join(scriptDir(), fmt.Sprintf("convergence-%s-%d.txt", plain(sys.Name), s.Seed))
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		return fmt.Sprintf("(the script is not kept: %v)", err)
	}
	return name
}
