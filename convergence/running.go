package convergence

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// running is a file that says which schedule has begun, for when the process ends in it: by a panic in a goroutine of a replica, by
// the system, by a time limit of the test. Its name has the process, so that tests which run at once do not meet.
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

// startRunning makes the file. Where it can't be made there is none.
func startRunning(sys System, seed uint64) *running {
	f, err := os.CreateTemp(scriptDir(), fmt.Sprintf("convergence-%s-%d-*.running", plain(sys.Name), os.Getpid()))
	if err != nil {
		return nil
	}
	return &running{file: f, seed: seed}
}

// begin notes that a schedule begins.
func (r *running) begin(n int) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintf(r.file, "%d %d\n", r.seed, n)
	}
}

func (r *running) end() {
	if r != nil {
		r.file.Close()
		os.Remove(r.file.Name())
	}
}

// killedMost is how many schedules that had begun last are written out: with several workers the last one need not be the culprit.
const killedMost = 8

// killed looks for files of processes that have ended in a schedule of the system, and writes out the scripts of those that had begun
// last. It returns their names.
func killed(sys System, o Options) (scripts []string) {
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
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		o, _ := o.withDefaults()
		for _, line := range lines[max(0, len(lines)-max(1, min(o.Workers, killedMost))):] {
			var n int
			if _, err := fmt.Sscanf(line, "%d %d", &o.Seed, &n); err != nil {
				continue
			}
			if s, err := Generate(sys, o, n); err == nil {
				scripts = append(scripts, saveScript(sys, s))
			}
		}
	}
	return scripts
}

// alive reports whether a process runs.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// saveScript writes a script to a file and returns its name, or why it could not.
func saveScript(sys System, s *Script) string {
	name := filepath.Join(scriptDir(), fmt.Sprintf("convergence-%s-%d.txt", plain(sys.Name), s.Seed))
	if err := os.WriteFile(name, []byte(s.String()), 0o666); err != nil {
		return fmt.Sprintf("(the script is not kept: %v)", err)
	}
	return name
}
