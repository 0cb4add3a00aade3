package bench

import (
	"fmt"
	"os/exec"
	"time"

	"bigset/bench/system"
)

// programTimes is how many elements a round adds through the program.
const programTimes = 3

// byProgram: "set add" of one element into a store that was closed cleanly, from the start of a process to its end.
func byProgram(e *env) error {
	c, dir := contender{system: system.NameBigset}, e.folder()
	if e.cfg.Program == "" {
		return nil
	}
	return e.inFolder(dir, func() error {
		row := Row{Workload: "program", Elements: e.elements}
		err := e.opened(c, dir, system.Options{}, func(sys system.System) error {
			label(sys, &row)
			return e.loaded(sys, e.elements)
		})
		if err != nil {
			return err
		}
		p, began := &phase{ctx: e.ctx, hist: newHistogram()}, time.Now()
		err = p.loop(programTimes, func(i int) error {
			out, err := exec.CommandContext(e.ctx, e.cfg.Program, "--dir", dir, "set", "add", system.SetName, fmt.Sprintf("by the program, %d", i)).CombinedOutput()
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
		e.rows.Add(row, f, p.hist)
		return e.opened(c, dir, system.Options{}, func(sys system.System) error {
			return e.check(sys, system.SetName, e.elements+programTimes)
		})
	})
}
