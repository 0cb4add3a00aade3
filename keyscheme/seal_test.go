package keyscheme_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

var (
	key1 = keyscheme.SealKey{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	key2 = keyscheme.SealKey{17, 18}
	key3 = keyscheme.SealKey{19, 20}
	ring = keyscheme.Keyring{Current: key1, Domain: [8]byte{'d', 'o', 'm', 'a', 'i', 'n', '-', '1'}}
)

const anyForm = keyscheme.Narrow | keyscheme.Wide | keyscheme.Cursor

var contexts = rapid.Custom(func(t *rapid.T) keyscheme.TokenContent {
	ctx := keyscheme.TokenContent{
		Form: rapid.SampledFrom([]keyscheme.Form{keyscheme.Narrow, keyscheme.Wide, keyscheme.Cursor}).Draw(t, "form"),
		Set:  names(0, 5).Draw(t, "set"),
	}
	if ctx.Form != keyscheme.Wide {
		ctx.Element = names(0, 5).Draw(t, "element")
	}
	if ctx.Form != keyscheme.Cursor {
		ctx.Dots = clocks.Draw(t, "dots")
	} else {
		ctx.Reverse = rapid.Bool().Draw(t, "reverse")
	}
	return ctx
})

func sameContext(a, b keyscheme.TokenContent) bool {
	return a.Form == b.Form && bytes.Equal(a.Set, b.Set) && bytes.Equal(a.Element, b.Element) && a.Reverse == b.Reverse && a.Dots.Equal(b.Dots)
}

func TestTokensRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := contexts.Draw(t, "context")
		token, err := ring.Seal([]byte("dst"), ctx)
		if err != nil || !bytes.HasPrefix(token, []byte("dst")) {
			t.Fatalf("%x, %v", token, err)
		}
		token, err = keyscheme.DecodeText(keyscheme.EncodeText(token[3:]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ring.Unseal(token, ctx.Form, ctx.Set, ctx.Element)
		if err != nil || !sameContext(got, ctx) {
			t.Fatalf("got %v, %v, want %v", got, err, ctx)
		}
	})
}

// TestSealDots: the short way of sealing dots gives the token of the long way, and leaves the dots as they are.
func TestSealDots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, element := names(0, 5).Draw(t, "set"), names(0, 5).Draw(t, "element")
		var dots []clock.Dot
		for range rapid.IntRange(0, 4).Draw(t, "dots") {
			dots = append(dots, clock.Dot{Actor: rapid.SampledFrom([]clock.Actor{"a", "bb"}).Draw(t, "actor"), Counter: rapid.Uint64Range(1, 9).Draw(t, "counter")})
		}
		want, err := ring.Seal([]byte("dst"), keyscheme.TokenContent{Form: keyscheme.Narrow, Set: set, Element: element, Dots: clock.Of(dots...)})
		if err != nil {
			t.Fatal(err)
		}
		same := slices.Clone(dots)
		if got, err := ring.SealDots([]byte("dst"), set, element, dots); err != nil || !bytes.Equal(got, want) || !slices.Equal(dots, same) {
			t.Fatalf("got %x, %v, want %x; dots %v", got, err, want, dots)
		}
	})
	if _, err := ring.SealDots(nil, nil, make([]byte, keyscheme.ElementBytesMax+1), nil); err == nil {
		t.Error("an element that is too long")
	}
}

// TestDamagedTokens: no token is accepted after a change of the token, of what it is used for, or of the ring.
func TestDamagedTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := contexts.Draw(t, "context")
		token, err := ring.Seal(nil, ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			token[rapid.IntRange(0, len(token)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			token = token[:rapid.IntRange(0, len(token)-1).Draw(t, "len")]
		case 2:
			token = append(token, names(1, 9).Draw(t, "tail")...)
		}
		if got, err := ring.Unseal(token, anyForm, ctx.Set, ctx.Element); !errors.Is(err, keyscheme.ErrToken) || got.Form != 0 {
			t.Fatalf("a damaged token gives %v, %v", got, err)
		}
	})
}

