package main

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset/client"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/wire"
)

// serveSets serves a store in memory and returns its address.
func serveSets(t *testing.T) string {
	return serveSetsBy(t, func(h wire.Handler) wire.Handler { return h })
}

// serveSetsBy is serveSets with something in between.
func serveSetsBy(t *testing.T, between func(wire.Handler) wire.Handler) string {
	t.Helper()
	return serveStore(t, func(s *engine.Store) wire.Handler { return between(api.Handler(alone.New(s))) })
}

// serveStore serves a new store.
func serveStore(t *testing.T, handler func(*engine.Store) wire.Handler) string {
	t.Helper()
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	srv := wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: api.Errors{}}, Handler: handler(s), Log: slog.New(slog.DiscardHandler)})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ln.Close()
		_ = srv.Shutdown(context.Background())
		_ = s.Close()
	})
	return ln.Addr().String()
}

// TestAway runs commands on sets with a folder and with a running node: answers, messages and statuses are the same. $1 and so on are tokens that
// came before, in their order.
func TestAway(t *testing.T) {
	t.Parallel()
	dir, addr := newDir(t), serveSets(t)
	var tokens [2][]string
	for _, step := range []struct{ line, in string }{
		{"add friends paul ringo george john", ""}, {"add --base64 keys AAECAw== /w==", ""}, {"add --json friends yoko", ""},
		{"has friends paul ringo", ""}, {"has friends paul pete", ""}, {"has nobody paul", ""}, {"has --json friends paul pete", ""}, {"has --base64 keys /w==", ""},
		{"rm friends ringo", ""}, {"rm friends ringo", ""}, {"rm --json friends ringo yoko", ""}, {"rm nobody ringo", ""},
		{"ls friends", ""}, {"ls friends --prefix p", ""}, {"ls friends --from h --reverse", ""}, {"ls friends --limit 3", ""}, {"ls nobody", ""},
		{"ls friends --limit 2 --json", ""}, {"ls friends --prefix z --json", ""}, {"ls nobody --json", ""}, {"ls keys --base64", ""},
		{"ls friends --limit 2", ""}, {"ls friends --after $-1", ""}, {"ls friends --after $-1 --reverse", ""}, {"ls keys --after $-1", ""},
		{"ls friends --after nonsense", ""}, {"ls friends --after=", ""}, {"ls friends --limit -1", ""},
		{"count friends", ""}, {"count friends --prefix j", ""}, {"count friends --json", ""}, {"count nobody", ""},
		{"stats friends", ""}, {"stats --json friends", ""}, {"stats keys", ""}, {"stats nobody", ""}, {"stats", ""}, {"stats friends keys", ""},
		{"names", ""}, {"names --json", ""}, {"names --base64", ""},
		{"watch friends --once", ""}, {"watch keys --once --base64", ""}, {"watch nobody --once", ""}, {"watch friends --once --since x", ""}, {"watch friends --json --once --since x", ""},
		{"watch friends keys", ""},
		{"context friends", ""}, {"context --json friends", ""}, {"context nobody", ""}, {"context friends paul", ""},
		{"add friends paul", ""}, {"rm friends paul --context $-1", ""}, {"has friends paul", ""}, // it was added after the token was made
		{"context friends paul", ""}, {"rm friends paul george --context $-1", ""}, {"rm friends george --context $-1", ""}, {"has friends paul george", ""},
		{"rm friends paul --context $-1", ""}, {"has friends paul", ""}, {"context friends --json george", ""},
		{"rm friends george --context=", ""}, {"rm friends george john --context nonsense", ""}, {"rm friends george --context nonsense", ""},
		{"drop friends --context=", ""}, {"drop friends --context nonsense", ""}, {"drop friends --context $-1", ""}, {"ls friends", ""},
		{"context friends", ""}, {"add friends late", ""}, {"rm friends george late --context $-1", ""}, {"ls friends", ""},
		{"add friends paul --policy required", ""}, {"add friends paul --policy mine", ""}, {"add friends zoe --policy empty", ""},
		{"add friends zoe --no-sync", ""}, {"drop friends --policy required", ""}, {"drop friends --policy empty", ""}, {"drop nobody", ""},
		{"context friends", ""}, {"add friends later", ""}, {"drop friends --context $-1", ""}, {"names --all --json", ""},
		{"drop --json friends", ""}, {"ls friends", ""}, {"names", ""},
		{"import letters", "c\nb\na\nb"}, {"import --ack letters", "d\ne\n"}, {"import --json letters -", ""}, {"export letters", ""}, {"export --json keys", ""},
		{"export --base64 keys", ""}, {"export keys", ""}, {"export nobody", ""}, {"import --base64 letters", "Zg==\nno!\n"}, {"export letters", ""},
		{"import letters --policy required", ""}, {"import letters --ack --no-sync", ""}, {"import letters /nowhere", ""}, {"count letters", ""},
	} {
		run := func(i int, where ...string) (result, string) {
			args := append(append([]string{}, where...), strings.Fields(step.line)...)
			for j := range args {
				if strings.Contains(args[j], "$-1") {
					args[j] = tokens[i][len(tokens[i])-1]
				}
			}
			r := call(t, step.in, args...)
			tokens[i] = append(tokens[i], token.FindAllString(r.out+r.errs, -1)...)
			r.out, r.errs = token.ReplaceAllString(r.out, "<token>"), token.ReplaceAllString(r.errs, "<token>")
			return r, strings.NewReplacer("--context: context of element", "--context for element").Replace(strings.SplitN(r.errs, "hint:", 2)[0])
		}
		here, hereSays := run(0, "--dir", dir, "set")
		away, awaySays := run(1, "set", "--addr", addr)
		if here.code != away.code || here.out != away.out || hereSays != awaySays {
			t.Errorf("%s: with a folder status %d, %q, %q; of a node status %d, %q, %q", step.line, here.code, here.out, here.errs, away.code, away.out, away.errs)
		}
	}
}

