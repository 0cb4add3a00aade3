package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bigset/internal/netfault"
	"bigset/server/cluster"
	"bigset/server/wire"
)

// TestClusterTable: the table names what an operator has to know of each member, and below it is why one does not answer, what it waits for, and how far it is filled.
func TestClusterTable(t *testing.T) {
	now := time.Unix(10_000, 0)
	s := cluster.Status{Cluster: "test", Node: "a", Epoch: 3, Generation: 1, Settings: cluster.StatusSettings{N: 3, R: 2, W: 2, DW: 2, Buckets: 256}, Members: []cluster.MemberStatus{
		{ID: "a", Address: "h1:1", Up: true, Epoch: 3, Sets: true, Filters: true},
		{ID: "b", Address: "h2:1", Why: "wire: request not sent: wire: dial: refused", Hints: 12, HintSeconds: 3700, Calls: 40, Failed: 5, Milliseconds: 0.25},
		{ID: "c", Address: "h3:1", Up: true, Epoch: 3, Waits: "its copy of what it may lack", Compared: now.Add(-90 * time.Second), Copied: &cluster.Copied{Bytes: 312_400_000, Portion: 0.344}},
		{ID: "d", Address: "h4:1", Up: true, Epoch: 3, Sets: true, Filters: true, StoreFailed: true, Waits: "a restart: its store takes no writes any more: no room"},
	}}
	want := `cluster test, generation 1, epoch 3: N 3, R 2, W 2, DW 2, 256 buckets; asked of a
NODE  ADDRESS  STATE            EPOCH  HINTS FOR IT  OLDEST   COMPARED  CALLS  FAILED  MS    
a     h1:1     whole            3      0             -        -         0      0       0.00  
b     h2:1     does not answer  0      12            1h1m40s  -         40     5       0.25  
c     h3:1     joining, 34 %    3      0             -        1m30s     0      0       0.00  
d     h4:1     takes no writes  3      0             -        -         0      0       0.00  
b: request not sent: dial: refused
c waits for its copy of what it may lack
c is being filled: 312.4 MB were copied, 34 % of its ranges
d waits for a restart: its store takes no writes any more: no room
`
	var out bytes.Buffer
	a := &app{out: bufio.NewWriter(&out)}
	if err := a.clusterTable(&s, now); err != nil {
		t.Fatal(err)
	}
	a.out.Flush()
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestLookupOfNode: a lookup that asks a node uses the members and settings of its cluster, whatever the order of the members.
func TestLookupOfNode(t *testing.T) {
	t.Parallel()
	s := cluster.Status{Node: "d", Settings: cluster.StatusSettings{N: 2, R: 1, W: 2, DW: 2, Buckets: 16, Slices: 1}}
	for _, id := range []string{"d", "c", "b", "a"} {
		s.Members = append(s.Members, cluster.MemberStatus{ID: id})
	}
	status, err := json.Marshal(s)
	if err != nil || !bytes.Contains(status, []byte(`"settings":{"n":2,"r":1,"w":2,"dw":2,"buckets":16,"slices":1}`)) {
		t.Fatalf("%s, %v", status, err)
	}
	addr := serveStatus(t, func() []byte { return status })
	for _, name := range []string{"friends", "enemies", "x"} {
		want := call(t, "", "cluster", "lookup", name, "--nodes", "a,b,c,d", "--n", "2", "--buckets", "16")
		if got := call(t, "", "cluster", "lookup", name, "--addr", addr); got != want || got.code != 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// serveStatus serves a node that answers questions for the status of its cluster by what status returns.
func serveStatus(t *testing.T, status func() []byte) string {
	return serveSetsBy(t, func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if r.Verb == cluster.VerbStatus {
				return status(), nil
			}
			return h(ctx, r, send)
		}
	})
}

// TestStatusOfMembers: the exit status says whether all members answer, have everything and take writes.
func TestStatusOfMembers(t *testing.T) {
	t.Parallel()
	var status []byte
	addr := serveStatus(t, func() []byte { return status })
	for state, change := range map[string]func(*cluster.MemberStatus){
		"whole":                func(*cluster.MemberStatus) {},
		"does not answer":      func(m *cluster.MemberStatus) { *m = cluster.MemberStatus{ID: m.ID} },
		"no state":             func(m *cluster.MemberStatus) { *m = cluster.MemberStatus{ID: m.ID, Up: true, Why: "it is late"} },
		"not born":             func(m *cluster.MemberStatus) { *m = cluster.MemberStatus{ID: m.ID, Up: true} },
		"joining":              func(m *cluster.MemberStatus) { m.Sets, m.Filters = false, false },
		"joining, for filters": func(m *cluster.MemberStatus) { m.Filters = false },
		"takes no writes":      func(m *cluster.MemberStatus) { m.StoreFailed = true },
	} {
		s := cluster.Status{Node: "a"}
		for _, id := range []string{"a", "b", "c"} {
			s.Members = append(s.Members, cluster.MemberStatus{ID: id, Up: true, Epoch: 1, Sets: true, Filters: true})
		}
		change(&s.Members[1])
		var err error
		if status, err = json.Marshal(s); err != nil {
			t.Fatal(err)
		}
		want := exitAbsent
		if state == "whole" {
			want = exitOK
		}
		text := call(t, "", "cluster", "status", "--addr", addr).want(t, want)
		fields := regexp.MustCompile(`(?m)^b +(.*?) +\d `).FindStringSubmatch(text)
		if len(fields) != 2 || fields[1] != state {
			t.Errorf("b is %q, want %q in\n%s", fields, state, text)
		}
		if got := call(t, "", "cluster", "status", "--addr", addr, "--json").want(t, want); got != string(status)+"\n" {
			t.Errorf("%s: got %s, want %s", state, got, status)
		}
	}
}

// TestStatusRefused: a status and a lookup say of a wrong address, of a node alone and of another protocol what is wrong.
func TestStatusRefused(t *testing.T) {
	t.Parallel()
	alone := serveSets(t)
	other, err := netfault.FreeAddress() // of a port that no other test listens at in the meantime
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		alone:          "bigset: " + alone + ": this node is alone, not in a cluster\nhint: it was started with --listen, or with neither; a node of a cluster has --peers\n",
		"localhost":    "bigset: bad options: address \"localhost\" is not HOST:PORT\nhint: ",
		"10.0.0.1:869": "bigset: bad options: 10.0.0.1:869 is not on this machine, and without TLS ",
		"a:1,b:2":      "bigset: bad options: address \"a:1,b:2\" is not HOST:PORT\nhint: ",
		"":             "bigset: bad options: address \"\" is not HOST:PORT\nhint: ",
		other:          "bigset: " + other + ": dial tcp " + other + ": connect: connection refused\nhint: nothing has happened; check --addr ",
	} {
		for _, args := range [][]string{{"status"}, {"lookup", "friends"}} {
			got := call(t, "", append(append([]string{"cluster"}, args...), "--addr", addr)...)
			if got.code != 2 || !strings.HasPrefix(got.errs, want) {
				t.Errorf("%q of %q: %+v, want %q", args, addr, got, want)
			}
		}
	}
}

