package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

// numbered returns arguments that are numbers, after others.
func numbered(n int, args ...string) []string {
	for i := range n {
		args = append(args, fmt.Sprint(i))
	}
	return args
}

// TestManyArguments: they are what was sent, wherever they are found, and a request that has only begun has few places in memory.
func TestManyArguments(t *testing.T) {
	t.Parallel()
	args := numbered(3*argumentsKept, "", "a\r\n$1\r\nb")
	in := request(args...)
	p := parser{bulkMax: 100}
	if whole, fault := p.parse(in[:len(in)-1]); whole || fault != "" {
		t.Fatal(whole, fault)
	}
	if cap(p.spans) > argumentsKept {
		t.Errorf("%d places", cap(p.spans))
	}
	if whole, fault := p.parse(in); !whole || fault != "" {
		t.Fatal(whole, fault)
	}
	got := p.arguments(nil, in)
	if !slices.EqualFunc(got, args, func(b []byte, s string) bool { return string(b) == s }) {
		t.Errorf("%q", got)
	}
}

// TestManyArgumentsCount: what they take beside their bytes counts among the memory of all, and is given back.
func TestManyArgumentsCount(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 1 << 20})}})
	p := dial()
	for _, cmd := range []string{"SMISMEMBER", "SADD"} {
		if got := p.do(t, numbered(20_000, cmd, "k")...); !strings.HasPrefix(got, "-TRYAGAIN") {
			t.Errorf("%s: %.100s", cmd, got)
		}
		for range 3 {
			if got := p.do(t, numbered(6000, cmd, "k")...); strings.HasPrefix(got, "-") {
				t.Errorf("%s: %.100s", cmd, got)
			}
		}
	}
}

// TestCommandAnswers: what COMMAND answers is bounded, or is written while it is made: a client that reads nothing has little of it made.
func TestCommandAnswers(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	for _, sub := range []string{"DOCS", "INFO"} {
		args := append([]string{"COMMAND", sub}, slices.Repeat([]string{"bs.add"}, namesMost)...)
		if got := p.do(t, args...); strings.HasPrefix(got, "-") {
			t.Errorf("%s: %.100s", sub, got)
		}
		if got := p.do(t, append(args, "sadd")...); got != "-ERR 1001 names of commands, at most 1000 in one command" {
			t.Errorf("%s: %.100s", sub, got)
		}
	}
	dial, s := start(t, Options{Options: door.Options{WriteTime: 50 * time.Millisecond}})
	p = dial()
	args := append([]string{"COMMAND", "GETKEYS", "DEL"}, slices.Repeat([]string{strings.Repeat("x", 64<<10)}, 800)...)
	if _, err := p.Write(request(args...)); err != nil {
		t.Fatal(err)
	}
	for s.Counts().Slow == 0 {
		time.Sleep(time.Millisecond)
	}
	if n := s.Counts().BytesWritten; n > 40<<20 {
		t.Errorf("%d bytes of an answer that nobody read", n)
	}
}

// dropping is a backend that can't drop one set.
type dropping struct{ door.Backend }

func (b dropping) Drop(ctx context.Context, d door.Drop) (door.Dropped, error) {
	if string(d.Set) == "b" {
		return door.Dropped{}, fmt.Errorf("%w: no quorum", door.ErrUnavailable)
	}
	return b.Backend.Drop(ctx, d)
}

// TestPartlyDone: an error after something was done does not say that nothing has happened.
func TestPartlyDone(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	dial, _ := serve(t, dropping{inner.sets}, Options{})
	p := dial()
	for _, key := range []string{"a", "b", "c"} {
		p.do(t, "SADD", key, "x")
	}
	for _, tt := range []struct{ args, want string }{
		{"DEL b", "-TRYAGAIN this node can't do it now: no quorum"},
		{"DEL a b c", "-UNKNOWN outcome unknown, it may have happened: this node can't do it now: no quorum (1 keys were removed before it)"},
		{"EXISTS a", ":0"},
		{"EXISTS c", ":1"},
	} {
		if got := p.do(t, strings.Fields(tt.args)...); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.args, got, tt.want)
		}
	}
}

// breaking is a filter that can't take more after the first call.
type breaking struct {
	door.Filter
	calls int
}

func (f *breaking) SetsWait() bool { return true }

func (f *breaking) Pieces() int { return 1 }

func (f *breaking) Set(context.Context, [][]byte, []bool) error {
	if f.calls++; f.calls > 1 {
		return door.ErrUnavailable
	}
	return nil
}

// remote is a backend whose requests wait for other nodes, so that no part of a request waits for a turn.
type remote struct{ door.Backend }

func (remote) Remote() bool { return true }

func TestKeysPartlyDone(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	dial().do(t, "PING") // it serves
	s.sets = remote{s.sets}
	for n, want := range map[int]bool{1: false, keysAtOnce: false, keysAtOnce + 1: true} {
		f := &breaking{}
		if n <= keysAtOnce {
			f.calls = 1
		}
		c := &conn{Conn: new(door.Conn), s: s}
		if err := c.call(t.Context(), true, f, make([][]byte, n), make([]bool, n)); err == nil || errors.Is(err, door.ErrUnknown) != want {
			t.Errorf("%d keys: %v", n, err)
		}
	}
}

