package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
)

// The kinds of frames about many slices of one filter, from version 2 on. They are on the wire.
const (
	kindMarkMany    = 'y'
	kindMarkedMany  = 'z'
	kindCheckMany   = 'Y'
	kindAnswersMany = 'Z'
	kindMarksMany   = 'j'
)

// The bounds of a request about many slices in one frame. They are part of the wire format.
const (
	ManyKeysMax  = 10_000  // keys, or marks, of all groups together
	ManyBytesMax = 1 << 20 // of the groups of a request
)

// ManySlices is an optional extension of SliceReplica: keys of many slices of a filter in one call, so that a coordinator sends a node one
// frame for a batch. Each group is handled as by the method of SliceReplica for one slice, and has its own error, with the meaning of that
// method's error. An error of the call applies to all groups.
//
// The spec's slice is ignored. Groups ascend by slice, without duplicates. All groups together have at most ManyKeysMax keys, and marks
// with their layers take at most ManyBytesMax bytes. There is one answer for each group, in the same order.
type ManySlices interface {
	SliceReplica

	// MarkMany marks keys as Mark does.
	MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []SliceKeys) ([]SliceMarked, Member, error)

	// CheckMany checks keys as Check does.
	CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []SliceKeys) ([]SliceAnswers, Member, error)

	// ApplyMarksMany applies another replica's decision, as ApplyMarks does.
	ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []SliceMarks) ([]SliceAnswers, Member, error)
}

// SlicesNow is an optional extension of a ManySlices in this process: it answers at once, so that a coordinator asks other replicas only
// for what it does not know yet.
type SlicesNow interface {
	Stamper

	// CheckManyNow does what CheckMany does if that waits for nothing: no page has to be read. It records in present, which is as long as
	// all keys together, which keys are present, group after group. It returns false if that can't be determined at once, or if CheckMany
	// or any group of it might fail. Then the contents of present mean nothing, and the caller must use CheckMany. The answers count as
	// those of a member in state Normal.
	CheckManyNow(spec bigset.SliceSpec, groups []SliceKeys, present []bool) bool

	// StampNow returns the number of the stamp of a filter, as Stamp does, or false if the replica has nothing of the filter.
	StampNow(spec bigset.SliceSpec) (number uint64, ok bool)
}

// SliceKeys are keys of one slice, by their hashes.
type SliceKeys struct {
	Slice  uint32
	Hashes []bloomslice.Hash
}

// SliceMarks are the marks of one slice: bigset.Marks without the fields that all slices of the filter share.
type SliceMarks struct {
	Slice  uint32
	Layers []bloomslice.Layer
	Marks  []bigset.Mark
}

// Of returns the marks of one slice of a filter.
func (m *SliceMarks) Of(spec bigset.SliceSpec) bigset.Marks {
	spec.Slice = m.Slice
	return bigset.Marks{SliceSpec: spec, Layers: m.Layers, Marks: m.Marks}
}

// SliceMarked is the result for one group of MarkMany: the marks for the other replicas and which keys were new, or an error.
type SliceMarked struct {
	SliceMarks
	Added []bool
	Err   error
}

// SliceAnswers are the answers to one group of keys or marks, or an error.
type SliceAnswers struct {
	Answers []bool
	Err     error
}

// CheckMarked returns an error that is ErrFrame unless the results of MarkMany match its groups.
func CheckMarked(all []SliceMarked, groups []SliceKeys) error {
	if len(all) != len(groups) {
		return fmt.Errorf("%w: answers about %d slices, not %d", ErrFrame, len(all), len(groups))
	}
	for i := range all {
		if a := &all[i]; a.Err == nil && (a.Slice != groups[i].Slice || len(a.Added) != len(groups[i].Hashes)) {
			return fmt.Errorf("%w: %d answers of slice %d, not %d of slice %d", ErrFrame, len(a.Added), a.Slice, len(groups[i].Hashes), groups[i].Slice)
		}
	}
	return nil
}

// MarkMany asks for keys of many slices to be marked: ManySlices.MarkMany's arguments in a frame.
type MarkMany manyKeys

// CheckMany asks which keys are in many slices: ManySlices.CheckMany's arguments in a frame.
type CheckMany manyKeys

// MarksMany are marks of many slices: ManySlices.ApplyMarksMany's arguments in a frame.
type MarksMany struct {
	Spec   bigset.SliceSpec // its slice is 0
	Groups []SliceMarks
}

// manyKeys are keys of many slices of a filter.
type manyKeys struct {
	Spec   bigset.SliceSpec // its slice is 0
	Groups []SliceKeys
}

// MarkedMany answers MarkMany.
type MarkedMany []SliceMarked

// AnswersMany answers CheckMany and MarksMany.
type AnswersMany []SliceAnswers

