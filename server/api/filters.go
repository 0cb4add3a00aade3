package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/door"
	"bigset/server/wire"
)

// Verbs of filters. They are on the wire.
const (
	VerbCheck        wire.Verb = 20 // FilterKeys; the answer is booleans
	VerbMark         wire.Verb = 21 // like VerbCheck
	VerbCreateFilter wire.Verb = 22 // FilterCreate; the answer is whether it was created
	VerbChangeFilter wire.Verb = 23 // FilterChange; the answer is empty
	VerbFilterInfo   wire.Verb = 24 // a FilterListing whose Prefix is the name; the answer is one FilterInfo
	VerbFilters      wire.Verb = 25 // a FilterListing; the answer is FilterInfos
)

// FilterKeysMax is how many keys of a filter one request may contain. FilterListMost is how many filters one answer lists.
const (
	FilterKeysMax  = 10_000
	FilterListMost = 256
)

// FilterKeys are keys of a filter, to check or to mark.
type FilterKeys struct {
	Name []byte
	Keys [][]byte // at most FilterKeysMax
}

// AppendFilterKeys appends keys of a filter.
func AppendFilterKeys(dst []byte, k *FilterKeys) []byte {
	dst = putInt(putBytes(append(dst, version), k.Name), len(k.Keys))
	for _, key := range k.Keys {
		dst = putBytes(dst, key)
	}
	return dst
}

// DecodeFilterKeys inverts AppendFilterKeys.
func DecodeFilterKeys(b []byte) (k FilterKeys, err error) {
	in := begin(b)
	k.Name = in.bytes()
	n := in.count(1)
	if n > FilterKeysMax {
		return k, &bigset.LimitError{What: "keys in a request", Got: n, Max: FilterKeysMax}
	}
	k.Keys = make([][]byte, n)
	for i := range k.Keys {
		k.Keys[i] = in.bytes()
	}
	return k, in.end()
}

// AppendAnswers appends booleans, one for each key.
func AppendAnswers(dst []byte, answers []bool) []byte {
	dst = putInt(append(dst, version), len(answers))
	for _, yes := range answers {
		dst = putBool(dst, yes)
	}
	return dst
}

// DecodeAnswers inverts AppendAnswers.
func DecodeAnswers(b []byte) ([]bool, error) {
	in := begin(b)
	answers := make([]bool, in.count(1))
	for i := range answers {
		answers[i] = in.bool()
	}
	return answers, in.end()
}

// FilterCreate asks a node to make a filter.
type FilterCreate struct {
	Name []byte
	door.FilterCreate
}

// Flags for the options that a FilterCreate contains.
const (
	hasCapacity    = 1 << 0
	hasProbability = 1 << 1
	hasInMemory    = 1 << 2
	inMemory       = 1 << 3
)

// AppendFilterCreate appends a request to make a filter.
func AppendFilterCreate(dst []byte, c *FilterCreate) []byte {
	dst = putBytes(append(dst, version), c.Name)
	flags := byte(0)
	if c.Capacity != nil {
		flags |= hasCapacity
	}
	if c.Probability != nil {
		flags |= hasProbability
	}
	if c.InMemory != nil {
		flags |= hasInMemory
		if *c.InMemory {
			flags |= inMemory
		}
	}
	dst = append(dst, flags)
	if c.Capacity != nil {
		dst = putUint(dst, *c.Capacity)
	}
	if c.Probability != nil {
		dst = putUint(dst, math.Float64bits(*c.Probability))
	}
	return dst
}

// DecodeFilterCreate inverts AppendFilterCreate.
func DecodeFilterCreate(b []byte) (c FilterCreate, err error) {
	in := begin(b)
	c.Name = in.bytes()
	flags := in.byte()
	if flags >= inMemory<<1 || flags&inMemory > 0 && flags&hasInMemory == 0 {
		in.fail("options %x of a filter", flags)
	}
	if flags&hasCapacity > 0 {
		n := in.uint()
		c.Capacity = &n
	}
	if flags&hasProbability > 0 {
		p := math.Float64frombits(in.uint())
		c.Probability = &p
	}
	if flags&hasInMemory > 0 {
		yes := flags&inMemory > 0
		c.InMemory = &yes
	}
	return c, in.end()
}

