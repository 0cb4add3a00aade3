package door_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/door"
)

// TestSealerTokens: the tokens of one sealer stand in the same memory, and none changes when others are made or appended to.
func TestSealerTokens(t *testing.T) {
	ring := keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{2}}
	s := &door.Sealer{Ring: ring, Set: []byte("set")}
	long := clock.Actor(strings.Repeat("l", clock.ActorBytesMax))
	dotsOf := func(i int) (dots []clock.Dot) {
		for j := range i % 4 {
			dots = append(dots, clock.Dot{Actor: []clock.Actor{"a", "b", long}[(i+j)%3], Counter: uint64(i + 1)})
		}
		return dots
	}
	elementOf := func(i int) []byte { return []byte(strings.Repeat(fmt.Sprint(i), 1+i%50)) }
	var tokens []door.Token
	for i := range 3000 {
		token, err := s.Narrow(elementOf(i), dotsOf(i))
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	for _, token := range tokens {
		_ = append(token, "what another one might hold"...)
	}
	for i, token := range tokens {
		want, err := ring.Seal(nil, keyscheme.TokenContent{Form: keyscheme.Narrow, Set: s.Set, Element: elementOf(i), Dots: clock.Of(dotsOf(i)...)})
		if err != nil || !bytes.Equal(token, want) {
			t.Fatalf("token %d is %x, %v, want %x", i, token, err, want)
		}
	}
	element, dots := elementOf(1), dotsOf(1)
	if allocs := testing.AllocsPerRun(10_000, func() { _, _ = s.Narrow(element, dots) }); allocs >= 1 {
		t.Errorf("%v allocations for a token", allocs)
	}
}
