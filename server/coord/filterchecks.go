package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

// checkGroup asks R replicas about all keys of a group. If the nearest one answers at once, the others are asked only about the keys that
// it has not found. They are still asked about every slice, for they may know that the filter was dropped. A replica that is known to have
// the same bits as the nearest one is asked for its stamp instead of for the keys, and for the keys if it has another one.
func (c *Coordinator) checkGroup(ctx context.Context, q Quorum, spec bigset.SliceSpec, g *sliceGroup) []groupAnswer {
	found, replicas := make([]bool, g.n), g.at.read
	var have [][]peer.SliceAnswers // of the replicas whose answers are already in found
	var stamp stamped
	results := c.stamps.results.Load() // before the keys are looked for: what is found alike later may have keys that were not here yet
	if checksNow(replicas[0], spec, g.keys, found) {
		stamp = c.stampOf(replicas[0], spec, results) // after the keys were looked for: a slice that was removed before has changed it
		have, replicas = make([][]peer.SliceAnswers, 1), replicas[1:]
	} else {
		clear(found)
	}
	first := slices.Clone(found) // a replica that is late may be asked when found has the answers of others
	rest := sync.OnceValue(func() unfound { return g.unfound(first) })
	answers, err := askOthers(ctx, c, spec.Name, q.R, have, replicas, func(ctx context.Context, rep peer.SliceReplica) ([]peer.SliceAnswers, error) {
		nothing, err := stamp.nothingMore(ctx, rep)
		switch {
		case errors.Is(err, bigset.ErrNoFilter): // also an answer
			return []peer.SliceAnswers{{Err: err}}, nil
		case nothing || err != nil:
			return nil, err
		}
		return c.checkKeys(ctx, rep, &stamp, spec, rest().keys)
	})
	return g.checked(found, err, slices.DeleteFunc(answers, func(a []peer.SliceAnswers) bool { return a == nil }), rest)
}

// checked merges the answers of replicas about the keys that were not found, for each slice of the group.
func (g *sliceGroup) checked(found []bool, err error, answers [][]peer.SliceAnswers, rest func() unfound) []groupAnswer {
	out := make([]groupAnswer, len(g.parts))
	var of unfound
	if len(answers) > 0 {
		of = rest()
	}
	for i, p := range g.parts {
		n, asked := len(p.hashes), 0
		if len(answers) > 0 {
			asked = len(of.keys[i].Hashes)
		}
		if out[i].err = err; err == nil {
			out[i] = joined(found[:n:n], of.at[:asked], answers, i)
		}
		found, of.at = found[n:], of.at[asked:]
	}
	return out
}

// checksNow lets a replica check keys, if it can do so at once.
func checksNow(rep peer.SliceReplica, spec bigset.SliceSpec, keys []peer.SliceKeys, found []bool) bool {
	now, ok := rep.(peer.SlicesNow)
	return ok && now.CheckManyNow(spec, keys, found)
}

// unfound are the keys of a group that were not found, and the index of each in its slice.
type unfound struct {
	keys []peer.SliceKeys
	at   []int
}

// unfound returns the keys that were not found.
func (g *sliceGroup) unfound(found []bool) (of unfound) {
	n := 0
	for _, has := range found {
		if !has {
			n++
		}
	}
	keys, at := make([]peer.SliceKeys, len(g.keys)), make([]int, 0, n)
	hashes := make([]bloomslice.Hash, 0, n)
	for i := range g.keys {
		from := len(hashes)
		for j, h := range g.keys[i].Hashes {
			if !found[j] {
				hashes, at = append(hashes, h), append(at, j)
			}
		}
		found = found[len(g.keys[i].Hashes):]
		keys[i] = peer.SliceKeys{Slice: g.keys[i].Slice, Hashes: hashes[from:len(hashes):len(hashes)]}
	}
	return unfound{keys, at}
}

// checkKeys asks one replica about keys of many slices. If it answers, it may be compared with the one in this process.
func (c *Coordinator) checkKeys(ctx context.Context, rep peer.SliceReplica, stamp *stamped, spec bigset.SliceSpec, keys []peer.SliceKeys) ([]peer.SliceAnswers, error) {
	all, err := checkMany(ctx, rep, spec, keys)
	if err == nil {
		stamp.mayCompare(rep)
	}
	return all, err
}

// checkMany asks one replica about keys of many slices.
func checkMany(ctx context.Context, rep peer.SliceReplica, spec bigset.SliceSpec, keys []peer.SliceKeys) ([]peer.SliceAnswers, error) {
	all, m, err := rep.(peer.ManySlices).CheckMany(ctx, spec, keys)
	switch {
	case errors.Is(err, bigset.ErrNoFilter): // also an answer
		return []peer.SliceAnswers{{Err: fmt.Errorf("%s: %w", m.Node, err)}}, nil
	case err == nil && m.State != peer.Normal: // a joining replica may not have all marks
		err = fmt.Errorf("%w: %v", peer.ErrJoining, m)
	case err == nil && len(all) != len(keys):
		err = fmt.Errorf("%w: answers about %d slices, not %d", peer.ErrFrame, len(all), len(keys))
	case err == nil:
		err = errOfAll(all, func(a *peer.SliceAnswers) error { return a.Err }, func(err error) bool { return !errors.Is(err, bigset.ErrNoFilter) })
	}
	return all, err
}

// joined merges the answers of replicas about the keys at some indexes into found, for the i-th slice of a group.
func joined(found []bool, at []int, answers [][]peer.SliceAnswers, i int) (o groupAnswer) {
	for _, a := range answers {
		switch one := &a[min(i, len(a)-1)]; {
		case errors.Is(one.Err, bigset.ErrNoFilter):
			return groupAnswer{err: one.Err}
		case one.Err != nil || len(one.Answers) != len(at): // another replica may answer for this slice
			o.left = true
		default:
			for j, has := range one.Answers {
				found[at[j]] = found[at[j]] || has
			}
		}
	}
	if !o.left {
		o.answers = found
	}
	return o
}
