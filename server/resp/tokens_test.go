package resp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/server/door"
	"bigset/server/tokens"
)

// tokenDisk is a tokens.Disk in memory.
type tokenDisk struct{ b []byte }

func (d *tokenDisk) Load() ([]byte, error) { return d.b, nil }

func (d *tokenDisk) Save(_ context.Context, b []byte) error { d.b = b; return nil }

// guard returns a guard, and what adds a token to it and returns its secret.
func guard(t *testing.T) (*tokens.Guard, func(label string, verbs tokens.Verbs, prefix string) string) {
	t.Helper()
	l, err := tokens.Open(&tokenDisk{}, true)
	if err != nil {
		t.Fatal(err)
	}
	return &tokens.Guard{List: l}, func(label string, verbs tokens.Verbs, prefix string) string {
		e, secret, err := tokens.New(label, verbs, []byte(prefix), time.Unix(1, 0))
		if err == nil {
			err = l.Add(t.Context(), e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
}

// remove removes the tokens with a label.
func remove(t *testing.T, g *tokens.Guard, label string) {
	t.Helper()
	for _, e := range g.List.Active() {
		if e.Label == label {
			if err := g.List.Remove(t.Context(), e.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// permissions has a request of every command that is served. {r} is a key that is read, {w} one that is changed; ! stands before what a client without a token may send.
var permissions = strings.Fields(strings.ReplaceAll(`
	SADD_{w}_x SREM_{w}_x SISMEMBER_{r}_x SMISMEMBER_{r}_x SCARD_{r} SMEMBERS_{r} SRANDMEMBER_{r} SSCAN_{r}_0
	SINTER_{r}_{r} SINTERCARD_2_{r}_{r} SUNION_{r}_{r}_{r} SDIFF_{r}_{r} SINTERSTORE_{w}_{r}_{r} SUNIONSTORE_{w}_{r}_{r} SDIFFSTORE_{w}_{r}_{r}
	EXISTS_{r}_{r} TOUCH_{r}_{r} TYPE_{r} DEL_{w}_{w} UNLINK_{w}_{w} TTL_{r} PTTL_{r} EXPIRETIME_{r} PEXPIRETIME_{r} SCAN_0 KEYS_* WAIT_0_0
	BS.RANGE_{r} BS.PREFIX_{r}_p BS.COUNT_{r} BS.FETCH_{r} BS.ADD_{w}_ELEMENTS_x BS.REM_{w}_ELEMENTS_x BS.CHANGES_{r}_ BS.STAT_{r}
	BF.RESERVE_{w}_0.01_20000 BF.ADD_{w}_x BF.MADD_{w}_x BF.INSERT_{w}_ITEMS_x BF.EXISTS_{r}_x BF.MEXISTS_{r}_x BF.INFO_{r} BF.CARD_{r}
	PING ECHO_x !HELLO !AUTH_x SELECT_0 CLIENT_ID !QUIT !RESET !POST !HOST: COMMAND_COUNT CONFIG_GET_save INFO DBSIZE TIME LOLWUT`, "\n", " "))

// TestPermissions sends a request of every command with every grant, and with each of its keys outside of what the token permits. A command that is not in the table fails it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, s := start(t, Options{Tokens: g})
	grants := []struct {
		label  string
		verbs  tokens.Verbs
		prefix string
		secret string
	}{{label: "none"}, {label: "reader", verbs: tokens.Read}, {label: "writer", verbs: tokens.Write}, {label: "both", verbs: tokens.Read | tokens.Write, prefix: "in/"}, {label: "admin", verbs: tokens.Admin}}
	full := dial()
	for i := range grants {
		if grants[i].verbs != 0 {
			grants[i].secret = add(grants[i].label, grants[i].verbs, grants[i].prefix)
		}
	}
	fullSecret := add("full", tokens.Read|tokens.Write|tokens.Admin, "")
	login := func(p *peer, secret string) {
		t.Helper()
		if got := p.do(t, "AUTH", secret); got != "+OK" {
			t.Fatal(got)
		}
	}
	login(full, fullSecret)
	fill := func() {
		for _, args := range [][]string{{"SADD", "in/k", "x", "y"}, {"SADD", "out/k", "x", "y"}, {"BF.ADD", "in/f", "x"}, {"BF.ADD", "out/f", "x"}} {
			full.do(t, args...)
		}
	}
	fill()
	peers := make([]*peer, len(grants)) // of commands about keys, which change nothing of a connection
	rows := map[string]string{}
	for _, row := range permissions {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(row, "!")), "_")
		rows[name] = row
	}
	for name, cmd := range s.commands {
		row := rows[name]
		if row == "" && cmd.about == "" { // it is refused
			row = name
		}
		if row == "" {
			t.Errorf("no request of %s is in the table: say what it asks of a client", name)
			continue
		}
		open := strings.HasPrefix(row, "!")
		words := strings.Split(strings.TrimPrefix(row, "!"), "_")
		keys := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w != "{r}" && w != "{w}" })
		changes := len(keys) == 0 || slices.Contains(keys, "{w}")
		suffix := "k"
		if strings.HasPrefix(name, "bf.") {
			suffix = "f"
		}
		for g, grant := range grants {
			for outside := -1; outside < len(keys); outside++ { // the key that lies elsewhere
				if changes && len(keys) > 0 {
					fill()
				}
				args, want, at := slices.Clone(words), "", 0
				for i, w := range words {
					verb, isKey := map[string]tokens.Verbs{"{r}": tokens.Read, "{w}": tokens.Write}[w]
					if !isKey {
						continue
					}
					if args[i] = "in/" + suffix; at == outside {
						args[i] = "out/" + suffix
					}
					if grant.verbs&verb == 0 || !strings.HasPrefix(args[i], grant.prefix) {
						want = "-NOPERM this user has no permissions"
					}
					at++
				}
				if name == "post" || name == "host:" {
					continue // closes the connection without an answer
				}
				p := peers[g]
				if p == nil || len(keys) == 0 {
					if p = dial(); grant.verbs != 0 {
						login(p, grant.secret)
					}
				}
				if len(keys) > 0 {
					peers[g] = p
				}
				if grant.verbs == 0 {
					if want = "-NOAUTH "; open {
						want = ""
					}
				}
				got := p.do(t, args...)
				denied := strings.HasPrefix(got, "-NOPERM") || strings.HasPrefix(got, "-NOAUTH") && name != "hello"
				if want != "" && !strings.HasPrefix(got, want) || want == "" && denied {
					t.Errorf("%s: %q: %.100s, want %q", grant.label, args, got, want)
				}
				if name == "hello" && strings.HasPrefix(got, "-NOAUTH HELLO must") != (grant.verbs == 0) {
					t.Errorf("%s: %q: %.100s", grant.label, args, got)
				}
				for _, check := range [][]string{{"SMEMBERS", "out/k", `*[$"x" $"y"]`}, {"BF.CARD", "out/f", ":1"}} {
					if grant.prefix == "" || !changes {
						break
					}
					if got := full.do(t, check[0], check[1]); got != check[2] {
						t.Errorf("%s: %q has changed %s: %s", grant.label, args, check[1], got)
					}
				}
				if len(keys) == 0 {
					p.Close()
				}
			}
		}
	}
}

// TestTokens goes through the ways to give a token, and what follows from it.
func TestTokens(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, s := start(t, Options{Tokens: g})
	before, p := dial(), dial()
	say := func(p *peer, want string, args ...string) {
		t.Helper()
		if got := p.do(t, args...); got != want && !(strings.HasSuffix(want, "...") && strings.HasPrefix(got, strings.TrimSuffix(want, "..."))) {
			t.Errorf("%q: %.200s, want %s", args, got, want)
		}
	}
	const wrong, noAuth, noPerm = "-" + errWrongPass, "-NOAUTH Authentication required.", "-NOPERM this user has no permissions..."
	say(before, ":2", "SADD", "users/1", "a", "b")
	say(before, "-ERR AUTH <password> called without...", "AUTH", "x")
	say(before, "+OK", "AUTH", "default", "x")
	say(before, wrong, "AUTH", "nobody", "x")
	say(before, wrong, "HELLO", "3", "AUTH", "nobody", "x")
	say(before, ":1", "SADD", "other", "a")
	say(before, ":1", "SADD", "", "a")
	say(before, `$"x"`, "ECHO", "x")
	app, ops := add("app", tokens.Read|tokens.Write, "users/"), add("ops", tokens.Admin|tokens.Read, "")
	say(before, noAuth, "SISMEMBER", "users/1", "a")
	for _, args := range [][]string{{"AUTH", "x"}, {"AUTH", "default", "x"}, {"AUTH", "nobody", app}, {"AUTH", "ops", app}, {"HELLO", "3", "AUTH", "default", "x"}, {"HELLO", "3", "AUTH", "ops", app}} {
		say(p, wrong, args...)
		say(p, noAuth, "SCARD", "users/1")
	}
	say(p, "-NOAUTH HELLO must...", "HELLO", "3")
	say(p, "-NOAUTH HELLO must...", "HELLO", "3", "SETNAME", "x")
	say(p, "-ERR wrong number...", "SCARD")
	say(p, "-ERR unknown command...", "NOSUCH")
	say(p, noAuth, "SPOP", "users/1")
	say(p, "%[...", "HELLO", "3", "AUTH", "default", app)
	say(p, ":2", "SCARD", "users/1")
	say(p, wrong, "AUTH", "x")
	say(p, ":2", "SCARD", "users/1") // as before
	for _, key := range []string{"users", "user", "", "\x00users/", "Users/1", "other/users/1"} {
		say(p, noPerm, "SCARD", key)
	}
	say(p, "+RESET", "RESET")
	say(p, noAuth, "SCARD", "users/1")
	say(p, "+OK", "AUTH", "app", app)
	say(p, ":0", "SADD", "users/1", "b")

	for p, want := range map[*peer]string{p: "users/1", dial(): "|other|users/1"} {
		if p.do(t, "SCARD", "users/1") == noAuth {
			say(p, "+OK", "AUTH", ops)
		}
		list := words(p.do(t, "KEYS", "*"))
		slices.Sort(list)
		_, scanned := step(t, p.do(t, "SCAN", "0"))
		slices.Sort(scanned)
		if got := strings.Join(list, "|"); got != want || !slices.Equal(list, scanned) {
			t.Errorf("KEYS %q, SCAN %q, want %s", list, scanned, want)
		}
		say(p, fmt.Sprint(":", len(list)), "DBSIZE")
		if got := p.do(t, "INFO", "keyspace"); !strings.Contains(got, fmt.Sprintf("keys=%d,", len(list))) {
			t.Error(got)
		}
		if got := p.do(t, "INFO"); !strings.Contains(got, "redis_version") || strings.Contains(got, "total_commands_processed") != (len(list) > 1) || strings.Contains(got, "keys=") != (len(list) > 1) || strings.Contains(got, "used_memory:") != (len(list) > 1) {
			t.Error(got)
		}
		say(p, "-NOPERM...", "SADD", "other", "x")
	}

	// Requests of a pipeline are judged one by one, in their order.
	p = dial()
	var pipe []byte
	for _, args := range [][]string{{"AUTH", app}, {"SADD", "users/2", "a"}, {"SADD", "users/2", "b"}, {"SADD", "other", "x"}, {"SADD", "users/2", "c"}, {"RESET"}, {"SADD", "users/2", "d"}} {
		pipe = append(pipe, request(args...)...)
	}
	if _, err := p.Write(pipe); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+OK", ":1", ":1", "-" + errNoPermission, ":1", "+RESET", noAuth} {
		if got := p.read(t); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}

	say(p, "+OK", "AUTH", app)
	say(p, ":3", "SCARD", "users/2")
	remove(t, g, "app")
	say(p, noAuth, "SCARD", "users/2")
	say(p, noAuth, "PING")
	say(p, wrong, "AUTH", app)
	remove(t, g, "ops")
	say(before, noAuth, "PING")
	if s.Metrics().Failures != 0 {
		t.Error("a refusal is counted as a fault of the node")
	}
}

// TestTokensAreLearned: a node that does not know its tokens yet says so, and that another one may be asked.
func TestTokensAreLearned(t *testing.T) {
	t.Parallel()
	l, err := tokens.Open(&tokenDisk{}, false)
	if err != nil {
		t.Fatal(err)
	}
	dial, _ := start(t, Options{Tokens: &tokens.Guard{List: l}})
	p := dial()
	for _, args := range [][]string{{"PING"}, {"AUTH", "x"}, {"HELLO", "3"}, {"SADD", "k", "x"}} {
		if got := p.do(t, args...); !strings.HasPrefix(got, "-TRYAGAIN this node has not learned") {
			t.Errorf("%q: %s", args, got)
		}
	}
	l.Learned()
	if got := p.do(t, "SADD", "k", "x"); got != ":1" {
		t.Error(got)
	}
	dial, _ = start(t, Options{Tokens: &tokens.Guard{List: l, Always: true}})
	if got := dial().do(t, "SADD", "k", "x"); got != "-NOAUTH Authentication required." {
		t.Error(got)
	}
}

// TestStrangers: a client that has given no token begins no long request, which would take the memory of all.
func TestStrangers(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, _ := start(t, Options{Tokens: g})
	long := strings.Repeat("x", strangerBulkMax)
	many := append([]string{"SADD", "k"}, slices.Repeat([]string{"x"}, strangerArgumentsMax-2)...)
	before := dial()
	if got := before.do(t, "SADD", "k", long+"x"); got != ":1" { // no token is needed yet
		t.Fatal(got)
	}
	secret := add("app", tokens.Read|tokens.Write, "")
	p := dial()
	for _, args := range [][]string{{"ECHO", long}, many} {
		if got := p.do(t, args...); got != "-NOAUTH Authentication required." {
			t.Errorf("%.40q: %.100s", args, got)
		}
	}
	for _, p := range []*peer{before, dial()} {
		p.Write(request("ECHO", long+"x"))
		if got := p.read(t); got != "-ERR Protocol error: unauthenticated bulk length" {
			t.Fatal(got)
		}
		if _, err := p.in.ReadByte(); err == nil {
			t.Error("the connection goes on")
		}
	}
	p = dial()
	p.Write(request(append(many, "x")...))
	if got := p.read(t); got != "-ERR Protocol error: unauthenticated multibulk length" {
		t.Error(got)
	}
	p = dial()
	p.Write(append(append(request("AUTH", secret), request("ECHO", long+"x")...), request(append(many, "x")...)...)) // together
	for _, want := range []string{"+OK", `$"` + long + `x"`, ":1"} {
		if got := p.read(t); got != want {
			t.Errorf("%.100s, want %.40s", got, want)
		}
	}
	remove(t, g, "app")
	add("other", tokens.Read, "")
	p.Write(request(append(many, "x")...))
	if got := p.read(t); got != "-ERR Protocol error: unauthenticated multibulk length" {
		t.Errorf("with a token that was removed: %s", got)
	}
}

// telling is a backend that says when it has listed a name.
type telling struct {
	door.Backend
	told func()
}

func (b telling) Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for name, err := range b.Backend.Names(ctx, all, after) {
			if !yield(name, err) {
				return
			}
			b.told()
		}
	}
}

