package resp

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"bigset/server/tokens"
)

// redisVersion is the version of redis whose commands are served. Clients compare it.
const redisVersion = "7.0.15"

func upper(s string) string { return strings.ToUpper(s) }

// lower returns a pattern with small letters in the place of ASCII's large ones. Other bytes stay, also those that are not UTF-8.
func lower(pattern []byte) []byte {
	p := slices.Clone(pattern)
	for i, b := range p {
		if b >= 'A' && b <= 'Z' {
			p[i] = b + 'a' - 'A'
		}
	}
	return p
}

// command answers COMMAND and its subcommands.
func (c *conn) command(_ context.Context, args [][]byte) {
	if len(args) == 1 {
		c.describeCommands(c.s.names)
		return
	}
	c.runSub("command", commandCommands, args)
}

var commandCommands = []subcommand{
	{"count", 2, func(c *conn, _ [][]byte) { c.int(int64(len(c.s.names))) }},
	{"list", -2, (*conn).commandList},
	{"info", -2, func(c *conn, args [][]byte) {
		if len(args) == 2 {
			c.describeCommands(c.s.names)
			return
		}
		if c.fewNames(args[2:]) {
			c.describeCommands(wordsOf(args[2:]))
		}
	}},
	{"docs", -2, func(c *conn, args [][]byte) {
		names := c.s.names
		if !c.fewNames(args[2:]) {
			return
		}
		if len(args) > 2 {
			names = c.known(wordsOf(args[2:]))
		}
		c.header(typeMap, len(names))
		for _, name := range names {
			cmd := c.s.commands[name]
			c.text(name)
			c.header(typeMap, 2)
			c.text("summary")
			c.text(cmd.summary)
			c.text("group")
			c.text(cmd.about)
		}
	}},
	{"getkeys", -4, (*conn).commandGetKeys},
	{"getkeysandflags", -3, func(c *conn, _ [][]byte) {
		c.fail(refusedText("command getkeysandflags", "what a command does with a key is the same for all keys; use COMMAND GETKEYS and COMMAND INFO"))
	}},
	{"help", 2, func(c *conn, _ [][]byte) {
		c.help("COMMAND", "COMMAND COUNT", "COMMAND LIST [FILTERBY PATTERN <pattern>]", "COMMAND INFO [<name> ...]", "COMMAND DOCS [<name> ...]", "COMMAND GETKEYS <command> [<arg> ...]")
	}},
}

// commandList answers with the names of commands, all or those that match a pattern.
func (c *conn) commandList(args [][]byte) {
	list := c.s.names
	switch {
	case len(args) == 2:
	case len(args) != 5 || !is(args[2], "FILTERBY"):
		c.fail(errSyntax)
		return
	case is(args[3], "MODULE"), is(args[3], "ACLCAT"):
		c.fail("ERR COMMAND LIST FILTERBY " + upper(string(args[3])) + " is not served: commands are not in modules or categories; use FILTERBY PATTERN")
		return
	case !is(args[3], "PATTERN"):
		c.fail(errSyntax)
		return
	default:
		if len(args[4]) > patternShort {
			c.MayWait()
		}
		pattern, err := newGlob(lower(args[4]))
		if err != nil {
			c.failed("command", nil, err)
			return
		}
		list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !pattern.matches([]byte(name)) })
	}
	c.header(typeArray, len(list))
	for _, name := range list {
		c.text(name)
	}
}

// namesMost is how many commands COMMAND INFO and COMMAND DOCS describe: a description is much longer than a name.
const namesMost = 1000

// fewNames refuses too many names.
func (c *conn) fewNames(names [][]byte) bool {
	if len(names) > namesMost {
		c.fail(fmt.Sprintf("ERR %d names of commands, at most %d in one command", len(names), namesMost))
	}
	return len(names) <= namesMost
}

func wordsOf(args [][]byte) []string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = strings.ToLower(string(a))
	}
	return words
}

// known returns the names of served commands.
func (c *conn) known(names []string) (list []string) {
	for _, name := range names {
		if cmd := c.s.commands[name]; cmd != nil && cmd.about != "" {
			list = append(list, name)
		}
	}
	return list
}

