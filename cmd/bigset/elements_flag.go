package main

import (
	"strconv"
	"strings"

	"bigset/bench/spec/parser"
)

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
