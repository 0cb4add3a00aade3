package resp

import (
	"context"
	"slices"
)

// commandBytesMax is the length of the longest word that is looked up.
const commandBytesMax = 32

// command is a row of the table. COMMAND's answer follows from it.
type command struct {
	name  string
	arity int // arguments including the name; negative: at least that many
	// flags are redis's flags, as COMMAND shows them; movable keys have no fixed place.
	flags             []string
	first, last, step int // positions of keys, as COMMAND shows them
	about, summary    string
	asks              asks // what a client must be permitted
	groups            bool // run adds the request to the group, or finishes the group
	run               func(c *conn, ctx context.Context, args [][]byte)
}

// timed reports whether the time of a request is counted by itself: it is about sets or keys, and neither belongs to a group nor waits for something else.
func (cmd *command) timed() bool {
	return !cmd.groups && (cmd.about == aboutSets || cmd.about == aboutKeys || cmd.about == aboutOwn) && cmd.name != "bs.changes" && cmd.name != "wait"
}

// reads reports whether a command only reads sets, filters or their names.
func (cmd *command) reads() bool { return len(cmd.flags) > 0 && cmd.flags[0] == "readonly" }

// Flags of commands.
var (
	reads    = []string{"readonly"}
	readsNow = []string{"readonly", "fast"}
	writes   = []string{"write", "denyoom"}
	writesD  = []string{"write", "denyoom", "fast"}
	removes  = []string{"write"}
	talks    = []string{"noscript", "loading", "stale", "fast"}
	waits    = []string{"noscript"}
	moves    = []string{"readonly", "movablekeys"}
)

// The groups of commands, in COMMAND DOCS.
const (
	aboutSets       = "set"
	aboutKeys       = "generic"
	aboutConnection = "connection"
	aboutServer     = "server"
	aboutFilters    = "bf"
	aboutOwn        = "bigset"
)

// table returns the commands by their names in lower case, and the names in order.
func table() (map[string]*command, []string) {
	list := slices.Concat(setCommands(), keyCommands(), ownCommands(), filterCommands(), connectionCommands(), serverCommands(), refusedCommands())
	m := make(map[string]*command, len(list))
	names := make([]string, 0, len(list))
	for i := range list {
		if c := &list[i]; c.run != nil {
			m[c.name] = c
			if c.about != "" {
				names = append(names, c.name)
			}
		}
	}
	slices.Sort(names)
	return m, names
}

func setCommands() []command {
	return []command{
		{"sadd", -3, writesD, 1, 1, 1, aboutSets, "Adds elements to a set", asksWrite, true, (*conn).sadd},
		{"srem", -3, writesD, 1, 1, 1, aboutSets, "Removes elements from a set", asksWrite, true, (*conn).srem},
		{"sismember", 3, readsNow, 1, 1, 1, aboutSets, "Says whether an element is in a set", asksRead, true, (*conn).sismember},
		{"smismember", -3, readsNow, 1, 1, 1, aboutSets, "Says for each of some elements whether it is in a set", asksRead, true, (*conn).smismember},
		{"scard", 2, readsNow, 1, 1, 1, aboutSets, "Counts the elements of a set", asksRead, false, (*conn).scard},
		{"smembers", 2, reads, 1, 1, 1, aboutSets, "Returns all elements of a set", asksRead, false, (*conn).smembers},
		{"srandmember", -2, reads, 1, 1, 1, aboutSets, "Returns elements of a set at random", asksRead, false, (*conn).srandmember},
		{"sscan", -3, reads, 1, 1, 1, aboutSets, "Goes through the elements of a set", asksRead, false, (*conn).sscan},
		{"sinter", -2, reads, 1, -1, 1, aboutSets, "Returns what all sets have", asksRead, false, (*conn).sinter},
		{"sintercard", -3, moves, 0, 0, 0, aboutSets, "Counts what all sets have", asksRead, false, (*conn).sintercard},
		{"sunion", -2, reads, 1, -1, 1, aboutSets, "Returns what some set has", asksRead, false, (*conn).sunion},
		{"sdiff", -2, reads, 1, -1, 1, aboutSets, "Returns what the first set has and no other", asksRead, false, (*conn).sdiff},
		{"sinterstore", -3, writes, 1, -1, 1, aboutSets, "Replaces a set by what all sets have", asksStore, false, (*conn).sinterstore},
		{"sunionstore", -3, writes, 1, -1, 1, aboutSets, "Replaces a set by what some set has", asksStore, false, (*conn).sunionstore},
		{"sdiffstore", -3, writes, 1, -1, 1, aboutSets, "Replaces a set by what the first set has and no other", asksStore, false, (*conn).sdiffstore},
	}
}

