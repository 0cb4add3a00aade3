package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
)

// redisHere returns the redis-server of the machine. Without one the test is skipped, but for a full run, in which it fails.
func redisHere(t testing.TB) (program string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case tier.Full():
		t.Fatal("no redis-server here, and a full run compares replies with it: install redis-server and redis-cli, in Debian by apt-get install redis-server")
	default:
		t.Skip("no redis-server here")
	}
	return program
}

// ending is a test that only says how it ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper() {}

func (e *ending) Fatal(...any) {
	e.how = "failed"
	runtime.Goexit()
}

func (e *ending) Skip(...any) {
	e.how = "skipped"
	runtime.Goexit()
}

// TestRedisMissing: a full run does not pass without what it compares with.
func TestRedisMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for tests, want := range map[string]string{"": "skipped", "full": tier.Pick("skipped", "failed", "failed")} {
		t.Setenv("BIGSET_TESTS", tests)
		e, done := &ending{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			redisHere(e)
		}()
		if <-done; e.how != want {
			t.Errorf("BIGSET_TESTS=%s: it %s, want %s", tests, e.how, want)
		}
	}
}

// startRedis starts a redis-server of the machine.
func startRedis(t *testing.T) (socket string) {
	t.Helper()
	program := redisHere(t)
	folder := t.TempDir()
	socket = filepath.Join(folder, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if out, err := exec.Command("redis-cli", "-s", socket, "ping").Output(); err == nil && strings.HasPrefix(string(out), "PONG") {
			return socket
		}
	}
	t.Fatal("redis-server does not answer")
	return ""
}

// TestDifferential sends the same random commands to redis-server and to this door, and wants equal replies, but for the exceptions of docs/resp.md.
func TestDifferential(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	commands := 3000
	if tier.Full() {
		commands = 100_000
	}
	tier.Count(t, "commands", commands)
	differences := 0
	for _, proto := range []string{"2", "3"} {
		dial, _ := start(t, Options{})
		ours, theirs := dial(), dialPeer(t, "unix", socket)
		ours.SetDeadline(time.Time{})
		theirs.SetDeadline(time.Time{})
		theirs.do(t, "FLUSHALL")
		for _, p := range []*peer{ours, theirs} {
			p.do(t, "HELLO", proto)
		}
		g := &generator{rand.New(rand.NewPCG(uint64(commands), uint64(proto[0]))), proto}
		for done := 0; done < commands/2; {
			if g.IntN(10) == 0 { // a key of another kind, which set commands refuse
				theirs.do(t, "SET", otherKind, "x")
				ours.do(t, "DEL", otherKind)
				ours.do(t, "BF.ADD", otherKind, "x")
			}
			batch := make([][]string, 1+g.IntN(20))
			for i := range batch {
				batch[i] = g.command()
			}
			done += len(batch)
			if differences += compare(t, batch, ours, theirs); differences > 10 {
				return
			}
			if g.IntN(4) == 0 {
				compareScans(t, g, ours, theirs)
			}
		}
	}
}

// otherKind is a key that is no set as a rule: a string in redis, and a filter here.
const otherKind = "w"

