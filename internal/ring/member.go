package ring

import (
	"fmt"
	"unicode/utf8"
)

// The longest names, in bytes. They are part of the codec.
const (
	NodeBytesMax        = 255
	IncarnationBytesMax = 255
	ZoneBytesMax        = 255
	AddrBytesMax        = 1024
)

// WeightMax is the largest weight of a node.
const WeightMax = 1 << 20

// Member is a node in one incarnation. A disk that may have lost acknowledged data comes back as another member. The zero Member is
// no member.
type Member struct {
	Node string
	// Incarnation is the identity of the node's store, opaque here. It is empty in a plan for nodes that have no store yet.
	Incarnation string
}

// String returns the node and its incarnation in hexadecimal.
func (m Member) String() string {
	if m.Incarnation == "" {
		return m.Node
	}
	return fmt.Sprintf("%s/%x", m.Node, m.Incarnation)
}

// Check returns an error that is ErrMember if the member's names are too long or it names no node.
func (m Member) Check() error {
	if len(m.Node) == 0 || len(m.Node) > NodeBytesMax || len(m.Incarnation) > IncarnationBytesMax || !utf8.ValidString(m.Node) {
		return fmt.Errorf("%w: node of %d bytes, incarnation of %d", ErrMember, len(m.Node), len(m.Incarnation))
	}
	return nil
}

// NodeState says what placement may do with a node. It is part of the codec.
type NodeState byte

const (
	// NodeActive holds copies and takes more.
	NodeActive NodeState = iota
	// NodeDown does not answer. It keeps its copies and takes none; no copy moves for the sake of balance until it is back.
	NodeDown
	// NodeDraining holds copies until they have moved away.
	NodeDraining
	// NodeLost does not come back. Its copies are made again elsewhere, and it is not a source.
	NodeLost
	nodeStates
)

// String returns the state's name.
func (s NodeState) String() string {
	if s < nodeStates {
		return [...]string{"active", "down", "draining", "lost"}[s]
	}
	return fmt.Sprintf("state %d", byte(s))
}

// Node is what placement knows of a node.
type Node struct {
	Member            // its name, and its current incarnation
	Addr    string    // host:port of peers and clients; may be empty in a plan
	Zone    string    // nodes of one zone fail together; empty is a zone, too
	Weight  uint32    // its share of the data, relative to those of others; 0 is 1
	Started uint64    // when it started, in any unit: among equal receivers the one that started last is chosen
	State   NodeState // what placement may do with it
}

// Check returns an error that is ErrMember for a node that can't be in a map.
func (n *Node) Check() error {
	if err := n.Member.Check(); err != nil {
		return err
	}
	switch {
	case len(n.Zone) > ZoneBytesMax || len(n.Addr) > AddrBytesMax || !utf8.ValidString(n.Zone) || !utf8.ValidString(n.Addr):
		return fmt.Errorf("%w: node %s has a zone of %d bytes, an address of %d", ErrMember, n.Node, len(n.Zone), len(n.Addr))
	case n.Weight > WeightMax:
		return fmt.Errorf("%w: node %s has a weight of %d, at most %d", ErrMember, n.Node, n.Weight, WeightMax)
	case n.State >= nodeStates:
		return fmt.Errorf("%w: node %s has the %v", ErrMember, n.Node, n.State)
	}
	return nil
}