func TestTokenErrors(t *testing.T) {
	set, element := []byte("set"), []byte("element")
	narrow := seal(t, ring, keyscheme.TokenContent{Form: keyscheme.Narrow, Set: set, Element: element})
	wide := seal(t, ring, keyscheme.TokenContent{Form: keyscheme.Wide, Set: set})
	cursor := seal(t, ring, keyscheme.TokenContent{Form: keyscheme.Cursor, Set: set, Element: element})
	edit := func(at int, b byte) []byte {
		token := bytes.Clone(narrow)
		token[at] = b
		return token
	}
	elsewhere := ring
	elsewhere.Domain[0]++
	for _, c := range []struct {
		name         string
		ring         keyscheme.Keyring
		token        []byte
		forms        keyscheme.Form
		set, element []byte
		want         error
	}{
		{"narrow", ring, narrow, keyscheme.Narrow | keyscheme.Wide, set, element, nil},
		{"wide", ring, wide, keyscheme.Narrow | keyscheme.Wide, set, element, nil},
		{"cursor", ring, cursor, keyscheme.Cursor, set, nil, nil},
		{"nothing", ring, nil, keyscheme.Narrow, set, element, keyscheme.ErrTokenMalformed},
		{"short", ring, narrow[:41], keyscheme.Narrow, set, element, keyscheme.ErrTokenMalformed},
		{"long", ring, make([]byte, keyscheme.TokenBytesMax+1), keyscheme.Narrow, set, element, keyscheme.ErrTokenMalformed},
		{"long for a narrow one", ring, append(slices.Clone(narrow), make([]byte, keyscheme.NarrowTokenBytesMax-len(narrow)+1)...), keyscheme.Narrow, set, element,
			keyscheme.ErrTokenMalformed},
		{"long wide", ring, append(slices.Clone(wide), make([]byte, keyscheme.TokenBytesMax-len(wide)+1)...), keyscheme.Wide, set, nil, keyscheme.ErrTokenMalformed},
		{"version", ring, edit(0, 2), keyscheme.Narrow, set, element, keyscheme.ErrTokenVersion},
		{"no form", ring, edit(1, 0), anyForm, set, element, keyscheme.ErrTokenMalformed},
		{"two forms", ring, edit(1, 3), anyForm, set, element, keyscheme.ErrTokenMalformed},
		{"narrow for wide", ring, narrow, keyscheme.Wide, set, element, keyscheme.ErrTokenForm},
		{"wide for narrow", ring, wide, keyscheme.Narrow, set, element, keyscheme.ErrTokenForm},
		{"cursor for context", ring, cursor, keyscheme.Narrow | keyscheme.Wide, set, element, keyscheme.ErrTokenForm},
		{"another store", elsewhere, narrow, keyscheme.Narrow, set, element, keyscheme.ErrTokenDomain},
		{"another set", ring, narrow, keyscheme.Narrow, []byte("sea"), element, keyscheme.ErrTokenSet},
		{"another element", ring, narrow, keyscheme.Narrow, set, []byte("elements"), keyscheme.ErrTokenElement},
		{"damaged payload", ring, edit(26, 0), keyscheme.Narrow, set, element, keyscheme.ErrTokenSeal},
		{"damaged tag", ring, edit(len(narrow)-1, narrow[len(narrow)-1]^1), keyscheme.Narrow, set, element, keyscheme.ErrTokenSeal},
		{"another key", with(key2, key3), narrow, keyscheme.Narrow, set, element, keyscheme.ErrTokenSeal},
		{"previous key", with(key2, key1), narrow, keyscheme.Narrow, set, element, nil},
	} {
		ctx, err := c.ring.Unseal(c.token, c.forms, c.set, c.element)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if err != nil && (!errors.Is(err, keyscheme.ErrToken) || ctx.Form != 0) {
			t.Errorf("%s: %v is not ErrToken, or came with %v", c.name, err, ctx)
		}
	}
}

