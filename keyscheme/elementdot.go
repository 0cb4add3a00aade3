package keyscheme

import (
	"encoding/binary"

	"bigset/clock"
)

// ElementDot takes from an element key what a compaction asks for: the length of its set's Prefix, its dot and its op. ok
// is true exactly when Decode accepts the key and its kind is KindElement. It costs a few ns, allocates nothing and makes
// no error: a filter keeps what it cannot read. actor aliases the key.
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

// DecodeElement takes an element key apart whose set's Prefix is known to be key[:prefixLen], as in a scan of one set. ok
// is false when the key is no well-formed element key behind that prefix. Like ElementDot it allocates nothing; element
// and actor alias the key.
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
