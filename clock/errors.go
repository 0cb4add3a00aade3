package clock

import (
	"errors"
	"fmt"
)

// Errors of decoding. Test for them with errors.Is.
var (
	// ErrCorrupt is wrapped by every error of Decode and UnionEncoded: the bytes are not a clock's.
	ErrCorrupt = errors.New("clock: corrupt encoding")
)

// CorruptError says where bytes stopped being a clock's encoding, and why. It unwraps to ErrCorrupt.
type CorruptError struct {
	Offset int    // into the bytes, after decompression where they are compressed
	Reason string // a few words
}

// Error returns the sentinel's text, the reason and the offset.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d", ErrCorrupt, e.Reason, e.Offset)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