// compare sends commands as one pipeline to both, and returns how many replies differ.
func compare(t *testing.T, batch [][]string, ours, theirs *peer) (n int) {
	t.Helper()
	var all []byte
	for _, cmd := range batch {
		all = append(all, request(cmd...)...)
	}
	for _, p := range []*peer{ours, theirs} {
		if _, err := p.Write(all); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range batch {
		a, b := normal(cmd, ours.read(t)), normal(cmd, theirs.read(t))
		if a != b {
			t.Errorf("%.300q: ours %.500s, theirs %.500s", cmd, a, b)
			n++
		}
	}
	return n
}

// compareScans goes through a set, or through all keys, on both sides, and wants the same elements. Ours come once.
func compareScans(t *testing.T, g *generator, ours, theirs *peer) {
	t.Helper()
	options := pick(g, nil, []string{"COUNT", "1"}, []string{"COUNT", "7"}, []string{"MATCH", "1*"}, []string{"MATCH", "*[0-4]", "COUNT", "2"})
	before := []string{"SSCAN", g.key()}
	if g.IntN(3) == 0 || before[1] == otherKind {
		before = []string{"SCAN"}
	}
	through := func(p *peer) (all []string) {
		cursor := "0"
		for range 10_000 {
			reply := p.do(t, slices.Concat(before, []string{cursor}, options)...)
			step := bulkString.FindAllString(reply, -1)
			if len(step) == 0 || reply[0] != '*' {
				t.Fatalf("%.100q %s: %.200s", before, cursor, reply)
			}
			var err error
			if cursor, err = strconv.Unquote(step[0]); err != nil {
				t.Fatal(err)
			}
			if all = append(all, step[1:]...); cursor == "0" {
				slices.Sort(all)
				return all
			}
		}
		t.Fatalf("%.100q does not end", before)
		return nil
	}
	a, b := through(ours), slices.Compact(through(theirs))
	if !slices.Equal(a, b) {
		t.Errorf("%.100q %q: ours %.500q, theirs %.500q", before, options, a, b)
	}
}

// bulkString finds the strings in what read returns.
var bulkString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// normal hides in a reply what may differ: the order of sets, what is random, and how many elements a step of a scan has.
func normal(cmd []string, reply string) string {
	switch strings.ToLower(cmd[0]) {
	case "smembers", "sinter", "sunion", "sdiff", "keys":
		if reply[0] == '*' {
			list := strings.Split(strings.Trim(reply, "*[]"), " ")
			slices.Sort(list)
			return "*" + strings.Join(list, " ")
		}
	case "srandmember":
		if reply[0] == '*' {
			return fmt.Sprint("* ", strings.Count(reply, "$"))
		}
		if reply[0] == '$' {
			return "an element"
		}
	case "scan":
		if reply[0] == '*' {
			return "a step"
		}
	case "sscan": // with MATCH, redis may end a step that has found nothing before the end
		matches := slices.ContainsFunc(cmd, func(word string) bool { return strings.EqualFold(word, "match") })
		if reply[0] == '*' && (matches || reply != `*[$"0" *[]]`) {
			return "a step"
		}
	case "type":
		if reply == "+string" {
			return "+MBbloom--"
		}
	}
	return reply
}

// generator draws commands on few keys and elements, some of them malformed.
type generator struct {
	*rand.Rand
	proto string
}

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) key() string {
	return pick(g, "a", "b", "c", "d", "e", otherKind, "", "\x00", "\x00\x01", "k\r\n", "key with spaces", strings.Repeat("k", 300))
}

func (g *generator) element() string {
	switch g.IntN(12) {
	case 0:
		return pick(g, "", "\x00", "\r\n", "\xff\xfe", strings.Repeat("e", 2000), "*", "[a")
	case 1:
		return strconv.Itoa(g.IntN(1000))
	}
	return strconv.Itoa(g.IntN(30))
}

func (g *generator) several(f func() string) []string {
	list := make([]string, 1+g.IntN(4))
	for i := range list {
		list[i] = f()
	}
	return list
}

// command draws one. The case of its name varies.
func (g *generator) command() []string {
	cmd := g.good()
	switch g.IntN(30) {
	case 0: // an argument too few
		cmd = cmd[:len(cmd)-1]
	case 1:
		cmd = append(cmd, g.element())
	case 2:
		cmd[g.IntN(len(cmd))] = g.element()
	}
	if len(cmd) == 0 {
		cmd = []string{"PING"}
	}
	if g.IntN(3) == 0 {
		cmd[0] = strings.ToLower(cmd[0])
	}
	if refused(cmd) {
		return []string{"PING", g.element()}
	}
	return cmd
}