func (MarkMany) kind() byte    { return kindMarkMany }
func (CheckMany) kind() byte   { return kindCheckMany }
func (MarksMany) kind() byte   { return kindMarksMany }
func (MarkedMany) kind() byte  { return kindMarkedMany }
func (AnswersMany) kind() byte { return kindAnswersMany }

// manyMessage decodes the rest of a frame as a message about many slices, or returns nil if the kind is not one.
func (d *decoder) manyMessage(kind byte) Message {
	switch kind {
	case kindMarkMany:
		return MarkMany(d.manyKeys())
	case kindCheckMany:
		return CheckMany(d.manyKeys())
	case kindMarksMany:
		return d.marksMany()
	case kindMarkedMany:
		return d.markedMany()
	case kindAnswersMany:
		return d.answersMany()
	}
	return nil
}

func (m MarkMany) appendTo(e *encoder) error  { return e.manyKeys((*manyKeys)(&m)) }
func (m CheckMany) appendTo(e *encoder) error { return e.manyKeys((*manyKeys)(&m)) }

// checkMany checks the groups of a request or an answer: their number, and the number of keys or marks in all of them.
func checkMany(groups, keys int) error {
	if groups > bloomslice.SlicesMax || keys > ManyKeysMax {
		return fmt.Errorf("%w: %d keys of %d slices", ErrFrameTooLarge, keys, groups)
	}
	return nil
}

// checkSlices checks that the slices of a filter ascend, and that the filter has them.
func checkSlices(spec *bigset.SliceSpec, n int, slice func(int) uint32) error {
	if spec.Slice != 0 {
		return fmt.Errorf("%w: a spec of slice %d for many slices", ErrFrame, spec.Slice)
	}
	for i := range n {
		if i > 0 && slice(i-1) >= slice(i) || slice(i) >= spec.Options.Slices {
			return fmt.Errorf("%w: slice %d of %d, or slices in no order", ErrFrame, slice(i), spec.Options.Slices)
		}
	}
	return nil
}

func (m *manyKeys) check() error {
	keys := 0
	for i := range m.Groups {
		keys += len(m.Groups[i].Hashes)
	}
	return errors.Join(checkMany(len(m.Groups), keys), checkSlices(&m.Spec, len(m.Groups), func(i int) uint32 { return m.Groups[i].Slice }))
}

func (e *encoder) manyKeys(m *manyKeys) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := e.spec(&m.Spec); err != nil {
		return err
	}
	keys := 0
	for i := range m.Groups {
		keys += len(m.Groups[i].Hashes)
	}
	e.b = slices.Grow(e.b, hashBytes*keys+4*len(m.Groups)+sumBytes)
	e.uvarint(uint64(len(m.Groups)))
	for i := range m.Groups {
		g := &m.Groups[i]
		e.uvarint(uint64(g.Slice))
		e.uvarint(uint64(len(g.Hashes)))
		e.hashes(g.Hashes)
	}
	return nil
}

// manyBytesMin is the minimum size of a group: its slice, and its number of keys.
const manyBytesMin = 2

func (d *decoder) manyKeys() manyKeys {
	m := manyKeys{Spec: d.spec()}
	n, left := d.count(manyBytesMin, bloomslice.SlicesMax), ManyKeysMax
	hashes := make([]bloomslice.Hash, 0, min(left, d.rest()/hashBytes)) // of all groups
	if n > 0 {
		m.Groups = make([]SliceKeys, 0, n)
	}
	for len(m.Groups) < n && d.err == nil {
		g := SliceKeys{Slice: uint32(d.upTo(bloomslice.SlicesMax))}
		keys := d.count(hashBytes, left)
		left -= keys
		if keys > 0 && keys <= cap(hashes)-len(hashes) {
			g.Hashes = hashes[len(hashes) : len(hashes)+keys : len(hashes)+keys]
			hashes = hashes[:len(hashes)+keys]
		} else if keys > 0 {
			g.Hashes = make([]bloomslice.Hash, keys)
		}
		d.hashes(g.Hashes)
		m.Groups = append(m.Groups, g)
	}
	if err := m.check(); d.err == nil && err != nil {
		d.failed("slices", err)
	}
	return m
}

func (m *MarksMany) check() error {
	marks := 0
	for i := range m.Groups {
		marks += len(m.Groups[i].Marks)
	}
	return errors.Join(checkMany(len(m.Groups), marks), checkSlices(&m.Spec, len(m.Groups), func(i int) uint32 { return m.Groups[i].Slice }))
}

func (m MarksMany) appendTo(e *encoder) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := e.spec(&m.Spec); err != nil {
		return err
	}
	from := len(e.b)
	e.growMarks(len(m.Groups), func(i int) int { return len(m.Groups[i].Marks) })
	e.uvarint(uint64(len(m.Groups)))
	for i := range m.Groups {
		if err := e.sliceMarks(&m.Groups[i]); err != nil {
			return err
		}
	}
	if n := len(e.b) - from; n > ManyBytesMax {
		return fmt.Errorf("%w: %d bytes of marks", ErrFrameTooLarge, n)
	}
	return nil
}

