package convergence

import (
	"fmt"
	"math/rand/v2"
)

// A Spec says what replicas of a data type have to show. After Burckhardt et al., Replicated Data Types (2014), that is a function
// of the operations that a replica knows of and of which operation had observed which. If the kit doesn't know these exactly,
// because of a crash or a repair, it knows bounds: what a reading must and what it may reflect.
type Spec interface {
	// Gen proposes the next operation: Kind, Elem (one of elems) and Arg. The kit adds the context.
	Gen(r *rand.Rand, elems []string) Op
	// Judge returns nil, or what is wrong with a reading. Its verdict must hold for every possibility within the bounds.
	Judge(r *Reading) *Violation
}

// A Comparer is a Spec under which different views can mean the same, for example a counter that is not shown and one that is 0.
type Comparer interface {
	Spec
	// Same reports whether two replicas that show these views are equal. Without a Comparer the views must have the same elements,
	// tags and values.
	Same(a, b View) bool
}

// A Violation is a fault that a schedule has shown.
type Violation struct {
	Kind string // one of the constants below: shrinking keeps it
	Step int    // the number of the step at which it showed; 0 is before the first one, when a replica was opened
	Text string
	// Stack is where a replica panicked, or where it hung.
	Stack string
}

// Kinds of violations.
const (
	Lost         = "lost"         // an add that was acknowledged and not removed is not shown
	Resurrected  = "resurrected"  // what was removed is shown
	Phantom      = "phantom"      // what was never added, or never reached this replica, is shown
	Disorder     = "disorder"     // a view is not in order, or shows an element twice
	Torn         = "torn"         // a part of a batch is shown
	Repeated     = "repeated"     // an operation was done again by a replica that knew its id
	TagReused    = "tag-reused"   // two operations have one tag
	Diverged     = "diverged"     // replicas differ after everything was exchanged
	Failed       = "failed"       // an error where there must be none
	Panicked     = "panicked"     // the replica panicked
	Hung         = "hung"         // a step did not end
	Unverifiable = "unverifiable" // a replica's own check failed
	Changed      = "changed"      // a replica changed bytes that belong to the kit: a message, or a context
	NeverReady   = "never-ready"  // a replica does not become ready although everything was copied to it
)

// String describes the violation for people.
func (v *Violation) String() string {
	if v.Step == 0 {
		return fmt.Sprintf("%s before the first step: %s", v.Kind, v.Text)
	}
	return fmt.Sprintf("%s at step %d: %s", v.Kind, v.Step, v.Text)
}

func bad(kind, format string, args ...any) *Violation {
	return &Violation{Kind: kind, Text: fmt.Sprintf(format, args...)}
}