// refused reports whether a command is one of the exceptions.
func refused(cmd []string) bool {
	switch strings.ToLower(cmd[0]) {
	case "sscan", "scan": // cursors
		at := 1
		if strings.EqualFold(cmd[0], "sscan") {
			at = 2
		}
		return len(cmd) > at && cmd[at] != "0" && cmd[at] != "" && cmd[at] != "x"
	case "srandmember": // this number is not drawn
		return len(cmd) > 2 && len(cmd[2]) > 6
	case "sinterstore", "sunionstore", "sdiffstore": // a filter is not replaced
		return len(cmd) > 1 && cmd[1] == otherKind
	case "select":
		return len(cmd) > 1 && cmd[1] != "0"
	case "wait":
		return len(cmd) > 1 && cmd[1] != "0"
	case "quit", "reset", "hello": // the connection goes on, as it is
		return true
	case "client": // names are bounded
		return len(cmd) < 2 || len(cmd) > 2 && len(cmd[2]) > clientNameBytesMax || strings.EqualFold(cmd[1], "id")
	}
	return false
}

func (g *generator) good() []string {
	with := func(name string, more ...[]string) []string {
		return slices.Concat(append([][]string{{name}}, more...)...)
	}
	key := []string{g.key()}
	switch g.IntN(32) {
	case 0, 1, 2, 3, 4, 5:
		return with("SADD", key, g.several(g.element))
	case 6, 7, 8:
		return with("SREM", key, g.several(g.element))
	case 9, 10:
		return with("SISMEMBER", key, []string{g.element()})
	case 11:
		return with("SMISMEMBER", key, g.several(g.element))
	case 12:
		return with("SCARD", key)
	case 13:
		return with("SMEMBERS", key)
	case 14:
		return with(pick(g, "SINTER", "SUNION", "SDIFF"), g.several(g.key))
	case 15:
		return with(pick(g, "SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"), key, g.several(g.key))
	case 16:
		keys := g.several(g.key)
		cmd := with("SINTERCARD", []string{strconv.Itoa(len(keys))}, keys)
		if g.IntN(2) == 0 {
			cmd = append(cmd, "LIMIT", pick(g, "0", "1", "3", "-1", "x"))
		}
		return cmd
	case 17:
		return with(pick(g, "EXISTS", "TOUCH"), g.several(g.key))
	case 18:
		return with(pick(g, "DEL", "UNLINK"), g.several(g.key))
	case 19:
		return with("TYPE", key)
	case 20:
		return with(pick(g, "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"), key)
	case 21:
		return with("SRANDMEMBER", key)
	case 22:
		return with("SRANDMEMBER", key, []string{pick(g, "0", "1", "3", "-5", "100", "x", "-0", "1.5")})
	case 23:
		return with("SSCAN", key, []string{pick(g, "0", "0", "", "x")}, pick(g, nil, []string{"COUNT", "1000"}, []string{"MATCH", "1*"}, []string{"COUNT", "0"}, []string{"COUNT"}, []string{"FOO", "1"}))
	case 24:
		return with("KEYS", []string{pick(g, "*", "a", "[a-c]", "?", "k*", "", "[^a]", "\\a", "[", "*e*", "\x00*")})
	case 25:
		return []string{"DBSIZE"}
	case 26:
		return with("PING", pick(g, nil, []string{g.element()}))
	case 27:
		return with("ECHO", []string{g.element()})
	case 28:
		return []string{"SELECT", "0"}
	case 29:
		return pick(g, []string{"CLIENT", "GETNAME"}, []string{"CLIENT", "SETNAME", "x" + g.element()}, []string{"CLIENT", "NO-EVICT", "ON"}, []string{"CLIENT", "REPLY", "ON"})
	case 30:
		return pick(g, []string{"WAIT", "0", "0"}, []string{"NOSUCH" + g.element(), "a", g.element()}, []string{"AUTH", "x"}, []string{"AUTH", "u", "p"}, []string{"AUTH", "default", "p"}, []string{"COMMAND", "GETKEYS", "SADD", g.key(), "x"}, []string{"COMMAND", "GETKEYS", pick(g, "DBSIZE", "SCARD", "SINTERCARD"), g.element()})
	}
	return with("SCAN", []string{"0"}, pick(g, nil, []string{"COUNT", "1000"}, []string{"TYPE", "set"}, []string{"TYPE"}, []string{"MATCH", "nothing*", "COUNT", "1000"}))
}

