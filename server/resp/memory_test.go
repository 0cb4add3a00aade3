package resp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
