package setname

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTexts holds the texts of some names, and what becomes of them in an error.
func TestTexts(t *testing.T) {
	for _, c := range []struct{ typ, bucket, key, text string }{
		{"sets", "default", "friends", "friends"},
		{"sets", "default", "a/b/c d", "a/b/c d"},
		{"sets", "default", "", "/types/sets/buckets/default/datatypes/"},
		{"sets", "default", "\x00k", "/types/sets/buckets/default/datatypes/%00k"},
		{"sets", "default", "/types/x", "/types/sets/buckets/default/datatypes/%2Ftypes%2Fx"},
		{"maps", "b/x", "\xff", "/types/maps/buckets/b%2Fx/datatypes/%FF"},
		{"", "", "", "/types//buckets//datatypes/"},
	} {
		set := Name{[]byte(c.typ), []byte(c.bucket), []byte(c.key)}.Set()
		if got := Text(set); got != c.text {
			t.Errorf("%q is %q, want %q", set, got, c.text)
		}
		want := c.text
		if bytes.Equal(set, []byte(c.text)) {
			want = fmt.Sprintf("%q", c.text)
		}
		if got := InError(fmt.Sprintf("engine: not found: %q, twice %q", set, set), set); got != "engine: not found: "+want+", twice "+want {
			t.Errorf("in an error %q is %s, want %s", set, got, want)
		}
	}
	if got := InError(`of ""`, nil); got != `of ""` {
		t.Errorf("an error of no set became %s", got)
	}
}

// TestNoPaths: what only begins like a path is a name.
func TestNoPaths(t *testing.T) {
	for _, name := range []string{"", "friends", "/types/", "/types/x", "/types/a/buckets/b", "/types/a/buckets/b/datatypes", "/types/a/buckets/b/datatypes/c/elements", "/types/a/bucket/b/datatypes/c",
		"/types/a/buckets/b/keys/c", "/types/%/buckets/b/datatypes/c", "/types/a/buckets/%zz/datatypes/c", "types/a/buckets/b/datatypes/c", "/types/a/buckets/b/datatypes/%0"} {
		if got := OfText(name); string(got) != name {
			t.Errorf("%q is %q", name, got)
		}
	}
	if got, want := OfText("/types/m%61ps/buckets/%00/datatypes/%ff"), (Name{[]byte("maps"), []byte{0}, []byte{0xff}}).Set(); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTextsDiffer draws two names of sets, also of no client: they have one text only where they are equal.
func TestTextsDiffer(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) []byte {
		set := drawName(t, "name").Set()
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			set = part.Draw(t, "bytes")
		case 1:
			set = []byte(Text(set)) // a plain set with the text of another one
		}
		return set
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		for _, pair := range [][2][]byte{{a, b}, {a, []byte(Text(a))}} {
			if bytes.Equal(pair[0], pair[1]) != (Text(pair[0]) == Text(pair[1])) {
				t.Fatalf("%q and %q are both %q", pair[0], pair[1], Text(pair[0]))
			}
		}
		if back := OfText(Text(a)); !bytes.Equal(back, a) {
			t.Fatalf("%q is shown as %q, which is %q", a, Text(a), back)
		}
		if _, ok := Split(a); ok && Text(a)[0] == 0 {
			t.Fatalf("the text of %q begins with a zero byte: %q", a, Text(a))
		}
	})
}
