package coord

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/btree"

	"bigset/server/peer"
)

// ErrHintsFull is returned when there is no room for a hint.
var ErrHintsFull = errors.New("coord: hints are full")

// HintOptions bound hints. Zero fields mean the default.
type HintOptions struct {
	// BytesMax is the maximum size of the hints for all nodes; the default is 256 MiB. On disk they may take twice that, and two segments.
	BytesMax int64
	// NodeBytesMax is the maximum size of the hints for one node; the default is BytesMax. The hints for one node take no room from those
	// for another while the number of nodes times NodeBytesMax is at most BytesMax.
	NodeBytesMax int64
	// NodeCountMax is the maximum number of hints for one node; the default is 1,048,576. Each hint takes about 130 bytes of memory.
	NodeCountMax int
	// AgeMax is the maximum age of a hint, which is looked at once a minute; the default is 24 h. More than the time for which a replica keeps
	// request ids is useful: deltas do not age.
	AgeMax time.Duration
	// SegmentBytes is the size at which a new file is begun; the default is 4 MiB.
	SegmentBytes int64
	// Now returns the time; the default is time.Now.
	Now func() time.Time
	// Events is called with what happens to hints; by default, nothing is. It must not block or call the hints.
	Events func(Event)
}

// Hints are a durable log of the deltas of sets, and the marks in slices of filters, that replicas have missed. A hint is a whole delta, or
// all marks that were sent together. It counts for no quorum. It is removed when its replica has the delta durably, whatever that replica's
// clock says, or the marks as durably as the filter promises. A hint that arrives twice does no harm, so the note that a hint is done may
// be lost in a crash.
//
//	0000000000000001.hints   hint 1, hint 2, done 1       files are only appended to; a file whose hints are all
//	0000000000000002.hints   hint 3, …                    done is removed, except the last
//
// The methods may be called by any number of goroutines.
type Hints struct {
	folder Folder
	opt    HintOptions

	mu       sync.Mutex
	closed   bool
	index    *btree.BTreeG[*hint] // by node, then by id
	byID     map[uint64]*hint
	segments []*segment // ascending; the last may be the head
	head     *segment   // the one being written; nil before the next write
	nextID   uint64
	nextSeq  uint64
	live     int64 // bytes of hints that are not done, including those being added
	nodes    map[string]*backlog
	busy     map[string]struct{}
}

// backlog is how much of a node's budget is taken. An empty one is not kept.
type backlog struct {
	count, adding      int       // hints that are not done, and those being added
	bytes, addingBytes int64     // the same, in bytes
	looked             time.Time // when those that are too old were looked for; zero at first
}

// hint is a hint that is not done.
type hint struct {
	node string
	id   uint64
	at   int64 // seconds since 1970
	seg  *segment
	off  int64 // of its record
	size int64
}

// OpenHints opens the hints in a folder of their own. The remains of the last writes before a crash are read up to the first incomplete
// record.
func OpenHints(f Folder, o HintOptions) (*Hints, error) {
	h := newHints(f, o)
	if err := h.read(h.replayed); err != nil {
		return nil, err
	}
	h.sweep()
	return h, nil
}

// newHints returns hints that have read nothing yet.
func newHints(f Folder, o HintOptions) *Hints {
	o.BytesMax = cmp.Or(o.BytesMax, 256<<20)
	o.NodeBytesMax = cmp.Or(o.NodeBytesMax, o.BytesMax)
	o.NodeCountMax = cmp.Or(o.NodeCountMax, 1<<20)
	o.AgeMax = cmp.Or(o.AgeMax, 24*time.Hour)
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 4<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	h := &Hints{folder: f, opt: o, byID: map[uint64]*hint{}, nodes: map[string]*backlog{}, busy: map[string]struct{}{}, nextID: 1, nextSeq: 1}
	h.index = btree.NewG(16, func(a, b *hint) bool {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.id, b.id)) < 0
	})
	return h
}