// TestCommandsCount: what commands hold beside their answers counts among the memory of all, and is given back.
func TestCommandsCount(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: 2 << 20, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 2 << 20})}})
	p := dial()
	for i := range 10 {
		p.do(t, "SADD", "long", fmt.Sprint(i)+strings.Repeat("x", 50_000))
	}
	fill(t, p, "short", "%d", 30_000)
	long := slices.Repeat([]string{"long"}, setsMost-1)
	for _, args := range [][]string{
		append([]string{"SUNION"}, long...), append([]string{"SINTER"}, long...), append([]string{"SINTERCARD", fmt.Sprint(len(long))}, long...), append([]string{"SUNIONSTORE", "to"}, long...),
		{"SUNIONSTORE", "to", "short"}, {"SRANDMEMBER", "short", "1000000000"}, {"SRANDMEMBER", "short", "-100000"},
	} {
		for range 2 {
			if got := p.do(t, args...); !strings.HasPrefix(got, "-TRYAGAIN") {
				t.Errorf("%.60q: %.100s", args, got)
			}
		}
		if got := p.do(t, "SINTERCARD", "2", "long", "long"); got != ":10" {
			t.Errorf("after %.60q: %s", args, got)
		}
	}
}

// TestMomentsCount: the sets that a command reads at one moment count, whatever is in them, and are given back.
func TestMomentsCount(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 1 << 20})}})
	p := dial()
	for range 3 {
		for _, cmd := range []string{"SUNION", "SINTER", "SDIFF"} {
			if got := p.do(t, numbered(setsMost, cmd)...); !strings.HasPrefix(got, "-TRYAGAIN") {
				t.Errorf("%s of %d sets: %.100s", cmd, setsMost, got)
			}
			if got := p.do(t, numbered(setsMost/4, cmd)...); got != "*[]" {
				t.Errorf("%s of %d sets: %.100s", cmd, setsMost/4, got)
			}
		}
	}
}

// TestFewSetsAreFree: a command reads a few small sets at one moment even if others use all the memory of long requests.
func TestFewSetsAreFree(t *testing.T) {
	t.Parallel()
	limits := door.NewLimits(door.LimitsOptions{LongBytes: 1 << 20})
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: limits}})
	p := dial()
	if !limits.TakeLong(1 << 20) {
		t.Fatal("the memory of long requests is used before any")
	}
	for _, cmd := range []string{"SUNION", "SINTER", "SDIFF"} {
		if got := p.do(t, cmd, "a", "b", "c", "d"); got != "*[]" {
			t.Errorf("%s of four sets: %.100s", cmd, got)
		}
		if got := p.do(t, cmd, "a", "b", "c", "d", "e"); !strings.HasPrefix(got, "-TRYAGAIN") {
			t.Errorf("%s of five sets: %.100s", cmd, got)
		}
	}
}

func TestOwnWritesAreBounded(t *testing.T) {
	t.Parallel()
	for word, n := range map[string]int{"ELEMENTS": bigset.BatchOpsMax, "PAIRS": 2 * bigset.BatchOpsMax} {
		args := slices.Repeat([][]byte{nil}, 1+n+2)
		args[0] = []byte(word)
		var w door.Write
		if err := writeArgs(&w, keyscheme.OpAdd, args); err == nil || w.Ops != nil {
			t.Errorf("%s: %d operations, %v", word, len(w.Ops), err)
		}
		if err := writeArgs(&w, keyscheme.OpAdd, args[:1+n]); err != nil || len(w.Ops) != bigset.BatchOpsMax {
			t.Errorf("%s: %d operations, %v", word, len(w.Ops), err)
		}
	}
}

// dotted is a backend whose elements have contexts of 4,000 bytes, as elements with many dots have.
type dotted struct{ door.Backend }

func (dotted) Subset(_ context.Context, s door.Subset) ([]door.Presence, error) {
	if len(s.Elements) > door.ContextsMax {
		return nil, fmt.Errorf("the contexts of %d elements at once", len(s.Elements))
	}
	return slices.Repeat([]door.Presence{{Present: true, Context: make(door.Token, 4000)}}, len(s.Elements)), nil
}

func (dotted) Context(_ context.Context, set []byte, _ int) (door.Token, error) {
	if string(set) == "wide" {
		return make(door.Token, 250<<10), nil
	}
	return make(door.Token, 100<<10), nil
}

// TestContextsCount: contexts of elements count among the memory of all, and are given back.
func TestContextsCount(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	dial, _ := serve(t, dotted{inner.sets}, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 1 << 20})}})
	p := dial()
	ask := append([]string{"BS.FETCH", "k"}, slices.Repeat([]string{"x"}, fetchMost)...)
	for range 3 {
		if got := p.do(t, ask...); !strings.HasPrefix(got, "-TRYAGAIN") {
			t.Errorf("%.100s", got)
		}
		if got := p.do(t, "BS.FETCH", "wide"); !strings.HasPrefix(got, "-TRYAGAIN") {
			t.Errorf("%.100s", got)
		}
		if got := p.do(t, "BS.FETCH", "k"); !strings.HasPrefix(got, "$") {
			t.Errorf("%.100s", got)
		}
		if got := p.do(t, ask[:152]...); strings.Count(got, "*[:1 $") != 150 {
			t.Errorf("%.100s", got)
		}
	}
}

// TestGivenContextsCount: contexts that a client gives count among the memory of all, and are given back.
func TestGivenContextsCount(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: 1 << 20, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 2 << 20})}})
	p := dial()
	for range 3 {
		for n, want := range map[int]string{800 << 10: "-TRYAGAIN", 100 << 10: "-ERR a context"} {
			for _, args := range [][]string{{"CONTEXT", strings.Repeat("A", n), "ELEMENTS", "x"}, {"PAIRS", "x", strings.Repeat("A", n)}} {
				if got := p.do(t, append([]string{"BS.ADD", "k"}, args...)...); !strings.HasPrefix(got, want) {
					t.Errorf("%s of %d bytes: %.100s, want %s", args[0], n, got, want)
				}
			}
		}
	}
}
