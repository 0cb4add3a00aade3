package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
)

// recordOfTest is what the folder of a member holds of its cluster, as the one that all have committed, or that this member has agreed to.
func recordOfTest(kind string) string {
	return fmt.Sprintf(`{%q:{"cluster":"%032x","name":"test","generation":2,"epoch":5,"proposer":"a","settings":{"N":2,"R":1,"W":2,"DW":2,"Buckets":16,"Slices":16},`+
		`"members":[{"id":"a","incarnation":"01"},{"id":"b","incarnation":"02"}],"born":1,"seal":"%032x","domain":"%016x"}}`, kind, 1, 2, 3)
}

// TestFolderOfMember: commands that change sets or filters refuse the folder of a member of a cluster, and all others work on it.
func TestFolderOfMember(t *testing.T) {
	dir, files := newDir(t), t.TempDir()
	call(t, "", "--dir", dir, "set", "add", "friends", "paul", "ringo").want(t, exitOK)
	call(t, "", "--dir", dir, "filter", "create", "seen").want(t, exitOK)
	call(t, "", "--dir", dir, "filter", "set", "seen", "paul").want(t, exitOK)
	call(t, "", "--dir", dir, "filter", "export-bloomd", filepath.Join(files, "bloomd")).want(t, exitOK)
	token := strings.TrimSpace(call(t, "", "--dir", dir, "set", "context", "friends").want(t, exitOK))
	keep := func(record string) {
		withEngine(t, dir, func(s *engine.Store) {
			if err := s.Replica().SetMeta(t.Context(), engine.MetaCluster, []byte(record)); err != nil {
				t.Fatal(err)
			}
		})
	}
	keep(recordOfTest("committed"))
	changing := [][]string{
		{"set", "add", "friends", "john"}, {"set", "add", "friends", "john", "--context", token}, {"set", "rm", "friends", "paul"}, {"set", "drop", "friends"}, {"set", "import", "new"},
		{"filter", "create", "other"}, {"filter", "set", "seen", "john"}, {"filter", "drop", "seen"}, {"filter", "import-bloomd", filepath.Join(files, "bloomd")},
		{"serve", "--bloomd", "127.0.0.1:0"},
	}
	const member = "bigset: a folder of a cluster: it belongs to cluster test of the nodes a, b, which would not know what is changed here\nhint: `bigset serve` needs the --peers of that cluster"
	refused := func(member string) {
		t.Helper()
		for _, args := range changing {
			ctx := t.Context()
			if args[0] == "serve" { // a node that starts nevertheless ends at once
				var end context.CancelFunc
				ctx, end = context.WithCancel(ctx)
				end()
			}
			if r := callContext(ctx, "george\n", append([]string{"--dir", dir}, args...)...); r.code != exitError || r.out != "" || !strings.HasPrefix(r.errs, member) {
				t.Errorf("%q: status %d, %q, %q", args, r.code, r.out, r.errs)
			}
		}
	}
	refused(member)
	working := [][]string{
		{"set", "has", "friends", "paul", "ringo"}, {"set", "ls", "friends"}, {"set", "count", "friends"}, {"set", "names"}, {"set", "context", "friends"}, {"set", "stats", "friends"},
		{"set", "watch", "friends"}, {"set", "export", "friends"},
		{"filter", "list"}, {"filter", "check", "seen", "paul"}, {"filter", "info", "seen"}, {"filter", "export-bloomd", filepath.Join(files, "copy")},
		{"token", "add", "app"}, {"token", "ls"}, {"token", "rm", "app"},
		{"stats"}, {"compact"}, {"verify"}, {"checkpoint", filepath.Join(files, "checkpoint")}, {"db", "upgrade"},
	}
	for _, args := range working {
		call(t, "", append([]string{"--dir", dir}, args...)...).want(t, exitOK)
	}
	restored := []string{"cluster", "restore", filepath.Join(files, "checkpoint"), "--dir", filepath.Join(files, "restored")}
	call(t, "", restored...).want(t, exitOK)
	if r := call(t, "", "--dir", filepath.Join(files, "restored"), "set", "add", "friends", "john"); r.code != exitError || !strings.HasPrefix(r.errs, member) {
		t.Errorf("a restored folder: %+v", r)
	}
	keep(recordOfTest("prepared"))
	refused(member)
	keep("{")
	refused("bigset: whether the folder is of a cluster: bad record of members: ")
	keep("")
	call(t, "", "--dir", dir, "set", "add", "friends", "john").want(t, exitOK)

	covered := map[string]bool{}
	for _, args := range slices.Concat(changing, working, [][]string{restored}) {
		covered[args[0]] = true
		covered[strings.Join(args[:min(2, len(args))], " ")] = true
	}
	needAddr := []string{"filter close", "filter clear", "filter flush", "cluster status", "cluster try", "cluster plan", "cluster lookup"}
	pebbles := func(name string) bool { return strings.HasPrefix(name, "db ") }                                 // they change nothing
	own := []string{"bench", "cert", "demo", "simulate", "torture", "version", "restore", "completion", "help"} // they have folders of their own, or none
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "bigset ")
		if slices.Contains(own, name) {
			return
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.HasSubCommands() && !covered[name] && !slices.Contains(needAddr, name) && !pebbles(name) {
			t.Errorf("does `bigset %s` change the folder of a member?", name)
		}
	}
	walk(newApp(os.Stdin, os.Stdout, os.Stderr).root())
}

