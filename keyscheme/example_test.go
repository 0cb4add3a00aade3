package keyscheme_test

import (
	"errors"
	"fmt"

	"bigset/clock"
	"bigset/keyscheme"
)

// A caller keeps the prefix of a set and appends elements to it.
func ExamplePrefix() {
	p := keyscheme.NewPrefix([]byte("friends"))
	key := p.AppendElement(nil, []byte("ada"), clock.Dot{Actor: "node-1", Counter: 7}, keyscheme.OpAdd)

	k, err := keyscheme.Decode(key)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v of %s: %s by %s:%d, %v\n", k.Kind, k.Set, k.Element, k.Actor, k.Counter, k.Op)
	// Output: element of friends: ada by node-1:7, a
}

// A page of elements goes on after the last element of the page before.
func ExamplePrefix_Range() {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 0, []byte("s")))
	page := p.Range(keyscheme.After([]byte("m")), keyscheme.Edge{})
	fmt.Printf("%q\n%q\n", page.Lower, page.Upper)
	// Output:
	// "\x00\x00\x00\x00\x01\x00\x00\x00se\x02\x00\x00\x00m\x00"
	// "\x00\x00\x00\x00\x01\x00\x00\x00sz"
}

func ExampleDecode_malformed() {
	_, err := keyscheme.Decode([]byte("\x00\x00\x00\x00\x09\x00\x00\x00short"))
	var detail *keyscheme.KeyError
	fmt.Println(errors.Is(err, keyscheme.ErrMalformedKey), errors.As(err, &detail))
	fmt.Println(detail.Field)
	// Output:
	// true true
	// set
}

func ExampleKeyring() {
	ring := keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{'s', 't', 'o', 'r', 'e'}}
	token, err := ring.Seal(nil, keyscheme.TokenContent{
		Form: keyscheme.Narrow, Set: []byte("friends"), Element: []byte("ada"),
		Dots: clock.Of(clock.Dot{Actor: "a", Counter: 7}),
	})
	if err != nil {
		panic(err)
	}
	ctx, err := ring.Unseal(token, keyscheme.Narrow|keyscheme.Wide, []byte("friends"), []byte("ada"))
	fmt.Println(ctx.Dots, err)
	_, err = ring.Unseal(token, keyscheme.Narrow|keyscheme.Wide, []byte("friends"), []byte("bob"))
	fmt.Println(err)
	// Output:
	// {61:7} <nil>
	// keyscheme: token: issued for another element
}

func ExampleMergeTombstoneValues() {
	dead := func(n uint64) []byte {
		return keyscheme.AppendTombstoneValue(nil, clock.Of(clock.Dot{Actor: "a", Counter: n}))
	}
	value := keyscheme.MergeTombstoneValues(nil, [][]byte{dead(1), dead(2), dead(9)})
	all, err := keyscheme.DecodeTombstoneValue(value)
	fmt.Println(all, err)
	// Output: {61:1-2,9} <nil>
}
