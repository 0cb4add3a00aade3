package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrBody is returned for bytes that are not a request, an answer or a part.
var ErrBody = errors.New("api: malformed body")

// Versions of bodies. A body has version 1 whenever version 1 can express it, so that programs that know no other version understand it.
const (
	version     = 1
	versionNext = 2 // AppendWrite, AppendWritten, AppendAll: with fields that version 1 does not have
)

func putUint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

func putInt(dst []byte, v int) []byte { return binary.AppendUvarint(dst, uint64(v)) }

func putBytes(dst, b []byte) []byte { return append(putInt(dst, len(b)), b...) }

func putBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// versionOf returns the version of a body; more says that the body needs a field that version 1 does not have.
func versionOf(more bool) byte {
	if more {
		return versionNext
	}
	return version
}

// input is the rest of a body. It is empty after the first error.
type input struct {
	b    []byte
	next bool // the body is of versionNext
	err  error
}

func begin(b []byte) *input {
	in := &input{b: b}
	if v := in.byte(); in.err == nil && v != version {
		in.fail("version %d, this program knows %d", v, version)
	}
	return in
}

// beginAny is begin for bodies that may also be of versionNext.
func beginAny(b []byte) *input {
	in := &input{b: b}
	v := in.byte()
	in.next = v == versionNext
	if in.err == nil && v != version && !in.next {
		in.fail("version %d, this program knows %d and %d", v, version, versionNext)
	}
	return in
}

func (in *input) fail(format string, args ...any) {
	if in.err == nil {
		in.err = fmt.Errorf("%w: %s", ErrBody, fmt.Sprintf(format, args...))
	}
	in.b = nil
}

func (in *input) byte() byte {
	if len(in.b) == 0 {
		in.fail("it ends early")
		return 0
	}
	c := in.b[0]
	in.b = in.b[1:]
	return c
}

func (in *input) uint() uint64 {
	v, n := binary.Uvarint(in.b)
	if n <= 0 || n > 1 && in.b[n-1] == 0 {
		in.fail("bad number")
		return 0
	}
	in.b = in.b[n:]
	return v
}

// int reads a number that fits the counts of a frame.
func (in *input) int() int {
	v := in.uint()
	if v > math.MaxInt32 {
		in.fail("number %d is too large", v)
		return 0
	}
	return int(v)
}

// bytes reads bytes. No bytes are nil.
func (in *input) bytes() []byte {
	n := in.uint()
	if n > uint64(len(in.b)) {
		in.fail("it ends early")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := in.b[:n:n]
	in.b = in.b[n:]
	return b
}

func (in *input) bool() bool {
	c := in.byte()
	if c > 1 {
		in.fail("truth value %d", c)
	}
	return c == 1
}

// count reads how many items follow; each has at least least bytes.
func (in *input) count(least int) int {
	n := in.uint()
	if n > uint64(len(in.b)/least) {
		in.fail("%d things in %d bytes", n, len(in.b))
		return 0
	}
	return int(n)
}

func (in *input) end() error {
	if len(in.b) > 0 {
		in.fail("%d bytes are left over", len(in.b))
	}
	return in.err
}
