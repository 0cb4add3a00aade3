package keyscheme

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/dchest/siphash"

	"bigset/clock"
)

// SealKey seals tokens. It is secret: anyone who has it can make tokens that kill any element. It prints as a placeholder.
type SealKey [16]byte

// Format writes a placeholder, whatever the verb, so that no log shows a key.
func (k SealKey) Format(s fmt.State, _ rune) { fmt.Fprint(s, "(key)") }

// Keyring seals and unseals tokens. All replicas of a set share it. To rotate keys, no replica may seal with a key before all
// replicas can unseal with it: give all of them the new key as Previous, then let all of them swap the two, and when the tokens of
// the old key may expire, remove it from all of them. A Keyring is a plain value and may be used concurrently.
type Keyring struct {
	Current  SealKey // seals and unseals; must not be zero
	Previous SealKey // unseals only; zero is none
	Domain   [8]byte // names the store or the cluster; not secret
}

// Seal appends the token of a context. The context's set must pass CheckSetName and its element CheckElement. Its errors are
// ErrTokenTooLarge, ErrTokenForm (not exactly one form), ErrTokenKey, and those of the names; on an error it returns dst unchanged.
func (r *Keyring) Seal(dst []byte, ctx TokenContent) ([]byte, error) {
	return r.seal(dst, &ctx, ctx.appendPayload)
}

// SealDots appends what Seal would append for the narrow context of an element with these dots. In the usual case of one dot it
// makes no clock.
func (r *Keyring) SealDots(dst, set, element []byte, dots []clock.Dot) ([]byte, error) {
	return r.seal(dst, &TokenContent{Form: Narrow, Set: set, Element: element}, func(dst []byte) []byte {
		if len(dots) > 1 {
			dots = slices.Clone(dots) // AppendDots sorts them
		}
		return clock.AppendDots(dst, dots)
	})
}

func (r *Keyring) seal(dst []byte, ctx *TokenContent, payload func([]byte) []byte) ([]byte, error) {
	if err := r.sealable(ctx); err != nil {
		return dst, err
	}
	start := len(dst)
	token := payload(ctx.appendHead(dst, r.Domain))
	if len(token)-start > ctx.Form.bytesMax()-tagBytes {
		return dst, ErrTokenTooLarge
	}
	tag, token := r.Current.tag(token, start, ctx.Set, ctx.bound())
	return append(token, tag[:]...), nil
}

func (r *Keyring) sealable(ctx *TokenContent) error {
	if r.Current == (SealKey{}) {
		return ErrTokenKey
	}
	if !ctx.Form.known() {
		return ErrTokenForm
	}
	if err := CheckSetName(ctx.Set); err != nil {
		return err
	}
	return CheckElement(ctx.Element)
}

// Unseal returns the context of a token that was issued for the set and, if it is narrow, for the element. forms says which forms
// are accepted; the element matters only to Narrow. Its errors all wrap ErrToken and say what is wrong with the token. Nothing in a
// token is trusted before its seal has been checked. The Element of a Cursor's context aliases the token; otherwise Element and Set
// alias the arguments.
func (r *Keyring) Unseal(token []byte, forms Form, set, element []byte) (TokenContent, error) {
	ctx := TokenContent{Set: set}
	if err := ctx.checkHead(token, forms, r.Domain); err != nil {
		return TokenContent{}, err
	}
	if ctx.Form == Narrow {
		ctx.Element = element
		if binary.BigEndian.Uint64(token[tokenHeadBytes:]) != xxhash.Sum64(element) {
			return TokenContent{}, ErrTokenElement
		}
	}
	body, tag := token[:len(token)-tagBytes], token[len(token)-tagBytes:]
	if !r.opens(body, tag, set, ctx.bound()) {
		return TokenContent{}, ErrTokenSeal
	}
	if err := ctx.decodePayload(body[ctx.Form.headBytes():]); err != nil {
		return TokenContent{}, err
	}
	return ctx, nil
}

// TokenForm returns the form that a token names. It needs no key, so the form is not authenticated.
func TokenForm(token []byte) (Form, error) {
	if len(token) < 2 || len(token) > Form(token[1]).bytesMax() {
		return 0, ErrTokenMalformed
	}
	if token[0] != tokenVersion {
		return 0, ErrTokenVersion
	}
	f := Form(token[1])
	if !f.known() {
		return 0, ErrTokenMalformed
	}
	return f, nil
}

// checkHead reads the form and refuses a token that this ring, these forms and this set cannot have issued.
func (c *TokenContent) checkHead(token []byte, forms Form, domain [domainBytes]byte) error {
	if len(token) < 2 || len(token) > Form(token[1]).bytesMax() {
		return ErrTokenMalformed
	}
	if token[0] != tokenVersion {
		return ErrTokenVersion
	}
	c.Form = Form(token[1])
	if !c.Form.known() || len(token) < c.Form.headBytes()+tagBytes {
		return ErrTokenMalformed
	}
	if c.Form&forms == 0 {
		return ErrTokenForm
	}
	if !bytes.Equal(token[2:2+domainBytes], domain[:]) {
		return ErrTokenDomain
	}
	if binary.BigEndian.Uint64(token[2+domainBytes:]) != xxhash.Sum64(c.Set) {
		return ErrTokenSet
	}
	return nil
}

// opens reports whether one of the ring's keys made the tag. A zero key is not a key: anybody could seal with it.
func (r *Keyring) opens(body, tag, set, element []byte) bool {
	for _, key := range [...]SealKey{r.Current, r.Previous} {
		if key == (SealKey{}) {
			continue
		}
		var buf [512]byte
		want, _ := key.tag(append(buf[:0], body...), 0, set, element)
		if subtle.ConstantTimeCompare(want[:], tag) == 1 {
			return true
		}
	}
	return false
}

// tag returns SipHash-2-4-128 of msg[start:], the set, the element and the lengths of the two. It also returns msg, unchanged but
// perhaps moved. The lengths stand at the end, where no other split of the bytes before can imitate them.
func (k *SealKey) tag(msg []byte, start int, set, element []byte) (tag [tagBytes]byte, same []byte) {
	n := len(msg)
	msg = append(append(msg, set...), element...)
	msg = binary.LittleEndian.AppendUint32(msg, uint32(len(set)))
	msg = binary.LittleEndian.AppendUint32(msg, uint32(len(element)))
	lo, hi := siphash.Hash128(binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:]), msg[start:])
	binary.LittleEndian.PutUint64(tag[:8], lo)
	binary.LittleEndian.PutUint64(tag[8:], hi)
	return tag, msg[:n]
}

func tokenFault(err error) error { return fmt.Errorf("%w: %w", ErrTokenMalformed, err) }

var textEncoding = base64.RawURLEncoding.Strict()

// EncodeText returns a token as text: base64url without padding.
func EncodeText(token []byte) string { return textEncoding.EncodeToString(token) }

// DecodeText inverts EncodeText, and accepts only what EncodeText returns. Its error is ErrTokenMalformed.
func DecodeText(text string) ([]byte, error) {
	if textEncoding.DecodedLen(len(text)) > TokenBytesMax || strings.ContainsAny(text, "\r\n") { // which base64 skips
		return nil, ErrTokenMalformed
	}
	token, err := textEncoding.DecodeString(text)
	if err != nil {
		return nil, tokenFault(err)
	}
	return token, nil
}