// read reads all files and calls each with their records, in order.
func (h *Hints) read(each func(s *segment, at int64, payload []byte)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("coord: read hints: %w", err)
		}
	}()
	names, err := h.folder.List()
	if err != nil {
		return err
	}
	var seqs []uint64
	for _, name := range names {
		if seq, ok := segmentSeq(name); ok {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		s := &segment{seq: seq}
		h.segments = append(h.segments, s)
		h.nextSeq = seq + 1
		s.size, err = scan(h.folder, segmentName(seq), func(at int64, payload []byte) { each(s, at, payload) })
		if errors.Is(err, errSegmentVersion) { // it is never written nor removed
			h.segments = h.segments[:len(h.segments)-1]
			h.opt.Events(Event{Kind: EventHintFailed, Err: fmt.Errorf("%s: %w", segmentName(seq), err)})
			continue
		}
		if errors.Is(err, errRecord) {
			var damaged bool
			if damaged, err = recordAfter(h.folder, segmentName(seq), s.size); damaged { // otherwise a crash or a full disk ended it
				h.opt.Events(Event{Kind: EventHintFailed, Err: fmt.Errorf("%s: %w at byte %d, and records follow", segmentName(seq), errRecord, s.size)})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replayed takes a record that was read.
func (h *Hints) replayed(s *segment, at int64, payload []byte) {
	body := payload[1:]
	id, n := binary.Uvarint(body)
	if n <= 0 {
		return
	}
	h.nextID = max(h.nextID, id+1)
	if old := h.byID[id]; old != nil { // it is done, or moved to a later file
		h.forget(old)
	}
	if payload[0] != recordHint {
		return
	}
	if e, _, ok := parseHint(body); ok {
		e.seg, e.off, e.size = s, at, recordHead+int64(len(payload))
		h.remember(e)
		s.entries++
		h.live += e.size
	}
}

// of returns the backlog of a node, for the caller to change.
func (h *Hints) of(node string) *backlog {
	b := h.nodes[node]
	if b == nil {
		b = &backlog{}
		h.nodes[node] = b
	}
	return b
}

// trim removes an empty backlog.
func (h *Hints) trim(node string, b *backlog) {
	if b.count == 0 && b.adding == 0 {
		delete(h.nodes, node)
	}
}

// parseHint splits the body of a hint's record: id, time, node, frame.
func parseHint(body []byte) (e *hint, frame []byte, ok bool) {
	id, n := binary.Uvarint(body)
	if n <= 0 {
		return nil, nil, false
	}
	body = body[n:]
	at, n := binary.Varint(body)
	if n <= 0 {
		return nil, nil, false
	}
	body = body[n:]
	size, n := binary.Uvarint(body)
	if n <= 0 || size > uint64(len(body)-n) {
		return nil, nil, false
	}
	return &hint{id: id, at: at, node: string(body[n : n+int(size)])}, body[n+int(size):], true
}

func (h *Hints) remember(e *hint) {
	h.index.ReplaceOrInsert(e)
	h.byID[e.id] = e
	b := h.of(e.node)
	b.count++
	b.bytes += e.size
}

func (h *Hints) forget(e *hint) {
	h.index.Delete(e)
	delete(h.byID, e.id)
	e.seg.entries--
	h.live -= e.size
	b := h.of(e.node)
	b.count--
	b.bytes -= e.size
	h.trim(e.node, b)
}

// Add keeps a peer.Delta or peer.Marks for a node. When it returns nil, the hint is on disk. It returns ErrHintsFull if there is no room.
func (h *Hints) Add(node string, from peer.Member, what peer.Message) error {
	return h.AddAll(node, from, []peer.Message{what})[0]
}

// AddAll is Add for several hints, which share a sync. It returns an error, or nil, for each.
func (h *Hints) AddAll(node string, from peer.Member, all []peer.Message) []error {
	errs, hints, frames := make([]error, len(all)), make([]*hint, len(all)), make([][]byte, len(all))
	for i, what := range all {
		frames[i], errs[i] = peer.Append(nil, from, what)
	}
	h.mu.Lock()
	for i := range all {
		if errs[i] == nil {
			hints[i], errs[i] = h.stage(node, frames[i])
		}
	}
	h.mu.Unlock()
	for i, e := range hints {
		if e != nil && errs[i] == nil {
			errs[i] = e.seg.sync(e.off + e.size) // the first sync covers what all have written to its file
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range hints {
		if e != nil {
			errs[i] = h.staged(e, errs[i])
		}
	}
	return errs
}

// stage writes a hint without a sync. It returns nil if there was no room.
func (h *Hints) stage(node string, frame []byte) (*hint, error) {
	e := &hint{node: node, id: h.nextID, at: h.opt.Now().Unix()}
	h.nextID++
	head := binary.AppendVarint(binary.AppendUvarint(nil, e.id), e.at)
	head = append(binary.AppendUvarint(head, uint64(len(node))), node...)
	record := appendRecord(nil, recordHint, head, frame)
	e.size = int64(len(record))
	if err := h.admit(node, e.size); err != nil {
		return nil, err
	}
	return e, h.write(e, record)
}

// staged remembers a hint that is on disk, or releases the budget of one that is not.
func (h *Hints) staged(e *hint, err error) error {
	h.added(e.node, e.size)
	if err == nil {
		h.remember(e)
		return nil
	}
	h.live -= e.size
	if e.seg != nil {
		e.seg.entries--
	}
	return fmt.Errorf("coord: keep a hint for %s: %w", e.node, err)
}

// admit reserves room for a hint of a node, until added.
func (h *Hints) admit(node string, size int64) error {
	if h.closed {
		return ErrClosed
	}
	var b backlog
	if has := h.nodes[node]; has != nil {
		b = *has
	}
	switch count, bytes := b.count+b.adding, b.bytes+b.addingBytes; {
	case h.live+size > h.opt.BytesMax:
		return fmt.Errorf("%w: %d bytes of %d, and %d more", ErrHintsFull, h.live, h.opt.BytesMax, size)
	case bytes+size > h.opt.NodeBytesMax:
		return fmt.Errorf("%w: for %s: %d bytes of %d, and %d more", ErrHintsFull, node, bytes, h.opt.NodeBytesMax, size)
	case count >= h.opt.NodeCountMax:
		return fmt.Errorf("%w: for %s: %d hints of %d", ErrHintsFull, node, count, h.opt.NodeCountMax)
	}
	h.live += size
	taken := h.of(node)
	taken.adding++
	taken.addingBytes += size
	return nil
}

// added releases what admit has reserved of a node's budget: the hint is remembered next, or has failed.
func (h *Hints) added(node string, size int64) {
	b := h.of(node)
	b.adding--
	b.addingBytes -= size
	h.trim(node, b)
}

// write appends a hint's record to the head, or to a new one.
func (h *Hints) write(e *hint, record []byte) error {
	s, err := h.writable()
	if err != nil {
		return err
	}
	if e.off, err = s.append(record); err != nil {
		return err
	}
	e.seg = s
	s.entries++ // counted from now on, or the segment might be swept
	return nil
}

// writable returns a segment that can be written.
func (h *Hints) writable() (*segment, error) {
	if s := h.head; s != nil {
		s.mu.Lock()
		full := s.err != nil || s.end >= h.opt.SegmentBytes
		s.mu.Unlock()
		if !full {
			return s, nil
		}
		h.head = nil
		_ = s.close() // a goroutine that has written to it learns of an error by its own sync
		h.sweep()
	}
	s, err := createSegment(h.folder, h.nextSeq)
	h.nextSeq++ // even if the creation failed: the file may exist
	if err != nil {
		return nil, err
	}
	h.head = s
	h.segments = append(h.segments, s)
	return s, nil
}

// done records that hints are no longer needed. The records need not be durable.
func (h *Hints) done(all ...*hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	var notes []byte
	for _, e := range all {
		if h.byID[e.id] == e {
			h.forget(e)
			notes = appendRecord(notes, recordDone, binary.AppendUvarint(nil, e.id))
		}
	}
	if len(notes) == 0 {
		return
	}
	if s, err := h.writable(); err == nil {
		_, _ = s.append(notes)
	}
	h.sweep()
	h.clean()
}

// sweep removes files in which all hints are done. A file that can't be removed is tried again after the next open.
func (h *Hints) sweep() {
	h.segments = slices.DeleteFunc(h.segments, func(s *segment) bool {
		if s.entries > 0 || s == h.head {
			return false
		}
		_ = h.folder.Remove(segmentName(s.seq))
		return true
	})
}

// clean bounds the files: while they are larger than twice the limit on hints, it rewrites the hints of the oldest. A file with hints that
// are being added stays for the next time.
func (h *Hints) clean() {
	for len(h.segments) > 0 {
		total := int64(0)
		for _, s := range h.segments {
			total += s.size
		}
		oldest := h.segments[0]
		if total <= 2*h.opt.BytesMax || oldest == h.head || h.move(oldest) != nil {
			return
		}
		if h.sweep(); oldest.entries > 0 {
			return
		}
	}
}

// move writes the hints of a segment to the head. All of them share a sync. If it fails, the hints that are not moved stay where they are.
func (h *Hints) move(s *segment) error {
	var all []*hint
	h.index.Ascend(func(e *hint) bool {
		if e.seg == s {
			all = append(all, e)
		}
		return true
	})
	copies := make([]hint, len(all))
	for i, e := range all {
		if err := h.copy(e, &copies[i]); err != nil {
			return dropCopies(copies[:i], err)
		}
	}
	for i := range copies {
		c := &copies[i]
		if err := c.seg.sync(c.off + c.size); err != nil { // the first sync covers what was written to its file
			return dropCopies(copies[i:], err)
		}
		s.entries--
		all[i].seg, all[i].off = c.seg, c.off
	}
	return nil
}

// copy writes a hint to the head again, without a sync.
func (h *Hints) copy(e, to *hint) error {
	payload, err := h.payload(e)
	if err != nil {
		return err
	}
	to.size = e.size
	return h.write(to, appendRecord(nil, payload[0], payload[1:]))
}

// dropCopies takes back copies that are not used, because of an error.
func dropCopies(copies []hint, err error) error {
	for i := range copies {
		copies[i].seg.entries--
	}
	return err
}

// Close closes the files. Hints that were added stay.
func (h *Hints) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.head == nil {
		return nil
	}
	err := h.head.close()
	h.head = nil
	return err
}
