package main

import (
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/door"
)

// sealer makes the tokens of one set and opens them: the only place where the program trusts one.
type sealer struct {
	ring keyscheme.Keyring
	set  []byte
}

func newSealer(s *engine.Store, set []byte) *sealer { return &sealer{s.Keyring(), set} }

// narrow returns the token of an element that is in the set by those dots, or absent if there are none.
func (s *sealer) narrow(element []byte, dots []clock.Dot) (string, error) {
	return s.seal(keyscheme.TokenContent{Form: keyscheme.Narrow, Element: element, Dots: clock.Of(dots...)})
}

// wide returns the token of a whole set.
func (s *sealer) wide(seen *clock.Clock) (string, error) {
	return s.seal(keyscheme.TokenContent{Form: keyscheme.Wide, Dots: seen})
}

// cursor returns the token of a listing that ended with an element.
func (s *sealer) cursor(last []byte, reverse bool) (string, error) {
	return s.seal(keyscheme.TokenContent{Form: keyscheme.Cursor, Element: last, Reverse: reverse})
}

func (s *sealer) seal(c keyscheme.TokenContent) (string, error) {
	c.Set = s.set
	token, err := s.ring.Seal(nil, c)
	if err != nil {
		return "", fmt.Errorf("seal a token of %q: %w", s.set, err)
	}
	return keyscheme.EncodeText(token), nil
}

// open returns the content of a token of one of those forms; the element matters for narrow ones.
func (s *sealer) open(text string, forms keyscheme.Form, element []byte) (keyscheme.TokenContent, error) {
	token, err := keyscheme.DecodeText(text)
	if err != nil {
		return keyscheme.TokenContent{}, err
	}
	return s.ring.Unseal(token, forms, s.set, element)
}

// contexts opens the tokens of an operation on elements: none, one for the whole set, or a narrow one for each element.
func (s *sealer) contexts(tokens []string, elements [][]byte) ([]bigset.Context, error) {
	out := make([]bigset.Context, len(elements))
	forms := keyscheme.Narrow
	if len(tokens) == 1 {
		forms |= keyscheme.Wide
	}
	for i, token := range tokens {
		c, err := s.open(token, forms, elements[i])
		switch {
		case err != nil:
			return nil, fmt.Errorf("--context for element %q: %w", elements[i], err)
		case c.Form == keyscheme.Narrow && len(tokens) < len(elements):
			return nil, fmt.Errorf("--context: %w: one for %d elements", keyscheme.ErrTokenElement, len(elements))
		case c.Form == keyscheme.Narrow:
			out[i] = bigset.Saw(slices.Collect(c.Dots.Dots())...)
		default:
			for i := range out {
				out[i] = bigset.SawAll(c.Dots)
			}
		}
	}
	return out, nil
}

// bound opens the token of a wide context.
func (s *sealer) bound(token string) (*clock.Clock, error) {
	c, err := s.open(token, keyscheme.Wide, nil)
	if err != nil {
		return nil, fmt.Errorf("--context: %w", err)
	}
	return c.Dots, nil
}

// after opens the token of a listing in the given direction.
func (s *sealer) after(token string, reverse bool) ([]byte, error) {
	c, err := s.open(token, keyscheme.Cursor, nil)
	if err != nil {
		return nil, fmt.Errorf("--after: %w", err)
	}
	if c.Reverse != reverse {
		return nil, fmt.Errorf("--after: %w", door.ErrCursor)
	}
	return append([]byte{}, c.Element...), nil
}
