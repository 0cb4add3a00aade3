package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/tool"
	"github.com/spf13/cobra"

	"bigset/engine"
	"bigset/engine/pebbletool"
)

// dbCommands are the read-only commands of Pebble on a whole store. The others are left out: a set, a delete or an upgrade would damage a
// store's keys.
var dbCommands = []string{"check", "get", "lsm", "properties", "scan", "space"}

// dbGroups are the commands on single files, and the search through all files.
var dbGroups = []string{"find", "manifest", "sstable", "wal"}

// db returns Pebble's own commands that inspect a store. They write nothing.
func (a *app) db() *cobra.Command {
	pebble := tool.New(tool.DefaultComparer(pebbletool.Comparer()), tool.Mergers(pebbletool.Merger()),
		tool.OpenOptions(pebbletool.Options{Damage: func(e *engine.CorruptionError) { a.dbDamage.CompareAndSwap(nil, e) }}))
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Show the files of the store",
		Long: `Show the files of a store that is not open, with Pebble's own commands. They only read, except for upgrade. Keys are shown as
slot/"set"/kind, those of elements also with /"element"/"actor":counter/op. A key or a bound is given as hex:BYTES. Names of
files are those in the folder --dir. The exit status is 1 if damaged bytes were found; the last line says where.`,
		Example: `  bigset db lsm
  bigset db properties
  bigset db scan --count 10
  bigset db wal dump 000012.log
  bigset db manifest dump MANIFEST-000001
  bigset db sstable scan 000010.sst`,
	}
	for _, c := range pebble.Commands {
		switch name := c.Name(); {
		case name == "db":
			cmd.PersistentFlags().AddFlagSet(c.PersistentFlags())
			for _, sub := range c.Commands() {
				if slices.Contains(dbCommands, sub.Name()) {
					c.RemoveCommand(sub)
					cmd.AddCommand(a.dbOnFolder(sub))
				}
			}
		case name == "find":
			cmd.AddCommand(a.dbOnFolder(c))
		case slices.Contains(dbGroups, name):
			for _, sub := range c.Commands() {
				a.dbOnFiles(sub)
				dbExample(sub, name+" "+sub.Name())
			}
			dbExample(c, name)
			cmd.AddCommand(chooser(c))
		}
	}
	cmd.AddCommand(a.dbUpgrade())
	return chooser(cmd)
}

// upgradeReport is the report of an upgrade in JSON.
type upgradeReport struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// dbUpgrade returns the command that upgrades a store to the newest format.
func (a *app) dbUpgrade() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade",
		Short: "Convert the store to the newest format",
		Long: `Convert the store to this program's newest format. Until then a store that an older program made keeps its format, so that the older
program can still open it. Afterwards the older program refuses the store. The conversion cannot be reversed: make a checkpoint first if
you may need one.`,
		Example: "  bigset db upgrade",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(atRest, func(s *engine.Store) error {
				from := s.Format()
				if err := s.Upgrade(cmd.Context()); err != nil {
					return err
				}
				if from == s.Format() {
					return a.answer(upgradeReport{from, from}, "the store has format %d already", from)
				}
				return a.answer(upgradeReport{from, s.Format()}, "the store had format %d, has format %d now", from, s.Format())
			})
		},
	}
}

// dbExamples are the example arguments of each command, by its name below db.
var dbExamples = map[string]string{
	"get": "hex:69", "find": "hex:69", "scan": "--count 10",
	"manifest": "dump MANIFEST-000001", "manifest dump": "MANIFEST-000001", "manifest summarize": "MANIFEST-000001",
	"manifest check": "MANIFEST-000001",
	"sstable":        "scan 000010.sst", "sstable check": "000010.sst", "sstable layout": "000010.sst",
	"sstable properties": "000010.sst", "sstable scan": "000010.sst --count 10", "sstable space": "000010.sst",
	"wal": "dump 000012.log", "wal dump": "000012.log", "wal dump-merged": "000012.log",
}

