package bloomdtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"bigset/server/bloomd"
)

// Compare sends n random requests, in batches, to two servers without filters, and returns an error with the first answers that
// differ. One of them may be a real bloomd: its bugs, and the names that it is still deleting, are left out. Equal seeds give equal
// requests.
func Compare(seed uint64, n int, ours, theirs *bloomd.Client) error {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 1)), run: seed}
	for done := 0; done < n; {
		batch := make([][]byte, min(1+g.rand.IntN(100), n-done))
		for i := range batch {
			batch[i] = g.line()
		}
		done += len(batch)
		if err := compareBatch(batch, ours, theirs); err != nil {
			return fmt.Errorf("seed %d, %d requests: %w", seed, done, err)
		}
	}
	return nil
}

func compareBatch(batch [][]byte, ours, theirs *bloomd.Client) error {
	for _, line := range batch {
		if err := errors.Join(ours.Queue(line), theirs.Queue(line)); err != nil {
			return err
		}
	}
	if err := errors.Join(ours.Send(), theirs.Send()); err != nil {
		return err
	}
	for _, line := range batch {
		a, errA := ours.Receive()
		b, errB := theirs.Receive()
		if err := errors.Join(errA, errB); err != nil {
			return fmt.Errorf("%.100q: %w", line, err)
		}
		if a, b = inOrder(line, a), inOrder(line, b); !bytes.Equal(a, b) {
			return fmt.Errorf("%.100q: ours %.300q, theirs %.300q", line, a, b)
		}
	}
	return nil
}

// inOrder sorts the rows of a list: bloomd's new filters come last.
func inOrder(line, answer []byte) []byte {
	if !bytes.HasPrefix(line, []byte("list")) {
		return answer
	}
	rows := slices.Collect(bytes.Lines(answer))
	slices.SortFunc(rows, bytes.Compare)
	return bytes.Join(rows, nil)
}

// generator makes requests that a bloomd answers correctly. Names are short: its search by prefix is wrong beyond ten bytes.
type generator struct {
	rand  *rand.Rand
	run   uint64
	made  int
	names []string
	gone  map[string]bool // may be dropped or cleared: bloomd can't make them again soon
}

func (g *generator) line() []byte {
	end := [...]string{"", "", "\r"}[g.rand.IntN(3)]
	return append(g.request(), end...)
}

func (g *generator) request() []byte {
	switch p := g.rand.IntN(1000); {
	case len(g.names) == 0 || p < 4:
		return g.create()
	case p < 350:
		return fmt.Appendf(nil, "%s %s %s", g.pick("check", "c"), g.name(), g.key(true))
	case p < 700:
		return fmt.Appendf(nil, "%s %s %s", g.pick("set", "s"), g.name(), g.key(true))
	case p < 850:
		return g.many()
	case p < 900:
		return fmt.Appendf(nil, "info %s", g.name())
	case p < 920:
		return fmt.Appendf(nil, "close %s", g.name())
	case p < 930:
		return []byte(g.pick("list", "list ", "list r", "list r"+g.name()[:1], "list "+g.name()))
	case p < 940:
		return []byte(g.pick("flush", "flush "+g.name()))
	case p < 943:
		name := g.name()
		g.gone[name] = true
		return []byte(g.pick("drop ", "clear ") + name)
	case p < 960:
		return g.createAgain()
	default:
		return g.odd()
	}
}

// create returns a request for a new filter. Some of these filters grow and find keys that were not set.
func (g *generator) create() []byte {
	name := fmt.Sprintf("r%x%s%d", g.run%251, g.pick("", "\xff", ".", "é"), g.made)
	g.made++
	if g.gone == nil {
		g.gone = map[string]bool{}
	}
	g.names = append(g.names, name)
	return fmt.Appendf(nil, "create %s%s%s%s", name, g.pick("", " capacity=10001", " capacity=12345"), g.pick("", " prob=0.0999", " prob=0.01"),
		g.pick("", "", " in_memory=1", " in_memory=0"))
}

// createAgain returns a request for a filter that exists, or that can't be created.
func (g *generator) createAgain() []byte {
	name, refused := g.name(), g.pick(" capacity=1", " prob=1", " x", " in_memory=7")
	if g.gone[name] || name == nobody {
		return []byte("create " + name + refused)
	}
	return []byte("create " + name + g.pick("", " capacity=30000", " prob=0.02", refused))
}

func (g *generator) pick(from ...string) string { return from[g.rand.IntN(len(from))] }

// nobody is a name that no filter has.
const nobody = "nobody"

// name returns the name of a filter, or nobody.
func (g *generator) name() string {
	if g.rand.IntN(50) == 0 {
		return nobody
	}
	return g.names[g.rand.IntN(len(g.names))]
}

func (g *generator) key(spaces bool) string {
	if g.rand.IntN(4) > 0 {
		return fmt.Sprintf("key%d", g.rand.IntN(30_000))
	}
	b := make([]byte, 1+g.rand.IntN(40))
	for i := range b {
		b[i] = byte(1 + g.rand.IntN(255))
		for b[i] == '\n' || !spaces && b[i] == ' ' {
			b[i]++
		}
	}
	return string(b)
}

func (g *generator) many() []byte {
	line := fmt.Appendf(nil, "%s %s", g.pick("multi", "m", "bulk", "b"), g.name())
	n, most := 0, 1+g.rand.IntN(1<<(1+g.rand.IntN(11)))
	for ; n < most; n++ {
		line = append(append(line, ' '), g.key(false)...)
		if g.rand.IntN(100) == 0 {
			line = append(line, ' ')
		}
	}
	return line
}

// odd returns a line that is usually refused.
func (g *generator) odd() []byte {
	word := g.pick("", " ", "check", "set", "multi", "bulk", "c", "s", "m", "b", "create", "list", "drop", "close", "clear", "info", "SET", "help", "\tset")
	rest := g.pick("", " ", "  ", " nobody", " nobody ", " nobody  ", "  k", "\t", " "+g.name()+"\tk")
	if word == "list" && rest != "" {
		rest = " nobody"
	}
	if word == "create" && strings.HasPrefix(rest, " nobody") {
		rest = " nobody x"
	}
	return []byte(word + rest)
}
