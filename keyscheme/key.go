package keyscheme

import (
	"encoding/binary"

	"bigset/clock"
)

// Kind says what a key holds.
type Kind byte

// The kinds of key. Kinds are not on disk: there a clock and its pages share a designator, and so do a tombstone and its pages.
const (
	KindNone          Kind = iota // no key
	KindStoreMeta                 // the store's own metadata, in no slot
	KindClock                     // a set's clock, Seen
	KindClockPage                 // one page of a large clock
	KindTombstone                 // a set's tombstone, Dead
	KindTombstonePage             // one page of a large tombstone
	KindElement                   // one insert or remove
	KindEnd                       // the end of a set; a bound, never stored
	KindSlotBloom                 // a slot's bloom filter pages
	KindSlotMeta                  // a slot's metadata
	KindDirectory                 // an entry of the directory, after all slots
)

var kindNames = [...]string{
	"none", "store-meta", "clock", "clock-page", "tombstone", "tombstone-page", "element", "end", "slot-bloom", "slot-meta", "directory",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Key is a decoded key. Its slices alias the key's bytes. Fields that a kind does not use are zero.
type Key struct {
	Slot    Slot
	Kind    Kind
	Op      Op     // element
	Set     []byte // all kinds that belong to a set
	Element []byte // element
	Actor   []byte // element, page; 1 to clock.ActorBytesMax bytes
	Counter uint64 // element; at least 1
	Page    uint64 // page of a clock or a tombstone
	Rest    []byte // slot's own keys, directory: what follows the kind; store metadata: the whole key
}

// PrefixLen returns the length of the slot, length and name that the key starts with, or 0 if it belongs to no set.
func (k *Key) PrefixLen() int {
	switch k.Kind {
	case KindClock, KindClockPage, KindTombstone, KindTombstonePage, KindElement, KindEnd:
		return SlotBytes + LengthBytes + len(k.Set)
	}
	return 0
}

// Dot returns the dot of an element key. It copies the actor.
func (k *Key) Dot() clock.Dot { return clock.Dot{Actor: clock.Actor(k.Actor), Counter: k.Counter} }

// Decode takes a key apart. It allocates nothing unless it fails; then the error is a *KeyError. It accepts exactly the keys that
// the Append functions write for arguments that their comments allow. A bound other than the end key is malformed.
func Decode(key []byte) (Key, error) {
	var k Key
	if field, reason := k.decode(key); reason != "" {
		return Key{}, malformed(key, field, reason)
	}
	return k, nil
}

const lengthReason = "cut short, or its length is out of bounds"

// decode fills k, or returns the field that is wrong and the reason.
func (k *Key) decode(key []byte) (field, reason string) {
	if len(key) < SlotBytes {
		if len(key) == 0 {
			return "slot", "empty key"
		}
		k.Kind, k.Rest = KindStoreMeta, key
		return "", ""
	}
	k.Slot = Slot(binary.BigEndian.Uint32(key))
	rest := key[SlotBytes:]
	if len(rest) >= LengthBytes && binary.LittleEndian.Uint32(rest) == SlotNamespace {
		return k.decodeSlotKey(rest[LengthBytes:])
	}
	var ok bool
	if k.Set, rest, ok = cutBytes(rest, 0, SetNameBytesMax); !ok {
		return "set", lengthReason
	}
	if len(rest) == 0 {
		return "designator", "missing"
	}
	return k.decodeRest(rest[0], rest[1:])
}

func (k *Key) decodeSlotKey(rest []byte) (field, reason string) {
	if len(rest) == 0 {
		return "designator", "missing"
	}
	switch SlotKind(rest[0]) {
	case SlotBloom:
		k.Kind = KindSlotBloom
	case SlotMeta:
		k.Kind = KindSlotMeta
	case directoryKind:
		if k.Slot != SlotMax {
			return "designator", "a directory, but not in the last slot"
		}
		if _, ok := DecodeDirectoryKey(rest[1:]); !ok {
			return "name", "not an entry of the directory"
		}
		k.Kind = KindDirectory
	default:
		return "designator", "unknown in a slot's own namespace"
	}
	k.Rest = rest[1:]
	return "", ""
}

func (k *Key) decodeRest(designator byte, rest []byte) (field, reason string) {
	switch designator {
	case DesignatorClock:
		if len(rest) != 0 {
			return k.decodePage(rest, KindClockPage)
		}
		k.Kind = KindClock
	case DesignatorEnd:
		k.Kind = KindEnd
	case DesignatorElement:
		return k.decodeElement(rest)
	case DesignatorTombstone:
		if len(rest) != 0 {
			return k.decodePage(rest, KindTombstonePage)
		}
		k.Kind = KindTombstone
	default:
		return "designator", "unknown"
	}
	if len(rest) != 0 {
		return "end", "bytes after the designator"
	}
	return "", ""
}

func (k *Key) decodePage(rest []byte, kind Kind) (field, reason string) {
	var ok bool
	if k.Actor, rest, ok = cutBytes(rest, 1, clock.ActorBytesMax); !ok {
		return "actor", lengthReason
	}
	if len(rest) != PageBytes {
		return "page", "not 8 bytes"
	}
	k.Kind, k.Page = kind, binary.BigEndian.Uint64(rest)
	return "", ""
}

func (k *Key) decodeElement(rest []byte) (field, reason string) {
	var ok bool
	if k.Element, rest, ok = cutBytes(rest, 0, ElementBytesMax); !ok {
		return "element", lengthReason
	}
	if k.Actor, rest, ok = cutBytes(rest, 1, clock.ActorBytesMax); !ok {
		return "actor", lengthReason
	}
	if len(rest) != CounterBytes+OpBytes {
		return "counter", "not 8 bytes and an op after the actor"
	}
	if k.Counter = binary.LittleEndian.Uint64(rest); k.Counter == 0 {
		return "counter", "zero"
	}
	if k.Op = Op(rest[CounterBytes]); !k.Op.Valid() {
		return "op", "neither a nor r"
	}
	k.Kind = KindElement
	return "", ""
}

// cutBytes cuts a length and as many bytes from b. ok is false if the length is not from least to most or if b has fewer bytes.
func cutBytes(b []byte, least, most uint32) (cut, rest []byte, ok bool) {
	if len(b) < LengthBytes {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[LengthBytes:]
	if n < least || n > most || int(n) > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}
