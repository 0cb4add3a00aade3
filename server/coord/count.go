package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

// Count is the size of a set, or of a part of it.
type Count struct {
	// Elements is the number of elements that Read would return.
	Elements uint64
	// Context is what the replicas that were asked had seen of the whole set together when they were first asked. It covers nothing that
	// was counted later or not at all. It belongs to the caller.
	Context *clock.Clock
	// Read is how many elements had to be read to count them, because replicas differ in them or can't count.
	Read uint64
}

// Count counts the elements that R replicas have together. Each replica counts its own elements in parts whose ends depend on the elements.
// For each part, it sends the number of elements and a sum over them and their dots. If R replicas send the same sum for a part, their
// count is taken. All other parts are read.
//
// That is exact, as Read is. R replicas that send the same sum for a part have the same elements in it, by the same dots, each at a moment
// of its own. A Read whose R streams show exactly that finds each dot live in all of them: the dot survives whatever the clocks say
// (package readcore), and the elements are those of any one stream. Parts are disjoint and cover the range. As in a Read, each part may be
// of other moments and other replicas. Two different contents have the same sum with a probability of at most 2^-64.
//
// A question takes a replica a fraction of a second, however large the set is. A replica that fails is replaced by another from one
// question to the next. A count takes the room of one read; see Read for its errors.
func (c *Coordinator) Count(ctx context.Context, r Read) (Count, error) {
	if err := r.Options.Check(); err != nil {
		return Count{}, err
	}
	if err := c.beginRead(ctx); err != nil {
		return Count{}, err
	}
	defer c.endRead()
	q, l, err := c.plan(r.Set, r.Quorum)
	if err != nil {
		return Count{}, err
	}
	r.Set = bytes.Clone(r.Set) // repairs refer to it
	n := &counting{c: c, req: r, q: q, at: l, clocks: map[string]firstClock{}, limit: uint64(r.Options.Limit)}
	n.req.Options = ascending(r.Options)
	if err := n.run(ctx); err != nil {
		return Count{}, err
	}
	if n.limit > 0 {
		n.Elements = min(n.Elements, n.limit)
	}
	return n.Count, nil
}

// ascending returns the options of an ascending read of the same elements without a limit.
func ascending(o bigset.ReadOptions) bigset.ReadOptions {
	out := bigset.ReadOptions{From: o.From, To: o.To, Prefix: o.Prefix, After: o.After}
	if o.Reverse && o.After != nil {
		out.After = nil
		if o.To == nil || bytes.Compare(o.After, o.To) < 0 {
			out.To = o.After
		}
	}
	return out
}

// counting is a count in progress.
type counting struct {
	Count
	c     *Coordinator
	req   Read
	q     Quorum
	at    placed[peer.Replica]
	limit uint64

	after   []byte         // all elements up to here are counted; nil means none
	found   bool           // a replica knows the set
	unlike  int            // questions since the last one whose answers were mostly the same
	current []*clock.Clock // of the latest answers

	mu     sync.Mutex
	clocks map[string]firstClock // by node
}

// firstClock is the clock that a replica had when it was first asked.
type firstClock struct {
	by    peer.Member
	clock *clock.Clock
}

// unlikeMax is the number of such questions after which the rest is read: the replicas have too little in common.
const unlikeMax = 2

func (n *counting) run(ctx context.Context) error {
	for done := false; !done && (n.limit == 0 || n.Elements < n.limit); {
		if n.unlike == unlikeMax {
			return n.rest(ctx)
		}
		r := n.question()
		answers, err := ask(ctx, n.c, n.req.Set, n.q.R, n.at.read, func(ctx context.Context, rep peer.Replica) (counted, error) {
			return n.one(ctx, rep, r)
		})
		switch {
		case errors.Is(err, peer.ErrFrameKind): // from a replica that runs an older program
			return n.rest(ctx)
		case err != nil:
			return err
		}
		for _, a := range answers {
			n.found = n.found || a.found
		}
		if !n.found {
			return fmt.Errorf("%w: %q", bigset.ErrNotFound, n.req.Set)
		}
		n.prefer(answers)
		n.saw(answers)
		if done, err = n.take(ctx, answers); err != nil {
			return err
		}
	}
	return nil
}

