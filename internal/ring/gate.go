package ring

// EpochsAhead is how far above its own epoch a member adopts one from a request. A request that is further ahead is not believed:
// one poisoned epoch would lock a bucket out forever. The member asks the other owners first.
const EpochsAhead = 1024

// Need says which members may do what a request asks.
type Need byte

const (
	// NeedRead is a request that only the read list answers: a read, a copy, the minting of a dot.
	NeedRead Need = iota
	// NeedMember is a request that all members of both lists accept: a delta, marks, facts, repairs.
	NeedMember
)

// Request is what the gate has to know about a request.
type Request struct {
	To    Member // the member that it names
	Epoch uint64 // of the assignment by which it was sent
	Need  Need
	// Assignment is the one by which it was sent, with the epoch above. It is nil in most requests, which carry only the epoch.
	Assignment *Assignment
}

// Verdict is the gate's decision about a request.
type Verdict byte

const (
	// Serve: the request is served.
	Serve Verdict = iota
	// Adopt: the request's assignment is adopted, durably, and then the request is judged again by it.
	Adopt
	// Behind: the request's epoch is higher, and it carries no assignment. The answer asks for one.
	Behind
	// TooFar: the request's epoch is higher by more than EpochsAhead. Nothing is adopted from it.
	TooFar
	// OldEpoch: the request's epoch is lower. The answer is NotMine.
	OldEpoch
	// OtherIncarnation: the request names another incarnation of this node, or another node. The answer is NotMine.
	OtherIncarnation
	// NoMember: this member is in neither list. The answer is NotMine.
	NoMember
	// NoReader: this member is in the lists, but not in the read list. The answer is NotMine.
	NoReader
	// Unknown: this member knows no assignment of the slot. The answer is NotMine without one.
	Unknown
	verdicts
)

// String returns the verdict in words.
func (v Verdict) String() string {
	if v < verdicts {
		return [...]string{"serve", "adopt", "behind", "too far ahead", "old epoch", "other incarnation", "not a member", "not a reader", "unknown"}[v]
	}
	return "no verdict"
}

// Refuses reports whether the answer to the request is NotMine.
func (v Verdict) Refuses() bool { return v >= OldEpoch && v < verdicts }

// Judge decides what a member does with a request for a slot; mine is the assignment that the member knows for it, or nil (R1, R6).
// The verdict holds as long as the member's view does: the caller must keep the view from changing until the effect of the request
// has happened.
func Judge(mine *Assignment, me Member, q *Request) Verdict {
	if q.To != me {
		return OtherIncarnation
	}
	if mine == nil {
		return judgeAhead(0, q)
	}
	switch {
	case q.Epoch < mine.Epoch:
		return OldEpoch
	case q.Epoch > mine.Epoch:
		return judgeAhead(mine.Epoch, q)
	case !mine.Has(me):
		return NoMember
	case q.Need == NeedRead && !mine.Reads(me):
		return NoReader
	}
	return Serve
}

// judgeAhead judges a request whose epoch is higher than the member's own.
func judgeAhead(own uint64, q *Request) Verdict {
	switch {
	case q.Epoch-own > EpochsAhead && q.Epoch > own:
		return TooFar
	case q.Assignment != nil && q.Assignment.Epoch == q.Epoch:
		return Adopt
	case own == 0:
		return Unknown
	}
	return Behind
}

// NotMine is the answer to a refused request: exactly what the sender needs to send it to the right members. The sender takes the
// assignment if its epoch is higher than its own, sends the request again from the start, and discards answers that it got under
// the older epoch.
type NotMine struct {
	Verdict Verdict
	// Assignment is what the member knows of the slot; nil if it knows nothing.
	Assignment *Assignment
	// Addrs are the addresses of members of the lists, host:port by node. Members whose address the sender knows may be omitted.
	Addrs map[string]string
}

// Refusal returns the answer for a verdict that refuses, with the addresses in a map.
func Refusal(v Verdict, mine *Assignment, m *Map) NotMine {
	out := NotMine{Verdict: v, Assignment: mine}
	if mine == nil || m == nil {
		return out
	}
	out.Addrs = map[string]string{}
	for _, who := range mine.Everyone() {
		if n := m.Node(who.Node); n != nil && n.Addr != "" {
			out.Addrs[n.Node] = n.Addr
		}
	}
	return out
}