func seal(t *testing.T, r keyscheme.Keyring, ctx keyscheme.TokenContent) []byte {
	t.Helper()
	token, err := r.Seal(nil, ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// with returns the ring with other keys.
func with(current, previous keyscheme.SealKey) keyscheme.Keyring {
	r := ring
	r.Current, r.Previous = current, previous
	return r
}

// TestRotation takes the rings of two replicas through a rotation: at no step does one refuse what the other seals.
func TestRotation(t *testing.T) {
	ctx := keyscheme.TokenContent{Form: keyscheme.Wide, Set: []byte("set")}
	steps := []keyscheme.Keyring{with(key1, keyscheme.SealKey{}), with(key1, key2), with(key2, key1), with(key2, keyscheme.SealKey{})}
	for i := range len(steps) - 1 {
		for _, sealer := range steps[i : i+2] {
			for _, opener := range steps[i : i+2] {
				_, err := opener.Unseal(seal(t, sealer, ctx), keyscheme.Wide, ctx.Set, nil)
				if last := i == len(steps)-2; err != nil && !last {
					t.Errorf("step %d: %v", i, err)
				}
			}
		}
	}
	if _, err := steps[3].Unseal(seal(t, steps[0], ctx), keyscheme.Wide, ctx.Set, nil); !errors.Is(err, keyscheme.ErrTokenSeal) {
		t.Errorf("a retired key: %v", err)
	}
}

// TestNoKey: the zero key neither seals nor unseals, or everybody could forge tokens for a ring without a previous key.
func TestNoKey(t *testing.T) {
	ctx := keyscheme.TokenContent{Form: keyscheme.Wide, Set: []byte("set")}
	none := with(keyscheme.SealKey{}, key1)
	if token, err := none.Seal([]byte("dst"), ctx); !errors.Is(err, keyscheme.ErrTokenKey) || string(token) != "dst" {
		t.Errorf("got %q, %v", token, err)
	}
	forged := forgeWithZeroKey(t, ctx)
	if _, err := ring.Unseal(forged, keyscheme.Wide, ctx.Set, nil); !errors.Is(err, keyscheme.ErrTokenSeal) {
		t.Errorf("sealed with the zero key: %v", err)
	}
}

func TestSealRefuses(t *testing.T) {
	long := make([]byte, keyscheme.SetNameBytesMax+1)
	huge := clock.Of()
	for n := range uint64(180) {
		huge.Add(clock.Dot{Actor: clock.Actor(strings.Repeat("x", 250) + fmt.Sprint(n)), Counter: 1})
	}
	for n := uint64(0); n < 1<<24; n += 9 { // a page of 2^16 counters with every ninth takes some 15 KB
		huge.Add(clock.Dot{Actor: "a", Counter: n + n%3 + 1})
	}
	if token := seal(t, ring, keyscheme.TokenContent{Form: keyscheme.Wide, Set: []byte("set"), Dots: huge}); len(token) < keyscheme.NarrowTokenBytesMax {
		t.Errorf("%d bytes", len(token))
	} else if got, err := ring.Unseal(token, keyscheme.Wide, []byte("set"), nil); err != nil || got.Dots.Len() != huge.Len() {
		t.Errorf("a large clock comes back with %d dots of %d, %v", got.Dots.Len(), huge.Len(), err)
	}
	for _, c := range []struct {
		ctx  keyscheme.TokenContent
		want error
	}{
		{keyscheme.TokenContent{}, keyscheme.ErrTokenForm},
		{keyscheme.TokenContent{Form: keyscheme.Narrow | keyscheme.Wide}, keyscheme.ErrTokenForm},
		{keyscheme.TokenContent{Form: keyscheme.Wide, Set: long}, keyscheme.ErrNameTooLong},
		{keyscheme.TokenContent{Form: keyscheme.Narrow, Element: long}, keyscheme.ErrNameTooLong},
		{keyscheme.TokenContent{Form: keyscheme.Narrow, Dots: huge}, keyscheme.ErrTokenTooLarge},
	} {
		if token, err := ring.Seal([]byte("dst"), c.ctx); !errors.Is(err, c.want) || string(token) != "dst" {
			t.Errorf("form %d: got %d bytes, %v, want %v", c.ctx.Form, len(token), err, c.want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	token := seal(t, ring, keyscheme.TokenContent{Form: keyscheme.Wide, Set: []byte("set")})
	text := keyscheme.EncodeText(token)
	for _, bad := range []string{
		text + "=", text[:5] + "\n" + text[5:], text + "\r\n", text[:3] + "+" + text[4:], text[:3] + "/" + text[4:], text + "A",
		"AB", strings.Repeat("A", keyscheme.TokenBytesMax*4/3+8),
	} {
		if got, err := keyscheme.DecodeText(bad); !errors.Is(err, keyscheme.ErrTokenMalformed) {
			t.Errorf("%.60q is taken for %d bytes, %v", bad, len(got), err)
		}
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s", "%d"} {
		for _, v := range []any{key1, ring, &ring} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "1 2 3 4") || strings.Contains(text, "01020304") || strings.Contains(text, "0x1, 0x2") {
				t.Errorf("%s shows a key: %s", verb, text)
			}
		}
	}
}
