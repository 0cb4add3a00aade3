package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/ring"
	"bigset/keyscheme"
	"bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/tokens"
)

// TestVerifyKept: what a folder keeps for its node is read, and what of it can't be read is named. A folder of no node stays as it is.
func TestVerifyKept(t *testing.T) {
	dir := t.TempDir()
	s, err := engine.Open(dir, &engine.Options{BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	verify := func() Kept {
		t.Helper()
		k, err := VerifyKept(dir, s)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := verify(); k.Record != nil || k.Filters+k.Tokens+len(k.Hints)+len(k.Problems) > 0 {
		t.Errorf("an empty folder: %+v", k)
	}
	if _, err := os.Stat(filepath.Join(dir, "hints")); err == nil {
		t.Error("verify has made a folder")
	}
	set := func(key engine.Meta, value []byte) {
		t.Helper()
		if err := s.Replica().SetMeta(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := cluster.Settings(ring.Settings{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(map[string]*cluster.Record{"committed": {Cluster: make([]byte, 16), Name: "test", Generation: 2, Epoch: 5, Proposer: "a", Settings: settings, Born: 1,
		Members: []cluster.Entry{{ID: "a", Incarnation: []byte{1}}}, Seal: make([]byte, 16), Domain: make([]byte, 8)}})
	if err != nil {
		t.Fatal(err)
	}
	page := `[{"name":"66","generation":3,"change":0,"state":1,"capacity":100000,"probability":0.01,"scale":4,"reduction":0.9,"slices":1,"owners":1,"durability":1}]`
	e, _, err := tokens.New("app", tokens.Read, nil, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	set(engine.MetaCluster, record)
	set(engine.MetaFiltersPage(7), []byte(page))
	set(engine.MetaTokens, tokens.Append(nil, []tokens.Entry{e}))
	folder, err := coord.OSFolder(filepath.Join(dir, "hints"))
	if err != nil {
		t.Fatal(err)
	}
	hints, err := coord.OpenHints(folder, coord.HintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range []string{"b", "c", "b"} {
		d := peer.Delta{Set: []byte("s"), Actor: "A1", First: uint64(i + 1), Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x")}}}
		if err := hints.Add(node, peer.Member{Node: "a", Incarnation: "A1", State: peer.Normal}, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := hints.Close(); err != nil {
		t.Fatal(err)
	}
	if k := verify(); k.Record == nil || k.Record.Name != "test" || k.Record.Epoch != 5 || k.Filters != 1 || k.Tokens != 1 || fmt.Sprint(k.Hints) != "map[b:2 c:1]" || len(k.Problems) > 0 {
		t.Errorf("%+v", k)
	}
	set(engine.MetaCluster, []byte(strings.Replace(string(record), `"epoch":5`, `"epoch":0`, 1)))
	set(engine.MetaFilled, []byte("{"))
	set(engine.MetaFiltersPage(7), []byte(strings.Replace(page, `"state":1`, `"state":9`, 1)))
	set(engine.MetaTokens, []byte("x"))
	if err := os.WriteFile(filepath.Join(dir, "hints", "0000000000000001.hints"), []byte("bshint\x00\x07"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := verify()
	for i, want := range []string{"the record of the cluster: ", "the epoch under which this disk was filled: ", "the list of the cluster's filters: ", "the access tokens: "} {
		if i >= len(k.Problems) || !strings.HasPrefix(k.Problems[i], want) {
			t.Errorf("problem %d is not of %q in %q", i, want, k.Problems)
		}
	}
	if len(k.Problems) != 4 || len(k.Later) != 1 || !strings.HasPrefix(k.Later[0], "hints: 0000000000000001.hints: ") {
		t.Errorf("problems %q, of a later version %q", k.Problems, k.Later)
	}
}
