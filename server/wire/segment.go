package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// kind is the kind of a segment. It is on the wire.
type kind byte

const (
	kindHello   kind = 1  // the first segment of each side
	kindRequest kind = 2  // caller to handler; the first segment contains the envelope
	kindAnswer  kind = 3  // handler to caller: the last body
	kindPart    kind = 4  // handler to caller: a part of a stream, not the last
	kindError   kind = 5  // handler to caller: the handler's error; ends the request
	kindRefusal kind = 6  // either way: a request, or with number 0 the connection, is refused
	kindCredit  kind = 7  // caller to handler: this many more parts are wanted
	kindCancel  kind = 8  // caller to handler: the caller has given up
	kindPing    kind = 9  // either way
	kindPong    kind = 10 // either way: the answer to a ping
	kindDrain   kind = 11 // handler to caller: begin no more requests on this connection
	kinds       kind = 12
)

const (
	flagFirst = 1 // the first segment of its message
	flagLast  = 2 // the last one
	flagsAll  = flagFirst | flagLast

	headBytes     = 16
	sumBytes      = 4
	envelopeBytes = 32
	lengthBytes   = 4 // before the body of an answer, a part or an error: the length of the body
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// head is the header of a segment.
type head struct {
	length int
	kind   kind
	flags  byte
	id     uint64 // of the request; 0 if the segment belongs to none
}

func appendHead(dst []byte, h head) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.length))
	dst = append(dst, byte(h.kind), h.flags, 0, 0)
	return binary.LittleEndian.AppendUint64(dst, h.id)
}

// decodeHead returns ErrFrame for an invalid head.
func decodeHead(b []byte) (h head, err error) {
	h = head{int(binary.LittleEndian.Uint32(b)), kind(b[4]), b[5], binary.LittleEndian.Uint64(b[8:])}
	switch {
	case h.length < 0 || h.length > SegmentBytesMax:
		err = fmt.Errorf("%w: a segment of %d bytes, at most %d", ErrFrame, uint32(h.length), SegmentBytesMax)
	case h.kind == 0 || h.kind >= kinds:
		err = fmt.Errorf("%w: a segment of kind %d", ErrFrame, h.kind)
	case h.flags&^flagsAll != 0 || b[6] != 0 || b[7] != 0:
		err = fmt.Errorf("%w: flags %02x%02x%02x", ErrFrame, h.flags, b[6], b[7])
	case !h.mayBeSplit() && h.flags != flagsAll:
		err = fmt.Errorf("%w: a segment of kind %d that is split", ErrFrame, h.kind)
	case h.id == 0 && h.ofRequest():
		err = fmt.Errorf("%w: a segment of kind %d without the number of its request", ErrFrame, h.kind)
	}
	return h, err
}

// mayBeSplit reports whether a message of the kind may be larger than a segment.
func (h head) mayBeSplit() bool {
	return h.kind == kindRequest || h.kind == kindAnswer || h.kind == kindPart || h.kind == kindError
}

// ofRequest reports whether the kind names a request.
func (h head) ofRequest() bool {
	return h.kind >= kindRequest && h.kind <= kindCancel && h.kind != kindRefusal
}

// envelope is what a request contains besides its body.
type envelope struct {
	address  uint64 // of the addressed member, from its Hello
	epoch    uint64
	deadline uint32 // in milliseconds from now; 0 means none
	length   uint32 // of the body
	verb     Verb
	priority Priority
	credit   uint16 // parts that may be sent unrequested; 0 for a request without a stream
}

func (e *envelope) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, e.address)
	dst = binary.LittleEndian.AppendUint64(dst, e.epoch)
	dst = binary.LittleEndian.AppendUint32(dst, e.deadline)
	dst = binary.LittleEndian.AppendUint32(dst, e.length)
	dst = append(dst, byte(e.verb), byte(e.priority))
	dst = binary.LittleEndian.AppendUint16(dst, e.credit)
	return append(dst, 0, 0, 0, 0)
}

