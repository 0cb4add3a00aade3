package keyscheme

import (
	"bytes"
	"errors"
	"fmt"
)

// Errors of keys and names.
var (
	// ErrMalformedKey says that a key is not one that this package writes. The error is always a *KeyError.
	ErrMalformedKey = errors.New("keyscheme: malformed key")
	// ErrNameTooLong says that a set's name or an element is longer than a key can hold.
	ErrNameTooLong = errors.New("keyscheme: name too long")
)

// Errors of values.
var (
	// ErrCorruptValue says that a value is not one that this package writes, or is a bundle of operands that could not be
	// united.
	ErrCorruptValue = errors.New("keyscheme: corrupt value")
)

// Errors of tokens. Every one of them wraps ErrToken. They differ only in what they report; the token is refused in each case.
var (
	// ErrToken is wrapped by all errors about tokens.
	ErrToken = errors.New("keyscheme: token")
	// ErrTokenMalformed says that the bytes do not have the layout of a token.
	ErrTokenMalformed = fmt.Errorf("%w: malformed", ErrToken)
	// ErrTokenVersion says that the token is of a version that this program does not know.
	ErrTokenVersion = fmt.Errorf("%w: unknown version", ErrToken)
	// ErrTokenForm says that the token is of another form than was asked for, for example narrow when a wide one is needed.
	ErrTokenForm = fmt.Errorf("%w: wrong form for this request", ErrToken)
	// ErrTokenDomain says that another store or cluster issued the token.
	ErrTokenDomain = fmt.Errorf("%w: issued for another store", ErrToken)
	// ErrTokenSet says that the token was issued for another set.
	ErrTokenSet = fmt.Errorf("%w: issued for another set", ErrToken)
	// ErrTokenElement says that a narrow token was issued for another element.
	ErrTokenElement = fmt.Errorf("%w: issued for another element", ErrToken)
	// ErrTokenSeal says that the seal does not fit: the token is forged or damaged, or its key was retired.
	ErrTokenSeal = fmt.Errorf("%w: broken seal or retired key", ErrToken)
	// ErrTokenTooLarge says that a context is too large to be sealed: its token would be longer than TokenBytesMax, or than
	// NarrowTokenBytesMax.
	ErrTokenTooLarge = fmt.Errorf("%w: context too large", ErrToken)
	// ErrTokenKey says that the keyring has no current key to seal with.
	ErrTokenKey = fmt.Errorf("%w: keyring without a current key", ErrToken)
)

// KeyError says which field of a key is wrong, and how. It is ErrMalformedKey to errors.Is.
type KeyError struct {
	Key    []byte // a copy of the whole key
	Field  string // slot, set, designator, element, actor, counter, op, page or end
	Reason string // a few words
}

// keyErrorBytesShown bounds what an error prints of a key, which may be 128 KiB.
const keyErrorBytesShown = 96

// Error shows the head of the key, quoted.
func (e *KeyError) Error() string {
	shown, more := e.Key, ""
	if len(shown) > keyErrorBytesShown {
		shown, more = shown[:keyErrorBytesShown], fmt.Sprintf(" and %d bytes more", len(shown)-keyErrorBytesShown)
	}
	return fmt.Sprintf("%v %q%s: %s: %s", ErrMalformedKey, shown, more, e.Field, e.Reason)
}

// Unwrap makes errors.Is(e, ErrMalformedKey) true.
func (e *KeyError) Unwrap() error { return ErrMalformedKey }

func malformed(key []byte, field, reason string) error {
	return &KeyError{Key: bytes.Clone(key), Field: field, Reason: reason}
}

func corrupt(what, reason string) error {
	return fmt.Errorf("%w: %s: %s", ErrCorruptValue, what, reason)
}