// TestEndOf: of a node that has ended by itself, the log says why; of one that was killed it does not.
func TestEndOf(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "a.log")
	if err := os.WriteFile(log, []byte("bigset: bad configuration: --n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"exit 2":     "(exit status 2), see " + log + ": bad configuration: --n",
		"kill -9 $$": "(signal: killed), see " + log,
		"exit 0":     "(it was stopped), see " + log,
	} {
		err := endOf("a", log, exec.Command("sh", "-c", command).Run())
		if got := err.Error(); got != "a node has ended: node a "+want || !errors.Is(err, errNodeEnded) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestLastLine: of the log of a node that has ended, the error is shown.
func TestLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	for text, want := range map[string]string{"": "", "one\ntwo\n": ": two", "x\nbigset: bad configuration: --n\nhint: read\n\n": ": bad configuration: --n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLine(path); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := lastLine(path + ".none"); got != "" {
		t.Errorf("no file: %q", got)
	}
}

// TestPlain: an error is shown without names of packages, and each part of several once.
func TestPlain(t *testing.T) {
	away := errors.New("peer: b: coord: no answer")
	if got := plain(errors.Join(away, errors.New("cluster: coord: wrong cluster: c is down"), away)); got != "b: no answer; wrong cluster: c is down" {
		t.Errorf("%q", got)
	}
}

// TestAsksAgain: a command says why a call takes longer than a second, once, and again of a later call. It erases its progress first.
func TestAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		a := &app{errs: &errs, progress: &progress{to: &errs, shown: true}}
		again := a.asksAgain()
		first := time.Now()
		again(first, errors.New("early"))
		time.Sleep(time.Second)
		second := time.Now()
		again(second, errors.New("early"))
		again(first, errors.New("door: c is down"))
		time.Sleep(time.Hour)
		again(first, errors.New("said"))
		again(second, errors.New("said"))
		third := time.Now()
		time.Sleep(time.Second)
		again(third, errors.New("d is down"))
		if got := errs.String(); got != "\r\x1b[Kasking again for some seconds: c is down\nasking again for some seconds: d is down\n" {
			t.Errorf("%q", got)
		}
	})
}
