package door_test

import (
	"bytes"
	"fmt"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/door"
)

// TestPageEnds reads elements from memory that is used again after each part: the page ends at its limit, and its token is of the last element of the page,
// also when the limit is at the end of a part.
func TestPageEnds(t *testing.T) {
	t.Parallel()
	ring := keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{2}}
	dots := []clock.Dot{{Actor: "a", Counter: 1}}
	for limit := range 8 {
		set := []byte("set")
		tokens := bigset.NewTokens(ring, set)
		p := &door.Page{Read: &door.Read{Set: set, Limit: limit, Contexts: limit%2 == 1}, Tokens: tokens}
		var names []string
		var after door.Token
		room := []byte("e0")
		for i, done := 0, false; i < 6 && !done; i += 3 { // two parts of three elements
			if last := p.Last(); (last == nil) != (i == 0) || i > 0 && string(last) != fmt.Sprint("e", i-1) {
				t.Errorf("limit %d: the last of %d is %q", limit, i, last)
			}
			if want := max(0, limit-i+1); limit > 0 && p.Ask() != want || limit == 0 && p.Ask() != 0 {
				t.Errorf("limit %d: asks for %d after %d", limit, p.Ask(), i)
			}
			part := door.Part{}
			if err := p.Begin(&part, clock.Of(dots...)); err != nil || (len(part.Context) > 0) != (i == 0) {
				t.Errorf("limit %d: context of %d bytes after %d elements, %v", limit, len(part.Context), i, err)
			}
			for j := i; j < i+3 && !done; j++ {
				name := room
				if j > i {
					name = []byte("e0")
				}
				name[1] = byte('0' + j)
				if j == i+2 { // the last of a part is in memory that the next one uses
					room = name
				}
				if err := p.Add(&part, name, dots); err != nil {
					t.Fatal(err)
				}
				done = part.Done
			}
			for _, e := range part.Elements {
				names = append(names, string(e.Name))
				if (len(e.Context) > 0) != p.Read.Contexts {
					t.Errorf("limit %d: %s has a context of %d bytes", limit, e.Name, len(e.Context))
				}
			}
			if after = part.After; done != (len(after) > 0) {
				t.Errorf("limit %d: done is %v with a token of %d bytes", limit, done, len(after))
			}
			p.Keep()
		}
		want := []string{"e0", "e1", "e2", "e3", "e4", "e5"}
		if limit > 0 && limit < len(want) {
			want = want[:limit]
		}
		if fmt.Sprint(names) != fmt.Sprint(want) {
			t.Errorf("limit %d: %v, want %v", limit, names, want)
		}
		if got, err := tokens.After(after, false); err != nil || limit > 0 && limit < 6 && !bytes.Equal(got, []byte(want[limit-1])) || (limit == 0 || limit >= 6) && got != nil {
			t.Errorf("limit %d: the next page begins after %q, %v", limit, got, err)
		}
	}
}

// TestPageAllocates nothing for an element without a context.
func TestPageAllocates(t *testing.T) {
	p := &door.Page{Read: &door.Read{Set: []byte("set")}, Tokens: bigset.NewTokens(keyscheme.Keyring{}, []byte("set"))}
	part := door.Part{Elements: make([]door.Element, 0, 1)}
	name := []byte("element")
	if n := testing.AllocsPerRun(1000, func() {
		part.Elements = part.Elements[:0]
		_ = p.Add(&part, name, nil)
		p.Keep()
	}); n > 0 {
		t.Errorf("%v allocations for an element", n)
	}
}
