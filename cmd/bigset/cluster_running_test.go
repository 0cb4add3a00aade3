package main

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"bigset/internal/ring"
	"bigset/server/cluster"
)

// TestClusterTable: the table names what an operator has to know of each member, and below it is why one does not answer, what it waits for, and how far it is filled.
func TestClusterTable(t *testing.T) {
	now := time.Unix(10_000, 0)
	s := cluster.Status{Cluster: "test", Node: "a", Epoch: 3, Generation: 1, Settings: ring.Settings{N: 3, R: 2, W: 2, DW: 2, Buckets: 256}, Members: []cluster.MemberStatus{
		{ID: "a", Address: "h1:1", Up: true, Epoch: 3, Sets: true, Filters: true},
		{ID: "b", Address: "h2:1", Why: "dial: refused", Hints: 12, HintSeconds: 3700, Calls: 40, Failed: 5, Milliseconds: 0.25},
		{ID: "c", Address: "h3:1", Up: true, Epoch: 3, Waits: "its copy of what it may lack", Compared: now.Add(-90 * time.Second), Copied: &cluster.Copied{Bytes: 312_400_000, Portion: 0.344}},
	}}
	want := `cluster test, generation 1, epoch 3: N 3, R 2, W 2, DW 2, 256 buckets; asked of a
NODE  ADDRESS  STATE            EPOCH  HINTS FOR IT  OLDEST   COMPARED  CALLS  FAILED  MS    
a     h1:1     whole            3      0             -        -         0      0       0.00  
b     h2:1     does not answer  0      12            1h1m40s  -         40     5       0.25  
c     h3:1     joining, 34 %    3      0             -        1m30s     0      0       0.00  
b: dial: refused
c waits for its copy of what it may lack
c is being filled: 312.4 MB were copied, 34 % of its ranges
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