// TestAwayRefuses gives flags that a running node has no use for, or that contradict each other: nothing is sent.
func TestAwayRefuses(t *testing.T) {
	t.Parallel()
	asked := make(chan wire.Verb, 100)
	addr := serveSetsBy(t, func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			asked <- r.Verb
			return h(ctx, r, send)
		}
	})
	for line, says := range map[string]string{
		"add s x --w 2":                   "--w is for a running node",
		"ls s --r 1":                      "--r is for a running node",
		"add s x --request r1":            "--request is for a running node",
		"ls s --tls nowhere":              "--tls is for a running node",
		"ls s --addr=":                    "--addr is empty",
		"ls s --dir x --addr A":           "--dir is for a folder",
		"add s x --record set --addr A":   "--record is for a folder",
		"rm s x --open-contexts --addr A": "--open-contexts is for a folder",
		"ls s --w 1 --addr A":             "--w is not for ls",
		"add s x --r 1 --addr A":          "--r is not for add",
		"drop s --request r1 --addr A":    "--request is not for drop",
		"add s x --retry":                 "--retry is for a running node",
		"add s x --retry --addr A":        "give its --request too",
		"import s --retry --addr A":       "--retry is not for import",
		"names --r 1 --addr A":            "--r is not for names",
		"add s x --w -1 --addr A":         "0 or more",
		"add s x --request= --addr A":     "--request is empty",
		"add s x --request " + strings.Repeat("r", 65) + " --addr A": "at most 64",
		"add s x --no-sync --dw 1 --addr A":                          "contradict",
		"import s --no-sync --addr A":                                "not for import",
		"import s --dw 0 --addr A":                                   "not for import",
		"ls s --addr 10.1.2.3:8690":                                  "without TLS",
		"ls s --addr nonsense":                                       "not HOST:PORT",
		"ls s --addr A --tls nowhere":                                "nowhere",
	} {
		args := strings.Fields("set " + strings.ReplaceAll(line, " A", " "+addr))
		r := call(t, "x\n", args...)
		if r.code != exitError || !strings.Contains(r.errs, says) || !strings.Contains(r.errs, "hint: ") || r.out != "" {
			t.Errorf("%s: status %d, %q, %s", line, r.code, r.out, r.errs)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the node was asked for verb %d", <-asked)
	}
	if r := call(t, "", "set", "ls", "s", "--addr", "127.0.0.1:1"); r.code != exitError || !strings.Contains(r.errs, "no node could do it: 127.0.0.1:1: ") {
		t.Errorf("nobody listens: status %d, %s", r.code, r.errs)
	}
	if r := call(t, "", "set", "add", "s", "x", "--w", "2", "--addr", addr); r.code != exitError || !strings.Contains(r.errs, "this node is alone") {
		t.Errorf("W 2 of a node alone: status %d, %s", r.code, r.errs)
	}
}

