package resp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/server/door"
	"bigset/server/tokens"
)

// TestLongReadsTakeTurns: every command that reads much begins parts of long work, and one that reads little does not.
func TestLongReadsTakeTurns(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, s := start(t, Options{Tokens: g})
	var parts atomic.Int32
	s.spy = func() { parts.Add(1) }
	p := dial()
	p.do(t, numbered(3000, "SADD", "big")...)
	p.do(t, "SADD", "small", "a", "b")
	want := func(least, most int, args ...string) string {
		t.Helper()
		parts.Store(0)
		got := p.do(t, args...)
		if n := int(parts.Load()); strings.HasPrefix(got, "-") || n < least || n > most {
			t.Errorf("%.100s: %.100s in %d turns, want %d to %d", args, got, n, least, most)
		}
		return got
	}
	for _, short := range []string{"KEYS *", "SCAN 0 COUNT 1000", "DBSIZE", "BS.COUNT small FROM a", "BS.COUNT small", "BS.COUNT big FROM 1 TO 2 PREFIX 11", "SCARD big",
		"SCARD small", "BS.CHANGES small  LIMIT 10", "SMEMBERS small", "EXISTS big small", "SMISMEMBER big 1 2", "BF.MADD marks a b"} {
		want(0, 0, strings.Split(short, " ")...)
	}
	if got := want(1, 10, "BS.COUNT", "big", "FROM", "1"); got != ":2999" {
		t.Errorf("%s elements from 1 on", got)
	}
	want(1, 10, "BS.CHANGES", "big", "", "LIMIT", "5000")
	want(1, 10, "SMEMBERS", "big")
	want(11, 11, numbered(3000, "EXISTS")...)
	want(11, 11, numbered(3000, "TOUCH")...)
	want(2, 2, numbered(3000, "SMISMEMBER", "big")...)
	want(2, 2, numbered(3*keysAtOnce, "BF.MADD", "marks")...)
	want(2, 2, numbered(3*keysAtOnce, "BF.MEXISTS", "marks")...)
	p.do(t, "BF.RESERVE", "dense", "1e-48", "10001") // 160 hash functions and a few: 10 pieces
	p.do(t, "BF.ADD", "dense", "x")
	want(10, 10, numbered(keysAtOnce, "BF.MADD", "dense")...)
	want(10, 10, numbered(keysAtOnce, "BF.MEXISTS", "dense")...)
	p.do(t, numbered(momentPart, "SADD", "driver")...)
	p.do(t, numbered(2*lookUpsLess*momentPart, "SADD", "large")...)
	want(1, 1, "SINTERCARD", "2", "driver", "large")
	p.do(t, "SADD", "driver", "one more")
	want(3, 3, "SINTERCARD", "2", "driver", "large") // one more of the read, and one of the look-ups
	want(1, 10, "SSCAN", "big", "0", "COUNT", "3000")
	for i := range 2 * namesPart {
		p.do(t, "SADD", fmt.Sprint("key", i), "x")
	}
	for i := range namesPart {
		p.do(t, "BF.ADD", fmt.Sprint("filter", i), "x")
	}
	n := 3*namesPart + 6
	want(3, 3, "KEYS", "nothing*")
	want(3, 3, "SCAN", "0", "COUNT", "10000")
	if got := want(1, 1, "DBSIZE"); got != fmt.Sprint(":", n) {
		t.Errorf("%s keys, want %d", got, n)
	}
	if got := p.do(t, "AUTH", add("narrow", tokens.Read, "key1")); got != "+OK" {
		t.Fatal(got)
	}
	want(3, 3, "DBSIZE")
}

// TestLongNamesInParts: names that are long are compared with a pattern in parts, although they are few.
func TestLongNamesInParts(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p := dial()
	for i := range 40 {
		name := strings.Repeat("a", 8<<10) + fmt.Sprint(i)
		p.do(t, "SADD", "k", name)
		p.do(t, "SADD", name, "x")
	}
	var parts atomic.Int32
	s.spy = func() { parts.Add(1) }
	for _, command := range []string{"SSCAN k 0 COUNT 100 MATCH *b", "SCAN 0 COUNT 100 MATCH *b", "KEYS *b"} {
		parts.Store(0)
		if got := p.do(t, strings.Fields(command)...); strings.HasPrefix(got, "-") || parts.Load() < 4 {
			t.Errorf("%s: %.100s in %d turns", command, got, parts.Load())
		}
	}
}

// huge is a backend whose sets count as large.
type huge struct{ door.Backend }

func (huge) Live(context.Context, []byte) (uint64, error) { return 1_000_000, nil }

// TestDrawsTakeTurns: each read of a command that draws several elements one by one begins as a part of long work. That of a single element does not: only its end
// is one.
func TestDrawsTakeTurns(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	dial, s := serve(t, huge{inner.sets}, Options{})
	var parts atomic.Int32
	s.spy = func() { parts.Add(1) }
	p := dial()
	p.do(t, "SADD", "small", "a", "b")
	for count, want := range map[string]int32{"": 1, "-3": 6} {
		args := []string{"SRANDMEMBER", "small", count}
		if count == "" {
			args = args[:2]
		}
		parts.Store(0)
		if got := p.do(t, args...); strings.HasPrefix(got, "-") || parts.Load() != want {
			t.Errorf("%v: %s in %d turns, want %d", args, got, parts.Load(), want)
		}
	}
}

// endless is a backend whose sets have no end. All but one in a million are empty.
type endless struct {
	door.Backend
	pause time.Duration // between two names
}

func (e *endless) Names(_ context.Context, all bool, _ []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for i := 0; ; i++ {
			n := bigset.SetInfo{Name: slices.Clone(nameOf(fmt.Append(nil, i)))}
			if i%1_000_000 == 0 {
				n.Live = 1
			}
			if (all || n.Live > 0) && !yield(n, nil) {
				return
			}
			time.Sleep(e.pause)
		}
	}
}

// TestListTime: a command that lists all keys ends by its time, and says what to use. A step of SCAN ends with a cursor.
func TestListTime(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	_, inner := start(t, Options{})
	e := &endless{Backend: inner.sets}
	dial, _ := serve(t, e, Options{Tokens: g, ListTime: time.Millisecond})
	p := dial()
	if got := p.do(t, "KEYS", "nothing*"); got != "-"+errListTime {
		t.Errorf("KEYS: %s", got)
	}
	e.pause = 2 * time.Millisecond
	if got := p.do(t, "SCAN", "0", "COUNT", "100000", "MATCH", "nothing*"); !strings.HasPrefix(got, `*[$"`) || strings.HasPrefix(got, `*[$"0"`) {
		t.Errorf("SCAN: %.100s", got)
	}
	e.pause = 0
	if got := p.do(t, "AUTH", add("narrow", tokens.Read, "key1")); got != "+OK" {
		t.Fatal(got)
	}
	if got := p.do(t, "DBSIZE"); got != "-"+errListTime {
		t.Errorf("DBSIZE: %s", got)
	}
}
