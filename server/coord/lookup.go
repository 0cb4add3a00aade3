package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/readcore"
	"bigset/server/peer"
)

// Lookup is a client's request to look up elements in a set.
type Lookup struct {
	Set      []byte
	Elements [][]byte
	Quorum   Quorum
}

// roundsMax is how often replicas are asked about an element.
const roundsMax = 8

// ErrUnsettled is returned when an element is written continuously, so that replicas do not reach one answer.
var ErrUnsettled = errors.New("coord: replicas do not come to one answer")

// Lookup reports for each element whether it is in the set, by what R replicas know together, with the context to act on it. While their
// answers agree, no clock is sent. If they differ, each replica is asked about the dots in question. Each element is decided at moments of
// its own. The set contains all of them if every context is Present.
func (c *Coordinator) Lookup(ctx context.Context, l Lookup) ([]bigset.Context, error) {
	if err := c.beginRead(ctx); err != nil {
		return nil, err
	}
	defer c.endRead()
	q, at, err := c.plan(l.Set, l.Quorum)
	if err != nil {
		return nil, err
	}
	replicas := at.read
	answers, err := ask(ctx, c, l.Set, q.R, replicas, func(ctx context.Context, rep peer.Replica) (found, error) {
		contexts, _, err := rep.Lookup(ctx, l.Set, l.Elements)
		if err == nil && len(contexts) != len(l.Elements) {
			err = fmt.Errorf("%w: %d answers to %d elements", peer.ErrFrame, len(contexts), len(l.Elements))
		}
		return found{rep, contexts}, err
	})
	if err != nil {
		return nil, err
	}
	out, mends := make([]bigset.Context, len(l.Elements)), &mends{c: c, set: bytes.Clone(l.Set)}
	defer mends.send()
	for i, element := range l.Elements {
		first := make([]readcore.Answer, len(answers))
		asked := make([]peer.Replica, len(answers))
		for k, a := range answers {
			first[k].Live, asked[k] = sorted(a.contexts[i].Dots), a.rep
		}
		dots, err := c.decide(ctx, l.Set, element, q, asked, replicas, first, mends)
		if err != nil {
			return nil, err
		}
		out[i] = bigset.Saw(dots...)
	}
	return out, nil
}

// found is one replica's answer about some elements.
type found struct {
	rep      peer.Replica
	contexts []bigset.Context
}

func sorted(dots []clock.Dot) []clock.Dot {
	dots = slices.Clone(dots)
	slices.SortFunc(dots, clock.Dot.Compare)
	return dots
}

// decide determines the dots by which an element is present. In later rounds any R replicas will do: their answers replace the earlier
// ones.
func (c *Coordinator) decide(ctx context.Context, set, element []byte, q Quorum, asked, replicas []peer.Replica, answers []readcore.Answer, m *mends) ([]clock.Dot, error) {
	for range roundsMax {
		d := readcore.Decide(answers)
		if len(d.Ask) == 0 {
			m.add(element, asked, d.Repairs)
			return d.Dots, nil
		}
		said, err := ask(ctx, c, set, q.R, replicas, func(ctx context.Context, rep peer.Replica) (statuses, error) {
			return statusesOf(ctx, rep, set, element, d.Ask)
		})
		if err != nil {
			return nil, err
		}
		answers, asked = answers[:0], nil
		for _, s := range said {
			answers, asked = append(answers, s.answer), append(asked, s.rep)
		}
	}
	return nil, fmt.Errorf("%w: %.64q of %.64q", ErrUnsettled, element, set)
}

// statuses are one replica's answer about dots of an element.
type statuses struct {
	rep    peer.Replica
	answer readcore.Answer
}

// statusesOf asks a replica about dots of an element, and by which it is present there.
func statusesOf(ctx context.Context, rep peer.Replica, set, element []byte, dots []clock.Dot) (statuses, error) {
	said, _, err := rep.DotStatus(ctx, set, element, dots)
	if err != nil {
		return statuses{}, err
	}
	if len(said.Statuses) != len(dots) {
		return statuses{}, fmt.Errorf("%w: status of %d dots, of %d", peer.ErrFrame, len(said.Statuses), len(dots))
	}
	return statuses{rep, readcore.Answer{Asked: dots, Live: said.Live, Statuses: said.Statuses}}, nil
}
