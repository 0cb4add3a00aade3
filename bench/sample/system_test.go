package sample

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// root writes files below a folder.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readAll(s Source) map[string]float64 {
	v, out := make([]float64, len(s.Columns())), map[string]float64{}
	for i := range v {
		v[i] = math.NaN()
	}
	s.Read(v)
	for i, c := range s.Columns() {
		out[c.Name] = v[i]
	}
	return out
}

func wants(t *testing.T, s Source, want map[string]float64) {
	t.Helper()
	got := readAll(s)
	for name, w := range want {
		if g := got[name]; !(math.Abs(g-w) <= 1e-9*math.Abs(w)) && !(math.IsNaN(g) && math.IsNaN(w)) {
			t.Errorf("%s: got %v, want %v", name, g, w)
		}
	}
}

func TestProcessAndMachine(t *testing.T) {
	t.Parallel()
	proc := root(t, map[string]string{
		"self/stat":  "77 (a ) (b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9\n",
		"self/statm": "1000 25 3 4 5 6 7\n",
		"self/io":    "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n",
		"stat":       "cpu  100 200 300 4000 50 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
		"loadavg":    "1.25 0.5 0.1 3/100 23122\n",
	})
	p := NewProcess()
	p.proc = proc
	wants(t, p, map[string]float64{CPU: 3, Resident: 25 * float64(os.Getpagesize()), IORead: 4096, IOWritten: 8192})
	wants(t, &Machine{proc}, map[string]float64{MachineBusy: 6.13, MachineStolen: 0.8, MachineLoad: 1.25})
	if h := readAll(p)[Heap]; !(h > 1000) {
		t.Errorf("heap: %v", h)
	}
	nan := math.NaN()
	p.proc = t.TempDir()
	wants(t, p, map[string]float64{CPU: nan, Resident: nan, IORead: nan, IOWritten: nan})
	wants(t, &Machine{p.proc}, map[string]float64{MachineBusy: nan, MachineStolen: nan, MachineLoad: nan})
	if runtime.GOOS == "linux" {
		if got := readAll(NewProcess()); !(got[CPU] >= 0 && got[Resident] > 1<<20) {
			t.Errorf("of this process: %v", got)
		}
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	stats := "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 77047 27587 2000 14844 225559 79891 3000 41849 0 23104 63874\n" +
		" 254       1 vdb 1 1 20 1 1 1 30 1 0 40 1\n"
	nan := math.NaN()
	for _, c := range []struct {
		what, mounts, folder string
		read, written, busy  float64
	}{
		{"the root", "27 1 254:0 / / rw - ext4 /dev/vda rw\n", "/x", 2000 * 512, 3000 * 512, 23.104},
		{"the deepest", "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 254:1 / /x\\040y rw - ext4 /dev/vdb rw\n29 27 0:5 / /x rw - tmpfs tmpfs rw\n", "/x y/z", 20 * 512, 30 * 512, 0.04},
		{"in memory", "27 1 254:0 / / rw - ext4 /dev/vda rw\n29 27 0:5 / /x rw - tmpfs tmpfs rw\n", "/x/z", nan, nan, nan},
		{"a like name", "27 1 254:0 / / rw - ext4 /dev/vda rw\n29 27 254:1 / /x rw - ext4 /dev/vdb rw\n", "/xy", 2000 * 512, 3000 * 512, 23.104},
		{"by its name", "27 1 0:33 / / rw - btrfs /dev/vdb rw\n", "/", 20 * 512, 30 * 512, 0.04},
		{"nothing", "", "/", nan, nan, nan},
	} {
		proc := root(t, map[string]string{"self/mountinfo": c.mounts, "diskstats": stats})
		t.Log(c.what)
		wants(t, newDisk(proc, c.folder), map[string]float64{DiskRead: c.read, DiskWritten: c.written, DiskBusy: c.busy})
	}
}

func TestDataAndMemory(t *testing.T) {
	t.Parallel()
	meminfo := "MemTotal:       2097152 kB\nMemFree: 5 kB\n"
	for _, c := range []struct {
		what  string
		files map[string]string
		data  uint64
		want  string
	}{
		{"unknown", nil, 1 << 30, "Whether the data, 1.0 GiB, are larger than memory is not known here."},
		{"fits", map[string]string{"proc/meminfo": meminfo}, 1 << 30, "The data, 1.0 GiB, fit in memory, 2.0 GiB of the machine: reads may be served without the disk."},
		{"larger", map[string]string{"proc/meminfo": meminfo}, 3 << 30, "The data, 3.0 GiB, are larger than memory, 2.0 GiB of the machine."},
		{"group 2", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "536870912\n"},
			1 << 30, "The data, 1.0 GiB, are larger than memory, 512 MiB of the control group."},
		{"group 1", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "9:cpu,memory:/a\n3:cpuset:/\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 1 << 30, "The data, 1.0 GiB, fit in memory, 1.0 GiB of the control group: reads may be served without the disk."},
		{"in a container", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/host/path\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 21,
			"The data, 2.0 MiB, are larger than memory, 1.0 MiB of the control group."},
	} {
		got := dataAndMemory(root(t, c.files), c.data)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
	if got := DataAndMemory(1 << 60); runtime.GOOS == "linux" && !strings.Contains(got, "are larger than memory, ") {
		t.Error(got)
	}
}

// BenchmarkSystem is what a read of process, machine and disk costs.
func BenchmarkSystem(b *testing.B) {
	sources, values := []Source{NewProcess(), NewMachine(), NewDisk(".")}, make([]float64, 10)
	for b.Loop() {
		for _, s := range sources {
			s.Read(values)
		}
	}
}
