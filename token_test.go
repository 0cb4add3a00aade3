package bigset_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

var tokenRing = keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{2}}

// TestTokensApart: narrow tokens stand in the same memory, and none changes when others are made or appended to.
func TestTokensApart(t *testing.T) {
	set := []byte("set")
	tokens := bigset.NewTokens(tokenRing, set)
	long := clock.Actor(strings.Repeat("l", clock.ActorBytesMax))
	dotsOf := func(i int) (dots []clock.Dot) {
		for j := range i % 4 {
			dots = append(dots, clock.Dot{Actor: []clock.Actor{"a", "b", long}[(i+j)%3], Counter: uint64(i + 1)})
		}
		return dots
	}
	elementOf := func(i int) []byte { return []byte(strings.Repeat(fmt.Sprint(i), 1+i%50)) }
	var made []bigset.Token
	for i := range 3000 {
		token, err := tokens.Narrow(elementOf(i), dotsOf(i))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, token)
	}
	for _, token := range made {
		_ = append(token, "what another one might hold"...)
	}
	for i, token := range made {
		want, err := tokenRing.Seal(nil, keyscheme.TokenContent{Form: keyscheme.Narrow, Set: set, Element: elementOf(i), Dots: clock.Of(dotsOf(i)...)})
		if err != nil || !bytes.Equal(token, want) {
			t.Fatalf("token %d is %x, %v, want %x", i, token, err, want)
		}
	}
	element, dots := elementOf(1), dotsOf(1)
	if allocs := testing.AllocsPerRun(10_000, func() { _, _ = tokens.Narrow(element, dots) }); allocs >= 1 {
		t.Errorf("%v allocations for a token", allocs)
	}
}

// TestTokensSmall: a narrow token keeps its own bytes, and not the names that it is sealed with.
func TestTokensSmall(t *testing.T) {
	const n = 1000
	set, element := bytes.Repeat([]byte("s"), bigset.SetNameBytesMax), bytes.Repeat([]byte("e"), bigset.ElementBytesMax)
	tokens := bigset.NewTokens(tokenRing, set)
	made := make([]bigset.Token, n)
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, size := inUse(), 0
	for i := range made {
		var err error
		if made[i], err = tokens.Narrow(element[:len(element)-i%2], []clock.Dot{dot("A", uint64(i+1))}); err != nil {
			t.Fatal(err)
		}
		size += len(made[i])
	}
	if after := inUse(); after > before+4<<20 {
		t.Errorf("%d tokens of %d bytes keep %d bytes", n, size, after-before)
	}
	runtime.KeepAlive(made)
}

