package api

import (
	"encoding/binary"

	"bigset/server/door"
	"bigset/server/wire"
)

// partBytesMost is about the largest size of the parts of a read that names no size. The first parts are sent at once, and each later
// part may wait until it is twice as large as the one before. So a long read has few parts, and a short read does not wait.
const partBytesMost = 128 << 10

// partWriter sends all parts of a read but the last. Consecutive parts that contain only elements may be joined.
type partWriter struct {
	send func([]byte) error
	join bool

	b        []byte // joinedRoom bytes and the waiting elements, as AppendPart appends them
	sent     []byte // the memory of the part that was sent last, which may still be on its way
	elements int    // waiting
	wait     int    // size at which the waiting part is sent
}

// joinedRoom is the room for what precedes the elements in a part that contains only elements: the version, Done, no context, no After, and
// the number of elements.
const joinedRoom = 4 + binary.MaxVarintLen64

// put sends a part, at once or joined with later ones. The caller may reuse the part's bytes when put returns.
func (w *partWriter) put(p *door.Part) error {
	if len(p.Context) > 0 || len(p.After) > 0 || len(p.Elements) == 0 {
		if err := w.flush(); err != nil {
			return err
		}
		return w.sendSmall(AppendPart(nil, p))
	}
	if w.elements > 0 && len(w.b)+bytesOf(p) > wire.BodyBytesMax {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.add(p)
	if w.join && len(w.b) < w.wait {
		return nil
	}
	w.wait = min(2*len(w.b), partBytesMost)
	return w.flush()
}

func (w *partWriter) sendSmall(b []byte) error {
	if len(b) > wire.BodyBytesMax {
		return tooLarge(VerbRead, len(b))
	}
	return w.send(b)
}

// bytesOf returns at most how many bytes the elements of a part take.
func bytesOf(p *door.Part) (n int) {
	for i := range p.Elements {
		n += len(p.Elements[i].Name) + len(p.Elements[i].Context) + 2*binary.MaxVarintLen32
	}
	return n
}

// add appends the elements of a part to those that wait.
func (w *partWriter) add(p *door.Part) {
	if len(w.b) == 0 {
		w.b = append(w.b, make([]byte, joinedRoom)...)
	}
	for i := range p.Elements {
		w.b = putBytes(putBytes(w.b, p.Elements[i].Name), p.Elements[i].Context)
	}
	w.elements += len(p.Elements)
}

// flush sends the waiting elements as one part, encoded as AppendPart would encode it.
func (w *partWriter) flush() error {
	if w.elements == 0 {
		return nil
	}
	var room [joinedRoom]byte
	before := putInt(append(room[:0], version, 0, 0, 0), w.elements)
	b := w.b[joinedRoom-len(before):]
	copy(b, before)
	w.b, w.sent, w.elements = w.sent[:0], w.b, 0
	return w.sendSmall(b)
}
