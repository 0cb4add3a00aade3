package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// iteratorAgeMax is how long a read uses one iterator before it continues after its bound with a new one: an iterator
// pins tables, and delays the garbage collection of its set.
const iteratorAgeMax = time.Second

// Read streams the elements of a set in order, in chunks, each with the clock and the dots to act on. A chunk is of
// one moment of the set, except for writes that are made just then: it may show all adds of such a write, and still
// what the write replaces or removes. Its clock does not contain such adds. The whole stream is not of one moment: every
// chunk is right by itself and no element comes twice. Read returns bigset.ErrNotFound if the store does not know the
// set. The stream ends when the consumer stops, when ctx is done, or when the store is closing.
func (s *Store) Read(ctx context.Context, name []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		stopped := false
		err := s.reading(ctx, name, o, func(st *set, r *reader) error {
			for !r.done && !stopped {
				chunk, err := r.next(ctx)
				if err != nil {
					return err
				}
				stopped = !yield(chunk, nil)
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// Elements streams the elements of a set in order, each with the dots to act on. It is Read without chunks, for
// callers that look at one element at a time. An element's memory belongs to the caller. o.Scrap is not used. A set that the
// store does not know is an error that wraps bigset.ErrNotFound; a set that has become empty is not.
func (s *Store) Elements(ctx context.Context, name []byte, o bigset.ReadOptions) iter.Seq2[fold.Element, error] {
	o.Scrap = nil
	return func(yield func(fold.Element, error) bool) {
		for chunk, err := range s.Read(ctx, name, o) {
			if err != nil {
				yield(fold.Element{}, err)
				return
			}
			for _, e := range chunk.Elements {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// CountOptions select what of a set is counted. The zero value is all of it.
type CountOptions struct {
	// ReadOptions are the options of the read whose elements are counted.
	bigset.ReadOptions
	// Progress is called with the number of elements counted so far, after every thousand elements or fifty thousand
	// keys, if it is not nil.
	Progress func(elements uint64)
}

// Count is the result of counting a set or a part of it.
type Count struct {
	// Elements is the number of elements that were present.
	Elements uint64
	// Context is the clock of the whole set as of the count's first moment, also when a part of the set was counted.
	// It does not cover events that were added during the count. It belongs to the caller.
	Context *clock.Clock
	// Scanned is the number of keys that were read; 0 if none had to be.
	Scanned uint64
}

// Count counts elements. Count of a whole set reads no key if no element can have two live dots: that is, if since
// the set was created, or since a count that found none, all adds used PolicyCoordinator and no delta was applied.
// Otherwise it reads the keys, as of several moments if it takes long. An element that is added or removed during the
// count may be counted or not. Count returns bigset.ErrNotFound if the store does not know the set.
func (s *Store) Count(ctx context.Context, name []byte, o CountOptions) (c Count, err error) {
	err = s.reading(ctx, name, o.ReadOptions, func(st *set, r *reader) error {
		began, dots := st.view(), uint64(0)
		if whole(&o.ReadOptions) && began.single {
			c = Count{Elements: liveDots(began.seen, began.dead), Context: began.seen.Clone()}
			return nil
		}
		r.fold.CountOnly = true
		for !r.done {
			chunk, err := r.next(ctx)
			if err != nil {
				return err
			}
			if c.Context == nil {
				c.Context = chunk.Clock.Clone()
			}
			c.Elements += uint64(chunk.Count)
			c.Scanned += uint64(chunk.Scanned)
			dots += uint64(chunk.Dots)
			if o.Progress != nil {
				o.Progress(c.Elements)
			}
		}
		if whole(&o.ReadOptions) && dots == c.Elements {
			return s.holding(st, func() error {
				st.lowerSiblings(began)
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return Count{}, err
	}
	return c, nil
}

// Live returns the number of live dots of a set, without a scan. It is never less than the number of elements, and
// equal to it while no element has two live dots and no key is unresolved (Options.KeepContexts). It returns
// bigset.ErrNotFound if the store does not know the set.
func (s *Store) Live(ctx context.Context, name []byte) (n uint64, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		n = st.live()
		return nil
	})
	return n, err
}

// Seen returns the clock of a whole set: what this store has seen of it. It belongs to the caller. Seen returns bigset.ErrNotFound if the
// store does not know the set.
func (s *Store) Seen(ctx context.Context, name []byte) (c *clock.Clock, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		st.mu.Lock()
		defer st.mu.Unlock()
		c = st.seen.Clone()
		return nil
	})
	return c, err
}

// withSet runs f with a set that this store knows.
func (s *Store) withSet(ctx context.Context, name []byte, f func(*set) error) error {
	return s.usingSet(ctx, name, func(st *set) error {
		if !st.known() {
			return fmt.Errorf("%w: %q", bigset.ErrNotFound, name)
		}
		return f(st)
	})
}

// usingSet runs f with a set, whether the store knows it or not.
func (s *Store) usingSet(ctx context.Context, name []byte, f func(*set) error) error {
	if err := bigset.CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	st, err := s.sets.acquire(name)
	if err != nil {
		return s.metIn(name, err)
	}
	defer s.sets.release(st)
	return f(st)
}

// reading runs f with a reader of a set.
func (s *Store) reading(ctx context.Context, name []byte, o bigset.ReadOptions, f func(*set, *reader) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	return s.withSet(ctx, name, func(st *set) (err error) {
		r := &reader{s: s, st: st}
		r.ask(o)
		defer func() {
			if e := r.close(); err == nil {
				err = e
			}
		}()
		return f(st, r)
	})
}

const batchSizeDefault = 1000

// ask sets what is read.
func (r *reader) ask(o bigset.ReadOptions) {
	r.left, r.bounds, r.scrap = o.Limit, boundsOf(r.st.prefix, o), o.Scrap
	r.fold = fold.Options{ElementsMax: cmp.Or(o.BatchSize, batchSizeDefault), Reverse: o.Reverse}
}

// whole reports whether the options ask for all of a set.
func whole(o *bigset.ReadOptions) bool {
	return o.From == nil && o.To == nil && o.After == nil && len(o.Prefix) == 0 && o.Limit == 0
}

// boundsOf returns the keys of a set that the options allow.
func boundsOf(p keyscheme.Prefix, o bigset.ReadOptions) keyscheme.Bounds {
	b := p.Elements()
	if o.From != nil {
		b.Lower = later(b.Lower, p.Range(keyscheme.Before(o.From), keyscheme.Edge{}).Lower)
	}
	if o.To != nil {
		b.Upper = sooner(b.Upper, p.Range(keyscheme.Edge{}, keyscheme.Before(o.To)).Upper)
	}
	if len(o.Prefix) > 0 {
		head := p.Starting(o.Prefix)
		b.Lower, b.Upper = later(b.Lower, head.Lower), sooner(b.Upper, head.Upper)
	}
	if o.After != nil && o.Reverse {
		b.Upper = sooner(b.Upper, p.Range(keyscheme.Edge{}, keyscheme.Before(o.After)).Upper)
	} else if o.After != nil {
		b.Lower = later(b.Lower, p.Range(keyscheme.After(o.After), keyscheme.Edge{}).Lower)
	}
	return b
}

// reader reads one set in chunks. The keys of a chunk may be newer than its view, never older. A key whose dot the view
// has not seen is shown: at worst beside the dot that it replaced, which the view does not know to be dead. The other way
// round an element would vanish whose old dot is dead in the view and whose new key the iterator does not have yet.
type reader struct {
	s      *Store
	st     *set
	bounds keyscheme.Bounds
	fold   fold.Options
	left   int // how many more elements may be returned; 0 is no limit
	done   bool
	still  bool               // it belongs to a Moment, which has opened it: it keeps its iterator and its view, and shows nothing newer
	scrap  func() *fold.Chunk // bigset.ReadOptions.Scrap

	mu     lockorder.Mutex[lockorder.ReaderMu] // guards what follows against expire
	timer  *time.Timer                         // closes the iterator if the consumer takes long; nil in a read of one chunk
	it     *pebble.Iterator
	opened time.Time
	epoch  uint32
	view   *view
	folder *fold.Folder
	skip   skipper
	apart  []byte     // memory after the iterator's buffer: see keepApart
	runs   *deadRuns  // the set's; nil until a reader has met a long one
	finder *runFinder // nil if the reader only uses runs
}

// open registers as a reader and a finder of dead runs, takes a view, opens an iterator, and takes the runs, in that order.
func (r *reader) open() (err error) {
	r.st.viewing.RLock()
	defer r.st.viewing.RUnlock()
	r.epoch = r.st.readers.enter()
	if r.runs = r.st.runs.Load(); r.runs != nil {
		r.finder = r.runs.find()
	}
	r.it, err = r.s.openAfter(r.st, r.bounds, func() { r.view = r.st.view() })
	if err != nil {
		r.it = nil
		r.leave()
		return err
	}
	r.opened = time.Now()
	r.begin()
	return nil
}

// begin takes the dead runs and goes to the first key.
func (r *reader) begin() {
	r.folder = fold.New(r.view.dead, r.fold)
	var known []deadRun
	if r.runs != nil {
		known = r.runs.within(r.bounds, r.view)
	}
	r.countPassed()
	r.skip.begin(r, known)
	r.keepApart()
}

// openAfter calls take, which takes Seen and Dead of a set, and opens an iterator that shows all keys which that Dead
// does not contain, except those that died since and that the drop filter hides. So the caller has registered with
// st.readers before, and holds viewing.
func (s *Store) openAfter(st *set, b keyscheme.Bounds, take func()) (*pebble.Iterator, error) {
	return s.db.OpenSetAfter(st.prefix, &pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper}, func() {
		if take(); s.viewed != nil {
			s.viewed()
		}
	})
}

// keepApart allocates the memory after the buffer into which the iterator copies each key, so that no other
// iterator's buffer shares its cache line. If two buffers shared one, two reads on two cores would contend for the
// line at every key and take half as long again.
func (r *reader) keepApart() {
	if !r.skip.ok {
		return
	}
	if n := cap(r.it.Key()); n <= apartBytesMax {
		r.apart = make([]byte, n)
	}
}

// apartBytesMax is the size of buffers above which only a few bytes of one can share a cache line with another.
const apartBytesMax = 512

// leave undoes the registrations of open.
func (r *reader) leave() {
	if r.finder != nil {
		r.runs.leave(r.finder)
		r.finder = nil
	}
	r.countPassed()
	r.st.readers.leave(r.epoch)
}

func (r *reader) countPassed() {
	r.s.counters.runsPassed.Add(uint64(r.skip.passed))
	r.skip.passed = 0
}

// close ends the read.
func (r *reader) close() error {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closeIterator()
}

func (r *reader) closeIterator() error {
	if r.it == nil {
		return nil
	}
	err := r.it.Close()
	r.it = nil
	r.leave()
	return err
}

// expire closes the iterator of a consumer that has not returned for a while: the read continues with a new one.
func (r *reader) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.closeIterator() // between chunks nothing is being read, and what was read was checked
}

// keep lets the iterator live for a while longer, until the consumer asks for the next chunk.
func (r *reader) keep() {
	if r.timer == nil {
		r.timer = time.AfterFunc(iteratorAgeMax, r.expire)
	} else {
		r.timer.Reset(iteratorAgeMax)
	}
}

// next returns the next chunk.
func (r *reader) next(ctx context.Context) (*fold.Chunk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chunk, err := r.fill(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: read %q: %w", r.st.name, lsm.DiskError(err))
	}
	return chunk, nil
}

func (r *reader) fill(ctx context.Context) (*fold.Chunk, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.s.db.Closed() {
		return nil, bigset.ErrClosed
	}
	if comparator.Compare(r.bounds.Lower, r.bounds.Upper) >= 0 {
		r.done = true
		v := r.view
		if !r.still {
			v = r.st.view()
		}
		return &fold.Chunk{Clock: v.seen, Done: true}, nil
	}
	if r.left > 0 {
		r.fold.ElementsMax = min(r.fold.ElementsMax, r.left)
	}
	if r.it == nil {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	r.folder.Limit(r.fold.ElementsMax)
	if r.scrap != nil {
		if c := r.scrap(); c != nil {
			r.folder.Reuse(c)
		}
	}
	if err := r.scan(ctx); err != nil {
		return nil, err
	}
	return r.finish()
}

// scan feeds keys to the folder until the chunk is full or the keys end.
func (r *reader) scan(ctx context.Context) error {
	prefixLen := len(r.st.prefix)
	for n := 1; r.skip.ok; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, r.it.Key())
		if !ok {
			return fmt.Errorf("%w: key %x", bigset.ErrCorrupt, r.it.Key())
		}
		if r.newer(actor, counter) {
			r.skip.next()
			continue
		}
		if r.folder.Starts(element) {
			if r.runs != nil {
				r.learnGap()
			}
			return nil
		}
		value, err := r.it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := r.folder.Step(element, actor, counter, op, value); err != nil {
			return fmt.Errorf("%w: element %q: %w", bigset.ErrCorrupt, element, err)
		}
		switch {
		case !r.folder.Counted():
		case r.runs != nil:
			r.metLive(keyscheme.IsUnresolved(value))
		default:
			if r.skip.lives++; (r.skip.lives-1)%r.skip.keysMin == 0 {
				r.lookForGaps()
			}
		}
		r.skip.next()
	}
	if err := r.it.Error(); err != nil {
		return err
	}
	if r.runs != nil {
		r.learnGap()
	} else {
		r.lookForGaps()
	}
	return nil
}

// end returns the bound at which the read ends.
func (r *reader) end() []byte {
	if r.fold.Reverse {
		return r.bounds.Lower
	}
	return r.bounds.Upper
}

// finish takes the chunk from the folder and prepares the rest of the read.
func (r *reader) finish() (*fold.Chunk, error) {
	chunk := r.folder.Chunk(!r.skip.ok)
	chunk.Clock = r.view.seen
	r.learnHead(chunk)
	n := chunk.Count
	if r.left > 0 {
		if r.left -= n; r.left == 0 {
			r.done = true
			return chunk, r.rest()
		}
	}
	if chunk.Done {
		r.done = true
		return chunk, r.rest()
	}
	if r.still {
		return chunk, nil
	}
	r.moveBounds(chunk.Bound)
	if time.Since(r.opened) > iteratorAgeMax {
		return chunk, r.closeIterator()
	}
	r.keep()
	return chunk, nil
}

// rest ends the use of the iterator by a read that is done.
func (r *reader) rest() error {
	if r.still {
		return nil
	}
	return r.closeIterator()
}

// moveBounds makes a new iterator start after an element.
func (r *reader) moveBounds(bound []byte) {
	if r.fold.Reverse {
		r.bounds.Upper = r.st.prefix.AppendElementBound(nil, bound)
	} else {
		r.bounds.Lower = r.st.prefix.AppendElementAfter(nil, bound)
	}
}

// later returns the greater of two bounds, sooner the lesser.
func later(a, b []byte) []byte {
	if comparator.Compare(a, b) >= 0 {
		return a
	}
	return b
}

func sooner(a, b []byte) []byte {
	if comparator.Compare(a, b) <= 0 {
		return a
	}
	return b
}
