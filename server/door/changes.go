package door

import (
	"context"
	"time"

	"bigset/clock"
)

// Changes asks what has happened to a set since the last answer to a follower.
type Changes struct {
	Set []byte
	// Since is Changed.Next of the answer before; empty is from the beginning: the answer has everything that the set has.
	Since Token
	// Limit is about how many elements and runs of dead dots the answer has at most; 0 is no limit. After an answer that ended at its limit, Changed.More is set.
	Limit int
	R     int // replicas to ask; 0 is the default
	// Wait is how long an answer waits if nothing has happened; 0 is not at all.
	Wait time.Duration
	// Until ends the wait when it ends, as if nothing had happened; nil is never.
	Until context.Context
	// Rest is called each time before the answer waits for a change, and resume before it looks at one; nil is not at all. The caller may let others
	// run until then.
	Rest func() (resume func())
	// Part is called while the answer reads the whole set, before each chunk of elements but the first; nil is not at all.
	Part func()
}

// Changed is a part of what has happened. A follower that keeps elements with their dots does, in this order: forgets everything if there is a Reset, puts Added to what it has, and
// takes the dots in Removed and in Dead away; an element without dots is not in the set. After the last part of an answer without More it has what a read shows that begins
// then, but for what happens while the answer is made.
//
// An answer without its last part is void: a crash may take back what it said, and no later answer would say so, because the token does not have it. A follower keeps the parts until all have
// come, or asks without a token after an answer that it has taken in part. Followed is such a follower.
type Changed struct {
	// Reset, in the first part only, is why everything before is void and the answer has everything: ResetBegin, ResetLost or ResetExpired. Empty is none.
	Reset string
	// Added are elements with dots by which they are in the set.
	Added []Dotted
	// Removed are elements with dots that are dead. The element is out of the set if it has no other dots.
	Removed []Dotted
	// Dead are dots that are dead, and whose elements this node cannot name any more; nil is none.
	Dead *clock.Clock

	// Done says that this is the last part. The other fields are of the last part only.
	Done bool
	// Next is the token with which to continue. It has what the follower was given up to here.
	Next Token
	// Expires is for how long at most the node that gave the token keeps what it stands for, from its last use: a restart, or tokens of other
	// followers, may end that earlier. Other nodes of the cluster ask that one. 0 is for ever. A token for which no node that answers keeps
	// anything is answered by ResetExpired.
	Expires time.Duration
	// More says that there is more to report: the answer ended at its limit, or deaths wait for the next answer because their elements were added again while this one was made.
	More bool
	// Unconfirmed is the number of events of the token that no replica that answered knows, while some replicas did not answer: they may be lost.
	Unconfirmed uint64
}

// Why a follower has to forget what it has.
const (
	// ResetBegin says that there was no token.
	ResetBegin = "begin"
	// ResetLost says that the follower was given events that the set has no longer: it was restored from an older copy, or a crash took what no disk had yet.
	ResetLost = "lost"
	// ResetExpired says that nobody keeps what the token stands for.
	ResetExpired = "expired"
)

// Dotted is an element with some of its dots.
type Dotted struct {
	Name []byte
	Dots []clock.Dot
}