// TestFilterOfMember: the folder of a member has some of the slices of a filter. A command there answers for keys of these, and refuses a key of another
// slice, which may be present elsewhere.
func TestFilterOfMember(t *testing.T) {
	dir := newDir(t)
	here, elsewhere := map[uint32][]string{}, ""
	spec := bigset.SliceSpec{Name: []byte("seen"), Generation: 1, Options: bigset.FilterOptions{
		Options: bloomslice.Options{Capacity: 40_000, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 4, Owners: 3}, Durability: bigset.FilterSync}}
	for i := 0; len(here[0]) < 2 || len(here[2]) < 2 || elsewhere == ""; i++ {
		key := fmt.Sprint("key", i)
		h := bloomslice.Sum([]byte(key))
		switch slice := h.Slice(4); slice {
		case 0, 2:
			here[slice] = append(here[slice], key)
		case 3:
			elsewhere = key
		}
	}
	withEngine(t, dir, func(s *engine.Store) {
		for _, slice := range []uint32{0, 2} { // the first key of each
			spec.Slice = slice
			if _, err := s.Filters().MarkSlice(t.Context(), spec, 1, []bloomslice.Hash{bloomslice.Sum([]byte(here[slice][0]))}, make([]bool, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Replica().SetMeta(t.Context(), engine.MetaCluster, []byte(recordOfTest("committed"))); err != nil {
			t.Fatal(err)
		}
	})
	ask := func(code int, args ...string) (string, string) {
		t.Helper()
		r := call(t, "", append([]string{"--dir", dir, "filter"}, args...)...)
		return r.want(t, code), r.errs
	}
	if out, _ := ask(exitOK, "info", "seen"); !regexp.MustCompile(`(?m)^slices +4, of which the folder has 2$`).MatchString(out) {
		t.Errorf("info:\n%s", out)
	}
	if out, _ := ask(exitOK, "info", "seen", "--json"); !strings.Contains(out, `"slices":4,"owners":3,"slices_here":[0,2]}`) {
		t.Errorf("info --json: %s", out)
	}
	ask(exitOK, "check", "seen", here[0][0], here[2][0])
	ask(exitAbsent, "check", "seen", here[0][0], here[2][1])
	for _, keys := range [][]string{{elsewhere}, {here[0][0], elsewhere}, {here[0][1], elsewhere}} {
		_, errs := ask(exitError, append([]string{"check", "seen"}, keys...)...)
		want := fmt.Sprintf("bigset: other nodes have the key's part of the filter: key %q is in slice 3 of filter \"seen\", and the folder has 2 of 4 slices\nhint: ask a node of the cluster", elsewhere)
		if !strings.HasPrefix(errs, want) {
			t.Errorf("check %q: %q, want %q", keys, errs, want)
		}
	}
	if _, errs := ask(exitAbsent, "check", "other", elsewhere); !strings.HasPrefix(errs, `bigset: filter not found: "other"`) {
		t.Errorf("a filter that does not exist: %q", errs)
	}
}