// describeCommands answers with descriptions of commands, null for a command that is not served.
func (c *conn) describeCommands(names []string) {
	c.header(typeArray, len(names))
	for _, name := range names {
		cmd := c.s.commands[name]
		if cmd == nil || cmd.about == "" {
			c.null()
			continue
		}
		c.header(typeArray, 10)
		c.text(cmd.name)
		c.int(int64(cmd.arity))
		c.header(typeSet, len(cmd.flags))
		for _, f := range cmd.flags {
			c.Out = appendSimple(c.Out, f)
		}
		c.int(int64(cmd.first))
		c.int(int64(cmd.last))
		c.int(int64(cmd.step))
		for range 4 { // categories of ACL, tips, key specifications, subcommands
			c.header(typeSet, 0)
		}
	}
}

func (c *conn) commandGetKeys(args [][]byte) {
	args = args[2:]
	cmd := c.find(args[0])
	switch {
	case cmd == nil || cmd.about == "":
		c.fail("ERR Invalid command specified")
		return
	case cmd.first == 0 && cmd.name != "sintercard":
		c.fail("ERR The command has no key arguments")
		return
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		c.fail("ERR Invalid number of arguments specified for command")
		return
	case cmd.name == "sintercard":
		keys, err := sintercardKeys(args)
		if err != nil {
			c.fail("ERR Invalid arguments specified for command")
			return
		}
		c.bulks(keys)
		return
	}
	c.bulks(cmd.keys(args))
}

func (c *conn) bulks(list [][]byte) {
	c.MayWait()
	c.header(typeArray, len(list))
	for _, b := range list {
		if c.Ended() {
			return
		}
		c.bulk(b)
		c.WriteIfFull()
	}
}

// settings are what clients request of a configuration, as redis would report it if it behaved like this server.
func (s *Server) settings() [][2]string {
	return [][2]string{{"appendonly", "yes"}, {"appendfsync", s.opt.Durability}, {"save", ""}, {"databases", "1"}, {"maxmemory", "0"},
		{"proto-max-bulk-len", fmt.Sprint(s.opt.RequestBytesMax)}, {"timeout", fmt.Sprint(int(s.opt.IdleTime / time.Second))}}
}

// configured says how a node is configured.
const configured = "a node reads its configuration when it starts; use its flags, its environment or its file (bigset serve --help)"

// refuseConfig returns what runs a subcommand of CONFIG that is not supported.
func refuseConfig(name, why string) func(*conn, [][]byte) {
	text := refusedText("config "+name, why)
	return func(c *conn, _ [][]byte) { c.fail(text) }
}

var configCommands = []subcommand{
	{"get", -3, func(c *conn, args [][]byte) {
		if sizeOf(args[2:]) > patternShort {
			c.MayWait()
		}
		settings := c.s.settings()
		asked := make([]bool, len(settings))
		for _, arg := range args[2:] {
			pattern, err := newGlob(lower(arg))
			if err != nil {
				c.failed("config", nil, err)
				return
			}
			for i, set := range settings {
				asked[i] = asked[i] || pattern.matches([]byte(set[0]))
			}
		}
		var found [][2]string
		for i, set := range settings {
			if asked[i] {
				found = append(found, set)
			}
		}
		c.header(typeMap, len(found))
		for _, set := range found {
			c.text(set[0])
			c.text(set[1])
		}
	}},
	{"set", -4, refuseConfig("set", configured)},
	{"rewrite", 2, refuseConfig("rewrite", configured)},
	{"resetstat", 2, refuseConfig("resetstat", "counters only grow; use the differences of the figures of the admin port")},
	{"help", 2, func(c *conn, _ [][]byte) { c.help("CONFIG GET <pattern> [<pattern> ...]") }},
}

func (c *conn) config(_ context.Context, args [][]byte) { c.runSub("config", configCommands, args) }

func (c *conn) lolwut(context.Context, [][]byte) {
	c.Out = appendVerbatim(c.Out, c.proto, "bigset "+c.s.opt.Version+"\n")
}

// keyspaceTime is how long INFO counts keys if the section is not named.
const keyspaceTime = 50 * time.Millisecond