// TestKeysAfterRemoval: a list of keys that a token may see is an error if the token is removed before it ends: it must not look complete.
func TestKeysAfterRemoval(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	_, inner := start(t, Options{})
	told := func() {}
	dial, _ := serve(t, telling{inner.sets, func() { told() }}, Options{Tokens: g})
	p := dial()
	for i := range 5 {
		p.do(t, "SADD", fmt.Sprint("u/", i), "x")
	}
	for _, args := range []string{"KEYS *", "SCAN 0", "DBSIZE", "INFO keyspace"} {
		told = func() {}
		secret := add("reader", tokens.Read, "u/")
		if got := p.do(t, "AUTH", secret); got != "+OK" {
			t.Fatal(got)
		}
		if got := p.do(t, strings.Fields(args)...); strings.HasPrefix(got, "-") {
			t.Errorf("%s: %s", args, got)
		}
		told = func() { remove(t, g, "reader") }
		if got := p.do(t, strings.Fields(args)...); !strings.HasPrefix(got, "-NOAUTH") {
			t.Errorf("%s, with a token that was removed during it: %s", args, got)
		}
	}
}

// TestRetryOfRefused: a change that is sent again, and now is not permitted or finds a filter, may have been done by the first try.
func TestRetryOfRefused(t *testing.T) {
	t.Parallel()
	g, add := guard(t)
	dial, s := start(t, Options{Tokens: g})
	reads, writes := add("reader", tokens.Read, ""), add("writer", tokens.Write, "")
	for _, c := range []struct{ secret, key, first, again string }{
		{writes, "k", "*[", "*["},
		{"", "k", "-NOAUTH", "-UNKNOWN"},
		{reads, "k", "-NOPERM", "-UNKNOWN"},
		{writes, "f", "-WRONGTYPE", "-UNKNOWN"},
	} {
		p := dial()
		if c.secret != "" {
			p.do(t, "AUTH", c.secret)
		}
		p.do(t, "BF.ADD", "f", "x")
		for _, args := range [][]string{{"BS.ADD", c.key, "REQUEST", "id", "ELEMENTS", "e"}, {"BS.ADD", c.key, "REQUEST", "id", "RETRY", "ELEMENTS", "e"}} {
			want := c.first
			if args[4] == "RETRY" {
				want = c.again
			}
			if got := p.do(t, args...); !strings.HasPrefix(got, want) {
				t.Errorf("%q: %s, want %s", args, got, want)
			}
		}
	}
	if n := s.Metrics().Failures; n > 0 {
		t.Errorf("%d count as faults of the node", n)
	}
}
