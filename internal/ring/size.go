package ring

// SplitRules say when a bucket is cut. Zero values are the defaults.
type SplitRules struct {
	Bytes      uint64 // a bucket is cut above this; default 2 GiB
	NodeParts  uint64 // and above this part of its node's bytes, 1/NodeParts; default 8
	NodeCopies int    // and if its node has fewer copies; default 8
}

func (r SplitRules) withDefaults() SplitRules {
	if r.Bytes == 0 {
		r.Bytes = 2 << 30
	}
	if r.NodeParts == 0 {
		r.NodeParts = 8
	}
	if r.NodeCopies == 0 {
		r.NodeCopies = 8
	}
	return r
}

// Load is what a node and one bucket at it hold.
type Load struct {
	BucketBytes uint64
	NodeBytes   uint64
	NodeCopies  int
}

// Splits returns n if a bucket should be cut into 2^n parts, and 0 if it stays whole. A bucket that is larger than 16 times the
// limit is still cut into 16 at a time.
func (r SplitRules) Splits(b Bucket, l Load) (n int) {
	r = r.withDefaults()
	if b.Bits() >= 32 || l.BucketBytes <= r.Bytes && l.BucketBytes <= l.NodeBytes/r.NodeParts && l.NodeCopies >= r.NodeCopies {
		return 0
	}
	return min(splitBits, 32-b.Bits())
}

// Merges reports whether siblings that Merge can merge should be merged: together they would stay whole with room to spare. Data
// never moves for a merge.
func (r SplitRules) Merges(parent Bucket, siblings int, l Load) bool {
	r = r.withDefaults()
	twice := Load{BucketBytes: 2 * l.BucketBytes, NodeBytes: l.NodeBytes, NodeCopies: l.NodeCopies - siblings + 1}
	return r.Splits(parent, twice) == 0
}

// MoveRules keep copies from moving back and forth. Zero values are the defaults.
type MoveRules struct {
	Minutes uint32 // a bucket is moved without an operator's command at most once in this time; default 120
	Percent uint64 // a move must make bytes more equal by more than this; default 5
}

func (r MoveRules) withDefaults() MoveRules {
	if r.Minutes == 0 {
		r.Minutes = 120
	}
	if r.Percent == 0 {
		r.Percent = 5
	}
	return r
}

// Rests reports whether a bucket may not be moved yet at a time, in minutes since 1970. If the clock has gone back, the bucket does
// not rest longer than the rule says.
func (r MoveRules) Rests(a *Assignment, now uint32) bool {
	r = r.withDefaults()
	return a.Moved != 0 && now >= a.Moved && now-a.Moved < r.Minutes
}

// Exempt reports whether a resting bucket is moved anyway: a node is lost, the bucket has fewer complete copies than it should, and
// no member reports that the bucket itself causes the failure. Such a bucket must not wander through the cluster.
func (r MoveRules) Exempt(a *Assignment, complete, n int, fails bool) bool {
	return complete < n && !fails
}

// Improves reports whether it is worthwhile to move a copy of some bytes from one node to another: it must gain 2 copies, or more
// than the percentage of bytes, but the receiver must never be fuller afterwards than the giver was.
func (r MoveRules) Improves(fromCopies, toCopies int, fromBytes, toBytes, bytes uint64) bool {
	r = r.withDefaults()
	if fromCopies-toCopies >= 2 {
		return true
	}
	return fromBytes > toBytes+bytes && min(bytes, fromBytes-toBytes-bytes)*100 > fromBytes*r.Percent
}

// Frozen reports whether the brake applies: more than a third of the nodes are down at once, or a whole zone of several. Then
// nothing is reassigned until they are back or an operator allows it.
func Frozen(nodes []Node) bool {
	all, down := map[string]int{}, map[string]int{}
	sum, out := 0, 0
	for i := range nodes {
		n := &nodes[i]
		if n.State == NodeLost {
			continue
		}
		sum++
		all[n.Zone]++
		if n.State == NodeDown {
			out++
			down[n.Zone]++
		}
	}
	for zone, n := range down {
		if n == all[zone] && len(all) > 1 && n > 1 {
			return true
		}
	}
	return 3*out > sum
}
