package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"bigset/bench/system"
)

const (
	// recoverTail is how many of a set's elements are in the log alone when the store is opened; half of a small set's.
	recoverTail = 200_000
	// recoverTimes is how often a round opens the store after a crash, and adds an element by the program.
	recoverTimes = 3
)

// recovery: the bare row is the time to open a store that was not closed, a good part of whose set is in the log alone. What
// a crash would leave is a checkpoint. recover/add is the time of "set add" of one element into a store that was closed in
// order, from the start of a process to its end.
func recovery(e *env) error {
	c := contender{system: system.NameBigset}
	dir := e.folder()
	return e.inFolder(dir, func() error {
		var row Row
		err := e.opened(c, dir, system.Options{}, func(sys system.System) error {
			label(sys, &row)
			s, settled := sys.Set(system.SetName), e.elements-min(e.elements/2, recoverTail)
			if _, err := e.loaded(sys, s, settled); err != nil {
				return err
			}
			if _, err := e.load(s, nil, settled, e.elements); err != nil {
				return err
			}
			return e.recoverOn(sys.(*system.Bigset))
		})
		if err != nil || e.cfg.Program == "" {
			return err
		}
		if err := e.addByProgram(dir, row); err != nil {
			return err
		}
		return e.opened(c, dir, system.Options{}, func(sys system.System) error {
			return e.check(sys, system.SetName, e.elements+recoverTimes)
		})
	})
}

// recoverOn opens what a crash would leave.
func (e *env) recoverOn(sys *system.Bigset) error {
	p := &phase{ctx: e.ctx, hist: newHistogram(), ops: recoverTimes}
	began, cpu := time.Now(), cpuNow()
	for range recoverTimes {
		left := e.folder()
		err := e.inFolder(left, func() error {
			if err := p.aside(func() error { return sys.Store().Checkpoint(e.ctx, left) }); err != nil {
				return err
			}
			began := time.Now()
			again, err := e.open(contender{system: system.NameBigset}, left, system.Options{})
			if err != nil {
				return err
			}
			p.note(time.Since(began))
			return p.aside(func() error { return errors.Join(e.check(again, system.SetName, e.elements), again.Close()) })
		})
		if err != nil {
			return err
		}
	}
	f := Figures{}
	p.figures(&f, time.Since(began)-p.away, cpuNow()-cpu-p.awayCPU)
	row := Row{Workload: "recover", Elements: e.elements}
	label(sys, &row)
	e.rows.Add(row, f, p.hist)
	return nil
}

// addByProgram adds elements, each by a process.
func (e *env) addByProgram(dir string, row Row) error {
	p := &phase{ctx: e.ctx, hist: newHistogram()}
	began := time.Now()
	err := p.loop(recoverTimes, func(i int) error {
		element := fmt.Sprintf("by the program, %d", i)
		out, err := exec.CommandContext(e.ctx, e.cfg.Program, "--dir", dir, "set", "add", system.SetName, element).CombinedOutput()
		if err != nil {
			return fmt.Errorf("bench: %s set add: %w: %s", e.cfg.Program, err, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f := Figures{}
	p.figures(&f, time.Since(began), 0)
	f.CPUMicros = nil // it is the other process'
	row.Workload, row.Elements = "recover/add", e.elements
	e.rows.Add(row, f, p.hist)
	return nil
}

func recoverGoals() []goal {
	return []goal{
		{what: "to open after a crash", of: pick{workload: "recover", system: system.NameBigset}, have: milliseconds,
			atMost: true, limit: 2000, unit: " ms"},
		{what: "`set add` of one element after a clean close", of: pick{workload: "recover/add", system: system.NameBigset},
			have: milliseconds, atMost: true, limit: 100, unit: " ms"},
	}
}
