package setname

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// part draws a short byte string of the bytes that matter: few, so that two are often equal or begin alike.
var part = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 4)

func drawName(t *rapid.T, label string) Name {
	n := Name{part.Draw(t, label+" type"), part.Draw(t, label+" bucket"), part.Draw(t, label+" key")}
	if rapid.Bool().Draw(t, label+" plain type") {
		n.Type = []byte(PlainType)
	}
	if rapid.Bool().Draw(t, label+" plain bucket") {
		n.Bucket = []byte(PlainBucket)
	}
	return n
}

func equal(a, b Name) bool {
	return bytes.Equal(a.Type, b.Type) && bytes.Equal(a.Bucket, b.Bucket) && bytes.Equal(a.Key, b.Key)
}

// TestNames draws two names: each comes back from its set, and they have one set only where they are equal.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawName(t, "a"), drawName(t, "b")
		for _, n := range []Name{a, b} {
			if back, ok := Split(n.Set()); !ok || !equal(n, back) {
				t.Fatalf("%q is %q, which is %q, %v", n, n.Set(), back, ok)
			}
		}
		if same := bytes.Equal(a.Set(), b.Set()); same != equal(a, b) {
			t.Fatalf("%q and %q are %q and %q", a, b, a.Set(), b.Set())
		}
		if !a.isPlain() && bytes.HasPrefix(b.Set(), Prefix(a.Type, a.Bucket)) != (bytes.Equal(a.Type, b.Type) && bytes.Equal(a.Bucket, b.Bucket)) {
			t.Fatalf("%q in the bucket of %q", b, a)
		}
		if a.isPlain() || b.isPlain() {
			return
		}
		want := bytes.Compare(a.Type, b.Type)
		for _, c := range []int{bytes.Compare(a.Bucket, b.Bucket), bytes.Compare(a.Key, b.Key)} {
			if want == 0 {
				want = c
			}
		}
		if got := bytes.Compare(a.Set(), b.Set()); got != want {
			t.Fatalf("%q and %q are in the order %d, want %d", a, b, got, want)
		}
	})
}

// TestKeys draws two keys: each comes back, they are the plain names, and stand in their order on both sides of all others.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := part.Draw(t, "a"), part.Draw(t, "b")
		for _, key := range [][]byte{a, b} {
			if back, ok := Key(OfKey(key)); !ok || !bytes.Equal(key, back) {
				t.Fatalf("%q is %q, which is %q, %v", key, OfKey(key), back, ok)
			}
			if plain := (Name{[]byte(PlainType), []byte(PlainBucket), key}); !bytes.Equal(plain.Set(), OfKey(key)) {
				t.Fatalf("%q is %q to redis and %q to Riak", key, OfKey(key), plain.Set())
			}
			n := drawName(t, "other")
			if key, ok := Key(n.Set()); ok != n.isPlain() || ok && !bytes.Equal(key, n.Key) {
				t.Fatalf("%q is the key %q, %v", n, key, ok)
			}
		}
		if n := drawName(t, "bucket"); !n.isPlain() {
			if before := len(a) == 0 || a[0] == 0; before != (bytes.Compare(OfKey(a), n.Set()) < 0) {
				t.Fatalf("the key %q stands on the wrong side of %q", a, n)
			}
		}
		if got, want := bytes.Compare(OfKey(a), OfKey(b)), bytes.Compare(a, b); got != want {
			t.Fatalf("%q and %q are in the order %d, want %d", a, b, got, want)
		}
	})
}

// TestBytes holds the bytes of some names, which are on disk.
func TestBytes(t *testing.T) {
	for _, c := range []struct{ typ, bucket, key, want string }{
		{"sets", "default", "friends", "friends"},
		{"sets", "default", "", "\x00"},
		{"sets", "default", "\x00\x01", "\x00\x00\x01"},
		{"sets", "b", "k", "\x00\x01sets\x00\x01b\x00\x01k"},
		{"maps", "default", "", "\x00\x01maps\x00\x01default\x00\x01"},
		{"", "a\x00", "\x00", "\x00\x01\x00\x01a\x00\xff\x00\x01\x00"},
	} {
		if got := (Name{[]byte(c.typ), []byte(c.bucket), []byte(c.key)}).Set(); string(got) != c.want {
			t.Errorf("%q %q %q: %q, want %q", c.typ, c.bucket, c.key, got, c.want)
		}
	}
	for _, nobody := range []string{"", "\x00\x01", "\x00\x02", "\x00a", "\x00\x01a", "\x00\x01a\x00\x01b", "\x00\x01a\x00\x02\x00\x01k", "\x00\x01a\x00", "\x00\x01sets\x00\x01default\x00\x01k"} {
		if n, ok := Split([]byte(nobody)); ok {
			t.Errorf("%q is %q", nobody, n)
		}
	}
}

// FuzzSplit takes any set: no other has its name.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "friends", "\x00", "\x00\x01sets\x00\x01b\x00\x01k", "\x00\x01\x00\xff\x00\x01\x00\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		n, ok := Split(set)
		if ok && !bytes.Equal(n.Set(), set) {
			t.Errorf("%q is %q, whose set is %q", set, n, n.Set())
		}
		if key, has := Key(set); has && (!ok || !bytes.Equal(OfKey(key), set)) {
			t.Errorf("%q is the key %q, and %v", set, key, ok)
		}
	})
}

func ExampleName_Set() {
	for _, n := range []Name{{[]byte("sets"), []byte("default"), []byte("friends")}, {[]byte("sets"), []byte("fans"), []byte("paul")}} {
		fmt.Printf("%q\n", n.Set())
	}
	// Output:
	// "friends"
	// "\x00\x01sets\x00\x01fans\x00\x01paul"
}
