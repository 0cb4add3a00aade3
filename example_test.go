package bigset_test

import (
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// Nodes that share keys open each other's tokens.
func ExampleTokens() {
	ring := keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{'c', 'l', 'u', 's', 't', 'e', 'r'}}
	here, there := bigset.NewTokens(ring, []byte("friends")), bigset.NewTokens(ring, []byte("friends"))

	token, err := here.Wide(clock.Of(clock.Dot{Actor: "a", Counter: 7}))
	if err != nil {
		panic(err)
	}
	seen, err := there.Seen(token)
	fmt.Println(seen, err)
	_, err = there.After(token, false) // it is no cursor
	fmt.Println(err)
	// Output:
	// {61:7} <nil>
	// keyscheme: token: wrong form for this request
}

// What is malformed is refused before it reaches a store, or another replica.
func ExampleDelta_Check() {
	d := bigset.Delta{Set: []byte("friends"), Actor: "a", First: 0, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("paul")}}}
	fmt.Println(d.Check() != nil)
	d.First = 1 // counters begin at 1
	fmt.Println(d.Check())
	// Output:
	// true
	// <nil>
}

// A copy of a set is packed: each key shares the beginning of the one before.
func ExamplePortion_Pack() {
	p := bigset.Portion{Set: []byte("friends")}
	p.Pack([]fold.Element{
		{Name: []byte("paul"), Dots: []clock.Dot{{Actor: "a", Counter: 1}}},
		{Name: []byte("paula"), Dots: []clock.Dot{{Actor: "a", Counter: 2}}},
	})
	f, err := p.Facts()
	fmt.Println(p.Count, len(p.Keys), err)
	fmt.Printf("%s %v\n", f.Keys[1].Name, f.Keys[1].Dots)
	// Output:
	// 2 15 <nil>
	// paula [61:2]
}
