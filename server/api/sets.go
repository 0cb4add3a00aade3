package api

import (
	"slices"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/wire"
)

// Verbs of sets. They are on the wire.
const (
	VerbWrite     wire.Verb = 1
	VerbSubset    wire.Verb = 2
	VerbRead      wire.Verb = 3 // a stream
	VerbCount     wire.Verb = 4
	VerbContext   wire.Verb = 5
	VerbDrop      wire.Verb = 6
	VerbNames     wire.Verb = 7 // a stream
	VerbStats     wire.Verb = 8
	VerbChanges   wire.Verb = 9  // a stream
	VerbCountSets wire.Verb = 10 // the request is empty
)

// Kinds of operations, as they are on the wire.
const (
	opAdd    = 1
	opRemove = 2
)

func putQuorum(dst []byte, q door.Quorum) []byte {
	return putInt(putInt(dst, q.W), q.DW-door.NotDurable)
}

func (in *input) quorum() (q door.Quorum) {
	q.W = in.int()
	q.DW = in.int() + door.NotDurable
	return q
}

// AppendWrite appends a request to change a set. In versionNext it ends with Changes.
func AppendWrite(dst []byte, w *door.Write) []byte {
	dst = putBytes(append(dst, versionOf(w.Changes)), w.Set)
	dst = putBytes(append(dst, byte(w.Policy)), w.Context)
	dst = putBytes(putQuorum(dst, w.Quorum), w.Request)
	dst = putBool(putBool(dst, w.Retry), w.Contexts)
	dst = putInt(dst, len(w.Ops))
	for i := range w.Ops {
		op := &w.Ops[i]
		kind := byte(opAdd)
		if op.Kind == keyscheme.OpRemove {
			kind = opRemove
		}
		dst = putBytes(putBytes(append(dst, kind), op.Element), op.Context)
	}
	if w.Changes {
		dst = putBool(dst, true)
	}
	return dst
}

// DecodeWrite inverts AppendWrite.
func DecodeWrite(b []byte) (w door.Write, err error) {
	in := beginAny(b)
	w.Set = in.bytes()
	w.Policy = bigset.Policy(in.byte())
	w.Context = in.bytes()
	w.Quorum = in.quorum()
	w.Request = in.bytes()
	w.Retry, w.Contexts = in.bool(), in.bool()
	n := in.count(3)
	if n > bigset.BatchOpsMax {
		return w, &bigset.LimitError{What: "operations in a batch", Got: n, Max: bigset.BatchOpsMax}
	}
	w.Ops = make([]door.Op, n)
	for i := range w.Ops {
		w.Ops[i].Kind = in.kind()
		w.Ops[i].Element, w.Ops[i].Context = in.bytes(), in.bytes()
	}
	if in.next {
		if w.Changes = in.bool(); !w.Changes {
			in.fail("version %d without need", versionNext)
		}
	}
	return w, in.end()
}

func (in *input) kind() keyscheme.Op {
	switch c := in.byte(); c {
	case opAdd:
		return keyscheme.OpAdd
	case opRemove:
		return keyscheme.OpRemove
	default:
		in.fail("operation of kind %d", c)
		return 0
	}
}

// AppendWritten appends the answer to a write. In versionNext it ends with Changed.
func AppendResult(dst []byte, w *door.Result) []byte {
	dst = putInt(append(dst, versionOf(w.Changed != nil)), w.Removed)
	dst = putInt(putInt(putInt(dst, w.Acked), w.Durable), len(w.Contexts))
	for _, c := range w.Contexts {
		dst = putBytes(dst, c)
	}
	if w.Changed == nil {
		return dst
	}
	dst = putInt(dst, len(w.Changed))
	for _, c := range w.Changed {
		dst = putBool(dst, c)
	}
	return dst
}

