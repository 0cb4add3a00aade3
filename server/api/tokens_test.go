package api

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"bigset/server/tokens"
	"bigset/server/wire"
)

// fewTokens are Tokens in memory.
type fewTokens struct{ list []tokens.Entry }

func (f *fewTokens) AccessTokens() []tokens.Entry { return f.list }

func (f *fewTokens) ChangeAccessToken(_ context.Context, e tokens.Entry) ([]string, error) {
	if e.Removed {
		return nil, tokens.ErrNotFound
	}
	f.list = append(f.list, e)
	return []string{"b", "c"}, nil
}

// TestTokens asks for tokens and changes them through bodies. Hashes stay where they are.
func TestTokens(t *testing.T) {
	few := &fewTokens{}
	next := errors.New("next")
	h := AccessTokenHandler(few, func(context.Context, *wire.Request, func([]byte) error) ([]byte, error) { return nil, next })
	ask := func(v wire.Verb, body []byte) ([]byte, error) {
		return h(t.Context(), &wire.Request{Verb: v, Body: body}, nil)
	}
	e, _, err := tokens.New("app", tokens.Read, []byte("p"), time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ask(VerbChangeAccessToken, AppendAccessToken(nil, e))
	if err != nil {
		t.Fatal(err)
	}
	if away, err := DecodeAway(b); err != nil || !slices.Equal(away, []string{"b", "c"}) || len(few.list) != 1 || few.list[0].Hash != e.Hash {
		t.Errorf("%q, %v, %v", away, err, few.list)
	}
	if b, err = ask(VerbAccessTokens, nil); err != nil || bytes.Contains(b, e.Hash[:]) {
		t.Errorf("%x, %v", b, err)
	}
	if list, err := DecodeAccessTokens(b); err != nil || len(list) != 1 || list[0].ID != e.ID || string(list[0].Prefix) != "p" {
		t.Errorf("%v, %v", list, err)
	}
	_, err = ask(VerbChangeAccessToken, AppendAccessToken(nil, tokens.Entry{ID: e.ID, Removed: true}))
	if err := (Errors{}).Decode(Errors{}.Append(nil, err)); !errors.Is(err, tokens.ErrNotFound) {
		t.Error(err)
	}
	for v, body := range map[wire.Verb][]byte{VerbAccessTokens: {1}, VerbChangeAccessToken: tokens.Append(nil, []tokens.Entry{e, {ID: tokens.ID{1}, Removed: true}})} {
		if _, err := ask(v, body); !errors.Is(err, ErrBody) {
			t.Errorf("verb %d: %v", v, err)
		}
	}
	if _, err := ask(VerbChangeAccessToken, []byte("x")); !errors.Is(err, ErrBody) {
		t.Error(err)
	}
	if _, err := ask(VerbWrite, nil); !errors.Is(err, next) {
		t.Error(err)
	}
	if _, err := DecodeAway([]byte{1, 1, 9}); !errors.Is(err, ErrBody) {
		t.Error(err)
	}
}
