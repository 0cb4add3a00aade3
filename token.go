package bigset

import (
	"fmt"
	"slices"

	"bigset/clock"
	"bigset/keyscheme"
)

// Token is a sealed context: of an element (narrow), of a whole set (wide), or of the place where a page of elements ended (a cursor). It goes to
// clients and comes back from them; only the holder of the key can make one. Empty is none.
type Token []byte

// Text returns the token as text: base64url without padding.
func (t Token) Text() string { return keyscheme.EncodeText(t) }

// ParseToken inverts Token.Text. It checks the shape of the token, not its seal, which Tokens does. Its errors wrap keyscheme.ErrToken. An empty text
// is refused: a program that could not make a token may have left it.
func ParseToken(text string) (Token, error) {
	token, err := keyscheme.DecodeText(text)
	if err == nil {
		_, err = keyscheme.TokenForm(token)
	}
	if err != nil {
		return nil, err
	}
	return token, nil
}

// Tokens makes the tokens of one set and opens them. Nothing that a token says is believed before its seal, its form, its store, its set and its
// element were checked; the errors of that wrap keyscheme.ErrToken. engine.Store.Tokens returns one. A Tokens belongs to one goroutine and is cheap:
// make one for each request. The tokens that it makes belong to the caller.
type Tokens struct {
	ring   keyscheme.Keyring
	set    []byte
	room   []byte // for narrow tokens: their bytes stand side by side
	sealed []byte // the last one, with room for the names that it was sealed with
}

// NewTokens returns the tokens of a set that are sealed with the keys of a ring, for nodes that share one. It keeps the name of the set.
func NewTokens(ring keyscheme.Keyring, set []byte) *Tokens { return &Tokens{ring: ring, set: set} }

// Room for narrow tokens is made in pieces, each twice as large as the one before.
const (
	roomBytesMin = 128
	roomBytesMax = 16 << 10
	narrowBytes  = 96 // a narrow token of one dot takes less, beside the names that are sealed with it
)

// Narrow returns the token of an element that is in the set by those dots, or absent if there are none. After an add they are the dot of the result.
func (t *Tokens) Narrow(element []byte, dots []clock.Dot) (Token, error) {
	token, err := t.ring.SealDots(slices.Grow(t.sealed[:0], narrowBytes+len(t.set)+len(element)), t.set, element, dots)
	if err != nil {
		return nil, t.fault(err)
	}
	t.sealed = token
	if cap(t.room)-len(t.room) < len(token) {
		t.room = make([]byte, 0, max(len(token), min(2*cap(t.room), roomBytesMax), roomBytesMin))
	}
	at := len(t.room)
	t.room = append(t.room, token...)
	return t.room[at:len(t.room):len(t.room)], nil
}

// Wide returns the token of the whole set, for a client that has read it when this was its clock.
func (t *Tokens) Wide(seen *clock.Clock) (Token, error) {
	return t.seal(keyscheme.TokenContent{Form: keyscheme.Wide, Dots: seen})
}

// Cursor returns the token of a page that ended with an element.
func (t *Tokens) Cursor(last []byte, reverse bool) (Token, error) {
	return t.seal(keyscheme.TokenContent{Form: keyscheme.Cursor, Element: last, Reverse: reverse})
}

// Follower returns the token of a position of a follower of the set.
func (t *Tokens) Follower(at *keyscheme.Position) (Token, error) {
	return t.seal(keyscheme.TokenContent{Form: keyscheme.Follower, At: at})
}

func (t *Tokens) seal(c keyscheme.TokenContent) (Token, error) {
	c.Set = t.set
	token, err := t.ring.Seal(nil, c)
	if err != nil {
		return nil, t.fault(err)
	}
	return token, nil
}

func (t *Tokens) fault(err error) error { return fmt.Errorf("seal a token of %.64q: %w", t.set, err) }

// Context opens the narrow token of an element. An empty token is no context.
func (t *Tokens) Context(token Token, element []byte) (Context, error) {
	if len(token) == 0 {
		return Context{}, nil
	}
	c, err := t.open(token, keyscheme.Narrow, element)
	if err != nil {
		return Context{}, err
	}
	return narrow(c), nil
}

// narrow returns the context of a narrow token.
func narrow(c keyscheme.TokenContent) Context { return Saw(slices.Collect(c.Dots.Dots())...) }

// Contexts opens the tokens that a client has given with elements, and returns a context for each element: with no token none, with one wide token
// that for all of them; else each element needs its narrow one, in the order of the elements.
func (t *Tokens) Contexts(tokens []Token, elements [][]byte) ([]Context, error) {
	out := make([]Context, len(elements))
	forms := keyscheme.Narrow
	if len(tokens) == 1 {
		forms |= keyscheme.Wide
	}
	for i, token := range tokens[:min(len(tokens), len(elements))] {
		c, err := t.open(token, forms, elements[i])
		if err != nil {
			return nil, fmt.Errorf("context for element %.64q: %w", elements[i], err)
		}
		if c.Form == keyscheme.Wide {
			for i := range out {
				out[i] = SawAll(c.Dots)
			}
			return out, nil
		}
		out[i] = narrow(c)
	}
	if n := len(tokens); n == 1 && len(elements) > 1 {
		return nil, fmt.Errorf("context: %w: one for %d elements", keyscheme.ErrTokenElement, len(elements))
	} else if n > 0 && n != len(elements) {
		return nil, fmt.Errorf("%w: %d contexts for %d elements", ErrRequest, n, len(elements))
	}
	return out, nil
}

// Seen opens a wide token: it returns the clock of the whole set, as its holder has seen it. nil for an empty token.
func (t *Tokens) Seen(token Token) (*clock.Clock, error) {
	if len(token) == 0 {
		return nil, nil
	}
	c, err := t.open(token, keyscheme.Wide, nil)
	return c.Dots, err
}

// After opens a cursor of a listing that runs in that direction: it returns the last element of the page, for ReadOptions.After. nil for an empty
// token. A cursor of the other direction is ErrCursor.
func (t *Tokens) After(token Token, reverse bool) ([]byte, error) {
	if len(token) == 0 {
		return nil, nil
	}
	c, err := t.open(token, keyscheme.Cursor, nil)
	if err != nil {
		return nil, err
	}
	if c.Reverse != reverse {
		return nil, ErrCursor
	}
	return append([]byte{}, c.Element...), nil
}

// Position opens the token of a follower: it returns how far the follower has come. nil for an empty token.
func (t *Tokens) Position(token Token) (*keyscheme.Position, error) {
	if len(token) == 0 {
		return nil, nil
	}
	c, err := t.open(token, keyscheme.Follower, nil)
	return c.At, err
}

func (t *Tokens) open(token Token, forms keyscheme.Form, element []byte) (keyscheme.TokenContent, error) {
	return t.ring.Unseal(token, forms, t.set, element)
}
