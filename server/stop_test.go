package server

import (
	"context"
	"sync"
	"testing"

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
