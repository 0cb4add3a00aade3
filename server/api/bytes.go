package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrBody is returned for bytes that are no request, answer or part.
var ErrBody = errors.New("api: malformed body")

// Versions of bodies. A body is of version 1 wherever that can say it, so that programs that know no other version understand it.
const (
	version     = 1
	versionNext = 2 // AppendWrite, AppendWritten, AppendAll: with what they were not asked for before
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

// versionOf returns the version of a body that says what version 1 can't, or not.
func versionOf(more bool) byte {
	if more {
		return versionNext
	}
	return version
}

// input is what is left of a body. After the first error it is empty.
type input struct {
	b    []byte
	next bool // it is of versionNext
	err  error
}

func begin(b []byte) *input {
	in := &input{b: b}
	if v := in.byte(); in.err == nil && v != version {
		in.fail("version %d, this program knows %d", v, version)
	}
	return in
}

// beginAny is begin for what also comes in versionNext.
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

// int reads a number that fits a frame's counts.
func (in *input) int() int {
	v := in.uint()
	if v > math.MaxInt32 {
		in.fail("number %d is too large", v)
		return 0
	}
	return int(v)
}

// bytes reads bytes; none are nil.
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

// count reads how many things follow, each of at least that many bytes.
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
