package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/client"
	"bigset/keyscheme"
)

// TestChanges follows a set, with its token, and with one that is of another set.
func TestChanges(t *testing.T) {
	t.Parallel()
	c, ctx := open(t, client.Options{Addrs: []string{nobody, serveStore(t, newStore(t))}}), t.Context()
	var set client.Followed
	var changed []string
	follow := func(q client.Changes) (last client.Changed) {
		t.Helper()
		q.Set, q.Since = []byte("friends"), set.Since()
		for part, err := range c.Changes(ctx, q) {
			if err != nil {
				t.Fatal(err)
			}
			set.Apply(&part, func(e string, present bool) {
				if !present {
					e = "-" + e
				}
				changed = append(changed, e)
			})
			last = part
		}
		return last
	}
	if last := follow(client.Changes{}); last.Reset != client.ResetBegin || !last.Done || len(last.Next) == 0 {
		t.Errorf("%+v", last)
	}
	add := func(elements ...string) {
		t.Helper()
		if _, err := c.Set("friends").Add(ctx, elements...); err != nil {
			t.Fatal(err)
		}
	}
	add("paul", "ringo", "john")
	if last := follow(client.Changes{Limit: 2}); !last.More || set.Len() != 2 {
		t.Errorf("%+v, %d elements", last, set.Len())
	}
	follow(client.Changes{})
	if _, err := c.Set("friends").Remove(ctx, "paul"); err != nil {
		t.Fatal(err)
	}
	add("ringo") // its dot is another one now, and it was in the set all along
	if last := follow(client.Changes{Wait: time.Minute}); len(last.Removed) != 2 || last.Dead != nil || last.Reset != "" {
		t.Errorf("%+v", last)
	}
	if slices.Sort(changed); !slices.Equal(changed, []string{"-paul", "john", "paul", "ringo"}) || set.Contains("paul") || !set.Contains("ringo") {
		t.Errorf("%q", changed)
	}
	for _, tt := range []struct {
		q    client.Changes
		want error
	}{
		{client.Changes{Set: []byte("others"), Since: set.Since()}, keyscheme.ErrTokenSet}, {client.Changes{Set: []byte("friends"), Limit: -1}, bigset.ErrRequest},
		{client.Changes{Set: []byte("friends"), R: 2}, client.ErrQuorum}, {client.Changes{Set: []byte("friends"), Wait: time.Hour}, bigset.ErrRequest},
	} {
		n := 0
		for _, err := range c.Changes(ctx, tt.q) {
			if n++; !errors.Is(err, tt.want) {
				t.Errorf("%+v: %v", tt.q, err)
			}
		}
		if n != 1 {
			t.Errorf("%+v: %d parts", tt.q, n)
		}
	}
}