// TestAwayQuorums wants flags to reach the node as they are meant.
func TestAwayQuorums(t *testing.T) {
	t.Parallel()
	asked := make(chan any, 100)
	addr := serveSetsBy(t, func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			var err error
			switch r.Verb {
			case api.VerbWrite:
				var w client.Write
				w, err = api.DecodeWrite(r.Body)
				if len(w.Request) < 16 && string(w.Request) != "r1" && string(w.Request) != "r2" || w.Retry != (string(w.Request) == "r2") {
					t.Errorf("id %q, retry %v", w.Request, w.Retry)
				}
				asked <- w.Quorum
			case api.VerbDrop:
				var d client.Drop
				d, err = api.DecodeDrop(r.Body)
				asked <- d.Quorum
			case api.VerbRead, api.VerbCount:
				var q client.Read
				q, err = api.DecodeRead(r.Body)
				asked <- q.R
			case api.VerbSubset, api.VerbContext, api.VerbStats:
				var q client.Subset
				q, err = api.DecodeSubset(r.Body)
				asked <- q.R
			}
			if err != nil {
				t.Error(err)
			}
			return h(ctx, r, send)
		}
	})
	for _, tt := range []struct {
		line string
		want any
	}{
		{"add s x", client.Quorum{}}, {"add s x --w 1", client.Quorum{W: 1}}, {"rm s x --dw 1 --request r1", client.Quorum{DW: 1}}, {"rm s x --request r2 --retry", client.Quorum{}},
		{"add s x --dw 0", client.Quorum{DW: client.NotDurable}}, {"add s x --no-sync --w 1", client.Quorum{W: 1, DW: client.NotDurable}},
		{"import s --w 1", client.Quorum{W: 1}}, {"ls s --r 1", 1}, {"count s --r 1", 1}, {"export s --r 1", 1}, {"has s x --r 1", 1},
		{"context s --r 1", 1}, {"stats s --r 1", 1}, {"context s x --r 1", 1}, {"ls s", 0}, {"drop s --dw 0", client.Quorum{DW: client.NotDurable}},
	} {
		r := call(t, "x\n", append([]string{"set", "--addr", addr}, strings.Fields(tt.line)...)...)
		var got any
		for len(asked) > 0 { // of a drop the last: it asks for the context first
			got = <-asked
		}
		if r.code != exitOK && r.code != exitAbsent || got != tt.want {
			t.Errorf("%s: status %d, %s; the node was asked for %+v, want %+v", tt.line, r.code, r.errs, got, tt.want)
		}
	}
}

// TestAwayImportDurable: an import to a node that acknowledges changes before they are on disk reports nothing as durable, and says what to do.
func TestAwayImportDurable(t *testing.T) {
	t.Parallel()
	addr := serveStore(t, func(s *engine.Store) wire.Handler { return api.Handler(alone.NewUnsynced(s)) })
	r := call(t, "a\nb\n", "set", "--addr", addr, "import", "s", "--ack")
	if r.code != exitError || r.out != "" || !strings.Contains(r.errs, "0 elements imported and durable") || !strings.Contains(r.errs, "--dw 1") {
		t.Errorf("status %d, %q, %q", r.code, r.out, r.errs)
	}
	if r := call(t, "a\nb\n", "set", "--addr", addr, "import", "s", "--ack", "--dw", "1"); r.code != exitOK || r.out != "b\nimported 2 elements\n" {
		t.Errorf("status %d, %q, %q", r.code, r.out, r.errs)
	}
}

// TestAwayUnknown loses answers: the status is its own, and the command that the hint names settles what happened.
func TestAwayUnknown(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	var lost atomic.Int64
	addr := serveSetsBy(t, func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			b, err := h(ctx, r, send)
			if lose.Load() && (r.Verb == api.VerbWrite || r.Verb == api.VerbDrop) {
				lost.Add(1)
				return nil, &door.UnknownError{Acked: 1, W: 2}
			}
			return b, err
		}
	})
	// cut runs a command whose time is short, and returns the one that the hint names.
	cut := func(in string, args ...string) (result, []string) {
		var r result
		lost.Store(0)
		for short := 300 * time.Millisecond; lost.Load() == 0 && short < time.Minute; short *= 2 { // on a busy machine it may be too short to ask
			ctx, cancel := context.WithTimeout(t.Context(), short)
			lose.Store(true)
			r = callContext(ctx, in, args...)
			lose.Store(false)
			cancel()
		}
		_, hint, _ := strings.Cut(r.errs, "`bigset ")
		hint, _, _ = strings.Cut(hint, "`")
		b, err := exec.Command("sh", "-c", `for a in "$@"; do :; done; printf '%s\n' `+hint).Output()
		if err != nil {
			t.Fatal(err)
		}
		return r, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	}
	r, again := cut("", "set", "add", "friends", "--addr", addr, "--policy", "empty", "--retry=false", "--", "-it's paul")
	if r.code != exitUnknown || r.out != "" || !strings.Contains(r.errs, "it is unknown whether") {
		t.Fatalf("status %d, %s", r.code, r.errs)
	}
	call(t, "", again...).want(t, exitOK)
	call(t, "", again...).want(t, exitOK)
	if out := call(t, "", "set", "names", "--json", "--addr", addr).want(t, exitOK); !strings.Contains(out, `{"set":"friends","live":1,"seen":1}`) {
		t.Errorf("%q left %s", again, out)
	}
	call(t, "", "set", "has", "friends", "--addr", addr, "--", "-it's paul").want(t, exitOK)
	if !slices.Contains(again, "--retry") || !slices.Contains(again, "--request") {
		t.Errorf("it names %q", again)
	}

	r, again = cut("", "set", "drop", "friends", "--addr", addr)
	if r.code != exitUnknown {
		t.Fatalf("drop: status %d, %s", r.code, r.errs)
	}
	call(t, "", "set", "add", "friends", "late", "--addr", addr).want(t, exitOK)
	if out := call(t, "", again...).want(t, exitOK); out != "dropped \"friends\", 1 element left\n" {
		t.Errorf("the drop again: %s", out)
	}

	r, _ = cut("a\nb\n", "set", "import", "letters", "--addr", addr)
	if r.code != exitUnknown || !strings.Contains(r.errs, "0 elements imported and durable, then: ") || !strings.Contains(r.errs, "import again what comes after the first 0 elements") {
		t.Errorf("import: status %d, %s", r.code, r.errs)
	}
}

