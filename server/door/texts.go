package door

import (
	"fmt"
	"strings"
)

// packageNames are the prefixes of our packages' errors.
var packageNames = strings.NewReplacer("engine: ", "", "keyscheme: ", "", "door: ", "", "bloomslice: ", "", "tokens: ", "", "coord: ", "", "peer: ", "", "wire: ", "")

// Text returns the text of an error as clients read it: without the names of our packages.
func Text(err error) string { return packageNames.Replace(err.Error()) }

// NoRoom is what clients read if Take, or TakeLong of Limits, has refused memory.
const NoRoom = "long requests and answers of other clients take all the memory for them"

// Crowded is what clients read whose connection is above the limits.
const Crowded = "as many connections are open as may be"

// ErrNoRoom says the same as an error: nothing has happened.
var ErrNoRoom = fmt.Errorf("%w: %s", ErrUnavailable, NoRoom)
