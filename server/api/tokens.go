package api

import (
	"context"
	"errors"
	"fmt"

	"bigset/server/tokens"
	"bigset/server/wire"
)

// Verbs of access tokens. They are on the wire.
const (
	VerbAccessTokens      wire.Verb = 30 // the body is empty; the answer is a list of package tokens, without hashes
	VerbChangeAccessToken wire.Verb = 31 // a list of one token; the answer is names of members
)

// AccessTokens keeps the access tokens of a node or of a cluster. Its methods may be called by any number of goroutines.
type AccessTokens interface {
	// AccessTokens returns the tokens that have not been removed.
	AccessTokens() []tokens.Entry
	// ChangeAccessToken adds a token or, if the entry is Removed, removes one for good. A repeated change does nothing. away are the members of
	// the cluster that have not heard of the change yet.
	ChangeAccessToken(ctx context.Context, e tokens.Entry) (away []string, err error)
}

// AccessTokenHandler serves the verbs of access tokens and passes all others to next.
func AccessTokenHandler(t AccessTokens, next wire.Handler) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		switch r.Verb {
		case VerbAccessTokens:
			if len(r.Body) > 0 {
				return nil, fmt.Errorf("%w: a question for tokens has %d bytes", ErrBody, len(r.Body))
			}
			return AppendAccessTokens(nil, t.AccessTokens()), nil
		case VerbChangeAccessToken:
			e, err := DecodeAccessToken(r.Body)
			if err != nil {
				return nil, err
			}
			away, err := t.ChangeAccessToken(ctx, e)
			if err != nil {
				return nil, err
			}
			return AppendAway(nil, away), nil
		}
		return next(ctx, r, send)
	}
}

// AppendAccessTokens appends a list of tokens, without their hashes.
func AppendAccessTokens(dst []byte, list []tokens.Entry) []byte {
	shown := make([]tokens.Entry, len(list))
	for i, e := range list {
		e.Hash = tokens.Entry{}.Hash
		shown[i] = e
	}
	return tokens.Append(dst, shown)
}

// DecodeAccessTokens inverts AppendAccessTokens.
func DecodeAccessTokens(b []byte) ([]tokens.Entry, error) {
	list, err := tokens.Decode(b)
	if errors.Is(err, tokens.ErrEntry) {
		err = fmt.Errorf("%w: %w", ErrBody, err)
	}
	return list, err
}

// AppendAccessToken appends a token to be added or removed.
func AppendAccessToken(dst []byte, e tokens.Entry) []byte {
	return tokens.Append(dst, []tokens.Entry{e})
}

// DecodeAccessToken inverts AppendAccessToken.
func DecodeAccessToken(b []byte) (e tokens.Entry, err error) {
	list, err := DecodeAccessTokens(b)
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