// TestAwayTwice gives a change twice with its id, with --retry and without: a node alone does it once.
func TestAwayTwice(t *testing.T) {
	t.Parallel()
	addr := serveSets(t)
	for i, more := range []string{"", "", "--retry"} {
		args := strings.Fields("set add friends paul --policy empty --request r1 --addr " + addr + " " + more)
		call(t, "", args...).want(t, exitOK)
		if out := call(t, "", "set", "names", "--json", "--addr", addr).want(t, exitOK); out != `{"set":"friends","live":1,"seen":1}`+"\n" {
			t.Errorf("after %d times: %s", i+1, out)
		}
	}
}

func TestAwayCompletes(t *testing.T) {
	t.Parallel()
	addr := serveSets(t)
	for _, set := range []string{"friends", "foes", "others"} {
		call(t, "", "set", "add", set, "x", "--addr", addr).want(t, exitOK)
	}
	out := call(t, "", "__complete", "set", "--addr", addr, "ls", "f").want(t, exitOK)
	if !strings.Contains(out, "friends\n") || !strings.Contains(out, "foes\n") || strings.Contains(out, "others") {
		t.Errorf("completes %q", out)
	}
}

// TestFilterAway asks a node for filters at either of its ports, which answer alike, and a port that closes connections.
func TestFilterAway(t *testing.T) {
	t.Parallel()
	peers := serveSetsBy(t, func(h wire.Handler) wire.Handler { return api.FilterHandler(bloomdtest.NewMemory(), h) })
	srv, err := bloomd.New(bloomdtest.NewMemory(), door.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(context.Background(), at) }()
	t.Cleanup(func() { _ = srv.Shutdown(context.Background()) })
	for _, step := range []struct{ line, in string }{
		{"list", ""}, {"info f", ""}, {"check f a", ""}, {"create f --capacity 20000", ""}, {"create f", ""}, {"create g --capacity 5", ""}, {"set f a b", ""}, {"set f b c --json", ""},
		{"set f", "with blank\n\n"}, {"check f a x", ""}, {"check f", "with blank\nx\n\n"}, {"info f", ""}, {"info f --json", ""}, {"list", ""}, {"list x", ""}, {"list f --json", ""},
		{"clear f", ""}, {"close f", ""}, {"clear f", ""}, {"info f", ""}, {"create f", ""}, {"check f a", ""}, {"flush", ""}, {"flush f --json", ""}, {"drop f", ""}, {"drop f", ""},
	} {
		var got [2]result
		for i, addr := range []string{at.Addr().String(), peers} {
			got[i] = call(t, step.in, slices.Concat([]string{"filter", "--addr", addr}, strings.Fields(step.line))...)
		}
		if got[0].out != got[1].out || got[0].code != got[1].code {
			t.Errorf("%s: by bloomd's protocol %q, status %d; by the other %q, status %d: %s", step.line, got[0].out, got[0].code, got[1].out, got[1].code, got[1].errs)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = nc.Read(make([]byte, 100))
			nc.Close()
		}
	}()
	if r := call(t, "", "filter", "--addr", ln.Addr().String(), "list"); r.code != exitError || !strings.Contains(r.errs, "closed the connection") || !strings.Contains(r.errs, "check --addr") {
		t.Errorf("a port that closes connections: status %d, %s", r.code, r.errs)
	}
	if r := call(t, "", "set", "ls", "s", "--addr", ln.Addr().String()); r.code != exitError || !strings.Contains(r.errs, "no node could do it") {
		t.Errorf("set at it: status %d, %s", r.code, r.errs)
	}
}
