package peer

import (
	"fmt"

	"bigset/clock"
)

// NodeBytesMax is the maximum length of a node's name, in bytes. It is part of the wire format.
const NodeBytesMax = 255

// MemberState says which requests a member may answer. It is on the wire.
type MemberState byte

const (
	// Normal members have everything that they ever acknowledged.
	Normal MemberState = 1
	// Joining members may not have everything that they, or the member that they replace, have acknowledged. They take writes and repairs,
	// and answer no reads, until their copy is complete.
	Joining MemberState = 2
)

// String names the state.
func (s MemberState) String() string {
	switch s {
	case Normal:
		return "normal"
	case Joining:
		return "joining"
	}
	return fmt.Sprintf("state %d", byte(s))
}

// Member is a node in one incarnation. Every frame and every answer names the member that it is from: the promises of one incarnation do
// not bind another.
type Member struct {
	Node string // 1 to NodeBytesMax bytes
	// Incarnation is the actor of the member's store: it changes whenever writes may have been lost.
	Incarnation clock.Actor
	State       MemberState
}

// Is reports whether m and o are the same node in the same incarnation, in whatever state.
func (m Member) Is(o Member) bool { return m.Node == o.Node && m.Incarnation == o.Incarnation }

// String returns the member for people to read.
func (m Member) String() string {
	return fmt.Sprintf("%s/%x (%v)", m.Node, string(m.Incarnation), m.State)
}

// Check returns what is wrong with a member: ErrMember, or nil.
func (m Member) Check() error {
	switch {
	case len(m.Node) == 0 || len(m.Node) > NodeBytesMax:
		return fmt.Errorf("%w: name of a node of %d bytes", ErrMember, len(m.Node))
	case len(m.Incarnation) == 0 || len(m.Incarnation) > clock.ActorBytesMax:
		return fmt.Errorf("%w: incarnation of %d bytes", ErrMember, len(m.Incarnation))
	case m.State != Normal && m.State != Joining:
		return fmt.Errorf("%w: %v", ErrMember, m.State)
	}
	return nil
}
