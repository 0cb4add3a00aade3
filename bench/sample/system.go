package sample

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
)

// procFolder is where Linux reports about processes and itself. On other systems these figures are unknown.
const procFolder = "/proc"

// ticksPerSecond is Linux's unit of CPU time on every architecture that Go supports.
const ticksPerSecond = 100

// Process is this process: its CPU time, its memory, and its disk reads and writes. Use NewProcess to make it.
type Process struct {
	proc string
	heap []metrics.Sample
}

// NewProcess returns the source.
func NewProcess() *Process {
	return &Process{procFolder, []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}}
}

// Name implements Source.
func (p *Process) Name() string { return "process" }

// Columns implements Source.
func (p *Process) Columns() []Column {
	return []Column{
		{CPU, "cpu", true}, {Resident, "B", false}, {Heap, "B", false}, {IORead, "B", true}, {IOWritten, "B", true},
	}
}

// Read implements Source.
func (p *Process) Read(values []float64) {
	stat := readFile(p.proc, "self/stat")
	// The name of the program is in brackets, and may contain any character.
	if f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]); len(f) > 12 {
		set(&values[0], f[11], 1./ticksPerSecond)
		var system float64
		set(&system, f[12], 1./ticksPerSecond)
		values[0] += system
	}
	if f := strings.Fields(readFile(p.proc, "self/statm")); len(f) > 1 {
		set(&values[1], f[1], float64(os.Getpagesize()))
	}
	metrics.Read(p.heap)
	values[2] = float64(p.heap[0].Value.Uint64())
	io := pairsOf(readFile(p.proc, "self/io"))
	set(&values[3], io["read_bytes:"], 1)
	set(&values[4], io["write_bytes:"], 1)
}

// pairsOf maps the first word of each line to the second.
func pairsOf(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 {
			m[f[0]] = f[1]
		}
	}
	return m
}

// set sets a value to the number in a text, if it contains one.
func set(to *float64, text string, factor float64) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		*to = v * factor
	}
}

// readFile returns a small file, or "" if it can't be read.
func readFile(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// Machine is the machine that everything runs on. Use NewMachine to make it.
type Machine struct{ proc string }

// NewMachine returns the source.
func NewMachine() *Machine { return &Machine{procFolder} }

// Name implements Source.
func (m *Machine) Name() string { return "machine" }

// Columns implements Source.
func (m *Machine) Columns() []Column {
	return []Column{{MachineBusy, "cpu", true}, {MachineStolen, "cpu", true}, {MachineLoad, "", false}}
}

// Read implements Source.
func (m *Machine) Read(values []float64) {
	first, _, _ := strings.Cut(readFile(m.proc, "stat"), "\n")
	// cpu user nice system idle iowait irq softirq steal …
	if f := strings.Fields(first); len(f) > 8 && f[0] == "cpu" {
		values[0] = 0
		for _, i := range []int{1, 2, 3, 6, 7} {
			var v float64
			set(&v, f[i], 1./ticksPerSecond)
			values[0] += v
		}
		set(&values[1], f[8], 1./ticksPerSecond)
	}
	if f := strings.Fields(readFile(m.proc, "loadavg")); len(f) > 0 {
		set(&values[2], f[0], 1)
	}
}

// Disk is the device that contains a folder. Use NewDisk to make it.
type Disk struct{ proc, number, name string }

// sectorBytes is Linux's unit for the bytes of disks, whatever the sectors of the device.
const sectorBytes = 512

// NewDisk returns the source. Its figures are unknown if the device of the folder can't be determined, for instance in memory or on a file
// system over others.
func NewDisk(folder string) *Disk { return newDisk(procFolder, folder) }

func newDisk(proc, folder string) *Disk {
	d := &Disk{proc: proc}
	path, err := filepath.Abs(folder)
	if err != nil {
		return d
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	best := -1
	for line := range strings.Lines(readFile(proc, "self/mountinfo")) {
		// number parent major:minor root mount-point options… - type source …
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 2 {
			continue
		}
		if at := unescape.Replace(f[4]); len(at) >= best && within(path, at) { // the later of two mounts in one place is visible
			best, d.number, d.name = len(at), f[2], filepath.Base(g[1])
		}
	}
	return d
}

// unescape reverts the escapes of names in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func within(path, folder string) bool {
	return folder == "/" || path == folder || strings.HasPrefix(path, folder+"/")
}

// Name implements Source.
func (d *Disk) Name() string { return "disk" }

// Columns implements Source.
func (d *Disk) Columns() []Column {
	return []Column{{DiskRead, "B", true}, {DiskWritten, "B", true}, {DiskBusy, "s", true}}
}

// Read implements Source.
func (d *Disk) Read(values []float64) {
	for line := range strings.Lines(readFile(d.proc, "diskstats")) {
		f := strings.Fields(line)
		if len(f) < 13 || f[0]+":"+f[1] != d.number && f[2] != d.name {
			continue
		}
		set(&values[0], f[5], sectorBytes)
		set(&values[1], f[9], sectorBytes)
		set(&values[2], f[12], 1e-3)
		return
	}
}
