package tokens

import "bytes"

// Guard checks the clients of a door. A nil Guard permits everything.
type Guard struct {
	List *List
	// Always requires a token even while no tokens exist: a door that other machines can reach is then closed.
	Always bool
}

// Anonymous returns the permissions of a client that has given no secret.
func (g *Guard) Anonymous() Grant { return Grant{guard: g, open: g == nil} }

// Authenticate returns what a secret permits. Errors are ErrSecret, ErrNone if no tokens exist and none is needed, and ErrUnlearned.
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

// Grant is what a client may do. It follows the list, because it is checked at each call. The zero Grant permits nothing.
type Grant struct {
	guard *Guard
	of    *token // nil if no secret was given
	open  bool   // no guard exists
}

// Check returns nil if a verb on a name is permitted. Otherwise it returns ErrNoToken, ErrDenied or ErrUnlearned. For Admin the name is
// nil.
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

// Valid returns nil if the client may do anything at all. Otherwise it returns ErrNoToken or ErrUnlearned.
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

// Prefix returns the prefix of the names on which a verb is permitted; ok is false if there are none. So a list that begins with the prefix
// shows no name that the client may not see.
func (g Grant) Prefix(verb Verbs) (prefix []byte, ok bool) {
	if g.of == nil {
		return nil, g.Valid() == nil
	}
	return g.of.Prefix, g.May(verb, g.of.Prefix)
}

// Free reports whether the client may do everything because no token is needed.
func (g Grant) Free() bool { return g.of == nil && g.Valid() == nil }

// Label returns the label of the token; it is empty if no secret was given.
func (g Grant) Label() string {
	if g.of == nil {
		return ""
	}
	return g.of.Label
}
