package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s, err := engine.Open("store", &engine.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	name := []byte("friends")
	for i := range 5000 {
		if _, err := s.Add(ctx, name, [][]byte{fmt.Appendf(nil, "e%05d", i)}, engine.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 5000; i += 2 {
		r, err := s.Remove(ctx, name, [][]byte{fmt.Appendf(nil, "e%05d", i)}, engine.WriteOptions{})
		if err != nil || r.Removed != 1 {
			t.Fatal(r, err)
		}
	}
	n, err := s.Count(ctx, name, engine.ReadOptions{})
	if err != nil || n != 2500 {
		t.Fatal(n, err)
	}
	rep, err := s.Compact(ctx, engine.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
	n, err = s.Count(ctx, name, engine.ReadOptions{})
	if err != nil || n != 2500 {
		t.Fatal(n, err)
	}
	if _, err := s.Drop(ctx, name, nil, engine.Sync); err != nil {
		t.Fatal(err)
	}
	n, err = s.Count(ctx, name, engine.ReadOptions{})
	if err != nil || n != 0 {
		t.Fatal(n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