// growMarks makes room for the marks of n slices, each with a layer or two.
func (e *encoder) growMarks(n int, marks func(i int) int) {
	size := sumBytes
	for i := range n {
		size += 32 + markBytesMin*marks(i)
	}
	e.b = slices.Grow(e.b, size)
}

func (d *decoder) marksMany() MarksMany {
	m := MarksMany{Spec: d.spec()}
	if d.rest() > ManyBytesMax {
		d.failed("marks", ErrFrameTooLarge)
	}
	n, left := d.count(manyBytesMin, bloomslice.SlicesMax), ManyKeysMax
	m.Groups = slices.Grow(m.Groups, n)
	for len(m.Groups) < n && d.err == nil {
		m.Groups = append(m.Groups, d.sliceMarks(&left))
	}
	if err := m.check(); d.err == nil && err != nil {
		d.failed("slices", err)
	}
	return m
}

func (e *encoder) sliceMarks(m *SliceMarks) error {
	if err := checkMarks(&Marks{Layers: m.Layers, Marks: m.Marks}); err != nil {
		return err
	}
	e.uvarint(uint64(m.Slice))
	if err := e.layers(m.Layers); err != nil {
		return err
	}
	e.markList(m.Marks)
	return nil
}

// sliceMarks reads the marks of a slice, at most *left, and reduces *left by their number.
func (d *decoder) sliceMarks(left *int) SliceMarks {
	m := SliceMarks{Slice: uint32(d.upTo(bloomslice.SlicesMax)), Layers: d.layers(), Marks: d.markList(min(*left, bigset.MarksMax))}
	*left -= len(m.Marks)
	if err := checkMarks(&Marks{Layers: m.Layers, Marks: m.Marks}); d.err == nil && err != nil {
		d.failed("marks", err)
	}
	return m
}

// The kinds of answers about one of many slices. They are on the wire.
const (
	groupAnswered = 0
	groupFailed   = 1 // an error follows
)

func (m MarkedMany) appendTo(e *encoder) error {
	marks := 0
	for i := range m {
		marks += len(m[i].Marks)
	}
	if err := checkMany(len(m), marks); err != nil {
		return err
	}
	e.growMarks(len(m), func(i int) int { return len(m[i].Marks) })
	e.uvarint(uint64(len(m)))
	for i := range m {
		g := &m[i]
		if e.groupError(g.Err) {
			continue
		}
		if err := e.sliceMarks(&g.SliceMarks); err != nil {
			return err
		}
		if err := e.bits(g.Added); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) markedMany() MarkedMany {
	n, left := d.count(manyBytesMin, bloomslice.SlicesMax), ManyKeysMax
	m := slices.Grow(MarkedMany(nil), n)
	for len(m) < n && d.err == nil {
		g := SliceMarked{Err: d.groupError()}
		if g.Err == nil {
			g.SliceMarks, g.Added = d.sliceMarks(&left), d.bits()
		}
		m = append(m, g)
	}
	return m
}

func (m AnswersMany) appendTo(e *encoder) error {
	answers := 0
	for i := range m {
		answers += len(m[i].Answers)
	}
	if err := checkMany(len(m), answers); err != nil {
		return err
	}
	e.b = slices.Grow(e.b, 4*len(m)+answers/8+sumBytes)
	e.uvarint(uint64(len(m)))
	for i := range m {
		if e.groupError(m[i].Err) {
			continue
		}
		if err := e.bits(m[i].Answers); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) answersMany() AnswersMany {
	n, left := d.count(manyBytesMin, bloomslice.SlicesMax), ManyKeysMax
	m := slices.Grow(AnswersMany(nil), n)
	for len(m) < n && d.err == nil {
		g := SliceAnswers{Err: d.groupError()}
		if g.Err == nil {
			g.Answers = d.bits()
		}
		if left -= len(g.Answers); left < 0 {
			d.failed("answers", ErrFrameTooLarge)
		}
		m = append(m, g)
	}
	return m
}

// groupError writes the outcome of a group, and reports whether that is all: the group failed.
func (e *encoder) groupError(err error) bool {
	if err == nil {
		e.byte(groupAnswered)
		return false
	}
	e.byte(groupFailed)
	e.bytes(Errors{}.Append(nil, err))
	return true
}

func (d *decoder) groupError() error {
	switch d.byte() {
	case groupAnswered:
		return nil
	case groupFailed:
		return Errors{}.Decode(d.bytes(ErrorBytesMax))
	}
	d.fail("neither answered nor failed")
	return nil
}
