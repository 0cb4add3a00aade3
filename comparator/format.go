package comparator

import (
	"encoding/binary"
	"fmt"
	"io"

	"bigset/keyscheme"
)

// Format returns a formatter that writes a key for humans, names quoted, whatever the verb:
//
//	9e3779b9/"set"/e/"element"/"actor":7/a
//
// A bound is written as far as it goes. If a key ends inside a field, or has bytes after its last field, the rest follows a tilde:
// 9e3779b9/"set"/e~"\x05". The formatter aliases the key.
func Format(key []byte) fmt.Formatter { return formatter(key) }

type formatter []byte

// Format writes the key to s.
func (f formatter) Format(s fmt.State, _ rune) { writeRest(s, writeFields(s, f)) }

func writeRest(w io.Writer, rest []byte) {
	if len(rest) > 0 {
		fmt.Fprintf(w, "~%q", rest)
	}
}

// writeFields writes all whole fields and returns what is left.
func writeFields(w io.Writer, key []byte) []byte {
	if len(key) < slotBytes {
		fmt.Fprintf(w, "store/%q", key)
		return nil
	}
	fmt.Fprintf(w, "%x", key[:slotBytes])
	rest := key[slotBytes:]
	if len(rest) >= lengthBytes && binary.LittleEndian.Uint32(rest) == keyscheme.SlotNamespace {
		return writeSlotKey(w, rest[lengthBytes:])
	}
	end := fieldEnd(rest)
	if end == 0 {
		return rest
	}
	fmt.Fprintf(w, "/%q", rest[lengthBytes:end])
	if rest = rest[end:]; len(rest) == 0 {
		return nil
	}
	writeDesignator(w, rest[0])
	switch rest[0] {
	case keyscheme.DesignatorElement:
		return writeElement(w, rest[1:])
	case keyscheme.DesignatorClock, keyscheme.DesignatorTombstone:
		return writePage(w, rest[1:])
	}
	return rest[1:]
}

func writeSlotKey(w io.Writer, rest []byte) []byte {
	if len(rest) == 0 {
		fmt.Fprint(w, "/slot")
		return nil
	}
	fmt.Fprint(w, "/slot")
	if k, ok := keyscheme.DecodeFilterKey(rest[1:]); ok && rest[0] == byte(keyscheme.SlotBloom) {
		writeFilter(w, &k)
		return nil
	}
	writeDesignator(w, rest[0])
	fmt.Fprintf(w, "/%q", rest[1:])
	return nil
}

// writeFilter writes a filter's name and generation, and the part of the filter that the key names.
func writeFilter(w io.Writer, k *keyscheme.FilterKey) {
	fmt.Fprintf(w, "/b/%q/generation %d/%c", k.Name, k.Generation, k.Part)
	if k.Part != keyscheme.FilterHead {
		fmt.Fprintf(w, "/layer %d of %q", k.Layer.Index, k.Layer.Owner)
	}
	if k.Part == keyscheme.FilterPage {
		fmt.Fprintf(w, "/page %d", k.Page)
	}
}

func writeDesignator(w io.Writer, b byte) {
	if b >= 'a' && b <= 'z' {
		fmt.Fprintf(w, "/%c", b)
		return
	}
	fmt.Fprintf(w, "/%q", []byte{b})
}

func writeElement(w io.Writer, rest []byte) []byte {
	end := fieldEnd(rest)
	if end == 0 {
		return rest
	}
	fmt.Fprintf(w, "/%q", rest[lengthBytes:end])
	rest = rest[end:]
	end = fieldEnd(rest)
	if end == 0 || len(rest) < end+keyscheme.CounterBytes {
		return rest
	}
	fmt.Fprintf(w, "/%q:%d", rest[lengthBytes:end], binary.LittleEndian.Uint64(rest[end:]))
	rest = rest[end+keyscheme.CounterBytes:]
	if len(rest) == 0 || !keyscheme.Op(rest[0]).Valid() {
		return rest
	}
	fmt.Fprintf(w, "/%c", rest[0])
	return rest[1:]
}

func writePage(w io.Writer, rest []byte) []byte {
	end := fieldEnd(rest)
	if end == 0 || len(rest) < end+keyscheme.PageBytes {
		return rest
	}
	fmt.Fprintf(w, "/%q/page %d", rest[lengthBytes:end], binary.BigEndian.Uint64(rest[end:]))
	return rest[end+keyscheme.PageBytes:]
}
