package resp

import (
	"strings"
	"testing"
)

// oddNumbers are arguments in the place of a number.
var oddNumbers = []string{"0", "1", "-1", "2", "", "x", "1.5", "+1", "-0", "00", " 1", "1 ", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999", "1e3", "0x10", "\x00", "1\x00", "\xd9\xa1"}

// oddCommands are commands with arguments that programs rarely send. a and b are sets, otherKind is of another kind, and no does not exist.
func oddCommands() (list [][]string) {
	for _, n := range oddNumbers {
		list = append(list, []string{"SINTERCARD", n, "a"}, []string{"SINTERCARD", n, "a", "b"}, []string{"SINTERCARD", n}, []string{"SINTERCARD", "1", "a", "LIMIT", n},
			[]string{"SRANDMEMBER", "no", n}, []string{"SRANDMEMBER", "a", n, "x"}, []string{"WAIT", "0", n}, []string{"CLIENT", "NO-EVICT", n}, []string{"PING", n}, []string{"KEYS", n},
			[]string{"COMMAND", "INFO", "nosuch" + n}, []string{"SCAN", "0", "COUNT", n}, []string{"SSCAN", "no", "0", "COUNT", n}, []string{"SCAN", "0", "MATCH", "no", "TYPE", n})
		if !strings.HasPrefix(n, "-9") { // redis repeats elements without a bound
			list = append(list, []string{"SRANDMEMBER", "a", n})
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(`
SINTERCARD 1 a LIMIT 1 LIMIT 2|SINTERCARD 1 a limit|SINTERCARD 1 a FOO 2|SINTERCARD 2 a w|SINTERCARD 2 w a|SINTERCARD 2 no w|SINTERCARD 2 no a
SINTER no w|SINTER w no|SUNION no w|SDIFF no w|SDIFF a w|SDIFF w|SINTER|SUNION|SDIFF
SINTERSTORE d no w|SUNIONSTORE d no w|SDIFFSTORE d no w|SINTERSTORE d w|SINTERSTORE d|SINTERSTORE|SINTERSTORE a a b|SUNIONSTORE a a no|SDIFFSTORE a a no|SDIFFSTORE a a a|EXISTS a|SADD a 1 2 3 x
SMISMEMBER a|SMISMEMBER w 1|SMISMEMBER no 1 2|SISMEMBER w 1|SISMEMBER a|SISMEMBER a 1 2|SCARD w|SCARD|SMEMBERS w|SMEMBERS|SRANDMEMBER w|SRANDMEMBER w 0|SRANDMEMBER w x|SRANDMEMBER w 1 1|SRANDMEMBER
SSCAN w 0|SSCAN w x|SSCAN w 0 FOO|SSCAN no 0 FOO 1|SSCAN a 0 FOO 1|SSCAN a 0 MATCH|SSCAN a 0 COUNT 10 COUNT|SSCAN a 0 TYPE set|SSCAN a|SADD w 1|SADD a|SREM w 1|SREM a|SREM no 1
SCAN|SCAN 0 TYPE|SCAN 0 TYPE SET|SCAN 0 TYPE nosuch|SCAN 0 TYPE set TYPE none|SCAN 0 MATCH a COUNT 1000|SCAN 0 FOO
TYPE|TYPE a b|TYPE no|EXISTS|EXISTS a a no w|DEL|DEL no no|UNLINK|TOUCH|TOUCH a a|KEYS|KEYS a b|DBSIZE x|TTL|TTL a b|PTTL no|EXPIRETIME a|PEXPIRETIME no
PING a b|ECHO|ECHO a b|SELECT|SELECT 0 0|SELECT 16|SELECT -1|RESET x|TIME x|AUTH|AUTH a b c|AUTH default x|AUTH x|AUTH nouser x
HELLO 2 AUTH|HELLO 2 AUTH default|HELLO 2 SETNAME|HELLO 2 FOO|HELLO 2 FOO bar|HELLO 4|HELLO 1|HELLO -3|HELLO x|HELLO 2 AUTH nouser x|HELLO SETNAME x
CLIENT|CLIENT FOO|CLIENT GETNAME x|CLIENT SETNAME|CLIENT GETNAME|CLIENT SETNAME conn x|CLIENT ID x|CLIENT NO-EVICT|CLIENT NO-EVICT on x|CLIENT REPLY|CLIENT REPLY x|CLIENT INFO x
CLIENT LIST TYPE|CLIENT LIST TYPE foo|CLIENT LIST TYPE pubsub|CLIENT LIST TYPE master x|CLIENT LIST ID|CLIENT LIST ID x|CLIENT LIST ID 0|CLIENT LIST ID 999999 999998|CLIENT LIST FOO
COMMAND FOO|COMMAND COUNT x|COMMAND LIST x|COMMAND LIST FILTERBY|COMMAND LIST FILTERBY FOO x|COMMAND LIST FILTERBY PATTERN sad*|COMMAND LIST FILTERBY PATTERN SADD|COMMAND LIST FILTERBY PATTERN nosuch*|COMMAND DOCS nosuch
COMMAND GETKEYS|COMMAND GETKEYS SADD|COMMAND GETKEYS SADD k|COMMAND GETKEYS SADD k v|COMMAND GETKEYS PING|COMMAND GETKEYS nosuch|COMMAND GETKEYS SINTERCARD 2 a|COMMAND GETKEYS SINTERCARD 1 a b|COMMAND GETKEYS SINTERCARD 2 a b LIMIT 1|COMMAND GETKEYS SINTERSTORE a b c|COMMAND GETKEYS DEL b c|COMMAND GETKEYS KEYS *
CONFIG|CONFIG GET|CONFIG FOO|CONFIG GET nosuch|CONFIG GET save|CONFIG GET sav[e] appendonl?x|CONFIG SET|CONFIG SET x|INFO nosuch|WAIT|WAIT 0|WAIT 0 0 0|WAIT x y|WAIT -1 0|COMMAND\|COUNT|CLIENT\|ID|FOO it's`), "\n") {
		for _, cmd := range strings.Split(strings.ReplaceAll(line, `\|`, "\x01"), "|") {
			list = append(list, strings.Split(strings.ReplaceAll(cmd, "\x01", "|"), " "))
		}
	}
	for _, pattern := range []string{"\u212aeys", "KE[\xff-\xffY]S", "[^\u212aP]eys", "k\xffys"} { // the first letter is the sign of kelvin, whose small letter is k
		list = append(list, []string{"COMMAND", "LIST", "FILTERBY", "PATTERN", pattern}, []string{"CONFIG", "GET", pattern})
	}
	for _, cursor := range []string{"+0", "-0", "+", "-", "+-0", "--0", "-18446744073709551616", "18446744073709551616", "0x0", "00", "\x00", "0\x00", "0\x00x", "x\x000", "+\x000", "0 \x00"} {
		list = append(list, []string{"SCAN", cursor}, []string{"SSCAN", "a", cursor})
	}
	for _, db := range []string{"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296"} {
		list = append(list, []string{"SELECT", db})
	}
	list = append(list, []string{"SCAN", "0", "TYPE", ""}, []string{"SCAN", "0", "TYPE", "", "TYPE", "set"})
	return append(list, []string{""}, []string{"\x00"}, []string{"client\x00", "id"}, []string{"SADD\x00", "a", "b"}, []string{"foo\r\nbar", "x\r\ny"},
		[]string{strings.Repeat("a", 200), strings.Repeat("b", 200), "c"}, []string{"CLIENT", "SETNAME", "a b"}, []string{"CLIENT", "SETNAME", "a\x00b"}, []string{"CLIENT", "SETNAME", "\xc3\xa9"}, []string{"CLIENT", "SETNAME", ""})
}

// TestOddArguments sends the same odd commands to redis-server and to this door, in both protocols, and wants equal replies.
func TestOddArguments(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	for _, proto := range []string{"2", "3"} {
		dial, _ := start(t, Options{})
		ours, theirs := dial(), dialPeer(t, "unix", socket)
		theirs.do(t, "FLUSHALL")
		for _, p := range []*peer{ours, theirs} {
			p.do(t, "SADD", "a", "1", "2", "3", "x")
			p.do(t, "SADD", "b", "2", "3")
		}
		theirs.do(t, "SET", otherKind, "x")
		ours.do(t, "BF.ADD", otherKind, "x")
		for _, cmd := range oddCommands() {
			for _, p := range []*peer{ours, theirs} {
				p.do(t, "HELLO", proto)
			}
			compare(t, [][]string{cmd}, ours, theirs)
		}
	}
}

// TestCommandInfo: the parts of a description that are left empty have redis's types.
func TestCommandInfo(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	for proto, want := range map[string]string{
		"2": `*[*[$"sadd" :-3 *[+write +denyoom +fast] :1 :1 :1 *[] *[] *[] *[]]]`,
		"3": `*[*[$"sadd" :-3 ~[+denyoom +fast +write] :1 :1 :1 ~[] ~[] ~[] ~[]]]`,
	} {
		p.do(t, "HELLO", proto)
		if got := p.do(t, "COMMAND", "INFO", "sadd"); got != want {
			t.Errorf("HELLO %s: %s, want %s", proto, got, want)
		}
	}
}
