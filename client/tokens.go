package client

import (
	"context"
	"fmt"

	"bigset/server/api"
	"bigset/server/tokens"
	"bigset/server/wire"
)

// AccessToken is a secret that says what a client may do, as the nodes keep it. bigset.Token, a sealed context, is another thing.
type AccessToken = tokens.Entry

// AccessTokens returns the access tokens that have not been removed, without their hashes.
func (c *Client) AccessTokens(ctx context.Context) ([]AccessToken, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	b, err := c.get(ctx, api.VerbAccessTokens, nil)
	if err != nil {
		return nil, err
	}
	list, err := api.DecodeAccessTokens(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	tokens.Sort(list)
	return list, nil
}

// ChangeAccessToken adds an access token or, if the entry is Removed, removes one for good. The client repeats a request whose answer was lost; a
// repeated request changes nothing. away are the members of the cluster that have not heard of the change yet: they learn of it when they
// are back.
func (c *Client) ChangeAccessToken(ctx context.Context, e AccessToken) (away []string, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	var answer []byte
	lost, err := c.ask(ctx, func(to wire.Caller, _ error) (err error) {
		answer, err = to.Do(ctx, wire.Call{Verb: api.VerbChangeAccessToken, Body: api.AppendAccessToken(nil, e)})
		return err
	})
	switch {
	case err != nil && lost != nil && !verdict(err):
		return nil, &UnknownError{What: fmt.Sprintf("the change of token %v", e.ID), Err: err}
	case err != nil:
		return nil, err
	}
	if away, err = api.DecodeAway(answer); err != nil { // the answer says that the change was made, but not where
		return nil, &UnknownError{What: fmt.Sprintf("the change of token %v", e.ID), Err: fmt.Errorf("%w: %w", ErrAnswer, err)}
	}
	return away, nil
}
