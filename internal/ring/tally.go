package ring

import (
	"math/bits"
	"slices"
)

// Tally counts the answers of members to one request, under one assignment. An answer under another epoch never counts: a
// coordinator that learns of a newer assignment begins a new Tally. The zero Tally belongs to no request.
type Tally struct {
	first, second part
}

// part is one list, and which of its members have answered.
type part struct {
	list          []Member
	need          int
	acked, failed uint32 // bit i is list[i]
}

// NewWrite returns the tally of a write that needs w of each list, or all of a shorter one.
func NewWrite(a *Assignment, w int) Tally {
	t := Tally{first: part{list: a.Owners, need: min(w, len(a.Owners))}}
	if a.State != Stable {
		t.second = part{list: a.Next, need: min(w, len(a.Next))}
	}
	return t
}

// NewRead returns the tally of a read that needs r of the read list, or all of a shorter one.
func NewRead(a *Assignment, r int) Tally {
	list := a.ReadList()
	return Tally{first: part{list: list, need: min(r, len(list))}}
}

// Ack counts the answer of a member, once, and reports whether the request has its quorums. Answers of members in neither list do
// not count.
func (t *Tally) Ack(m Member) (done bool) {
	t.first.acked |= t.first.bit(m)
	t.second.acked |= t.second.bit(m)
	return t.Done()
}

// Fail records that a member will not answer. It reports whether the quorums can no longer be reached. An answer that comes later
// still counts.
func (t *Tally) Fail(m Member) (hopeless bool) {
	t.first.failed |= t.first.bit(m)
	t.second.failed |= t.second.bit(m)
	return t.Hopeless()
}

// Done reports whether the request has its quorums.
func (t *Tally) Done() bool { return t.first.got() >= t.first.need && t.second.got() >= t.second.need }

// Hopeless reports whether too few members are left for the quorums.
func (t *Tally) Hopeless() bool { return t.first.hopeless() || t.second.hopeless() }

// Short returns how many more answers the first list and the second one need.
func (t *Tally) Short() (first, second int) {
	return max(0, t.first.need-t.first.got()), max(0, t.second.need-t.second.got())
}

func (p *part) bit(m Member) uint32 {
	if i := slices.Index(p.list, m); i >= 0 {
		return 1 << i
	}
	return 0
}

func (p *part) got() int { return bits.OnesCount32(p.acked) }

func (p *part) hopeless() bool { return len(p.list)-bits.OnesCount32(p.failed&^p.acked) < p.need }