// Change is what a FilterChange does. It is on the wire.
type Change byte

// The changes of a filter.
const (
	DropFilter  Change = 1
	ClearFilter Change = 2
	CloseFilter Change = 3
	FlushFilter Change = 4 // without a name: all filters
)

// FilterChange changes a filter.
type FilterChange struct {
	Do   Change
	Name []byte
}

// AppendFilterChange appends a change of a filter.
func AppendFilterChange(dst []byte, c *FilterChange) []byte {
	return putBytes(append(dst, version, byte(c.Do)), c.Name)
}

// DecodeFilterChange inverts AppendFilterChange.
func DecodeFilterChange(b []byte) (c FilterChange, err error) {
	in := begin(b)
	c.Do, c.Name = Change(in.byte()), in.bytes()
	if c.Do < DropFilter || c.Do > FlushFilter {
		in.fail("change %d of a filter", c.Do)
	}
	return c, in.end()
}

// AppendFilterListing appends a request for information about filters. Most is at most FilterListMost; 0 stands for FilterListMost.
func AppendFilterListing(dst []byte, l *door.FilterListing) []byte {
	dst = putBytes(putBytes(append(dst, version), l.Prefix), []byte(l.After))
	return putBool(putInt(dst, l.Most), l.Absolute)
}

// DecodeFilterListing inverts AppendFilterListing.
func DecodeFilterListing(b []byte) (l door.FilterListing, err error) {
	in := begin(b)
	l.Prefix, l.After = in.bytes(), string(in.bytes())
	if l.Most = in.int(); l.Most > FilterListMost {
		in.fail("a list of %d filters, at most %d", l.Most, FilterListMost)
	}
	l.Absolute = in.bool()
	return l, in.end()
}

// numbers are the figures of a filter in their order on the wire.
func numbers(i *door.FilterInfo) []*uint64 {
	return []*uint64{&i.CheckHits, &i.CheckMisses, &i.SetHits, &i.SetMisses, &i.PageIns, &i.PageOuts, &i.Capacity, &i.Size, &i.Storage}
}

// AppendFilterInfos appends information about filters.
func AppendFilterInfos(dst []byte, infos []door.FilterInfo) []byte {
	dst = putInt(append(dst, version), len(infos))
	for i := range infos {
		f := &infos[i]
		dst = putUint(putBytes(dst, []byte(f.Name)), math.Float64bits(f.Probability))
		dst = putBool(dst, f.InMemory)
		for _, n := range numbers(f) {
			dst = putUint(dst, *n)
		}
	}
	return dst
}

// DecodeFilterInfos inverts AppendFilterInfos.
func DecodeFilterInfos(b []byte) ([]door.FilterInfo, error) {
	in := begin(b)
	infos := make([]door.FilterInfo, in.count(3+len(numbers(&door.FilterInfo{}))))
	for i := range infos {
		f := &infos[i]
		f.Name, f.Probability, f.InMemory = string(in.bytes()), math.Float64frombits(in.uint()), in.bool()
		for _, n := range numbers(f) {
			*n = in.uint()
		}
	}
	return infos, in.end()
}

// FilterHandler serves the verbs of filters from f, and all others by next.
func FilterHandler(f door.Filters, next wire.Handler) wire.Handler {
	s := &filterService{f}
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb < VerbCheck || r.Verb > VerbFilters {
			return next(ctx, r, send)
		}
		if r.Epoch != 0 {
			return nil, fmt.Errorf("%w: a client's request names epoch %d", ErrBody, r.Epoch)
		}
		return s.serve(ctx, r)
	}
}

type filterService struct{ filters door.Filters }