// TestMalformed sends bytes that are no requests, or odd ones, to both, and wants equal answers and an equal end of the connection.
func TestMalformed(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	dial, _ := start(t, Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var differ []string
	for _, in := range []string{
		"PING\r\n", "PING\n", "\r\n", "\n\n", "*0\r\nPING\r\n", "*-1\r\nPING\r\n", "*-5\r\nPING\r\n", "*x\r\n", "*1048577000000\r\n", "*1\r\n+4\r\n", "*1\r\n$x\r\n", "*1\r\n$-1\r\n", "*1\r\n$536870913\r\n",
		"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nPING\r\n", "*01\r\n", "*1\r\n$04\r\n", "*+1\r\n", "* 1\r\n", "*\r\n", "*1\r\n\r\n", "*1\r\nPING\r\n",
		"PING \"a b\"\r\n", "PING 'a\\'b'\r\n", "PING \"\\x41\\n\\t\\q\"\r\n", "PING \"a\r\n", "PING \"a\"b\r\n", "PING 'a\r\n", "  PING   x  \r\n", "PING a\"b c\"d\r\n", "PING \"\"\r\n", "PING ''\r\n", "ECHO \"\\x4\"\r\n",
		"PING\tx\r\n", strings.Repeat("x", 70_000), "*1\r\n$" + strings.Repeat("1", 70_000), "*" + strings.Repeat("1", 70_000), "ECHO " + strings.Repeat("y", 60_000) + "\r\n",
		"*3\r\n$4\r\nSADD\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$8\r\nsmembers\r\n$1\r\nk\r\n", "QUIT\r\nPING\r\n", "POST / HTTP/1.1\r\nSADD k a\r\n", "HOST: x\r\nPING\r\n", "GET", "*1\r\n$4\r\nPI",
	} {
		peers := []*peer{dial(), dialPeer(t, "unix", socket)}
		wg.Go(func() {
			if conversation(peers[0], in, answerTime) != conversation(peers[1], in, answerTime) {
				mu.Lock()
				defer mu.Unlock()
				differ = append(differ, in)
			}
		})
	}
	wg.Wait()
	for _, in := range differ { // on a busy machine an answer may have come late
		for wait := 2 * answerTime; ; wait *= 2 {
			ours, theirs := conversation(dial(), in, wait), conversation(dialPeer(t, "unix", socket), in, wait)
			if ours == theirs {
				break
			} else if wait > 10*time.Second {
				t.Errorf("%.60q: ours %.200q, theirs %.200q", in, ours, theirs)
				break
			}
		}
	}
}

// answerTime is how long an answer usually takes at most.
const answerTime = 200 * time.Millisecond

// conversation sends bytes and returns all that is answered within a time, and whether the connection has ended then.
func conversation(p *peer, in string, wait time.Duration) string {
	p.SetDeadline(time.Now().Add(time.Minute))
	p.Write([]byte(in))
	p.SetDeadline(time.Now().Add(wait))
	var all bytes.Buffer
	_, err := all.ReadFrom(p.in)
	state := "closed"
	if n, ok := err.(interface{ Timeout() bool }); ok && n.Timeout() {
		state = "open"
	}
	return all.String() + state
}

// TestDifferentialTogether has clients change the same sets of both servers at the same time, each elements of its own, and wants equal sets in the end.
func TestDifferentialTogether(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	dial, _ := start(t, Options{})
	var wg sync.WaitGroup
	for client := range 6 {
		ours, theirs := dial(), dialPeer(t, "unix", socket)
		wg.Go(func() {
			g := &generator{rand.New(rand.NewPCG(1, uint64(client))), "2"}
			for range tier.Pick(20, 40, 400) {
				batch := make([][]string, 20)
				for i := range batch {
					batch[i] = []string{pick(g, "SADD", "SADD", "SREM", "SISMEMBER"), pick(g, "a", "b", "c"), fmt.Sprint(client, "-", g.IntN(50))}
				}
				compare(t, batch, ours, theirs)
			}
		})
	}
	wg.Wait()
	ours, theirs := dial(), dialPeer(t, "unix", socket)
	compare(t, [][]string{{"SMEMBERS", "a"}, {"SMEMBERS", "b"}, {"SMEMBERS", "c"}, {"SUNION", "a", "b", "c"}, {"SCARD", "a"}}, ours, theirs)
}
