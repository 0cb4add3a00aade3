package main

import (
	"fmt"
	"strings"
	"testing"

	"bigset/engine"
)

// TestVerifyKept: verify says what the folder keeps for its node, and fails if that can't be read.
func TestVerifyKept(t *testing.T) {
	dir := newDir(t)
	keep := func(record string) {
		t.Helper()
		s, err := engine.Open(dir, nil)
		if err == nil {
			err = s.Replica().SetMeta(t.Context(), engine.MetaCluster, []byte(record))
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	record := fmt.Sprintf(`{"committed":{"cluster":"%032x","name":"test","generation":2,"epoch":5,"proposer":"a","settings":{"N":1,"R":1,"W":1,"DW":1,"Buckets":16,"Slices":16},`+
		`"members":[{"id":"a","incarnation":"01"}],"born":1,"seal":"%032x","domain":"%016x"}}`, 1, 2, 3)
	keep(record)
	if out := call(t, "", "--dir", dir, "verify").want(t, exitOK); !strings.HasSuffix(out, "; cluster test, generation 2, epoch 5, 0 filters in its list\n") {
		t.Errorf("verify: %s", out)
	}
	if out := call(t, "", "--dir", dir, "verify", "--json").want(t, exitOK); !strings.Contains(out, `"cluster":"test","cluster_generation":2,"cluster_epoch":5,"problems":0}`) {
		t.Errorf("verify --json: %s", out)
	}
	keep(strings.Replace(record, `"epoch":5`, `"epoch":0`, 1))
	if r := call(t, "", "--dir", dir, "verify"); r.code != exitAbsent || !strings.HasPrefix(r.out, "problem: the record of the cluster: ") || !strings.Contains(r.out, "not verified, 1 problem") {
		t.Errorf("verify: %+v", r)
	}
}
