package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bigset/bench/spec/parser"
)

// sharedFlags are what the flags that bench and bench run have in common set.
type sharedFlags struct {
	rounds     *int
	dir        *string
	otherBuild *bool
	sizes      sizesFlag
	usual      string // ends the help of --elements
}

// sizesFlag is elements or elementsEach.
type sizesFlag interface {
	String() string
	Set(text string) error
	Type() string
}

func (s sharedFlags) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(s.sizes, "elements", "size of the sets in elements, such as 1000, 120k or 10M"+s.usual)
	f.IntVar(s.rounds, "rounds", 0, "how often everything is repeated, interleaved (default 3; 5 with --full, 3 from 10 million elements on)")
	f.StringVar(s.dir, "dir", "", "where the temporary folder is made (default: the system's place for such)")
	f.BoolVar(s.otherBuild, "other-build", false, "continue a --out of another build of this program; the report says so")
	_ = cmd.MarkFlagDirname("dir") // the flag exists
}

// without removes flags of all commands from the help of one for which they do nothing. It still takes them.
func without(cmd *cobra.Command, flags ...string) *cobra.Command {
	for _, name := range flags {
		cmd.Flags().String(name, "", "no effect")
		_ = cmd.Flags().MarkHidden(name) // the flag exists
	}
	return cmd
}

// elements is a flag for a number of elements, written as in workload files: 1000, 120k, 10M.
type elements int

func (s *elements) String() string { return strconv.Itoa(int(*s)) }
func (s *elements) Type() string   { return "number" }

func (s *elements) Set(text string) error {
	n, err := parser.Whole(text)
	*s = elements(n)
	return err
}

// elementsEach is a flag for such numbers, separated by commas.
type elementsEach []int

func (s *elementsEach) Type() string { return "sizes" }

func (s *elementsEach) String() string {
	var b []string
	for _, n := range *s {
		b = append(b, strconv.Itoa(n))
	}
	return strings.Join(b, ",")
}

func (s *elementsEach) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		n, err := parser.Whole(part)
		if err != nil {
			return err
		}
		*s = append(*s, n)
	}
	return nil
}
