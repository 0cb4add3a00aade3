package api

import (
	"context"
	"errors"
	"fmt"

	"bigset/server/tokens"
	"bigset/server/wire"
)

// Verbs of tokens. They are on the wire.
const (
	VerbTokens      wire.Verb = 30 // the body is empty; the answer is a list of package tokens, without hashes
	VerbChangeToken wire.Verb = 31 // a list of one token; the answer is names of members
)

// Tokens keeps the tokens of a node or of a cluster. Its methods may be called by any number of goroutines.
type Tokens interface {
	// Tokens returns the tokens that have not been removed.
	Tokens() []tokens.Entry
	// ChangeToken adds a token or, if the entry is Removed, removes one for good. A repeated change does nothing. away are the members of
	// the cluster that have not heard of the change yet.
	ChangeToken(ctx context.Context, e tokens.Entry) (away []string, err error)
}

// TokenHandler serves the verbs of tokens and passes all others to next.
func TokenHandler(t Tokens, next wire.Handler) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		switch r.Verb {
		case VerbTokens:
			if len(r.Body) > 0 {
				return nil, fmt.Errorf("%w: a question for tokens has %d bytes", ErrBody, len(r.Body))
			}
			return AppendTokens(nil, t.Tokens()), nil
		case VerbChangeToken:
			e, err := DecodeToken(r.Body)
			if err != nil {
				return nil, err
			}
			away, err := t.ChangeToken(ctx, e)
			if err != nil {
				return nil, err
			}
			return AppendAway(nil, away), nil
		}
		return next(ctx, r, send)
	}
}

// AppendTokens appends a list of tokens, without their hashes.
func AppendTokens(dst []byte, list []tokens.Entry) []byte {
	shown := make([]tokens.Entry, len(list))
	for i, e := range list {
		e.Hash = tokens.Entry{}.Hash
		shown[i] = e
	}
	return tokens.Append(dst, shown)
}

// DecodeTokens inverts AppendTokens.
func DecodeTokens(b []byte) ([]tokens.Entry, error) {
	list, err := tokens.Decode(b)
	if errors.Is(err, tokens.ErrEntry) {
		err = fmt.Errorf("%w: %w", ErrBody, err)
	}
	return list, err
}

// AppendToken appends a token to be added or removed.
func AppendToken(dst []byte, e tokens.Entry) []byte { return tokens.Append(dst, []tokens.Entry{e}) }

// DecodeToken inverts AppendToken.
func DecodeToken(b []byte) (e tokens.Entry, err error) {
	list, err := DecodeTokens(b)
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%w: a change of %d tokens", ErrBody, len(list))
	}
	if err != nil {
		return e, err
	}
	return list[0], nil
}

// AppendAway appends names of members.
func AppendAway(dst []byte, names []string) []byte {
	dst = putInt(append(dst, version), len(names))
	for _, name := range names {
		dst = putBytes(dst, []byte(name))
	}
	return dst
}

// DecodeAway inverts AppendAway.
func DecodeAway(b []byte) (names []string, err error) {
	in := begin(b)
	for range in.count(1) {
		names = append(names, string(in.bytes()))
	}
	return names, in.end()
}
