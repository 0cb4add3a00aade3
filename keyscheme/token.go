package keyscheme

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"bigset/clock"
)

// Form says what a token holds. It is in the token, as one byte. Forms may be combined with OR if several are accepted.
type Form byte

// The forms of token.
const (
	Narrow Form = 1 << iota // the dots that a client saw of one element
	Wide                    // the clock of a whole set that a client saw
	Cursor                  // where in a set a page of elements ended
)

// The longest tokens, in bytes; as text they are a third longer. They are part of the wire format.
const (
	// TokenBytesMax is the limit for a wide token: it fits in a frame together with the elements of a part.
	TokenBytesMax = 32 << 20
	// NarrowTokenBytesMax is the limit for all others.
	NarrowTokenBytesMax = 1 << 20
)

// bytesMax returns the length of the longest token of a form.
func (f Form) bytesMax() int {
	if f == Wide {
		return TokenBytesMax
	}
	return NarrowTokenBytesMax
}

const (
	tokenVersion = 1

	domainBytes = 8
	hashBytes   = 8
	tagBytes    = 16

	tokenHeadBytes = 2 + domainBytes + hashBytes // version, form, domain, hash of the set
)

// The first byte of a cursor's payload. They are in tokens.
const (
	cursorForward = 'f'
	cursorReverse = 'r'
)

// TokenContent is the plain content of a token.
type TokenContent struct {
	Form    Form
	Set     []byte
	Element []byte       // Narrow: the element it is about; Cursor: the last element of the page; Wide: nil
	Dots    *clock.Clock // Narrow, Wide: what the client saw; nil is the empty clock
	Reverse bool         // Cursor: the pages run backwards
}

// bound returns the element that the seal binds in addition to the token's own bytes.
func (c *TokenContent) bound() []byte {
	if c.Form == Narrow {
		return c.Element
	}
	return nil
}

// appendHead appends what stands before the payload.
func (c *TokenContent) appendHead(dst []byte, domain [domainBytes]byte) []byte {
	dst = append(dst, tokenVersion, byte(c.Form))
	dst = append(dst, domain[:]...)
	dst = binary.BigEndian.AppendUint64(dst, xxhash.Sum64(c.Set))
	if c.Form == Narrow {
		dst = binary.BigEndian.AppendUint64(dst, xxhash.Sum64(c.Element))
	}
	return dst
}

func (c *TokenContent) appendPayload(dst []byte) []byte {
	if c.Form != Cursor {
		return c.Dots.Append(dst)
	}
	direction := byte(cursorForward)
	if c.Reverse {
		direction = cursorReverse
	}
	return append(append(dst, direction), c.Element...)
}

// decodePayload inverts appendPayload. The seal has been checked, so a payload that fails here was sealed by a faulty program.
func (c *TokenContent) decodePayload(payload []byte) error {
	if c.Form != Cursor {
		dots, err := clock.Decode(payload)
		if err != nil {
			return tokenFault(err)
		}
		c.Dots = dots
		return nil
	}
	if len(payload) == 0 || payload[0] != cursorForward && payload[0] != cursorReverse || len(payload)-1 > ElementBytesMax {
		return ErrTokenMalformed
	}
	c.Reverse, c.Element = payload[0] == cursorReverse, payload[1:]
	return nil
}

// known reports whether f is exactly one form.
func (f Form) known() bool { return f == Narrow || f == Wide || f == Cursor }

// headBytes returns how many bytes stand before the payload.
func (f Form) headBytes() int {
	if f == Narrow {
		return tokenHeadBytes + hashBytes
	}
	return tokenHeadBytes
}
