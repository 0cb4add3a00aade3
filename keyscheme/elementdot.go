package keyscheme

import (
	"encoding/binary"

	"bigset/clock"
)

// ElementDot returns the parts of an element key that a compaction needs: the length of its set's Prefix, its dot and its op. ok is
// true exactly when Decode accepts the key and its kind is KindElement. ElementDot costs a few ns, allocates nothing and makes no
// error value, because a drop filter keeps what it cannot read. actor aliases the key.
func ElementDot(key []byte) (prefixLen int, actor []byte, counter uint64, op Op, ok bool) {
	if len(key) < SlotBytes+LengthBytes {
		return 0, nil, 0, 0, false
	}
	n := binary.LittleEndian.Uint32(key[SlotBytes:])
	if n > SetNameBytesMax {
		return 0, nil, 0, 0, false
	}
	prefixLen = SlotBytes + LengthBytes + int(n)
	_, actor, counter, op, ok = DecodeElement(prefixLen, key)
	return prefixLen, actor, counter, op, ok
}

// DecodeElement takes apart an element key whose set's Prefix is known to be key[:prefixLen], as in a scan of one set. ok is false
// if the rest of the key is not a well-formed element key. Like ElementDot it allocates nothing; element and actor alias the key.
func DecodeElement(prefixLen int, key []byte) (element, actor []byte, counter uint64, op Op, ok bool) {
	const fixed = 1 + LengthBytes + LengthBytes + CounterBytes + OpBytes
	if prefixLen < 0 || len(key)-prefixLen < fixed || key[prefixLen] != DesignatorElement {
		return nil, nil, 0, 0, false
	}
	rest := key[prefixLen+1:]
	n := binary.LittleEndian.Uint32(rest)
	rest = rest[LengthBytes:]
	if n > ElementBytesMax || int(n) > len(rest)-(fixed-1-LengthBytes) {
		return nil, nil, 0, 0, false
	}
	element, rest = rest[:n:n], rest[n:]
	m := binary.LittleEndian.Uint32(rest)
	rest = rest[LengthBytes:]
	if m == 0 || m > clock.ActorBytesMax || int(m)+CounterBytes+OpBytes != len(rest) {
		return nil, nil, 0, 0, false
	}
	actor, rest = rest[:m:m], rest[m:]
	counter, op = binary.LittleEndian.Uint64(rest), Op(rest[CounterBytes])
	if counter == 0 || !op.Valid() {
		return nil, nil, 0, 0, false
	}
	return element, actor, counter, op, true
}

// DotTail returns parts of an element key that identify its dot almost as well as the dot itself, without decoding the key: the
// tail of its actor, as ActorTail returns it, and its counter. ok is true for each key that ElementDot accepts. For another key
// with the designator of an element, ok may be true and the results meaningless. DotTail costs a fraction of what ElementDot does.
func DotTail(key []byte) (tail uint32, counter uint64, ok bool) {
	const fixed = LengthBytes + CounterBytes + OpBytes // the tail reaches into the actor's length where the actor is short
	if len(key) < SlotBytes+LengthBytes {
		return 0, 0, false
	}
	n := uint64(binary.LittleEndian.Uint32(key[SlotBytes:])) + SlotBytes + LengthBytes
	if uint64(len(key)) <= n+fixed || key[n] != DesignatorElement {
		return 0, 0, false
	}
	end := key[len(key)-fixed:]
	return binary.BigEndian.Uint32(end), binary.LittleEndian.Uint64(end[4:]), true
}

// ActorTail returns the last four bytes of an actor as a number, or all bytes of a shorter actor. In the actor of a store they are
// random.
func ActorTail(actor []byte) uint32 {
	var b [4]byte
	if len(actor) > len(b) {
		actor = actor[len(actor)-len(b):]
	}
	copy(b[len(b)-len(actor):], actor)
	return binary.BigEndian.Uint32(b[:])
}
