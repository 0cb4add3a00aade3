package remote

import (
	"sync"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

// Frames keeps the frames of the latest deltas, so that a delta that goes to several replicas is encoded once. The replicas of a process
// share one Frames. The zero value is empty; nil keeps nothing.
//
// A delta is identified by its dots and by the memory of its items, which neither side changes (peer.Replica): no other delta ever has
// both.
type Frames struct {
	mu    sync.Mutex
	known map[deltaID]*deltaFrame
	order []*deltaFrame // in order of arrival
	bytes int           // total size of the frames that are kept
}

// The bounds of what is kept. A frame of fewer items is encoded as fast as it is found.
const (
	framesItemsMin = 4
	framesMax      = 64
	framesBytesMax = 8 << 20
)

type deltaID struct {
	items   *bigset.Item
	n       int
	actor   clock.Actor
	first   uint64
	from    peer.Member
	version byte
}

type deltaFrame struct {
	id    deltaID
	once  sync.Once
	frame []byte
	err   error
	size  int // its share of Frames.bytes
}

// delta returns the frame of a delta. The caller must not modify it.
func (f *Frames) delta(version byte, from peer.Member, d *bigset.Delta) ([]byte, error) {
	if f == nil || len(d.Items) < framesItemsMin {
		return encode(version, from, peer.Delta(*d))
	}
	e := f.entry(deltaID{&d.Items[0], len(d.Items), d.Actor, d.First, from, version})
	e.once.Do(func() {
		e.frame, e.err = encode(version, from, peer.Delta(*d))
		f.weigh(e)
	})
	return e.frame, e.err
}

// entry finds the entry of a delta, or creates it and forgets the oldest.
func (f *Frames) entry(id deltaID) *deltaFrame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.known[id]; e != nil {
		return e
	}
	if f.known == nil {
		f.known = map[deltaID]*deltaFrame{}
	}
	e := &deltaFrame{id: id}
	f.known[id] = e
	f.order = append(f.order, e)
	f.trim()
	return e
}

// weigh counts an entry whose frame is encoded.
func (f *Frames) weigh(e *deltaFrame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[e.id] == e {
		e.size = len(e.frame)
		f.bytes += e.size
		f.trim()
	}
}

// trim forgets the oldest entries until the bounds hold. A goroutine that uses such a frame keeps it.
func (f *Frames) trim() {
	for len(f.order) > framesMax || f.bytes > framesBytesMax {
		old := f.order[0]
		f.order = append(f.order[:0], f.order[1:]...)
		f.bytes -= old.size
		delete(f.known, old.id)
	}
}

// framesOf returns the version of the frames that a version of the wire's protocol carries. Both rise together, from the first version of
// the protocol, which carries frames of version 2.
func framesOf(version byte) byte { return min(max(version, 1)+1, peer.FrameVersionMost) }

// encode returns the frame of a request, for a version of the wire's protocol. Its error says that nothing has happened.
func encode(version byte, from peer.Member, m peer.Message) ([]byte, error) {
	b, err := peer.AppendVersion(nil, framesOf(version), from, m)
	if err != nil && !peer.Refused(err) {
		err = unavailable(err)
	}
	return b, err
}