// counted is one replica's answer.
type counted struct {
	bigset.PartCounts
	from  peer.Replica
	found bool
}

// prefer puts the replicas that have answered first. So a replica that has stopped, or does not know the question, is waited for once.
func (n *counting) prefer(answers []counted) {
	var first, others []peer.Replica
	for _, rep := range n.at.read {
		if slices.ContainsFunc(answers, func(a counted) bool { return a.from == rep }) {
			first = append(first, rep)
		} else {
			others = append(others, rep)
		}
	}
	n.at.read = append(first, others...)
}

// question returns the next question.
func (n *counting) question() bigset.CountRange {
	o := &n.req.Options
	r := bigset.CountRange{From: o.From, To: o.To, Prefix: o.Prefix, After: o.After, Mean: n.c.opt.CountMean}
	if n.after != nil {
		r.After = n.after
	}
	return r
}

// one asks a replica.
func (n *counting) one(ctx context.Context, rep peer.Replica, r bigset.CountRange) (counted, error) {
	for try := 0; ; try++ {
		n.mu.Lock()
		first, asked := n.clocks[rep.Member().Node]
		n.mu.Unlock()
		r.Clock = !asked || try > 0
		parts, by, err := rep.CountParts(ctx, n.req.Set, r)
		switch {
		case by.State != peer.Normal && !errors.Is(err, peer.ErrFrameKind):
			return counted{}, errors.Join(fmt.Errorf("%w: %v", peer.ErrJoining, by), err)
		case errors.Is(err, bigset.ErrNotFound) && !n.req.NotFoundFails:
			return counted{PartCounts: bigset.PartCounts{ElementDigests: bigset.ElementDigests{Done: true}, Clock: &clock.Clock{}}, from: rep}, nil
		case err != nil:
			return counted{}, err
		case !goesOn(&parts, r.After):
			return counted{}, fmt.Errorf("%w: counts of no parts after %.64q", peer.ErrAnswer, r.After)
		case r.Clock:
			n.mu.Lock()
			n.clocks[by.Node] = firstClock{by, parts.Clock}
			n.mu.Unlock()
		case !first.by.Is(by): // the node is another replica now, which may have seen less
			continue
		default:
			parts.Clock = first.clock
		}
		return counted{parts, rep, true}, nil
	}
}

// goesOn reports whether counts are of elements after one, and say how far they go.
func goesOn(c *bigset.PartCounts, after []byte) bool {
	if len(c.Parts) == 0 {
		return c.Done
	}
	return after == nil || bytes.Compare(c.Parts[0].Bound, after) > 0
}

// saw adds the clocks of answers to the context.
func (n *counting) saw(answers []counted) {
	union, same := &clock.Clock{}, len(n.current) == len(answers)
	for _, a := range answers {
		same = same && slices.Contains(n.current, a.Clock)
		union.Union(a.Clock)
	}
	if same {
		return
	}
	n.current = n.current[:0]
	for _, a := range answers {
		n.current = append(n.current, a.Clock)
	}
	n.covers(union)
}

// covers makes the context valid for what rests on seen, too: an element that is in none of these clocks was not counted, even if a replica
// that was asked elsewhere has it.
func (n *counting) covers(seen *clock.Clock) {
	if n.Context == nil {
		n.Context = seen.Clone()
		return
	}
	n.Context.Intersect(seen)
}

