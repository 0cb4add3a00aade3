package keyscheme

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"bigset/clock"
)

// Request is what a slot's metadata keeps of a client's request: the events that it became. Because of it, a request that is sent
// again becomes the same events.
type Request struct {
	Millis uint64      // since 1970, by the clock of the store that keeps it: when it was stored there
	Actor  clock.Actor // of the events; 1 to clock.ActorBytesMax bytes
	First  uint64      // the counter of the first, at least 1; the others follow
	Items  []RequestItem
}

// RequestItem is one event of a request.
type RequestItem struct {
	Op      Op
	Sum     uint64       // of the element, see ElementSum
	Context *clock.Clock // the dots that it killed
}

// RequestIDBytesMax is the longest id of a request.
const RequestIDBytesMax = 64

// The first byte after the kind in a key of slot metadata. It is on disk.
const metaRequest = 'r'

// RequestMarkBytes is the number of bytes that the mark takes, at the end of the key of a request.
const RequestMarkBytes = 8

const (
	requestVersion = 1

	sumBytes            = 8
	requestItemBytesMin = 1 + sumBytes + 1 // op, sum, length of the context
)

// ElementSum returns the checksum by which a request recognizes an element: xxhash64, seed 0. It is on disk.
func ElementSum(element []byte) uint64 { return xxhash.Sum64(element) }

// AppendRequestKey appends the key under which a request to a set is kept. The set must pass CheckSetName, the id has 1 to
// RequestIDBytesMax bytes. The mark must be random, so that the key was never written before.
func (p Prefix) AppendRequestKey(dst, id []byte, mark uint64) []byte {
	return binary.BigEndian.AppendUint64(p.appendRequest(dst, id), mark)
}

func (p Prefix) appendRequest(dst, id []byte) []byte {
	dst = append(AppendSlotKey(dst, p.Slot(), SlotMeta, nil), metaRequest)
	dst = append(appendBytes(dst, p.Set()), byte(len(id)))
	return append(dst, id...)
}

// Request bounds the keys that are kept of one request to the set, whatever their marks.
func (p Prefix) Request(id []byte) Bounds {
	lower := p.appendRequest(nil, id)
	return Bounds{lower, append(lower[:len(lower):len(lower)], 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0)}
}

// Requests bounds what is kept of requests to all sets of one slot.
func Requests(slot Slot) Bounds {
	return Bounds{AppendSlotKey(nil, slot, SlotMeta, []byte{metaRequest}), AppendSlotKey(nil, slot, SlotMeta, []byte{metaRequest + 1})}
}

// IsRequest reports whether a key is that of a request.
func (k *Key) IsRequest() bool {
	return k.Kind == KindSlotMeta && len(k.Rest) > 0 && k.Rest[0] == metaRequest
}

// Request returns the set and the id of a request's key. It reports false for what AppendRequestKey does not write. The set and the
// id alias the key.
func (k *Key) Request() (set, id []byte, ok bool) {
	if !k.IsRequest() {
		return nil, nil, false
	}
	set, rest, ok := cutBytes(k.Rest[1:], 1, SetNameBytesMax)
	if !ok || len(rest) == 0 || SetSlot(set) != k.Slot {
		return nil, nil, false
	}
	n := int(rest[0])
	if n == 0 || n > RequestIDBytesMax || len(rest) != 1+n+RequestMarkBytes {
		return nil, nil, false
	}
	return set, rest[1 : 1+n : 1+n], true
}

// AppendRequestValue appends the value of a request's key.
func AppendRequestValue(dst []byte, r *Request) []byte {
	dst = binary.AppendUvarint(append(dst, requestVersion), r.Millis)
	dst = append(binary.AppendUvarint(dst, uint64(len(r.Actor))), r.Actor...)
	dst = binary.AppendUvarint(dst, r.First)
	dst = binary.AppendUvarint(dst, uint64(len(r.Items)))
	var buf []byte
	for i := range r.Items {
		it := &r.Items[i]
		dst = binary.LittleEndian.AppendUint64(append(dst, byte(it.Op)), it.Sum)
		buf = it.Context.Append(buf[:0])
		dst = append(binary.AppendUvarint(dst, uint64(len(buf))), buf...)
	}
	return dst
}

// DecodeRequestValue inverts AppendRequestValue. Its error is ErrCorruptValue.
func DecodeRequestValue(value []byte) (*Request, error) {
	if len(value) == 0 || value[0] != requestVersion {
		return nil, corrupt("request", "unknown version")
	}
	p := requestParser{b: value[1:]}
	r := &Request{Millis: p.number(), Actor: clock.Actor(p.bytes()), First: p.number()}
	n := p.number()
	if p.bad || len(r.Actor) == 0 || len(r.Actor) > clock.ActorBytesMax || r.First == 0 || r.First+n < n || n > uint64(len(p.b)/requestItemBytesMin) {
		return nil, corrupt("request", "bad head")
	}
	r.Items = make([]RequestItem, n)
	for i := range r.Items {
		it := &r.Items[i]
		it.Op, it.Sum = Op(p.byte()), p.sum()
		encoded := p.bytes()
		if p.bad || !it.Op.Valid() {
			return nil, corrupt("request", "bad event")
		}
		var err error
		if it.Context, err = decodeClock("request", encoded); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	if len(p.b) > 0 {
		return nil, corrupt("request", "bytes after the last event")
	}
	return r, nil
}

// requestParser reads fields until it meets one that is malformed.
type requestParser struct {
	b   []byte
	bad bool
}

func (p *requestParser) number() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 || n > 1 && p.b[n-1] == 0 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *requestParser) cut(n uint64) []byte {
	if n > uint64(len(p.b)) {
		p.bad, p.b = true, nil
		return nil
	}
	cut := p.b[:n]
	p.b = p.b[n:]
	return cut
}

func (p *requestParser) bytes() []byte { return p.cut(p.number()) }

func (p *requestParser) byte() byte {
	if b := p.cut(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *requestParser) sum() uint64 {
	if b := p.cut(sumBytes); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
