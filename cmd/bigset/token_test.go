package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/netfault"
	"bigset/server"
	"bigset/server/tokens"
)

var secretForm = regexp.MustCompile(`^bigset_[0-9a-f]{16}_[A-Za-z0-9_-]{43}\n$`)

// startListening starts a node alone with a port for clients of sets, and returns that.
func startListening(t *testing.T, dir string) string {
	t.Helper()
	address, err := netfault.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	c := server.Defaults()
	c.DataDir, c.Port, c.Peers.Listen, c.Peers.Insecure = dir, 0, address, true
	n, err := server.Start(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Stop(context.Background()) })
	return address
}

// TestToken adds, lists and removes tokens, in a folder and at a running node alike.
func TestToken(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		dir := newDir(t)
		where := []string{"--dir", dir}
		if away {
			where = []string{"--addr", startListening(t, dir)}
		}
		run := func(code int, want string, args ...string) string {
			t.Helper()
			r := call(t, "", append(append([]string{"token"}, args...), where...)...)
			if r.code != code || !strings.Contains(r.out+r.errs, want) {
				t.Fatalf("%q: status %d, %q, %q, want status %d and %q", args, r.code, r.out, r.errs, code, want)
			}
			return r.out
		}
		secret := run(exitOK, "", "add", "app", "--verbs", "read,write", "--prefix", "users/")
		if !secretForm.MatchString(secret) {
			t.Errorf("secret %q", secret)
		}
		run(exitOK, `"secret":"bigset_`, "add", "app", "--prefix", "AAECAw==", "--base64", "--json")
		run(exitOK, "", "add", "ops", "--verbs", "admin")
		list := run(exitOK, "\tapp\tread,write\t"+time.Now().UTC().Format("2006-")+"", "ls")
		if lines := strings.Split(list, "\n"); len(lines) != 4 || !strings.HasSuffix(lines[2], "\t") || !strings.Contains(list, "\tusers/\n") {
			t.Errorf("list %q", list)
		}
		var shown struct{ ID, Label, Verbs string }
		first, _, _ := strings.Cut(run(exitOK, `"prefix":"users/"`, "ls", "--json"), "\n")
		if err := json.Unmarshal([]byte(first), &shown); err != nil || shown.Label != "app" {
			t.Error(first, err)
		}
		run(exitOK, "", "add", "fans", "--type", "maps", "--bucket", "b/x", "--prefix", "k", "--verbs", "read")
		run(exitOK, "\t/types/maps/buckets/b%2Fx/datatypes/k\n", "ls")
		run(exitOK, `"prefix":"\u0000\u0001maps\u0000\u0001b/x\u0000\u0001k"`, "ls", "--json")
		run(exitOK, "removed 1 token", "rm", "fans")
		run(exitError, "no beginning in common", "add", "x", "--bucket", "default")
		run(exitError, "admin concerns the node", "add", "x", "--verbs", "admin,read", "--prefix", "x")
		run(exitError, "verbs", "add", "x", "--verbs", "root")
		run(exitError, "label", "add", "a b")
		run(exitAbsent, "no such token", "rm", "app", "nobody")
		run(exitOK, "removed 1 token", "rm", "ops")
		run(exitOK, "removed 2 tokens", "rm", "app", shown.ID, "app")
		run(exitAbsent, "no such token", "rm", shown.ID)
		if list := run(exitOK, "", "ls"); list != "" {
			t.Errorf("list %q", list)
		}
	}
}

// TestTokenOfAFolder: what was added to the folder of a server that does not run is the server's.
func TestTokenOfAFolder(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	r := call(t, "", "token", "add", "app", "--dir", dir)
	if r.code != exitOK {
		t.Fatal(r.errs)
	}
	s, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := tokens.Open(server.TokenDisk(s), true)
	if err != nil {
		t.Fatal(err)
	}
	g, err := (&tokens.Guard{List: list}).Authenticate([]byte(strings.TrimSpace(r.out)))
	if err != nil || !g.May(tokens.Read|tokens.Write, []byte("x")) {
		t.Error(err)
	}
}

// awayKeeper keeps tokens at a node that reaches others but one, another one for each change.
type awayKeeper struct{ away []string }

func (k *awayKeeper) AccessTokens(context.Context) ([]tokens.Entry, error) {
	return []tokens.Entry{{ID: tokens.ID{1}, Label: "app"}, {ID: tokens.ID{2}, Label: "app"}, {ID: tokens.ID{3}, Label: "app"}}, nil
}

func (k *awayKeeper) ChangeAccessToken(context.Context, tokens.Entry) (away []string, err error) {
	away, k.away = k.away[:1], k.away[1:]
	return away, nil
}

// TestTokensAway: who has not heard of the removal of one of several tokens is named, whatever became of the others.
func TestTokensAway(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{out: bufio.NewWriter(&out), errs: &errs, progress: newProgress(&errs)}
	if err := a.removeTokens(t.Context(), &awayKeeper{[]string{"c", "b", "c"}}, []string{"app"}); err != nil || !strings.Contains(errs.String(), "not reached: b, c;") {
		t.Errorf("%v, %q", err, errs.String())
	}
}