func decodeEnvelope(b []byte) (e envelope, err error) {
	e = envelope{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:]),
		Verb(b[24]), Priority(b[25]), binary.LittleEndian.Uint16(b[26:])}
	switch {
	case e.length > BodyBytesMax:
		err = fmt.Errorf("%w: a body of %d bytes, at most %d", ErrFrame, e.length, BodyBytesMax)
	case e.verb == 0:
		err = fmt.Errorf("%w: verb 0", ErrFrame)
	case e.priority >= priorities:
		err = fmt.Errorf("%w: priority %d", ErrFrame, e.priority)
	case e.credit > creditMax:
		err = fmt.Errorf("%w: credit of %d parts, at most %d", ErrFrame, e.credit, creditMax)
	case binary.LittleEndian.Uint32(b[28:]) != 0:
		err = fmt.Errorf("%w: envelope", ErrFrame)
	}
	return e, err
}

// creditMax is the largest number of parts of a stream in flight.
const creditMax = 64

// segments reads segments from a connection. The payload of each must be read by skip, small or into, exactly once.
type segments struct {
	r   *bufio.Reader
	sum uint32
	buf [headBytes]byte
	pay []byte
}

// next reads a head.
func (s *segments) next() (head, error) {
	if _, err := io.ReadFull(s.r, s.buf[:]); err != nil {
		return head{}, err
	}
	s.sum = crc32.Update(0, castagnoli, s.buf[:])
	return decodeHead(s.buf[:])
}

// waits reports whether the next segment has not arrived as a whole, so that reading it may wait for the other side.
func (s *segments) waits() bool {
	n := int64(s.r.Buffered())
	if n < headBytes+sumBytes {
		return true
	}
	b, err := s.r.Peek(headBytes)
	return err != nil || n < headBytes+int64(binary.LittleEndian.Uint32(b))+sumBytes
}

// into reads n bytes of the payload.
func (s *segments) into(dst []byte) error {
	if _, err := io.ReadFull(s.r, dst); err != nil {
		return noEOF(err)
	}
	s.sum = crc32.Update(s.sum, castagnoli, dst)
	return nil
}

// small reads n bytes of the payload. They are valid until the next call.
func (s *segments) small(n int) ([]byte, error) {
	if cap(s.pay) < n {
		s.pay = make([]byte, max(n, 512))
	}
	b := s.pay[:n]
	return b, s.into(b)
}

// skip reads n bytes of the payload and discards them.
func (s *segments) skip(n int) error {
	for n > 0 {
		b, err := s.small(min(n, 512))
		if err != nil {
			return err
		}
		n -= len(b)
	}
	return nil
}

// end reads and checks the checksum after the payload.
func (s *segments) end() error {
	b := s.buf[:sumBytes]
	if _, err := io.ReadFull(s.r, b); err != nil {
		return noEOF(err)
	}
	if got := binary.LittleEndian.Uint32(b); got != s.sum {
		return fmt.Errorf("%w: checksum %08x, the bytes have %08x", ErrFrame, got, s.sum)
	}
	return nil
}

// noEOF turns io.EOF in the middle of a segment into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// assembly is a body some of whose segments are still to come.
type assembly struct {
	kind kind
	body []byte
	left int // bytes still to come
	env  envelope
}

// add reads n more bytes of the body. Memory grows with what has arrived.
func (a *assembly) add(s *segments, n int, last bool) error {
	switch {
	case n > a.left || last != (n == a.left):
		return fmt.Errorf("%w: a body that is longer or shorter than its length", ErrFrame)
	case !last && n == 0:
		return fmt.Errorf("%w: a segment without bytes", ErrFrame)
	}
	at := len(a.body)
	if cap(a.body) < at+n {
		grown := make([]byte, at, min(max(2*cap(a.body), at+n), at+a.left))
		copy(grown, a.body)
		a.body = grown
	}
	a.body = a.body[:at+n]
	a.left -= n
	return s.into(a.body[at:])
}