// dbExample gives one of Pebble's commands an example.
func dbExample(cmd *cobra.Command, name string) {
	cmd.Example = strings.TrimRight("  bigset db "+name+" "+dbExamples[name], " ")
}

// dbOnFolder makes one of Pebble's commands work on --dir, which it expects as its first argument.
func (a *app) dbOnFolder(cmd *cobra.Command) *cobra.Command {
	cmd.Use = strings.Replace(cmd.Use, " <dir>", "", 1)
	dbExample(cmd, cmd.Name())
	arguments := strings.Count(cmd.Use, "<")
	cmd.Args = takes(arguments, arguments)
	a.dbRun(cmd, func(args []string) ([]string, error) {
		if err := engine.CheckUnused(a.dir); err != nil {
			return nil, err
		}
		return append([]string{a.dir}, args...), nil
	})
	return cmd
}

// dbOnFiles makes one of Pebble's commands work on files in --dir.
func (a *app) dbOnFiles(cmd *cobra.Command) {
	cmd.Args = takes(1, -1)
	a.dbRun(cmd, func(args []string) ([]string, error) {
		for i, name := range args {
			if filepath.Base(name) == name {
				args[i] = filepath.Join(a.dir, name)
			}
			if _, err := os.Stat(args[i]); err != nil {
				return nil, err
			}
		}
		return args, nil
	})
}

// dbRun runs one of Pebble's commands, which report errors only as text.
func (a *app) dbRun(cmd *cobra.Command, with func(args []string) ([]string, error)) {
	run := cmd.Run
	cmd.Run, cmd.ValidArgsFunction = nil, cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := engine.CheckFolder(nil, a.dir); err != nil {
			return err
		}
		args, err := with(args)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		out, errs := &heard{to: cmd.OutOrStdout()}, &heard{to: &text}
		cmd.SetOut(out)
		cmd.SetErr(errs)
		err = recovered(func() { run(cmd, args) })
		if damage := a.dbDamage.Load(); damage != nil {
			return fmt.Errorf("%w: %w", errDamage, damage)
		}
		if err != nil {
			return fmt.Errorf("%w: db %s stopped: %w", errDamage, cmd.Name(), err)
		}
		if line := cmp.Or(errs.damage(), out.damage()); line != "" {
			return fmt.Errorf("%w: %s", errDamage, line)
		}
		if text.Len() > 0 {
			return fmt.Errorf("%w: %s", errTool, bytes.TrimSpace(text.Bytes()))
		}
		return nil
	}
}

// recovered runs f, and returns a panic as an error: Pebble may panic on damaged files.
func recovered(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	f()
	return nil
}

// heard is a writer that remembers the first line that reports damage.
type heard struct {
	to   io.Writer
	line []byte // the current one
	bad  string
}

// damageText matches the start of a line in which Pebble's commands report a damaged file, with or without the file's name. Keys and values
// do not begin so.
var damageText = regexp.MustCompile(`^([^"]*: )?(pebble: file \d+: block |pebble/table: invalid table |pebble: malformed manifest file )|^L\d+: \d+: |` +
	`^Unable to decode sstable |^[^"]*: offset: \d+ err: |^(pebble: )?reading manifest |^error loading options: |^file \d+ \(type `)

// lineMax is the length of a line up to which it is inspected.
const lineMax = 1 << 10

func (h *heard) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == '\n' {
			h.ended()
		} else if len(h.line) < lineMax {
			h.line = append(h.line, c)
		}
	}
	return h.to.Write(b)
}

func (h *heard) ended() {
	if h.bad == "" && damageText.Match(h.line) {
		h.bad = string(h.line)
	}
	h.line = h.line[:0]
}

// damage returns the line that reports damage, or "".
func (h *heard) damage() string {
	h.ended()
	return h.bad
}
