package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
)

// TestStopFlushesFirst stops a node while a reader is in its store, as a backup would be: filters are on disk before that is waited for.
func TestStopFlushesFirst(t *testing.T) {
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store = "data", &engine.Options{FS: disk}
	n := startNode(t, c)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	f, err := n.store.Load().Filters().Get([]byte("f"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := f.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeReader := sync.OnceValue(reader.Close)
	defer closeReader()
	talk(t, n, "set f b", "Yes")
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(context.Background()) }()
	eventually(t, "b is on disk", func() bool {
		s, err := engine.Open("data", &engine.Options{FS: disk.CrashClone(0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f, err := s.Filters().Get([]byte("f"))
		if err != nil {
			t.Fatal(err)
		}
		there, err := f.Check([]byte("b"))
		return err == nil && there
	})
	select {
	case err := <-stopped:
		t.Errorf("stopped beside a reader: %v", err)
	default:
	}
	if err := closeReader(); err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestStopEndsFollowing: a follower that waits for changes does not hold up a node that stops: its answer ends, with a token.
func TestStopEndsFollowing(t *testing.T) {
	c := testConfig(t)
	c.HTTP = "127.0.0.1:0"
	n := startNode(t, c)
	wantHTTP(t, n, "POST", plainPath+"s", `{"add":"a"}`, 204, "")
	lines := strings.Split(strings.TrimSpace(wantHTTP(t, n, "GET", plainPath+"s/changes", "", 200, "next")), "\n")
	var last struct{ Next string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	received := func() uint64 { return n.doors[1].protocol.Counts().BytesRead }
	before := received()
	answered := make(chan string, 1)
	go func() {
		_, answer, err := askHTTP(n, "GET", plainPath+"s/changes?wait=60000&since="+last.Next, "")
		answered <- fmt.Sprint(answer, err)
	}()
	eventually(t, "the request has arrived", func() bool { return received() > before })
	time.Sleep(100 * time.Millisecond) // it waits
	select {
	case answer := <-answered:
		t.Fatalf("the follower does not wait: %s", answer)
	default:
	}
	begin := time.Now()
	stopNode(t, n)
	if took := time.Since(begin); took > 40*time.Second {
		t.Errorf("stopped after %v", took)
	}
	if answer := <-answered; !strings.Contains(answer, `"next"`) {
		t.Errorf("the follower got %q", answer)
	}
}
