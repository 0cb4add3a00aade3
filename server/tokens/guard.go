package tokens

import "bytes"

// Guard judges the clients of a door. A nil Guard permits everything.
type Guard struct {
	List *List
	// Always asks for a token also while there are none: a door that others reach is closed then.
	Always bool
}

// Anonymous returns what a client may do that has given no secret.
func (g *Guard) Anonymous() Grant { return Grant{guard: g, open: g == nil} }

// Authenticate returns what a secret permits. Errors are ErrSecret, ErrNone where there are no tokens and none is needed, and ErrUnlearned.
func (g *Guard) Authenticate(secret []byte) (Grant, error) {
	switch {
	case g == nil:
		return Grant{}, ErrNone
	case !g.List.learned.Load():
		return Grant{}, ErrUnlearned
	case !g.needed():
		return Grant{}, ErrNone
	}
	t, err := g.List.find(secret)
	if err != nil {
		return Grant{}, err
	}
	return Grant{guard: g, of: t}, nil
}

// needed reports whether a request needs a token.
func (g *Guard) needed() bool { return g.Always || g.List.closed.Load() }

// Grant is what a client may do. It is judged at each call, so that it follows the list. The zero Grant permits nothing.
type Grant struct {
	guard *Guard
	of    *token // nil: no secret was given
	open  bool   // there is no guard
}

// Check returns nil where a verb on a name is permitted, or why not: ErrNoToken, ErrDenied or ErrUnlearned. Admin is asked about with a nil name.
func (g Grant) Check(verb Verbs, name []byte) error {
	if err := g.Valid(); err != nil {
		return err
	}
	if g.of == nil || verb != 0 && g.of.Verbs&verb == verb && bytes.HasPrefix(name, g.of.Prefix) {
		return nil
	}
	return ErrDenied
}

// May reports whether a verb on a name is permitted.
func (g Grant) May(verb Verbs, name []byte) bool { return g.Check(verb, name) == nil }

// Valid returns nil where the client may do something, whatever it is, or why not: ErrNoToken or ErrUnlearned.
func (g Grant) Valid() error {
	switch {
	case g.open:
		return nil
	case g.guard == nil:
		return ErrNoToken
	case !g.guard.List.learned.Load():
		return ErrUnlearned
	case g.of == nil && g.guard.needed(), g.of != nil && g.of.gone.Load():
		return ErrNoToken
	}
	return nil
}

// Prefix returns what names begin with on which a verb is permitted; ok is false where it is permitted on none. So a list that begins with the prefix tells of no name that
// the client may not see.
func (g Grant) Prefix(verb Verbs) (prefix []byte, ok bool) {
	if g.of == nil {
		return nil, g.Valid() == nil
	}
	return g.of.Prefix, g.May(verb, g.of.Prefix)
}

// Free reports whether the client may do everything, because no token is needed.
func (g Grant) Free() bool { return g.of == nil && g.Valid() == nil }

// Label returns the label of the token, empty where no secret was given.
func (g Grant) Label() string {
	if g.of == nil {
		return ""
	}
	return g.of.Label
}
