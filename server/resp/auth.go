package resp

import (
	"context"
	"errors"

	"bigset/server/tokens"
)

// asks is what a client must be permitted before a command is executed. The zero value belongs to no command.
type asks byte

const (
	asksNothing asks = iota + 1 // a client without a token may send it
	asksToken                   // any token is enough: the command has no keys, or checks permissions itself
	asksRead                    // read all keys
	asksWrite                   // write all keys
	asksStore                   // write the first key and read the others
)

// Errors of AUTH, HELLO and permissions, in redis's words.
const (
	errNoPassword   = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errWrongPass    = "WRONGPASS invalid username-password pair or user is disabled."
	errNoAuth       = "NOAUTH Authentication required."
	errHelloNoAuth  = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errNoPermission = "NOPERM this user has no permissions to access one of the keys used as arguments"
)

// may returns why the request of the connection is not permitted. It checks each of its keys.
func (c *conn) may(cmd *command) error {
	verb := tokens.Read
	switch cmd.asks {
	case asksNothing:
		return nil
	case asksToken:
		return c.grant.Valid()
	case asksWrite, asksStore:
		verb = tokens.Write
	case asksRead:
	default:
		return tokens.ErrDenied
	}
	if c.grant.Free() {
		return nil
	}
	if cmd.first > 0 && cmd.first == cmd.last {
		return c.grant.Check(verb, nameOf(c.args[cmd.first]))
	}
	if err := c.grant.Valid(); err != nil {
		return err
	}
	for _, key := range cmd.keys(c.args) {
		if err := c.grant.Check(verb, nameOf(key)); err != nil {
			return err
		}
		if cmd.asks == asksStore {
			verb = tokens.Read
		}
	}
	return nil
}

// keys returns the keys of a request.
func (cmd *command) keys(args [][]byte) (keys [][]byte) {
	if cmd.name == "sintercard" {
		keys, _ = sintercardKeys(args) // wrong arguments are refused later
		return keys
	}
	last := cmd.last
	if last < 0 {
		last += len(args)
	}
	if last = min(last, len(args)-1); cmd.first == 0 || last < cmd.first {
		return nil
	}
	return args[cmd.first : last+1] // all commands have step 1
}

// sees reports whether a key may be shown to the client.
func (c *conn) sees(key []byte) bool { return c.grant.May(tokens.Read, nameOf(key)) }

// userDefault is the user of AUTH with only a password. Every token is valid for it, and for the token's own label.
const userDefault = "default"

// authenticate returns what a token permits.
func (c *conn) authenticate(user, secret []byte) (tokens.Grant, error) {
	grant, err := c.s.opt.Tokens.Authenticate(secret)
	switch {
	case errors.Is(err, tokens.ErrNone) && string(user) == userDefault:
		return c.s.opt.Tokens.Anonymous(), nil // as the default user of redis without a password
	case errors.Is(err, tokens.ErrSecret), errors.Is(err, tokens.ErrNone):
		return grant, refusal(errWrongPass)
	case err == nil && string(user) != userDefault && string(user) != grant.Label():
		return tokens.Grant{}, refusal(errWrongPass)
	}
	return grant, err
}

func (c *conn) auth(_ context.Context, args [][]byte) {
	user, secret := []byte(userDefault), args[len(args)-1]
	switch {
	case len(args) > 3:
		c.fail(errSyntax)
		return
	case len(args) == 3:
		user = args[1]
	default:
		if _, err := c.s.opt.Tokens.Authenticate(secret); errors.Is(err, tokens.ErrNone) {
			c.fail(errNoPassword)
			return
		}
	}
	grant, err := c.authenticate(user, secret)
	if err != nil {
		c.failed("auth", nil, err)
		return
	}
	c.grant = grant
	c.ok()
}