// DecodeWritten inverts AppendWritten.
func DecodeResult(b []byte) (w door.Result, err error) {
	in := beginAny(b)
	w.Removed, w.Acked, w.Durable = in.int(), in.int(), in.int()
	if n := in.count(1); n > 0 {
		w.Contexts = make([]door.Token, n)
	}
	for i := range w.Contexts {
		w.Contexts[i] = in.bytes()
	}
	if in.next {
		w.Changed = make([]bool, in.count(1))
		for i := range w.Changed {
			w.Changed[i] = in.bool()
		}
	}
	return w, in.end()
}

// AppendSubset appends a question about elements.
func AppendSubset(dst []byte, s *door.Subset) []byte {
	dst = putInt(putBytes(append(dst, version), s.Set), s.R)
	dst = putInt(dst, len(s.Elements))
	for _, e := range s.Elements {
		dst = putBytes(dst, e)
	}
	return dst
}

// SubsetMax is the largest number of elements that one request may ask about.
const SubsetMax = 10_000

// DecodeSubset inverts AppendSubset.
func DecodeSubset(b []byte) (s door.Subset, err error) {
	in := begin(b)
	s.Set, s.R = in.bytes(), in.int()
	n := in.count(1)
	if n > SubsetMax {
		return s, &bigset.LimitError{What: "elements asked about", Got: n, Max: SubsetMax}
	}
	s.Elements = make([][]byte, n)
	for i := range s.Elements {
		s.Elements[i] = in.bytes()
	}
	return s, in.end()
}

// AppendPresences appends the answer to a Subset.
func AppendPresences(dst []byte, ps []door.Presence) []byte {
	dst = putInt(append(dst, version), len(ps))
	for i := range ps {
		dst = putBytes(putBool(dst, ps[i].Present), ps[i].Context)
	}
	return dst
}

// DecodePresences inverts AppendPresences.
func DecodePresences(b []byte) ([]door.Presence, error) {
	in := begin(b)
	ps := make([]door.Presence, in.count(2))
	for i := range ps {
		ps[i].Present, ps[i].Context = in.bool(), in.bytes()
	}
	return ps, in.end()
}

// AppendRead appends a request of VerbRead or VerbCount.
func AppendRead(dst []byte, r *door.Read) []byte {
	dst = append(dst, version)
	for _, b := range [][]byte{r.Set, r.From, r.To, r.Prefix, r.After} {
		dst = putBytes(dst, b)
	}
	dst = putBool(putBool(dst, r.Reverse), r.Contexts)
	return putInt(putInt(putInt(dst, r.Limit), r.Batch), r.R)
}

// DecodeRead inverts AppendRead. An empty bound means no bound.
func DecodeRead(b []byte) (r door.Read, err error) {
	in := begin(b)
	r.Set, r.From, r.To, r.Prefix, r.After = in.bytes(), in.bytes(), in.bytes(), in.bytes(), in.bytes()
	r.Reverse, r.Contexts = in.bool(), in.bool()
	r.Limit, r.Batch, r.R = in.int(), in.int(), in.int()
	return r, in.end()
}

// AppendPart appends a part of a read.
func AppendPart(dst []byte, p *door.Part) []byte {
	dst = putBool(append(dst, version), p.Done)
	dst = putBytes(putBytes(dst, p.Context), p.After)
	dst = putInt(dst, len(p.Elements))
	for i := range p.Elements {
		dst = putBytes(putBytes(dst, p.Elements[i].Name), p.Elements[i].Context)
	}
	return dst
}

// DecodePart inverts AppendPart. It reuses the memory of the elements that p had before.
func DecodePart(p *door.Part, b []byte) error {
	in := begin(b)
	p.Done = in.bool()
	p.Context, p.After = in.bytes(), in.bytes()
	n := in.count(2)
	p.Elements = slices.Grow(p.Elements[:0], n)[:n]
	for i := range p.Elements {
		p.Elements[i] = door.Element{Name: in.bytes(), Context: in.bytes()}
	}
	return in.end()
}