// sections are the sections of INFO.
var sections = []struct {
	name   string
	counts bool // it is left empty if the keys can't be counted soon and the client has not named it
	admin  bool // about all clients
	write  func(c *conn, ctx context.Context, b *strings.Builder) error
}{
	{"Server", false, false, func(c *conn, _ context.Context, b *strings.Builder) error {
		fmt.Fprintf(b, "redis_version:%s\r\nredis_mode:standalone\r\nbigset_version:%s\r\nbigset_node:%s\r\nos:%s %s\r\nprocess_id:%d\r\nuptime_in_seconds:%d\r\n",
			redisVersion, c.s.opt.Version, c.s.opt.Node, runtime.GOOS, runtime.GOARCH, os.Getpid(), int(time.Since(c.s.started).Seconds()))
		return nil
	}},
	{"Clients", false, true, func(c *conn, _ context.Context, b *strings.Builder) error {
		fmt.Fprintf(b, "connected_clients:%d\r\nblocked_clients:%d\r\n", c.s.Counts().Connections, c.s.counters.waiting.Load())
		return nil
	}},
	{"Memory", false, true, func(_ *conn, _ context.Context, b *strings.Builder) error {
		n := memoryUsed()
		fmt.Fprintf(b, "used_memory:%d\r\nused_memory_human:%.2fM\r\nmaxmemory:0\r\n", n, float64(n)/(1<<20))
		return nil
	}},
	{"Stats", false, true, func(c *conn, _ context.Context, b *strings.Builder) error {
		m := c.s.Metrics()
		total := uint64(0)
		for _, n := range m.Commands {
			total += n
		}
		fmt.Fprintf(b, "total_connections_received:%d\r\ntotal_commands_processed:%d\r\ntotal_net_input_bytes:%d\r\ntotal_net_output_bytes:%d\r\nrejected_connections:%d\r\ntotal_error_replies:%d\r\nscan_cursors:%d\r\n",
			m.Accepted, total, m.BytesRead, m.BytesWritten, m.Refused, m.Errors, m.Cursors)
		return nil
	}},
	{"Replication", false, false, func(_ *conn, _ context.Context, b *strings.Builder) error {
		b.WriteString("role:master\r\nconnected_slaves:0\r\n")
		return nil
	}},
	{"Cluster", false, false, func(_ *conn, _ context.Context, b *strings.Builder) error {
		b.WriteString("cluster_enabled:0\r\n")
		return nil
	}},
	{"Keyspace", true, false, (*conn).keyspace},
}

// memoryUsed returns how many bytes of memory the process has from the system, as far as the runtime knows.
func memoryUsed() uint64 {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return of[0].Value.Uint64() - of[1].Value.Uint64()
}

// keyspace writes the section Keyspace.
func (c *conn) keyspace(ctx context.Context, b *strings.Builder) error {
	n, err := c.countKeys(ctx)
	if err == nil && n > 0 {
		fmt.Fprintf(b, "db0:keys=%d,expires=0,avg_ttl=0\r\n", n)
	}
	return err
}

// keyspaceSoon is keyspace for a client that has not named the section, and may only want to know whether the node serves: if the number is
// not known soon, or the keys would have to be listed for this client, the section stays empty.
func (c *conn) keyspaceSoon(ctx context.Context, b *strings.Builder) {
	if !c.grant.May(tokens.Read, nil) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keyspaceTime)
	defer cancel()
	_ = c.keyspace(ctx, b)
}

func (c *conn) info(ctx context.Context, args [][]byte) {
	var b strings.Builder
	for _, s := range sections {
		named, wanted := false, len(args) == 1
		for _, a := range args[1:] {
			named = named || strings.EqualFold(string(a), s.name)
			wanted = wanted || named || is(a, "ALL") || is(a, "EVERYTHING") || is(a, "DEFAULT")
		}
		if !wanted || s.admin && !c.grant.May(tokens.Admin, nil) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.name + "\r\n")
		if s.counts && !named {
			c.keyspaceSoon(ctx, &b)
		} else if err := s.write(c, ctx, &b); err != nil {
			c.failed("info", nil, err)
			return
		}
	}
	c.Out = appendVerbatim(c.Out, c.proto, b.String())
}
