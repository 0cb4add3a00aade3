package textbook

// members is the list of current members, which the replicas of a schedule share.
type members struct {
	there map[int]bool // by actor
	next  int
}

func newMembers() any { return &members{there: map[int]bool{}} }

// join gives a member an actor that no member had before.
func (m *members) join(bug string) (actor int) {
	actor = m.next
	if bug == "actor-by-place" {
		actor = len(m.there)
	}
	m.next++
	m.there[actor] = true
	return actor
}
