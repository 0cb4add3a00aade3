package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"bigset/server/tokens"
)

func (c *conn) ping(_ context.Context, args [][]byte) {
	switch len(args) {
	case 1:
		c.Out = appendSimple(c.Out, "PONG")
	case 2:
		c.bulk(args[1])
	default:
		c.failArity("ping")
	}
}

func (c *conn) echo(_ context.Context, args [][]byte) { c.bulk(args[1]) }

func (c *conn) quit(context.Context, [][]byte) {
	c.ok()
	c.end()
}

// attack closes the connection without an answer, as redis does: some page made a browser send a request to this machine, with commands in
// its body.
func (c *conn) attack(context.Context, [][]byte) {
	c.last = true
	c.End()
}

func (c *conn) reset(context.Context, [][]byte) {
	c.proto, c.name, c.grant = 2, nil, c.s.opt.Tokens.Anonymous()
	c.acked.none()
	c.Out = appendSimple(c.Out, "RESET")
}

// hello selects the protocol. A refused request changes nothing.
func (c *conn) hello(_ context.Context, args [][]byte) {
	proto, name, grant := c.proto, c.name, c.grant
	if len(args) > 1 {
		n, ok := number(args[1])
		if !ok {
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		proto = int(n)
	}
	for i := 2; i < len(args); i++ {
		switch more := len(args) - 1 - i; {
		case is(args[i], "AUTH") && more >= 2:
			var err error
			if grant, err = c.authenticate(args[i+1], args[i+2]); err != nil {
				c.failed("hello", nil, err)
				return
			}
			i += 2
		case is(args[i], "SETNAME") && more >= 1:
			i++
			if !goodClientName(args[i]) {
				c.fail(errClientName)
				return
			}
			name = append([]byte(nil), args[i]...)
		default:
			c.fail(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", shownOf(args[i], shownMost)))
			return
		}
	}
	if err := grant.Valid(); err != nil {
		if errors.Is(err, tokens.ErrNoToken) {
			err = refusal(errHelloNoAuth)
		}
		c.failed("hello", nil, err)
		return
	}
	c.proto, c.name, c.grant = proto, name, grant
	c.header(typeMap, 7)
	c.text("server")
	c.text("bigset")
	c.text("version")
	c.text(redisVersion)
	c.text("proto")
	c.int(int64(c.proto))
	c.text("id")
	c.int(c.id)
	c.text("mode")
	c.text("standalone")
	c.text("role")
	c.text("master")
	c.text("modules")
	c.header(typeArray, 0)
}

func (c *conn) selectDB(_ context.Context, args [][]byte) {
	switch n, ok := number(args[1]); {
	case !ok:
		c.fail(errInteger)
	case n != int64(int32(n)):
		c.fail("ERR value is out of range, value must between -2147483648 and 2147483647")
	case n != 0:
		c.fail("ERR DB index is out of range")
	default:
		c.ok()
	}
}

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

// clientNameBytesMax bounds the names that a connection keeps for CLIENT.
const clientNameBytesMax = 1024

func goodClientName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(name) <= clientNameBytesMax
}

// subcommand is a row of the table of a command's subcommands.
type subcommand struct {
	name  string
	arity int // arguments including both names; negative: at least that many
	run   func(c *conn, args [][]byte)
}

// runSub runs a subcommand.
func (c *conn) runSub(command string, table []subcommand, args [][]byte) {
	word := string(c.lower(args[1]))
	for i := range table {
		sub := &table[i]
		if len(args[1]) != len(sub.name) || word != sub.name {
			continue
		}
		if sub.arity > 0 && len(args) != sub.arity || len(args) < -sub.arity {
			c.failArity(command + "|" + sub.name)
			return
		}
		sub.run(c, args)
		return
	}
	c.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", shownOf(args[1], shownMost), upper(command)))
}

// refuseClient returns what runs a subcommand of CLIENT that is not supported: why tells the reason and what to use instead.
func refuseClient(why string) func(*conn, [][]byte) {
	return func(c *conn, args [][]byte) { c.fail(refusedText("client "+string(c.lower(args[1])), why)) }
}

var (
	notTracked = refuseClient("nodes do not say what a client should forget; use BS.CHANGES, which keeps a copy of a set up to date")
	notPaused  = refuseClient("clients are not held up; use the limits of bigset serve")
)

var clientCommands = []subcommand{
	{"id", 2, func(c *conn, _ [][]byte) { c.int(c.id) }},
	{"getname", 2, func(c *conn, _ [][]byte) {
		if len(c.name) == 0 {
			c.null()
			return
		}
		c.bulk(c.name)
	}},
	{"setname", 3, func(c *conn, args [][]byte) {
		if !goodClientName(args[2]) {
			c.fail(errClientName)
			return
		}
		c.name = append([]byte(nil), args[2]...)
		c.ok()
	}},
	{"setinfo", 4, (*conn).clientSetInfo},
	{"info", 2, func(c *conn, _ [][]byte) { c.Out = appendVerbatim(c.Out, c.proto, c.describe()) }},
	{"list", -2, (*conn).clientList},
	{"no-evict", 3, (*conn).clientSwitch},
	{"no-touch", 3, (*conn).clientSwitch},
	{"reply", 3, func(c *conn, args [][]byte) {
		switch {
		case is(args[2], "ON"):
			c.ok()
		case is(args[2], "OFF"), is(args[2], "SKIP"):
			c.fail("ERR CLIENT REPLY OFF and SKIP are not served: every request is answered")
		default:
			c.fail(errSyntax)
		}
	}},
	{"kill", -3, refuseClient("no client ends another one; use bigset token rm, which ends what its token may do, or --idle")},
	{"pause", -3, notPaused},
	{"unpause", 2, notPaused},
	{"unblock", -3, refuseClient("only BS.CHANGES waits; use its WAIT")},
	{"tracking", -3, notTracked},
	{"trackinginfo", 2, notTracked},
	{"caching", 3, notTracked},
	{"getredir", 2, notTracked},
	{"help", 2, func(c *conn, _ [][]byte) {
		c.help("CLIENT ID", "CLIENT GETNAME", "CLIENT SETNAME <name>", "CLIENT SETINFO LIB-NAME|LIB-VER <value>", "CLIENT INFO", "CLIENT LIST -- this connection",
			"CLIENT NO-EVICT ON|OFF", "CLIENT NO-TOUCH ON|OFF", "CLIENT REPLY ON")
	}},
}

func (c *conn) client(_ context.Context, args [][]byte) {
	if len(args) < 2 {
		c.failArity("client")
		return
	}
	c.runSub("client", clientCommands, args)
}

func (c *conn) clientSetInfo(args [][]byte) {
	if !goodClientName(args[3]) {
		c.fail(fmt.Sprintf("ERR %.20s cannot contain spaces, newlines or special characters.", args[2]))
		return
	}
	value := append([]byte(nil), args[3]...)
	switch {
	case is(args[2], "LIB-NAME"):
		c.lib = value
	case is(args[2], "LIB-VER"):
		c.ver = value
	default:
		c.fail(fmt.Sprintf("ERR Unrecognized option '%s'", shownOf(args[2], shownMost)))
		return
	}
	c.ok()
}

// clientSwitch accepts settings that have no effect here: no client is evicted, and keys have no age.
func (c *conn) clientSwitch(args [][]byte) {
	if !is(args[2], "ON") && !is(args[2], "OFF") {
		c.fail(errSyntax)
		return
	}
	c.ok()
}

// clientList answers CLIENT LIST with this connection, unless another type or id is asked for.
func (c *conn) clientList(args [][]byte) {
	shown := len(args) == 2
	switch {
	case shown:
	case len(args) == 4 && is(args[2], "TYPE"):
		if !slices.ContainsFunc([]string{"NORMAL", "MASTER", "REPLICA", "SLAVE", "PUBSUB"}, func(kind string) bool { return is(args[3], kind) }) {
			c.fail(fmt.Sprintf("ERR Unknown client type '%s'", shownOf(args[3], shownMost)))
			return
		}
		shown = is(args[3], "NORMAL")
	case len(args) > 3 && is(args[2], "ID"):
		for _, arg := range args[3:] {
			id, ok := number(arg)
			if !ok {
				c.fail("ERR Invalid client ID")
				return
			}
			shown = shown || id == c.id
		}
	default:
		c.fail(errSyntax)
		return
	}
	text := ""
	if shown {
		text = c.describe()
	}
	c.Out = appendVerbatim(c.Out, c.proto, text)
}

// describe returns the line of this connection in CLIENT LIST.
func (c *conn) describe() string {
	return fmt.Sprintf("id=%d addr=%v name=%s age=%d db=0 resp=%d lib-name=%s lib-ver=%s\n",
		c.id, c.Remote(), c.name, int(time.Since(c.since).Seconds()), c.proto, c.lib, c.ver)
}

// help answers HELP.
func (c *conn) help(lines ...string) {
	c.header(typeArray, len(lines))
	for _, l := range lines {
		c.Out = appendSimple(c.Out, l)
	}
}

// time answers with seconds and microseconds.
func (c *conn) time(context.Context, [][]byte) {
	now := time.Now()
	c.header(typeArray, 2)
	c.text(strconv.FormatInt(now.Unix(), 10))
	c.text(strconv.Itoa(now.Nanosecond() / 1000))
}
