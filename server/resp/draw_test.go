package resp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/door"
)

// counted is a backend that counts the elements that are read.
type counted struct {
	*alone.Backend
	elements *int
}

func (b counted) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		for part, err := range b.Backend.Read(ctx, r) {
			*b.elements += len(part.Elements)
			if !yield(part, err) {
				return
			}
		}
	}
}

// TestDrawsOfFew: a few elements of a large set are drawn without reading all of it, distinct if that was asked for, also where most draws give the same element.
func TestDrawsOfFew(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	elements := 0
	dial, _ := serve(t, counted{alone.New(store), &elements}, Options{})
	p := dial()
	const size = 5000
	fill(t, p, "even", "%05d", size)
	fill(t, p, "uneven", "x%05d", 3*drawLess)
	p.do(t, "SADD", "uneven", "a", "w")
	for _, c := range []struct {
		key, n string
		want   int
		times  int // of "uneven", half of all threes that are drawn with repetition are distinct by chance
	}{{"even", "2", 2, 1}, {"even", "-3", 3, 1}, {"uneven", "2", 2, 1}, {"uneven", "3", 3, 50}, {"even", "8", 8, 1}} {
		for range c.times {
			elements = 0
			got := words(p.do(t, "SRANDMEMBER", c.key, c.n))
			for _, e := range got {
				if p.do(t, "SISMEMBER", c.key, e) != ":1" {
					t.Errorf("SRANDMEMBER %s %s: %q is not an element", c.key, c.n, e)
				}
			}
			slices.Sort(got)
			if len(got) != c.want || c.n[0] != '-' && len(slices.Compact(got)) != c.want {
				t.Fatalf("SRANDMEMBER %s %s: %q", c.key, c.n, got)
			}
			if c.key == "even" && c.n != "8" && elements >= size {
				t.Errorf("SRANDMEMBER %s %s read %d elements of %d", c.key, c.n, elements, size)
			}
		}
	}
}

// TestDrawsOfMany: what was drawn and then replaced by another element does not count toward the answer.
func TestDrawsOfMany(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{AnswerBytesMax: 100_000})
	p := dial()
	fill(t, p, "k", "%0100d", 3000)
	if got := p.do(t, "SRANDMEMBER", "k", "700"); len(words(got)) != 700 {
		t.Errorf("%.200s", got)
	}
	if got := p.do(t, "SRANDMEMBER", "k", "1200"); !strings.HasPrefix(got, "-ERR the answer to SRANDMEMBER has more than 100000 bytes") {
		t.Errorf("%.200s", got)
	}
}

// TestDrawsOfHexadecimals: in a set of hexadecimal texts each first character is drawn about as often as another, also the one after the gap
// between digits and letters.
func TestDrawsOfHexadecimals(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	add := []string{"SADD", "k"}
	for i := range 16 << 8 {
		add = append(add, fmt.Sprintf("%04x", i<<4), fmt.Sprintf("%04xe", i<<4))
	}
	p.do(t, add...)
	const draws, most = 480, 3 * 480 / 16
	drawn := map[byte]int{}
	for range draws {
		e, err := strconv.Unquote(p.do(t, "SRANDMEMBER", "k")[1:])
		if err != nil {
			t.Fatal(err)
		}
		drawn[e[0]]++
	}
	for b, n := range drawn {
		if n > most {
			t.Errorf("%d of %d draws begin with %c", n, draws, b)
		}
	}
	if len(drawn) < 16 {
		t.Errorf("only %d of 16 first characters were drawn", len(drawn))
	}
}

// TestDrawsOfPrefixes: in a set whose elements are prefixes of each other a draw reads few of them.
func TestDrawsOfPrefixes(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	elements := 0
	dial, _ := serve(t, counted{alone.New(store), &elements}, Options{})
	p := dial()
	add := []string{"SADD", "k"}
	for n := range 3000 {
		add = append(add, strings.Repeat("a", n))
	}
	p.do(t, add...)
	for range 10 {
		elements = 0
		if got := p.do(t, "SRANDMEMBER", "k"); got[0] != '$' {
			t.Fatal(got)
		}
		if most := (randomLevels + 1) * (randomRun + 20); elements > most { // a level takes a page, an end and some branches
			t.Errorf("a draw read %d elements, at most %d are expected", elements, most)
		}
	}
}

// TestDrawsOfEachPrefix: of a set whose first elements are prefixes of all others each of these is drawn, too.
func TestDrawsOfEachPrefix(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	add := []string{"SADD", "k", "user", "user:"}
	for i := 100; i < 1000; i++ {
		add = append(add, fmt.Sprint("user:", i))
	}
	p.do(t, add...)
	missing := map[string]bool{`$"user"`: true, `$"user:"`: true}
	for draws := 0; len(missing) > 0; draws++ {
		if draws == 30*randomOnly { // each fails to come so often once in 10^13 runs
			t.Fatalf("not among %d draws: %v", draws, missing)
		}
		delete(missing, p.do(t, "SRANDMEMBER", "k"))
	}
}

// noEnds is a backend that finds nothing when it reads from the end of a set, for a number of reads.
type noEnds struct {
	*alone.Backend
	left int
}

func (b *noEnds) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	if r.Reverse && b.left > 0 {
		b.left--
		return func(yield func(door.Part, error) bool) { yield(door.Part{Done: true}, nil) }
	}
	return b.Backend.Read(ctx, r)
}

// TestDrawOfElementsThatGo: a draw ends after a bounded number of levels, also if what it has read is gone again and again.
func TestDrawOfElementsThatGo(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	const reads = 2 * randomLevels
	b := &noEnds{alone.New(store), reads}
	dial, _ := serve(t, b, Options{})
	p := dial()
	fill(t, p, "k", "%05d", 2*randomRun)
	if got := p.do(t, "SRANDMEMBER", "k"); got[0] != '$' || b.left != reads-randomLevels {
		t.Errorf("%s after %d reads from the end", got, reads-b.left)
	}
}

// interrupted is a backend that calls a function before the first read from the end of a set.
type interrupted struct {
	*alone.Backend
	once sync.Once
	do   func()
}

func (b *interrupted) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	if r.Reverse {
		b.once.Do(b.do)
	}
	return b.Backend.Read(ctx, r)
}

// TestDrawWhileElementsGo: a draw reads the first elements of a set and then its last one. If the elements after the first three, which are
// prefixes of each other, are removed in between, the last one is one of the three.
func TestDrawWhileElementsGo(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &interrupted{Backend: alone.New(store)}
	dial, _ := serve(t, b, Options{})
	p, other := dial(), dial()
	add, remove := []string{"SADD", "k", "a", "ab", "abc"}, []string{"SREM", "k"}
	for i := range 2 * randomRun {
		add, remove = append(add, fmt.Sprint("abcd", i)), append(remove, fmt.Sprint("abcd", i))
	}
	p.do(t, add...)
	gone := ""
	b.do = func() { gone = other.do(t, remove...) }
	if got := p.do(t, "SRANDMEMBER", "k"); !slices.Contains([]string{`$"a"`, `$"ab"`, `$"abc"`}, got) {
		t.Error(got)
	}
	if gone != fmt.Sprint(":", 2*randomRun) {
		t.Errorf("removed in between: %s", gone)
	}
}
