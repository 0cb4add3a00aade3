package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// The first bytes of each side: the magic, and the lowest and the highest version that it speaks.
const (
	magic         = "BIGSET"
	preambleBytes = len(magic) + 2
)

func (o *Options) preamble() []byte { return append([]byte(magic), o.VersionLeast, o.VersionMost) }

// foreignBytes is how much of another protocol's bytes an error shows.
const foreignBytes = 64

// errProbe is the error for a client that sends an empty line to learn from the answer which protocol this is.
var errProbe = fmt.Errorf("%w: it says \"\\n\"", ErrForeign)

// speaks reads the first bytes of the other side, and returns the version that both speak. It stops at the first wrong byte, because a
// request of another protocol may be shorter than the preamble.
func (o *Options) speaks(r *bufio.Reader) (version byte, err error) {
	b := make([]byte, 0, preambleBytes)
	for len(b) < preambleBytes {
		c, err := r.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		if b = append(b, c); len(b) <= len(magic) && c != magic[len(b)-1] {
			more, _ := r.Peek(min(r.Buffered(), foreignBytes))
			if string(b) == "\n" && len(more) == 0 {
				return 0, errProbe
			}
			return 0, fmt.Errorf("%w: it says %q", ErrForeign, append(b, more...))
		}
	}
	least, most := max(b[len(magic)], o.VersionLeast), min(b[len(magic)+1], o.VersionMost)
	if least > most {
		return 0, fmt.Errorf("%w: it speaks versions %d to %d of the protocol, this program %d to %d", ErrRefused, b[len(magic)], b[len(magic)+1], o.VersionLeast, o.VersionMost)
	}
	return most, nil
}

// hello is what a side reports about itself. Its encoding is the same in all versions.
type hello struct {
	role    Role
	purpose Purpose
	address uint64 // of a server: requests of nodes must carry it
	name    string
	body    []byte
}

func (h *hello) append(dst []byte) []byte {
	dst = append(dst, byte(h.role), byte(h.purpose))
	dst = binary.LittleEndian.AppendUint64(dst, h.address)
	dst = binary.AppendUvarint(dst, uint64(len(h.name)))
	dst = append(dst, h.name...)
	return append(dst, h.body...)
}

func decodeHello(b []byte) (h hello, err error) {
	if len(b) < 11 {
		return h, fmt.Errorf("%w: a hello of %d bytes", ErrFrame, len(b))
	}
	h.role, h.purpose, h.address = Role(b[0]), Purpose(b[1]), binary.LittleEndian.Uint64(b[2:])
	n, used := binary.Uvarint(b[10:])
	if used <= 0 || n > 255 || used > 1 && n < 128 || n > uint64(len(b)-10-used) {
		return h, fmt.Errorf("%w: the name in a hello", ErrFrame)
	}
	h.name, h.body = string(b[10+used:10+used+int(n)]), b[10+used+int(n):]
	if h.role != RoleClient && h.role != RoleNode || h.purpose != ForRequests && h.purpose != ForCopies {
		return h, fmt.Errorf("%w: a hello of role %d and purpose %d", ErrFrame, h.role, h.purpose)
	}
	return h, nil
}

// refusal says why a request or a connection is refused. It is on the wire.
type refusal byte

const (
	refusedBusy     refusal = 1 // no room now
	refusedLate     refusal = 2 // its time had passed before it began
	refusedAddress  refusal = 3 // the addressed member is not here
	refusedRole     refusal = 4 // its sender may not send this
	refusedDraining refusal = 5 // the process is about to end
	refusedHello    refusal = 6 // by the layer above: the error follows, encoded by Errors
	refusals        refusal = 7
)

var errRefusals = [refusals]error{refusedBusy: ErrBusy, refusedLate: ErrNotSent, refusedAddress: ErrNotSent, refusedRole: ErrRefused, refusedDraining: ErrNotSent}

// decodeRefusal returns the error for a refusal at the refused side.
func (o *Options) decodeRefusal(b []byte) error {
	switch {
	case len(b) == 0 || refusal(b[0]) == 0:
		return fmt.Errorf("%w: an empty refusal", ErrFrame)
	case refusal(b[0]) == refusedHello:
		return fmt.Errorf("%w: %w", ErrRefused, o.Errors.Decode(b[1:]))
	case refusal(b[0]) >= refusals: // of a later version: nothing was done, or it would not be a refusal
		return fmt.Errorf("%w: %s", ErrRefused, b[1:])
	}
	return fmt.Errorf("%w: %s", errRefusals[b[0]], b[1:])
}

// greet exchanges Hellos, as the side that has dialed. The connection has a deadline.
func (o *Options) greet(nc net.Conn, r *bufio.Reader, own hello) (their hello, version byte, err error) {
	var b []byte
	b = append(b, o.preamble()...)
	b = appendSegment(b, kindHello, own.append(nil))
	if _, err := nc.Write(b); err != nil {
		return hello{}, 0, err
	}
	if version, err = o.speaks(r); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("%w: it closed the connection at once: it may want TLS (give --tls), or be starting", err)
		}
		return hello{}, 0, err
	}
	s := segments{r: r}
	h, payload, err := s.whole()
	switch {
	case err != nil:
		return hello{}, 0, err
	case h.kind == kindRefusal:
		return hello{}, 0, o.decodeRefusal(payload)
	case h.kind != kindHello:
		return hello{}, 0, fmt.Errorf("%w: a segment of kind %d in place of a hello", ErrFrame, h.kind)
	}
	their, err = decodeHello(payload)
	return their, version, err
}

// whole reads a small segment that is a whole message.
func (s *segments) whole() (head, []byte, error) {
	h, err := s.next()
	if err != nil {
		return h, nil, err
	}
	if h.length > helloBytesMax {
		return h, nil, fmt.Errorf("%w: %d bytes before the connection is accepted, at most %d", ErrFrame, h.length, helloBytesMax)
	}
	b, err := s.small(h.length)
	if err == nil {
		err = s.end()
	}
	return h, append([]byte(nil), b...), err
}

// appendSegment appends a segment that is a whole message and belongs to no request.
func appendSegment(dst []byte, k kind, payload []byte) []byte {
	at := len(dst)
	dst = appendHead(dst, head{len(payload), k, flagsAll, 0})
	dst = append(dst, payload...)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[at:]))
}

// silent reports whether an error is only that a connection ended or took too long, which says nothing about the other side.
func silent(err error) bool {
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &ne) && ne.Timeout()
}

// deadlineOf returns the deadline d from now.
func deadlineOf(d time.Duration) time.Time { return time.Now().Add(d) }
