package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/wire"
)

// serveSets serves a store in memory and returns its address.
func serveSets(t *testing.T) string {
	t.Helper()
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	srv := wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: api.Errors{}}, Handler: api.Handler(alone.New(s))})
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

// TestAway runs commands on sets with a folder and with a running node: answers and statuses are the same.
func TestAway(t *testing.T) {
	t.Parallel()
	dir, addr := newDir(t), serveSets(t)
	for _, line := range []string{
		"add friends paul ringo george john", "add --base64 keys AAECAw==", "has friends paul ringo", "has friends paul yoko", "has nobody paul",
		"rm friends ringo", "rm friends ringo", "ls friends", "ls friends --prefix p", "ls friends --from h --reverse", "ls friends --limit 3", "ls nobody",
		"ls keys --base64", "count friends", "count friends --prefix j", "names", "names --json", "drop friends", "ls friends", "names", "names --all --json",
		"add friends paul --policy required", "add friends paul --context nonsense", "add friends zoe --policy empty",
	} {
		args := strings.Fields(line)
		here := call(t, "", append([]string{"--dir", dir, "set"}, args...)...)
		away := call(t, "", append([]string{"set", "--addr", addr}, args...)...)
		if here.code != away.code || here.out != away.out {
			t.Errorf("%s: with a folder status %d, %q (%s); of a node status %d, %q (%s)", line, here.code, here.out, here.errs, away.code, away.out, away.errs)
		}
	}
	// A context that a node gave goes back to it.
	token := call(t, "", "set", "context", "friends", "zoe", "--addr", addr).want(t, exitOK)
	call(t, "", "set", "add", "friends", "zoe", "--policy", "empty", "--addr", addr).want(t, exitOK)
	call(t, "", "set", "rm", "friends", "zoe", "--addr", addr, "--context", strings.TrimSpace(token)).want(t, exitOK)
	call(t, "", "set", "has", "friends", "zoe", "--addr", addr).want(t, exitOK)
	// What is sent again with its id is done once.
	for range 2 {
		call(t, "", "set", "add", "once", "x", "--addr", addr, "--request", "r1").want(t, exitOK)
	}
	if out := call(t, "", "set", "names", "--json", "--addr", addr).want(t, exitOK); !strings.Contains(out, `{"set":"once","live":1,"seen":1}`) {
		t.Errorf("two times with one id: %s", out)
	}
	for _, line := range []string{"add s x --w 2 --addr " + addr, "add s x --w 2", "ls s --addr 10.1.2.3:8690", "export s --addr " + addr, "import s --addr " + addr, "ls s --dir x --addr " + addr} {
		if r := call(t, "", append([]string{"set"}, strings.Fields(line)...)...); r.code != exitError || !strings.Contains(r.errs, "hint: ") {
			t.Errorf("%s: status %d, %s", line, r.code, r.errs)
		}
	}
}
