package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/wire"
)

// verbCountSets asks a member how many sets of some ranges contain elements. The body has, as uvarints, the epoch, and for each range its
// first and last slot; the answer is bigset.SetCount as uvarints. The verb is on the wire.
const verbCountSets wire.Verb = 251

// CountSets implements door.Backend. Each range is counted by one member that holds it. Sets that only other members know, for some
// seconds, are not counted. A range whose members all run an older program, which can't count, is listed.
func (b *Backend) CountSets(ctx context.Context) (bigset.SetCount, error) {
	return again(ctx, b, always, func(l *live) (bigset.SetCount, error) { return b.countSets(ctx, l) })
}

func (b *Backend) countSets(ctx context.Context, l *live) (sum bigset.SetCount, err error) {
	failed := map[int]error{}
	for left := l.ranges(); len(left) > 0; {
		asked, unasked := l.counters(left, failed)
		if err := b.listSets(ctx, l, unasked, failed, &sum); err != nil {
			return sum, err
		}
		left = nil
		for _, i := range slices.Sorted(maps.Keys(asked)) {
			n, err := b.m.countAt(ctx, l, i, asked[i])
			switch {
			case errors.Is(err, peer.ErrNotMine), ctx.Err() != nil:
				return sum, errors.Join(err, ctx.Err())
			case err != nil:
				failed[i] = err
				left = append(left, asked[i]...)
				continue
			}
			sum.Sets += n.Sets
			sum.Apart += n.Apart
		}
	}
	return sum, nil
}

// counters returns which member is to count which ranges: the nearest one that answers reads of them and has not failed. Unasked are the
// ranges that have none.
func (l *live) counters(ranges []run, failed map[int]error) (asked map[int][]run, unasked []run) {
	asked = map[int][]run{}
	for _, r := range ranges {
		list := l.readers(r.owners)
		at := slices.IndexFunc(list, func(i int) bool { return failed[i] == nil && l.replicas[i].Member().State == peer.Normal })
		if at < 0 {
			unasked = append(unasked, r)
			continue
		}
		asked[list[at]] = append(asked[list[at]], r)
	}
	return asked, unasked
}

// listSets counts the sets of ranges by listing them, if members of each run an older program: they have not understood the question.
func (b *Backend) listSets(ctx context.Context, l *live, ranges []run, failed map[int]error, sum *bigset.SetCount) error {
	for _, r := range ranges {
		if !slices.ContainsFunc(l.readers(r.owners), func(i int) bool { return errors.Is(failed[i], peer.ErrFrame) }) {
			return &coord.QuorumError{Of: 1, Err: errors.Join(slices.Collect(maps.Values(failed))...)}
		}
		list := &listing{b: b, yield: func(n bigset.SetInfo) bool {
			sum.Sets++
			if b.m.conf.CountApart(n.Name) {
				sum.Apart++
			}
			return true
		}}
		if err := list.list(ctx, l, r); err != nil {
			return err
		}
	}
	return nil
}

// countAt lets a member count the sets of ranges.
func (m *Member) countAt(ctx context.Context, l *live, member int, ranges []run) (bigset.SetCount, error) {
	if member == l.self {
		return m.countRanges(ctx, l.epoch, ranges)
	}
	body := binary.AppendUvarint(nil, l.epoch)
	for _, r := range ranges {
		body = binary.AppendUvarint(binary.AppendUvarint(body, uint64(r.first)), uint64(r.last))
	}
	id := l.view.Record.Members[member].ID
	got, err := m.stats.caller(id, m.links[id]).Do(ctx, wire.Call{Verb: verbCountSets, Body: body})
	if err != nil {
		return bigset.SetCount{}, fmt.Errorf("node %s: %w", id, err)
	}
	n, err := uvarints(got)
	if err != nil || len(n) != 2 || n[1] > n[0] {
		return bigset.SetCount{}, fmt.Errorf("%w: node %s counts sets: %x", ErrRecord, id, got)
	}
	return bigset.SetCount{Sets: n[0], Apart: n[1]}, nil
}

// countRanges counts the sets of ranges here, under an epoch.
func (m *Member) countRanges(ctx context.Context, epoch uint64, ranges []run) (sum bigset.SetCount, err error) {
	for _, r := range ranges {
		if err := m.gate.check(epoch); err != nil {
			return sum, err
		}
		n, err := m.local.CountSets(ctx, r.first, r.last)
		if err != nil {
			return sum, err
		}
		sum.Sets += n.Sets
		sum.Apart += n.Apart
	}
	return sum, m.gate.check(epoch)
}

// answerCountSets answers another member.
func (m *Member) answerCountSets(ctx context.Context, r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || m.membership.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is not a member", ErrForeign, r.From.Role, r.From.Name)
	}
	n, err := uvarints(r.Body)
	if err != nil || len(n)%2 != 1 {
		return nil, fmt.Errorf("%w: malformed request to count sets: %x", ErrRecord, r.Body)
	}
	var ranges []run
	for i := 1; i < len(n); i += 2 {
		if n[i] > n[i+1] || n[i+1] > uint64(keyscheme.SlotMax) {
			return nil, fmt.Errorf("%w: sets of slots %x to %x", ErrRecord, n[i], n[i+1])
		}
		ranges = append(ranges, run{first: keyscheme.Slot(n[i]), last: keyscheme.Slot(n[i+1])})
	}
	sum, err := m.countRanges(ctx, n[0], ranges)
	return binary.AppendUvarint(binary.AppendUvarint(nil, sum.Sets), sum.Apart), err
}

// uvarints decodes all of b.
func uvarints(b []byte) (all []uint64, err error) {
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, fmt.Errorf("%w: not a number", ErrRecord)
		}
		all, b = append(all, n), b[size:]
	}
	return all, nil
}
