package client_test

import (
	"context"
	"iter"
	"testing"

	"bigset"
	"bigset/client"
	"bigset/engine"
)

// calls are the methods of a Set. A program that uses them does the same with a store of its own and with nodes; only the types of results,
// of what a look shows, and of contexts differ.
type calls[Result, Presence, Context any] interface {
	Add(ctx context.Context, elements ...string) (Result, error)
	Remove(ctx context.Context, elements ...string) (Result, error)
	RemoveSeen(ctx context.Context, element string, seen Context) (Result, error)
	Contains(ctx context.Context, element string) (bool, error)
	Look(ctx context.Context, element string) (Presence, error)
	Elements(ctx context.Context) iter.Seq2[string, error]
}

var (
	_ calls[bigset.Result, bigset.Presence, bigset.Context] = engine.Set{}
	_ calls[client.Result, client.Presence, client.Token]   = client.Set{}
)

// TestSameCalls: a set that was never written is empty for every call, as in a store.
func TestSameCalls(t *testing.T) {
	t.Parallel()
	none := open(t, client.Options{Addrs: []string{serveStore(t, newStore(t))}}).Set("none")
	for name, err := range none.Elements(t.Context()) {
		t.Errorf("it has %q, %v", name, err)
	}
	if has, err := none.Contains(t.Context(), "paul"); err != nil || has {
		t.Errorf("it contains paul: %v, %v", has, err)
	}
	if found, err := none.Look(t.Context(), "paul"); err != nil || found.Present {
		t.Errorf("a look at paul: %+v, %v", found, err)
	}
	if r, err := none.Remove(t.Context(), "paul"); err != nil || r.Removed != 0 {
		t.Errorf("a remove of paul: %+v, %v", r, err)
	}
}