// take counts what the answers agree on, reads what they differ in, and records how far they reach. It reports done at the end of the
// range.
func (n *counting) take(ctx context.Context, answers []counted) (done bool, err error) {
	var same, differ uint64
	var unlike []stretch // no two are adjacent
	from, common := n.after, false
	for s := range stretches(answers) {
		switch last := len(unlike) - 1; {
		case s.same:
			same += s.elements
		case last >= 0 && common && bytes.Equal(unlike[last].end, from):
			unlike[last].end, unlike[last].last, differ = s.end, s.last, differ+s.elements
		default:
			s.after = from
			unlike, differ = append(unlike, s), differ+s.elements
		}
		from, done, common = s.end, s.last, true
	}
	if !common { // without an end in common, go on after the first stop
		from = firstStop(answers)
	}
	if n.unlike++; common && differ <= same {
		n.unlike = 0
	} else { // one read for the whole question
		same, unlike = 0, []stretch{{after: n.after, end: from, last: done}}
	}
	n.Elements += same
	for _, s := range unlike {
		if err := n.read(ctx, s); err != nil {
			return false, err
		}
	}
	n.after = from
	return done, nil
}

// firstStop returns the least element at which an answer stops that is not done.
func firstStop(answers []counted) (least []byte) {
	for _, a := range answers {
		if a.Done {
			continue
		}
		if stop := a.Parts[len(a.Parts)-1].Bound; least == nil || bytes.Compare(stop, least) < 0 {
			least = stop
		}
	}
	return least
}

// rest reads everything that is not counted yet.
func (n *counting) rest(ctx context.Context) error {
	return n.read(ctx, stretch{after: n.after, last: true})
}

// read counts the elements of a stretch by reading them.
func (n *counting) read(ctx context.Context, s stretch) error {
	r := Read{Set: n.req.Set, Options: n.req.Options, Quorum: n.q, NotFoundFails: n.req.NotFoundFails}
	if s.after != nil {
		r.Options.After = s.after
	}
	if !s.last && len(s.end) < bigset.ElementBytesMax {
		r.Options.To = append(bytes.Clone(s.end), 0)
	}
	if n.limit > 0 {
		r.Options.Limit = int(n.limit - min(n.Elements, n.limit-1))
	}
	for part, err := range n.c.read(ctx, r, n.q, n.at) {
		switch {
		case errors.Is(err, bigset.ErrNotFound) && n.found: // the replicas that were asked do not know it
			n.covers(&clock.Clock{})
			return nil
		case err != nil:
			return err
		}
		if part.Context != nil {
			n.covers(part.Context)
		}
		for _, e := range part.Elements {
			if !s.last && bytes.Compare(e.Name, s.end) > 0 {
				return nil
			}
			n.Elements++
			n.Read++
		}
	}
	return nil
}

// stretch is a run of elements after which all answers have ended a part.
type stretch struct {
	after    []byte // the element before it; nil means none
	end      []byte // the last element that it covers
	last     bool   // it reaches the end of the range
	same     bool   // all answers have the same elements in it, by the same dots
	elements uint64 // of the answer with the most elements
}

// stretches splits what all answers cover at the ends they have in common. An answer that is done has no elements after its last part, so
// it ends wherever another one ends.
func stretches(answers []counted) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		next := make([]int, len(answers))
		parts := make([]bigset.ElementDigest, len(answers)) // since the last common end
		give := func(end []byte, last bool) bool {
			s := stretch{end: end, last: last, same: true}
			for i := range parts {
				s.same = s.same && parts[i].Same(&parts[0])
				s.elements = max(s.elements, parts[i].Elements)
			}
			clear(parts)
			return yield(s)
		}
		for {
			var end []byte
			more := false
			for i, a := range answers {
				switch {
				case next[i] == len(a.Parts) && !a.Done:
					return
				case next[i] == len(a.Parts):
				case !more || bytes.Compare(a.Parts[next[i]].Bound, end) < 0:
					end, more = a.Parts[next[i]].Bound, true
				}
			}
			if !more {
				give(nil, true)
				return
			}
			common := true
			for i, a := range answers {
				if next[i] < len(a.Parts) && bytes.Equal(a.Parts[next[i]].Bound, end) {
					parts[i].Join(&a.Parts[next[i]])
					next[i]++
				} else if next[i] < len(a.Parts) {
					common = false
				}
			}
			if common && !give(end, false) {
				return
			}
		}
	}
}