// AppendCount appends the answer to a count.
func AppendCount(dst []byte, c *door.Count) []byte {
	return putBytes(putUint(append(dst, version), c.Elements), c.Context)
}

// DecodeCount inverts AppendCount.
func DecodeCount(b []byte) (c door.Count, err error) {
	in := begin(b)
	c.Elements, c.Context = in.uint(), in.bytes()
	return c, in.end()
}

// AppendStats appends the answer to VerbStats, whose request is a Subset without elements.
func AppendStats(dst []byte, s *door.Stats) []byte {
	dst = append(dst, version)
	for _, v := range []uint64{s.Live, s.Seen, s.Dead, s.Actors, s.Gaps, s.ClockBytes, s.TombstoneBytes} {
		dst = putUint(dst, v)
	}
	return dst
}

// DecodeStats inverts AppendStats.
func DecodeStats(b []byte) (s door.Stats, err error) {
	in := begin(b)
	for _, v := range []*uint64{&s.Live, &s.Seen, &s.Dead, &s.Actors, &s.Gaps, &s.ClockBytes, &s.TombstoneBytes} {
		*v = in.uint()
	}
	return s, in.end()
}

// AppendDrop appends a request to drop a set.
func AppendDrop(dst []byte, d *door.Drop) []byte {
	return putQuorum(putBytes(putBytes(append(dst, version), d.Set), d.Context), d.Quorum)
}

// DecodeDrop inverts AppendDrop.
func DecodeDrop(b []byte) (d door.Drop, err error) {
	in := begin(b)
	d.Set, d.Context, d.Quorum = in.bytes(), in.bytes(), in.quorum()
	return d, in.end()
}

// AppendNames appends a part of a list of sets.
func AppendNames(dst []byte, names []bigset.SetInfo) []byte {
	dst = putInt(append(dst, version), len(names))
	for i := range names {
		dst = putUint(putUint(putBytes(dst, names[i].Name), names[i].Live), names[i].Seen)
	}
	return dst
}

// DecodeNames inverts AppendNames.
func DecodeNames(b []byte) ([]bigset.SetInfo, error) {
	in := begin(b)
	names := make([]bigset.SetInfo, in.count(3))
	for i := range names {
		names[i] = bigset.SetInfo{Name: in.bytes(), Live: in.uint(), Seen: in.uint()}
	}
	return names, in.end()
}

// AppendSetCount appends the answer to VerbCountSets.
func AppendSetCount(dst []byte, n bigset.SetCount) []byte {
	return putUint(putUint(append(dst, version), n.Sets), n.Apart)
}

// DecodeSetCount inverts AppendSetCount.
func DecodeSetCount(b []byte) (n bigset.SetCount, err error) {
	in := begin(b)
	if n.Sets, n.Apart = in.uint(), in.uint(); n.Apart > n.Sets {
		in.fail("%d of %d sets", n.Apart, n.Sets)
	}
	return n, in.end()
}

// AppendLeft appends the answer to a drop: how many dots are left.
func AppendLeft(dst []byte, left uint64) []byte { return putUint(append(dst, version), left) }

// DecodeLeft inverts AppendLeft.
func DecodeLeft(b []byte) (uint64, error) {
	in := begin(b)
	left := in.uint()
	return left, in.end()
}

// AppendAll appends a request of VerbNames. With all, the list includes empty sets. In versionNext the body ends with the name after which
// the list begins.
func AppendAll(dst []byte, all bool, after []byte) []byte {
	dst = putBool(append(dst, versionOf(len(after) > 0)), all)
	if len(after) > 0 {
		dst = putBytes(dst, after)
	}
	return dst
}

// DecodeAll inverts AppendAll.
func DecodeAll(b []byte) (all bool, after []byte, err error) {
	in := beginAny(b)
	all = in.bool()
	if in.next {
		if after = in.bytes(); len(after) == 0 {
			in.fail("version %d without need", versionNext)
		}
	}
	return all, after, in.end()
}
