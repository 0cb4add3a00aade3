package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

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

const batchSizeDefault = 1000

// ask sets what is read.
func (r *reader) ask(o bigset.ReadOptions) {
	r.left, r.bounds, r.scrap = o.Limit, boundsOf(r.st.prefix, o), o.Scrap
	r.fold = fold.Options{ElementsMax: cmp.Or(o.BatchSize, batchSizeDefault), Reverse: o.Reverse}
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
