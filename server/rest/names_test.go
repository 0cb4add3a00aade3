package rest

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/tokens"
)

// TestHiddenFilters: a token's list of filters has the names that it may see and reveals no other, also not by where its next page begins.
func TestHiddenFilters(t *testing.T) {
	l := closedList(t)
	s := start(t, Options{Tokens: &tokens.Guard{List: l}})
	for _, name := range []string{"a", "u1", "u2", "zsecret"} {
		s.want("PUT", "/filters/"+name, "", 201)
	}
	reader, _ := token(t, l, tokens.Read, "u")
	writer, _ := token(t, l, tokens.Write, "")
	all := func(secret, prefix string) (names string) {
		t.Helper()
		for after := ""; ; {
			status, page, _ := s.ask(call{method: "GET", path: "/filters?limit=1&prefix=" + prefix + "&after=" + after, header: map[string]string{"Authorization": "Bearer " + secret}})
			for _, f := range field[[]struct{ Name string }](t, page, "filters") {
				names += f.Name + " "
			}
			after = field[string](t, page, "after")
			if b, err := base64.RawURLEncoding.DecodeString(after); status != 200 || err != nil || len(b) > 0 && b[0] != 'u' {
				t.Errorf("prefix %q: %d %s has %q", prefix, status, page, b)
			}
			if after == "" {
				return names
			}
		}
	}
	for prefix, want := range map[string]string{"": "u1 u2 ", "u": "u1 u2 ", "u1": "u1 ", "z": "", "a": ""} {
		if got := all(reader, prefix); got != want {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
	if got := all(writer, ""); got != "" {
		t.Errorf("a token that reads nothing sees %q", got)
	}
}

// many is a backend of many sets; each costs some time.
type many struct {
	broken
	n    int
	cost time.Duration
}

func (m *many) Names(ctx context.Context, _ bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		i := 0
		if after != nil {
			if _, err := fmt.Sscanf(string(after), "secret%d", &i); err != nil {
				yield(bigset.SetInfo{}, err)
				return
			}
			i++
		}
		for ; i < m.n; i++ {
			if m.cost > 0 {
				time.Sleep(m.cost)
			}
			if err := ctx.Err(); err != nil {
				yield(bigset.SetInfo{}, err)
				return
			}
			if !yield(bigset.SetInfo{Name: fmt.Appendf(nil, "secret%d", i), Live: 1, Seen: 1}, nil) {
				return
			}
		}
	}
}

// TestHiddenSets: a list of sets goes on after names that the token may not see, and does not show them by where it goes on.
func TestHiddenSets(t *testing.T) {
	l := closedList(t)
	s := serve(t, &many{n: namesLooked + 1}, bloomdtest.NewMemory(), Options{Tokens: &tokens.Guard{List: l}})
	narrow, _ := token(t, l, tokens.Read, "u/")
	get := func(path string) (int, string) {
		t.Helper()
		status, page, _ := s.ask(call{method: "GET", path: path, header: map[string]string{"Authorization": "Bearer " + narrow}})
		return status, page
	}
	status, page := get("/sets")
	after := field[string](t, page, "after")
	b, err := base64.RawURLEncoding.DecodeString(after)
	if status != 200 || err != nil || len(b) == 0 || strings.Contains(string(b), "secret") {
		t.Fatalf("%d %s: %q, %v", status, page, b, err)
	}
	if status, page := get("/sets?after=" + after); status != 200 || page != "{\"sets\":[]}\n" {
		t.Errorf("%d %s", status, page)
	}
	b[len(b)-1] ^= 1
	for _, bad := range [][]byte{b, {cursorSealed}, {2, 'x'}} {
		if status, page := get("/sets?after=" + base64.RawURLEncoding.EncodeToString(bad)); status != 400 || !strings.Contains(page, "first page") {
			t.Errorf("%q: %d %s", bad, status, page)
		}
	}
}

// TestSlowNames: a list whose names cost more time than there is ends its page in time, and goes on with the next one.
func TestSlowNames(t *testing.T) {
	l := closedList(t)
	s := serve(t, &many{n: 1 << 30, cost: time.Millisecond}, bloomdtest.NewMemory(), Options{Tokens: &tokens.Guard{List: l}})
	narrow, _ := token(t, l, tokens.Read, "u/")
	for tries := 1; ; tries++ { // a machine that stops for a moment may use up the time that is left
		status, page, _ := s.ask(call{method: "GET", path: "/sets?timeout=1500", header: map[string]string{"Authorization": "Bearer " + narrow}})
		if status == 200 && field[string](t, page, "after") != "" {
			break
		} else if status != 503 || tries == 5 {
			t.Fatalf("%d %s", status, page)
		}
	}
}

// listing is a backend that says when it has listed a name.
type listing struct {
	many
	told func()
}

// listingFilters are filters that say so.
type listingFilters struct {
	door.Filters
	l *listing
}

func (l *listing) Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for name, err := range l.many.Names(ctx, all, after) {
			if !yield(name, err) {
				return
			}
			l.told()
		}
	}
}

func (f listingFilters) List(context.Context, door.FilterListing) ([]door.FilterInfo, error) {
	defer f.l.told()
	return []door.FilterInfo{{Name: "secret"}}, nil
}

// TestListsAfterRemoval: a list of what a token may see is an error if the token is removed before it ends: it must not look complete.
func TestListsAfterRemoval(t *testing.T) {
	list := closedList(t)
	l := &listing{many: many{n: 5}, told: func() {}}
	s := serve(t, l, listingFilters{l: l}, Options{Tokens: &tokens.Guard{List: list}})
	for _, path := range []string{"/sets", "/filters"} {
		secret, id := token(t, list, tokens.Read, "s")
		for _, want := range []int{200, 401} {
			status, answer, _ := s.ask(call{method: "GET", path: path, header: map[string]string{"Authorization": "Bearer " + secret}})
			if status != want || (status == 200) != strings.Contains(answer, "secret") {
				t.Errorf("%s: %d %s, want %d", path, status, answer, want)
			}
			l.told = func() {
				if err := list.Remove(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		}
		l.told = func() {}
	}
}