// must returns a token that was made without an error.
func must(t *testing.T) func(bigset.Token, error) bigset.Token {
	return func(token bigset.Token, err error) bigset.Token {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

// TestTokensOpen: what was sealed is what is opened, as text too, and no token is none.
func TestTokensOpen(t *testing.T) {
	tokens, made := bigset.NewTokens(tokenRing, []byte("s")), must(t)
	dots, seen := []clock.Dot{dot("A", 3), dot("B", 1)}, clock.Of(dot("A", 7))
	narrow, err := bigset.ParseToken(made(tokens.Narrow([]byte("x"), dots)).Text())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := tokens.Context(narrow, []byte("x")); err != nil || !reflect.DeepEqual(c, bigset.Saw(dots...)) {
		t.Errorf("narrow: %v, %v", c, err)
	}
	absent := made(tokens.Narrow([]byte("y"), nil))
	if c, err := tokens.Context(absent, []byte("y")); err != nil || !c.Given || c.Present() {
		t.Errorf("absent: %v, %v", c, err)
	}
	if c, err := tokens.Seen(made(tokens.Wide(seen))); err != nil || !c.Equal(seen) {
		t.Errorf("wide: %v, %v", c, err)
	}
	for _, reverse := range []bool{false, true} {
		cursor := made(tokens.Cursor([]byte("m"), reverse))
		if after, err := tokens.After(cursor, reverse); err != nil || string(after) != "m" {
			t.Errorf("cursor: %q, %v", after, err)
		}
		if after, err := tokens.After(cursor, !reverse); !errors.Is(err, bigset.ErrCursor) || after != nil {
			t.Errorf("cursor of the other direction: %q, %v", after, err)
		}
	}
	after, err := tokens.After(made(tokens.Cursor(nil, false)), false)
	if err != nil || after == nil {
		t.Errorf("cursor after the empty element: %v, %v", after, err) // nil is from the beginning
	}
	c, err := tokens.Context(nil, []byte("x"))
	s, err2 := tokens.Seen(nil)
	after, err3 := tokens.After(nil, false)
	if err := errors.Join(err, err2, err3); err != nil || c.Given || s != nil || after != nil {
		t.Errorf("no token: %v, %v, %v, %v", c, s, after, err)
	}
}

// TestTokensRefuse gives each method tokens that are not for it, and a changed one.
func TestTokensRefuse(t *testing.T) {
	tokens, made := bigset.NewTokens(tokenRing, []byte("s")), must(t)
	narrow, wide := made(tokens.Narrow([]byte("x"), nil)), made(tokens.Wide(clock.Of(dot("A", 1))))
	cursor := made(tokens.Cursor([]byte("m"), false))
	others := bigset.NewTokens(tokenRing, []byte("t"))
	stores := bigset.NewTokens(keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{3}}, []byte("s"))
	keys := bigset.NewTokens(keyscheme.Keyring{Current: keyscheme.SealKey{9}, Domain: [8]byte{2}}, []byte("s"))
	context := func(on *bigset.Tokens, token bigset.Token, element string) error {
		c, err := on.Context(token, []byte(element))
		if c.Given {
			t.Errorf("the error %v comes with a context", err)
		}
		return err
	}
	of := func(_ any, err error) error { return err }
	for i, c := range []struct{ got, want error }{
		{context(tokens, narrow, "y"), keyscheme.ErrTokenElement},
		{context(tokens, wide, "x"), keyscheme.ErrTokenForm},
		{context(tokens, cursor, "m"), keyscheme.ErrTokenForm},
		{context(others, narrow, "x"), keyscheme.ErrTokenSet},
		{context(stores, narrow, "x"), keyscheme.ErrTokenDomain},
		{context(keys, narrow, "x"), keyscheme.ErrTokenSeal},
		{of(tokens.Seen(narrow)), keyscheme.ErrTokenForm},
		{of(keys.Seen(wide)), keyscheme.ErrTokenSeal},
		{of(tokens.After(wide, false)), keyscheme.ErrTokenForm},
		{of(others.After(cursor, false)), keyscheme.ErrTokenSet},
		{of(tokens.Narrow(make([]byte, bigset.ElementBytesMax+1), nil)), keyscheme.ErrNameTooLong},
		{of(bigset.NewTokens(keyscheme.Keyring{}, []byte("s")).Wide(nil)), keyscheme.ErrTokenKey},
		{of(bigset.ParseToken("")), keyscheme.ErrTokenMalformed},
		{of(bigset.ParseToken("nonsense")), keyscheme.ErrTokenVersion},
		{of(bigset.ParseToken(narrow.Text() + "\n")), keyscheme.ErrTokenMalformed},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("case %d: %v, want %v", i, c.got, c.want)
		}
	}
}

// TestTokensContexts gives tokens for elements: none, one for all, one for each, and what is none of these.
func TestTokensContexts(t *testing.T) {
	tokens, made := bigset.NewTokens(tokenRing, []byte("s")), must(t)
	seen := clock.Of(dot("A", 7))
	x, y := made(tokens.Narrow([]byte("x"), []clock.Dot{dot("A", 1)})), made(tokens.Narrow([]byte("y"), nil))
	wide := made(tokens.Wide(seen))
	both := [][]byte{[]byte("x"), []byte("y")}
	sawX := bigset.Saw(dot("A", 1))
	for i, c := range []struct {
		given    []bigset.Token
		elements [][]byte
		want     []bigset.Context
		err      error
	}{
		{nil, both, make([]bigset.Context, 2), nil},
		{[]bigset.Token{x}, both[:1], []bigset.Context{sawX}, nil},
		{[]bigset.Token{x, y}, both, []bigset.Context{sawX, bigset.Saw()}, nil},
		{[]bigset.Token{wide}, both, []bigset.Context{bigset.SawAll(seen), bigset.SawAll(seen)}, nil},
		{[]bigset.Token{x}, both, nil, keyscheme.ErrTokenElement},
		{[]bigset.Token{y, x}, both, nil, keyscheme.ErrTokenElement},
		{[]bigset.Token{wide, y}, both, nil, keyscheme.ErrTokenForm},
		{[]bigset.Token{x, y}, both[:1], nil, bigset.ErrRequest},
		{[]bigset.Token{nil}, both[:1], nil, keyscheme.ErrTokenMalformed},
		{[]bigset.Token{wide}, nil, nil, bigset.ErrRequest},
	} {
		got, err := tokens.Contexts(c.given, c.elements)
		if !errors.Is(err, c.err) || len(got) != len(c.want) {
			t.Errorf("case %d: %v, %v, want %v", i, got, err, c.err)
			continue
		}
		for j := range got {
			if !reflect.DeepEqual(got[j].Dots, c.want[j].Dots) || got[j].Given != c.want[j].Given || !got[j].Wide.Equal(c.want[j].Wide) {
				t.Errorf("case %d: element %d has the context %v, want %v", i, j, got[j], c.want[j])
			}
		}
	}
}
