package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLines wants every line of any text once and in order, however the input is cut into pieces.
func TestLines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		text := randomText(rnd)
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1] // no line follows the last newline
		}
		for name, in := range map[string]io.Reader{
			"whole": strings.NewReader(text),
			"bytes": iotest.OneByteReader(strings.NewReader(text)),
			"half":  iotest.HalfReader(strings.NewReader(text)),
			"late":  iotest.DataErrReader(strings.NewReader(text)),
		} {
			if got := readLines(t, in); strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
				t.Fatalf("%s: %q: got %q, want %q", name, text, got, want)
			}
		}
	}
}

func randomText(rnd *rand.Rand) string {
	b := make([]byte, rnd.IntN(60))
	for i := range b {
		b[i] = "\n\r a"[rnd.IntN(4)]
	}
	return string(b) + strings.Repeat("x\n", rnd.IntN(2)*(batchLines+rnd.IntN(3)-1))
}

// readLines reads an input batch by batch.
func readLines(t *testing.T, in io.Reader) (all []string) {
	t.Helper()
	l := newLines("test", in, notation{})
	for {
		elements, err := l.batch()
		if len(elements) > batchLines || len(elements) == 0 && err == nil {
			t.Fatalf("a batch of %d elements", len(elements))
		}
		for _, e := range elements {
			all = append(all, string(e))
		}
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
