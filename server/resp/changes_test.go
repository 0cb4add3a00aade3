package resp

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/server/tokens"
)

// next returns the token of an answer of BS.CHANGES.
func next(t *testing.T, reply string) string {
	t.Helper()
	_, rest, ok := strings.Cut(reply, `$"next" $"`)
	token, _, end := strings.Cut(rest, `"`)
	if !ok || !end {
		t.Fatalf("no token in %.300s", reply)
	}
	return token
}

// TestChanges asks what was added and removed since a token.
func TestChanges(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	has := func(reply string, all ...string) string {
		t.Helper()
		for _, h := range all {
			if !strings.Contains(reply, h) {
				t.Errorf("no %s in %.500s", h, reply)
			}
		}
		return reply
	}
	since := next(t, has(p.do(t, "BS.CHANGES", "k", ""), `$"reset" $"begin" $"added" *[] $"removed" *[] $"dead" *[]`, `$"expires" :0 $"more" :0 $"unconfirmed" :0`))
	p.do(t, "SADD", "k", "a", "b", "c")
	reply := has(p.do(t, "BS.CHANGES", "k", since), `*[$"a" $"`, `:1"]`, `*[$"b" $"`, `*[$"c" $"`)
	if strings.Contains(reply, "begin") {
		t.Error(reply)
	}
	p.do(t, "SREM", "k", "b")
	since = next(t, reply)
	since = next(t, has(p.do(t, "BS.CHANGES", "k", since), `$"added" *[] $"removed" *[*[$"b" $"`, `:2"]]`))
	p.do(t, "SADD", "k", "d", "e")
	p.do(t, "DEL", "k")
	has(p.do(t, "BS.CHANGES", "k", since, "LIMIT", "10", "R", "1"), `$"added" *[] $"removed" *[] $"dead" *[$"`, `:1-1"`)
	since = next(t, has(p.do(t, "BS.CHANGES", "k", since, "LIMIT", "1"), `$"more" :1`))
	for n := 0; strings.Contains(p.do(t, "BS.CHANGES", "k", since, "LIMIT", "1"), `$"more" :1`); n++ {
		since = next(t, p.do(t, "BS.CHANGES", "k", since, "LIMIT", "1"))
		if n > 10 {
			t.Fatal("it does not end")
		}
	}
	since = next(t, p.do(t, "BS.CHANGES", "k", since))
	var late sync.WaitGroup
	late.Go(func() {
		time.Sleep(100 * time.Millisecond)
		dial().do(t, "SADD", "k", "late")
	})
	has(p.do(t, "BS.CHANGES", "k", since, "WAIT", "30000"), `*[$"late" $"`)
	late.Wait()
	q := dial()
	q.do(t, "HELLO", "3")
	has(q.do(t, "BS.CHANGES", "k", since), `$"reset" _`)
	for _, args := range []string{"BS.CHANGES k", "BS.CHANGES k  LIMIT", "BS.CHANGES k  LIMIT 0", "BS.CHANGES k  LIMIT x", "BS.CHANGES k  COUNT 1", "BS.CHANGES k nonsense", "BS.CHANGES k  WAIT 60001",
		"BS.CHANGES k  R 2", "BS.CHANGES other " + since} {
		if got := p.do(t, strings.Split(args, " ")...); !strings.HasPrefix(got, "-") {
			t.Errorf("%.50s: %.200s", args, got)
		}
	}
	p.do(t, "BF.ADD", "f", "x")
	has(p.do(t, "BS.CHANGES", "f", ""), "WRONGTYPE")
}

// TestChangesLong: what was added and what was removed have one limit together.
func TestChangesLong(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{AnswerBytesMax: 350_000})
	p := dial()
	some := func(cmd, kind string) {
		t.Helper()
		args := []string{cmd, "k"}
		for i := range 1500 {
			args = append(args, fmt.Sprintf("%s%0100d", kind, i))
		}
		if got := p.do(t, args...); got != ":1500" {
			t.Fatal(got)
		}
	}
	since := next(t, p.do(t, "BS.CHANGES", "k", ""))
	some("SADD", "a")
	since = next(t, p.do(t, "BS.CHANGES", "k", since, "LIMIT", "10000"))
	some("SREM", "a")
	some("SADD", "b")
	if got := p.do(t, "BS.CHANGES", "k", since, "LIMIT", "10000"); !strings.HasPrefix(got, "-ERR the answer to BS.CHANGES has more than 350000 bytes; ask with a lower LIMIT") {
		t.Errorf("%.200s", got)
	}
	if got := p.do(t, "BS.CHANGES", "k", since, "LIMIT", "1000"); !strings.Contains(got, `$"more" :1`) {
		t.Errorf("%.200s", got)
	}
}

// TestChangesOfNobody: a reply that waits ends when its client has gone.
func TestChangesOfNobody(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p := dial()
	since := next(t, p.do(t, "BS.CHANGES", "k", ""))
	if _, err := p.Write(request("BS.CHANGES", "k", since, "WAIT", "60000")); err != nil {
		t.Fatal(err)
	}
	waits := func(n int64) {
		t.Helper()
		for end := time.Now().Add(50 * time.Second); s.counters.waiting.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d replies wait, want %d", s.counters.waiting.Load(), n)
			}
		}
	}
	waits(1)
	p.Close()
	waits(0)
}

// TestChangesRevoked: a token that is removed while a reply waits is not shown what has happened since.
func TestChangesRevoked(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, _ := start(t, Options{Tokens: g})
	p, q := dial(), dial()
	reader, writer := add("reader", tokens.Read, ""), add("writer", tokens.Write, "")
	p.do(t, "AUTH", reader)
	q.do(t, "AUTH", writer)
	since := next(t, p.do(t, "BS.CHANGES", "k", ""))
	if _, err := p.Write(request("BS.CHANGES", "k", since, "WAIT", "30000")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	remove(t, g, "reader")
	q.do(t, "SADD", "k", "secret")
	if got := p.read(t); !strings.HasPrefix(got, "-NOAUTH") {
		t.Error(got)
	}
}