func (s *filterService) serve(ctx context.Context, r *wire.Request) ([]byte, error) {
	bools := func(answers []bool) []byte { return AppendAnswers(nil, answers) }
	infos := func(infos []door.FilterInfo) []byte { return AppendFilterInfos(nil, infos) }
	switch r.Verb {
	case VerbCheck:
		return answer(ctx, r.Body, DecodeFilterKeys, s.check, bools)
	case VerbMark:
		return answer(ctx, r.Body, DecodeFilterKeys, s.mark, bools)
	case VerbCreateFilter:
		return answer(ctx, r.Body, DecodeFilterCreate, s.create, bools)
	case VerbChangeFilter:
		return answer(ctx, r.Body, DecodeFilterChange, s.change, bools)
	case VerbFilterInfo:
		return answer(ctx, r.Body, DecodeFilterListing, s.info, infos)
	}
	return answer(ctx, r.Body, DecodeFilterListing, s.list, infos)
}

func (s *filterService) list(ctx context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	if l.Most == 0 {
		l.Most = FilterListMost
	}
	return s.filters.List(ctx, l)
}

// find finds a filter. It returns ErrNoFilter for a name that no filter can have.
func (s *filterService) find(ctx context.Context, name []byte) (door.Filter, error) {
	if len(name) == 0 || bigset.CheckFilterName(name) != nil {
		return nil, bigset.ErrNoFilter
	}
	return s.filters.Find(ctx, name)
}

func (s *filterService) check(ctx context.Context, k FilterKeys) ([]bool, error) {
	return s.keys(ctx, k, door.Filter.Check)
}

func (s *filterService) mark(ctx context.Context, k FilterKeys) ([]bool, error) {
	answers, err := s.keys(ctx, k, door.Filter.Set)
	return answers, changed(err)
}

func (s *filterService) keys(ctx context.Context, k FilterKeys, do func(door.Filter, context.Context, [][]byte, []bool) error) ([]bool, error) {
	f, err := s.find(ctx, k.Name)
	if err != nil {
		return nil, err
	}
	answers := make([]bool, len(k.Keys))
	return answers, do(f, ctx, k.Keys, answers)
}

// settled are the errors of filters that say whether a change was done: it was not, or that is unknown.
var settled = []error{
	door.ErrUnavailable, door.ErrUnknown, bigset.ErrNoFilter, bigset.ErrFilterOpen, bloomslice.ErrOptions, bigset.ErrRequest, bigset.ErrLimit,
}

// changed returns the error of a change. After any other error it is unknown whether the change was done.
func changed(err error) error {
	if err == nil || slices.ContainsFunc(settled, func(known error) bool { return errors.Is(err, known) }) {
		return err
	}
	return &door.UnknownError{Err: err}
}

// create makes a filter. Its name must fit every protocol: printable and without blanks.
func (s *filterService) create(ctx context.Context, c FilterCreate) ([]bool, error) {
	if err := bigset.CheckFilterName(c.Name); err != nil {
		return nil, err
	}
	for _, b := range c.Name {
		if b <= ' ' {
			return nil, fmt.Errorf("%w: a filter's name with byte %q: blanks and control characters are not for names", bigset.ErrRequest, b)
		}
	}
	if len(c.Name) == 0 {
		return nil, fmt.Errorf("%w: a filter without a name", bigset.ErrRequest)
	}
	created, err := s.filters.Create(ctx, c.Name, c.FilterCreate)
	if errors.Is(err, bigset.ErrDiskFull) && !errors.Is(err, bigset.ErrFailed) { // refused before anything was written
		return nil, err
	}
	return []bool{created}, changed(err)
}

func (s *filterService) change(ctx context.Context, c FilterChange) ([]bool, error) {
	return nil, changed(s.do(ctx, c))
}

func (s *filterService) do(ctx context.Context, c FilterChange) error {
	if c.Do == FlushFilter && len(c.Name) == 0 {
		return s.filters.FlushAll(ctx)
	}
	if _, err := s.find(ctx, c.Name); err != nil {
		return err
	}
	switch c.Do {
	case DropFilter:
		return s.filters.Drop(ctx, c.Name)
	case ClearFilter:
		return s.filters.Clear(ctx, c.Name)
	case CloseFilter:
		return s.filters.Close(ctx, c.Name)
	}
	return s.filters.Flush(ctx, c.Name)
}

func (s *filterService) info(ctx context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	f, err := s.find(ctx, l.Prefix)
	if err != nil {
		return nil, err
	}
	info, err := f.Info(ctx, l.Absolute)
	return []door.FilterInfo{info}, err
}
