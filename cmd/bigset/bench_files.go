package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	"bigset/bench/spec/workloads"
	"bigset/compaction"
)

// benchList returns the command that lists the workload files that come with the program.
func benchList(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workload files that come with this program",
		Long: `List the workload files that come with this program: the name of each, the sizes of a default and of a full run in elements, and what it shows.
"bench show NAME" prints one, to be read or copied; "bench run NAME" runs it.`,
		Example: `  bigset bench list
  bigset bench list --json`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := &strings.Builder{}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				lines := json.NewEncoder(out)
				for _, w := range workloads.Ready() {
					if err := lines.Encode(listedWorkload{w.Name, w.Small, w.Full, w.About}); err != nil {
						return err
					}
				}
				return nil
			}
			fmt.Fprintf(b, listFormat, "workload", "elements", "with --full", "what it shows")
			for _, w := range workloads.Ready() {
				fmt.Fprintf(b, listFormat, w.Name, benchSizes(w.Small), benchSizes(w.Full), w.About)
			}
			_, err := io.WriteString(out, b.String())
			return err
		},
	}
}

// listFormat is the format of a line of bench list: name, sizes, full sizes, description.
const listFormat = "%-18s %12s %14s  %s\n"

// listedWorkload is a line of bench list in JSON. Sizes are in elements.
type listedWorkload struct {
	Name  string `json:"name"`
	Small []int  `json:"sizes"`
	Full  []int  `json:"full_sizes"`
	About string `json:"about"`
}

// benchSizes formats the sizes of a workload.
func benchSizes(sizes []int) string {
	var texts []string
	for _, n := range sizes {
		switch {
		case n >= 1_000_000 && n%100_000 == 0:
			texts = append(texts, strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)+"M")
		case n >= 1000 && n%100 == 0:
			texts = append(texts, strconv.FormatFloat(float64(n)/1e3, 'f', -1, 64)+"k")
		default:
			texts = append(texts, bench.Thousands(uint64(n)))
		}
	}
	return strings.Join(texts, ",")
}

// benchShow returns the command that prints a workload file.
func benchShow(out io.Writer) *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:   "show [NAME]",
		Short: "Print a workload file that comes with this program",
		Long: `Print a workload file that comes with this program, with its comments: a way to begin one of your own. docs/workloads.md explains all keys.
--schema prints the JSON schema of such files, which editors use to complete and check them.`,
		Example: `  bigset bench show churn
  bigset bench show churn > mine.yaml; bigset bench check mine.yaml
  bigset bench show --schema > workload.schema.json`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case schema && len(args) == 0:
				_, err := out.Write(spec.Schema())
				return err
			case schema || len(args) == 0:
				return usage(cmd, "give the name of a workload, or --schema")
			}
			w, err := readyNamed(args[0])
			if err != nil {
				return usage(cmd, "%w", err)
			}
			_, err = io.WriteString(out, w.Source)
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON schema of workload files")
	return cmd
}

// benchCheck returns the command that checks workload files.
func benchCheck(in io.Reader, out, errs io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check workload files without running them",
		Long: `Check workload files without running them. Every problem is a line: FILE:LINE:COLUMN, what is wrong, what is allowed. A file without one
is described in a line. - is standard input. Exit status 1 says that a file has a problem. With --json each file is an object on a line
of standard output, with its problems in it.`,
		Example: `  bigset bench check mine.yaml`,
		Args:    takes(1, maxFiles),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			asJSON, _ := cmd.Flags().GetBool("json")
			for _, name := range args {
				w, err := readWorkload(name, in)
				var file *parser.FileError
				switch {
				case errors.As(err, &file):
					failed = cmp.Or(failed, errAbsent)
				case err != nil:
					return err
				}
				switch {
				case asJSON:
					if err := json.NewEncoder(out).Encode(checkedOf(name, w, file)); err != nil {
						return err
					}
					continue
				case file != nil:
					fmt.Fprintln(errs, file) // one line per problem, in the format that editors read
					continue
				}
				fmt.Fprintf(out, "%s: %s: %s, %s, %s\n", name, w.Name, counted(len(w.Phases), "phase"), counted(len(w.Rows()), "row"), counted(len(w.Assertions), "assertion"))
			}
			return failed
		},
	}
}

// checkedFile is the result of bench check for a file, in JSON.
type checkedFile struct {
	File       string           `json:"file"`
	Name       string           `json:"name,omitempty"`
	Phases     int              `json:"phases"`
	Rows       int              `json:"rows"`
	Assertions int              `json:"assertions"`
	Problems   []checkedProblem `json:"problems"`
}

type checkedProblem struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	What   string `json:"what"`
}

// checkedOf returns the result for a file: its workload, or its problems.
func checkedOf(name string, w *spec.Workload, wrong *parser.FileError) checkedFile {
	c := checkedFile{File: name, Problems: []checkedProblem{}}
	if wrong == nil {
		c.Name, c.Phases, c.Rows, c.Assertions = w.Name, len(w.Phases), len(w.Rows()), len(w.Assertions)
		return c
	}
	for _, p := range wrong.Problems {
		c.Problems = append(c.Problems, checkedProblem(p))
	}
	return c
}

// maxFiles is the maximum number of workload files for one command.
const maxFiles = 1000

// counted formats a number with its noun.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// readyNamed returns a workload file that comes with the program.
func readyNamed(name string) (*spec.Workload, error) {
	w, err := workloads.Named(name)
	if err != nil && slices.ContainsFunc(bench.Workloads(), func(w bench.Workload) bool { return w.Name == name }) {
		return nil, fmt.Errorf("workload %s has no file: `bigset bench --workload %[1]s` runs it", name)
	}
	return w, err
}

// workloadNamed returns the workload for an argument of bench run: a file, or a built-in workload. Names of files contain a dot or a slash.
func workloadNamed(arg string, in io.Reader) (*spec.Workload, error) {
	if arg == "-" || strings.ContainsAny(arg, "./"+string(os.PathSeparator)) {
		return readWorkload(arg, in)
	}
	w, err := readyNamed(arg)
	if err != nil {
		if _, failed := os.Stat(arg); failed == nil {
			return nil, fmt.Errorf("%w; to run the file of that name, write ./%s", err, arg)
		}
		return nil, err
	}
	return w, nil
}

// readWorkload reads a workload file, or standard input.
func readWorkload(name string, in io.Reader) (*spec.Workload, error) {
	from, label := in, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w%s", name, bare(err), readyInstead(name))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, bare(err))
		}
		defer f.Close()
		from, label = f, name
	}
	text, err := io.ReadAll(io.LimitReader(from, parser.TextBytesMax+1)) // one more byte, which the parser refuses
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label, bare(err))
	}
	return parser.Parse(label, text, parser.Known{Strategies: strategyList()})
}

// bare returns an error of a file without the operation and the path, which its caller names.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// readyInstead returns a remark on a file that does not exist if its name is that of a built-in workload; otherwise "".
func readyInstead(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	if _, err := workloads.Named(name); err != nil {
		return ""
	}
	return fmt.Sprintf("; %s is a ready workload: `bigset bench run %[1]s` runs it, `bigset bench show %[1]s` prints its file", name)
}

// strategyList returns the built-in strategies, with the kinds of record that they support.
func strategyList() (list []parser.Strategy) {
	for _, s := range compaction.Strategies() {
		known := parser.Strategy{Name: s.Name()}
		for _, r := range []compaction.Record{compaction.Merge, compaction.Set} {
			if s.WorksOn(r) == nil {
				known.Records = append(known.Records, r.String())
			}
		}
		list = append(list, known)
	}
	return list
}
