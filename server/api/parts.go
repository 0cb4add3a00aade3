package api

import (
	"encoding/binary"

	"bigset/server/door"
	"bigset/server/wire"
)

// partBytesMost is to about how many bytes the parts of a read grow that says nothing of their size. The first parts go out as they come, and each may wait until it is
// twice as large as the one before: so a long read has few parts, and a short one waits for nothing.
const partBytesMost = 128 << 10

// partWriter sends the parts of a read, but for the last one. Parts in a row that hold nothing but elements may go as one.
type partWriter struct {
	send func([]byte) error
	join bool

	b        []byte // joinedRoom bytes, and the elements that wait, as AppendPart appends them
	elements int    // that wait
	wait     int    // bytes that a part is to have
}

// joinedRoom is for what stands before the elements of a part of nothing but elements: the version, Done, no context, no After, and how many they are.
const joinedRoom = 4 + binary.MaxVarintLen64

// put sends a part, at once or with those to come. What the part holds may be used again when put returns.
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

// bytesOf returns how many bytes the elements of a part take at most.
func bytesOf(p *door.Part) (n int) {
	for i := range p.Elements {
		n += len(p.Elements[i].Name) + len(p.Elements[i].Context) + 2*binary.MaxVarintLen32
	}
	return n
}

// add has the elements of a part wait.
func (w *partWriter) add(p *door.Part) {
	if len(w.b) == 0 {
		w.b = append(w.b, make([]byte, joinedRoom)...)
	}
	for i := range p.Elements {
		w.b = putBytes(putBytes(w.b, p.Elements[i].Name), p.Elements[i].Context)
	}
	w.elements += len(p.Elements)
}

// flush sends the elements that wait as one part, as AppendPart would append it.
func (w *partWriter) flush() error {
	if w.elements == 0 {
		return nil
	}
	var room [joinedRoom]byte
	before := putInt(append(room[:0], version, 0, 0, 0), w.elements)
	b := w.b[joinedRoom-len(before):]
	copy(b, before)
	w.b, w.elements = w.b[:0], 0
	return w.sendSmall(b)
}
