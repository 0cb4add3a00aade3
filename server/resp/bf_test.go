package resp

import (
	"strings"
	"testing"
)

// bloomReplies are commands with the replies of redis's module: RedisBloom 2.8, as its source says (src/rebloom.c). Where this door replies
// otherwise, a third text is its reply: these are among the exceptions of docs/resp.md. Commands are sent in order. s is a set, and a word in
// quotes may be empty.
var bloomReplies = [][]string{
	{"BF.RESERVE", "-ERR wrong number of arguments for 'bf.reserve' command"},
	{"BF.RESERVE f 0.01", "-ERR wrong number of arguments for 'bf.reserve' command"},
	{"BF.RESERVE f x 100", "-ERR bad error rate"},
	{"BF.RESERVE f '' 100", "-ERR bad error rate"},
	{"BF.RESERVE f nan 100", "-ERR bad error rate"},
	{"BF.RESERVE f 0.1x 100", "-ERR bad error rate"},
	{"BF.RESERVE f 0 100", "-ERR (0 < error rate range < 1) "},
	{"BF.RESERVE f 1 100", "-ERR (0 < error rate range < 1) "},
	{"BF.RESERVE f -0.5 100", "-ERR (0 < error rate range < 1) "},
	{"BF.RESERVE f inf 100", "-ERR (0 < error rate range < 1) "},
	{"BF.RESERVE f 0 x", "-ERR (0 < error rate range < 1) "},
	{"BF.RESERVE f 0.01 x", "-ERR bad capacity"},
	{"BF.RESERVE f 0.01 ''", "-ERR bad capacity"},
	{"BF.RESERVE f 0.01 1e3", "-ERR bad capacity"},
	{"BF.RESERVE f 0.01 9223372036854775808", "-ERR bad capacity"},
	{"BF.RESERVE f 0.01 0", "-ERR (capacity should be larger than 0)"},
	{"BF.RESERVE f 0.01 -1", "-ERR (capacity should be larger than 0)"},
	{"BF.RESERVE s 0.01 0", "-ERR (capacity should be larger than 0)"},
	{"BF.RESERVE s 0.01 20000", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.RESERVE f 0.01 20000 EXPANSION", "-ERR no expansion", "-ERR EXPANSION is not served: how fast filters grow is a setting of the node, scale_size"},
	{"BF.RESERVE other 0.01 20000 EXPANSION 2", "+OK", "-ERR EXPANSION is not served: how fast filters grow is a setting of the node, scale_size"},
	{"BF.RESERVE other 0.01 20000 NONSCALING", "-ERR item exists", "-ERR NONSCALING is not served: filters always grow"},
	{"BF.RESERVE another 0.01 20000 FOO", "+OK", "-ERR syntax error"},
	{"EXISTS f", ":0"},
	{"BF.RESERVE f 0.01 20000", "+OK"},
	{"BF.RESERVE f 0.01 20000", "-ERR item exists"},
	{"BF.RESERVE f 0.01 0", "-ERR (capacity should be larger than 0)"},

	{"BF.ADD f", "-ERR wrong number of arguments for 'bf.add' command"},
	{"BF.ADD f a b", "-ERR wrong number of arguments for 'bf.add' command"},
	{"BF.ADD f a", ":1"},
	{"BF.ADD f a", ":0"},
	{"BF.ADD f ''", ":1"},
	{"BF.ADD s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.ADD made a", ":1"},
	{"BF.ADD 'a b' a", ":1", "-" + errFilterName},
	{"BF.MADD f", "-ERR wrong number of arguments for 'bf.madd' command"},
	{"BF.MADD f a b b c", "*[:0 :1 :0 :1]"},
	{"BF.MADD s a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"},

	{"BF.EXISTS f", "-ERR wrong number of arguments for 'bf.exists' command"},
	{"BF.EXISTS f a b", "-ERR wrong number of arguments for 'bf.exists' command"},
	{"BF.EXISTS f a", ":1"},
	{"BF.EXISTS f ''", ":1"},
	{"BF.EXISTS f x", ":0"},
	{"BF.EXISTS no a", ":0"},
	{"BF.EXISTS s a", ":0", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.MEXISTS f", "-ERR wrong number of arguments for 'bf.mexists' command"},
	{"BF.MEXISTS f a x c", "*[:1 :0 :1]"},
	{"BF.MEXISTS no a x", "*[:0 :0]"},
	{"BF.MEXISTS s a x", "*[:0 :0]", "-WRONGTYPE Operation against a key holding the wrong kind of value"},

	{"BF.INSERT f", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f NOCREATE CAPACITY", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f NOCREATE ERROR", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f NOCREATE EXPANSION", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f NOCREATE ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f NOCREATE NOCREATE", "-ERR wrong number of arguments for 'bf.insert' command"},
	{"BF.INSERT f FOO ITEMS a", "-Unknown argument received", "-ERR Unknown argument received"},
	{"BF.INSERT f ERROR x ITEMS a", "-Bad error rate", "-ERR bad error rate"},
	{"BF.INSERT f CAPACITY 0.3 ITEMS a", "-Bad capacity", "-ERR bad capacity"},
	{"BF.INSERT f ERROR 1 ITEMS a", "-Bad argument received", "-ERR (0 < error rate range < 1) "},
	{"BF.INSERT f CAPACITY 0 ITEMS a", "-Bad argument received", "-ERR (capacity should be larger than 0)"},
	{"BF.INSERT f EXPANSION 2 ITEMS a", "*[:0]", "-ERR EXPANSION is not served: how fast filters grow is a setting of the node, scale_size"},
	{"BF.INSERT f NONSCALING ITEMS a", "*[:0]", "-ERR NONSCALING is not served: filters always grow"},
	{"BF.INSERT f I a", "*[:0]", "-ERR Unknown argument received"},
	{"BF.INSERT no NOCREATE ITEMS a", "-ERR not found"},
	{"BF.INSERT no NOCREATE CAPACITY 20000 ITEMS a", "-ERR not found"},
	{"BF.INSERT s NOCREATE ITEMS a", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.INSERT s ITEMS a", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.INSERT f NOCREATE ITEMS a ITEMS NOCREATE", "*[:0 :1 :1]"},
	{"BF.INSERT new error 0.001 capacity 50000 items a a b", "*[:1 :0 :1]"},
	{"BF.INSERT new ERROR 0.1 CAPACITY 10 ITEMS a c", "*[:0 :1]"},

	{"BF.CARD", "-ERR wrong number of arguments for 'bf.card' command"},
	{"BF.CARD f a", "-ERR wrong number of arguments for 'bf.card' command"},
	{"BF.CARD f", ":6"},
	{"BF.CARD new", ":3"},
	{"BF.CARD no", ":0"},
	{"BF.CARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"},

	{"BF.INFO", "-ERR wrong number of arguments for 'bf.info' command"},
	{"BF.INFO f ITEMS SIZE", "-ERR wrong number of arguments for 'bf.info' command"},
	{"BF.INFO no ITEMS SIZE", "-ERR wrong number of arguments for 'bf.info' command"},
	{"BF.INFO no", "-ERR not found"},
	{"BF.INFO no ITEMS", "-ERR not found"},
	{"BF.INFO s", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{"BF.INFO f CAPACITY", "*[:20000]"},
	{"BF.INFO f items", "*[:6]"},
	{"BF.INFO f Filters", "*[:1]"},
	{"BF.INFO f EXPANSION", "*[:2]", "*[:4]"},
	{"BF.INFO f FOO", "-Invalid information value", `-ERR Invalid information value "FOO": CAPACITY, SIZE, FILTERS, ITEMS, EXPANSION and ERROR are known`},
	{"TYPE f", "+MBbloom--"},

	{"HELLO 3", ""},
	{"BF.ADD f d", "#t"},
	{"BF.ADD f d", "#f"},
	{"BF.MADD f d e", "*[#f #t]"},
	{"BF.INSERT f ITEMS e g", "*[#f #t]"},
	{"BF.EXISTS f d", "#t"},
	{"BF.EXISTS no d", "#f"},
	{"BF.MEXISTS f d x", "*[#t #f]"},
	{"BF.CARD f", ":9"},
	{"BF.INFO f ITEMS", `%[$"Number of items inserted" :9]`, `%[$"Number of items inserted" :9]`},
	{"BF.INFO no", "-ERR not found"},
}

// TestRepliesOfRedisBloom: commands for bloom filters are answered as redis's module does, or as docs/resp.md says.
func TestRepliesOfRedisBloom(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	p.do(t, "SADD", "s", "a")
	for _, c := range bloomReplies {
		var cmd []string
		for i, part := range strings.Split(c[0], "'") { // every other part is in quotes
			if i%2 == 1 {
				cmd = append(cmd, part)
			} else {
				cmd = append(cmd, strings.Fields(part)...)
			}
		}
		got, want := p.do(t, cmd...), c[len(c)-1]
		if got != want && want != "" {
			t.Errorf("%s: got %s, want %s", c[0], got, want)
		}
	}
}