func keyCommands() []command {
	return []command{
		{"exists", -2, readsNow, 1, -1, 1, aboutKeys, "Counts how many of some keys exist", asksRead, false, (*conn).exists},
		{"touch", -2, readsNow, 1, -1, 1, aboutKeys, "Counts how many of some keys exist", asksRead, false, (*conn).exists},
		{"type", 2, readsNow, 1, 1, 1, aboutKeys, "Says what a key is", asksRead, false, (*conn).typeOf},
		{"del", -2, removes, 1, -1, 1, aboutKeys, "Removes keys", asksWrite, false, (*conn).del},
		{"unlink", -2, removes, 1, -1, 1, aboutKeys, "Removes keys", asksWrite, false, (*conn).del},
		{"ttl", 2, readsNow, 1, 1, 1, aboutKeys, "Says that a key does not expire", asksRead, false, (*conn).ttl},
		{"pttl", 2, readsNow, 1, 1, 1, aboutKeys, "Says that a key does not expire", asksRead, false, (*conn).ttl},
		{"expiretime", 2, readsNow, 1, 1, 1, aboutKeys, "Says that a key does not expire", asksRead, false, (*conn).ttl},
		{"pexpiretime", 2, readsNow, 1, 1, 1, aboutKeys, "Says that a key does not expire", asksRead, false, (*conn).ttl},
		{"scan", -2, reads, 0, 0, 0, aboutKeys, "Goes through the keys", asksToken, false, (*conn).scan},
		{"keys", 2, reads, 0, 0, 0, aboutKeys, "Returns the keys that match a pattern", asksToken, false, (*conn).keys},
		{"wait", 3, waits, 0, 0, 0, aboutKeys, "Waits until other replicas have the last change of this connection: WAIT replicas milliseconds", asksToken, false, (*conn).wait},
	}
}

func connectionCommands() []command {
	return []command{
		{"ping", -1, talks, 0, 0, 0, aboutConnection, "Answers PONG, or its argument", asksToken, false, (*conn).ping},
		{"echo", 2, talks, 0, 0, 0, aboutConnection, "Answers its argument", asksToken, false, (*conn).echo},
		{"hello", -1, talks, 0, 0, 0, aboutConnection, "Chooses the protocol and says what the server is", asksNothing, false, (*conn).hello},
		{"auth", -2, talks, 0, 0, 0, aboutConnection, "Gives a token: AUTH [user] token", asksNothing, false, (*conn).auth},
		{"select", 2, talks, 0, 0, 0, aboutConnection, "Chooses database 0", asksToken, false, (*conn).selectDB},
		{"client", -2, talks, 0, 0, 0, aboutConnection, "Names the connection, and says what it is", asksToken, false, (*conn).client},
		{"quit", -1, talks, 0, 0, 0, aboutConnection, "Closes the connection", asksNothing, false, (*conn).quit},
		{name: "post", arity: -1, asks: asksNothing, run: (*conn).attack},
		{name: "host:", arity: -1, asks: asksNothing, run: (*conn).attack},
		{"reset", 1, talks, 0, 0, 0, aboutConnection, "Sets the connection back to its beginning", asksNothing, false, (*conn).reset},
	}
}

func serverCommands() []command {
	return []command{
		{"command", -1, talks, 0, 0, 0, aboutServer, "Says which commands there are", asksToken, false, (*conn).command},
		{"config", -2, talks, 0, 0, 0, aboutServer, "Says what clients ask of the configuration", asksToken, false, (*conn).config},
		{"info", -1, talks, 0, 0, 0, aboutServer, "Says what the server is", asksToken, false, (*conn).info},
		{"dbsize", 1, reads, 0, 0, 0, aboutServer, "Counts the keys", asksToken, false, (*conn).dbsize},
		{"time", 1, talks, 0, 0, 0, aboutServer, "Says what time it is", asksToken, false, (*conn).time},
		{"lolwut", -1, talks, 0, 0, 0, aboutServer, "Says which version this is", asksToken, false, (*conn).lolwut},
	}
}
