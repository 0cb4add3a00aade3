package engine_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
)

// The commands of scripts that open stores, and that make disks fail.

func (p *scriptStore) openCmd(l *scriptLine) string {
	if p.Store != nil {
		l.fatal("it is open")
	}
	p.opt = newPair(p.name).opt
	p.opt.Record = oneOf(l, "records", map[string]compaction.Record{"merge": compaction.Merge, "set": compaction.Set})
	p.opt.Strategy = p.strategy(l)
	p.opt.KeepContexts = oneOf(l, "contexts", map[string]bool{"open": true})
	p.opt.Durability = oneOf(l, "durability", scriptDurabilities)
	p.opt.SpanBytes = l.number("span", p.opt.SpanBytes)
	p.opt.RequestsKept = l.number("requests", 0)
	p.small = oneOf(l, "pages", map[string]bool{"small": true})
	if of := p.sc.stores[l.value("of", "")]; of != nil {
		p.disk, p.folder = of.disk, l.value("folder", "")
	}
	p.opt.Now = func() time.Time { return time.Unix(0, p.sc.time.Load()) }
	p.opt.Events = p.event
	p.opt.Tune(func(po *pebble.Options) {
		testkit.SmallTables(po)
		po.DisableAutomaticCompactions = true
	})
	return p.open()
}

func (p *scriptStore) open() string {
	_, err := p.disk.Stat(p.folder + "/BIGSET")
	p.opt.FS = p.disk
	s, openErr := engine.Open(p.folder, &p.opt)
	if openErr != nil {
		return p.failedBy(openErr)
	}
	if p.Store = s; p.small {
		s.SplitRecords(30, 16, 8, 4)
	}
	switch p.know(); {
	case os.IsNotExist(err):
		return "a new store\n"
	case s.InDoubt():
		return "opened, a new incarnation is due\n"
	}
	return "opened\n"
}

func (p *scriptStore) closeCmd(*scriptLine) string {
	p.stopReaders()
	err := p.Close()
	p.Store = nil
	if err != nil {
		return p.failedBy(err)
	}
	return "closed\n"
}

func (p *scriptStore) reopenCmd(l *scriptLine) string {
	if out := p.closeCmd(l); out != "closed\n" {
		return out + p.open()
	}
	return p.open()
}

func (p *scriptStore) stopReaders() {
	for name, r := range p.readers {
		r.stop()
		delete(p.readers, name)
	}
}

func (p *scriptStore) powerCutCmd(l *scriptLine) string {
	p.cuts[l.need("a name")] = p.disk.CrashClone(oneOf(l, "keep", map[string]int{"nothing": 0, "all": 100}), 0)
	return "kept\n"
}

func (p *scriptStore) checkpointCmd(l *scriptLine) string {
	if err := p.Checkpoint(bg, l.need("a folder")); err != nil {
		return p.failedBy(err)
	}
	return "copied\n"
}

func (p *scriptStore) crashCmd(l *scriptLine) string {
	left := p.disk
	if name := l.word(); name != "" {
		if left = p.cuts[name]; left == nil {
			l.fatal("no power cut %s", name)
		}
		left = left.CrashClone(0, 0) // it may be gone back to again
	} else {
		left = left.CrashClone(oneOf(l, "keep", map[string]int{"nothing": 0, "all": 100}), 0)
	}
	if n := l.number("torn", 0); n > 0 {
		p.changeLog(left, func(log []byte) []byte { return log[:len(log)-n] })
	}
	if n := l.number("flipped", 0); n > 0 {
		p.changeLog(left, func(log []byte) []byte { return testkit.Flipped(log, len(log)-n) })
	}
	if oneOf(l, "disk", map[string]bool{"full": true}) {
		left.Fill(0)
	}
	if p.Store != nil {
		p.stopReaders()
		_ = p.Close() // of the past: nobody will ever see it
		p.Store = nil
	}
	p.disk = left
	return p.open()
}

// changeLog changes the newest log on a disk.
func (p *scriptStore) changeLog(disk *testkit.Disk, change func([]byte) []byte) {
	names, err := disk.List(p.folder)
	must(p.sc.t, err, "list")
	slices.Sort(names)
	path := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && !strings.HasPrefix(name, "filters-") {
			path = p.folder + "/" + name
		}
	}
	testkit.WriteFile(p.sc.t, disk, path, change(testkit.ReadFile(p.sc.t, disk, path)))
}

func (p *scriptStore) failCmd(l *scriptLine) string {
	on := oneOf(l, "on", map[string]func(op errorfs.Op) bool{
		"log":      func(op errorfs.Op) bool { return onLog(op) && !onMarks(op) },
		"marks":    onMarks,
		"table":    func(op errorfs.Op) bool { return testkit.IsWrite(op) && strings.HasSuffix(op.Path, ".sst") },
		"copy":     onSpan,
		"manifest": func(op errorfs.Op) bool { return testkit.IsWrite(op) && strings.Contains(op.Path, "MANIFEST") },
		"any":      testkit.NeedsRoom,
	})
	cause := scriptCause(l)
	var hook testkit.Hook
	hook, p.fired = testkit.Failing(int64(l.number("after", 0)), l.value("times", "") == "once", cause, on)
	p.disk.SetHook("fail", hook)
	return "armed\n"
}

func (p *scriptStore) mendCmd(*scriptLine) string {
	p.disk.Heal()
	if p.fired == nil || !p.fired.Load() {
		return "nothing has failed\n"
	}
	return "mended\n"
}

func (p *scriptStore) clockCmd(l *scriptLine) string {
	d, err := time.ParseDuration(l.need("a duration"))
	must(l.t, err, "clock")
	p.sc.time.Add(int64(d))
	return "ok\n"
}

func (p *scriptStore) strategy(l *scriptLine) compaction.Strategy {
	name := l.value("strategy", "")
	if name == "" && p.opt.Record == compaction.Set {
		return nil
	} else if name == "" {
		return eager(compaction.Default())
	}
	s, err := compaction.ByName(name)
	must(l.t, err, "strategy")
	return eager(s)
}

func scriptCause(l *scriptLine) error {
	if cause := oneOf(l, "with", map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC}); cause != nil {
		return cause
	}
	return syscall.EIO
}

func (p *scriptStore) diskCmd(l *scriptLine) string {
	const total = 1 << 30
	p.disk.SetUsage(vfs.DiskUsage{AvailBytes: uint64(l.number("free", 100)) * total / 100, TotalBytes: total})
	if p.Store == nil {
		return "ok\n"
	}
	p.CheckSpace()
	if _, full := p.DiskSpace(); full != nil {
		return p.failedBy(full)
	}
	return "adds are taken\n"
}

// failedBy is what is printed of an error.
func (p *scriptStore) failedBy(err error) string {
	return "error: " + p.sc.plain(err.Error()) + "\n"
}
