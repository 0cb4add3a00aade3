package bloomslice_test

import (
	"fmt"

	"bigset/bloomslice"
)

// Two replicas of a slice that have each other's pages and layers answer alike, in whatever order these came.
func Example() {
	options := bloomslice.DefaultOptions()
	here, err := bloomslice.New(options, nil, nil, nil) // no layers yet, nothing stored
	check(err)
	there, err := bloomslice.New(options, nil, nil, nil)
	check(err)

	paul, yoko := bloomslice.Sum([]byte("paul")), bloomslice.Sum([]byte("yoko"))
	_, added, err := here.Admit(&paul, "alice") // alice fills the layer
	check(err)
	here.Commit()
	fmt.Println("added", added)

	for _, layer := range here.Layers() {
		check(there.Restore(layer))
	}
	for _, page := range here.Take().Next(1000).Pages {
		check(there.MergePage(page.ID, page.Page, page.Value))
	}
	for _, key := range []*bloomslice.Hash{&paul, &yoko} {
		present, err := there.Check(key)
		check(err)
		fmt.Println(present)
	}
	// Output:
	// added true
	// true
	// false
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
