package resp

import (
	"context"
	"fmt"
	"strings"
)

// refusedFamilies are commands of redis that are not supported, with the reason and what to use instead. names may end with a dot and an
// asterisk: all commands of a module.
var refusedFamilies = []struct{ why, names string }{
	{"a random element can't be removed exactly once where several replicas remove; use SRANDMEMBER, then SREM, whose reply says whether it was this client", "spop"},
	{"two sets can't be changed in one step; use SADD, then SREM", "smove"},
	{"keys do not expire; use SREM for elements and DEL for keys", "expire pexpire expireat pexpireat persist"},
	{"a node is not emptied by one command; use SCAN and DEL", "flushdb flushall"},
	{"only database 0 exists; use keys with a prefix for each part", "swapdb move"},
	{"several commands are not one transaction; use a pipeline without MULTI (redis-py: pipeline(transaction=False)), or one SADD or SREM, which is atomic and takes up to 100000 elements", "multi exec discard watch unwatch"},
	{"no scripts are run; use the commands themselves, in a pipeline", "eval evalsha eval_ro evalsha_ro script function fcall fcall_ro"},
	{"nothing is published; use BS.CHANGES key token WAIT 30000, which waits until a set changes, and says what has changed", "subscribe unsubscribe psubscribe punsubscribe ssubscribe sunsubscribe publish spublish pubsub"},
	{"keys are sets and bloom filters, not strings; use SADD", "get set setnx setex psetex getset getdel getex mget mset msetnx append strlen incr incrby incrbyfloat decr decrby getrange setrange substr lcs"},
	{"keys are sets and bloom filters, not bitmaps; use SADD, with numbers as elements", "getbit setbit bitcount bitpos bitop bitfield bitfield_ro"},
	{"keys are sets and bloom filters, not estimates of a number; use SADD and SCARD, or BF.ADD and BF.CARD", "pfadd pfcount pfmerge pfdebug pfselftest"},
	{"keys are sets and bloom filters, not lists; use SADD", "lpush rpush lpushx rpushx lpop rpop llen lrange lindex linsert lset lrem ltrim lpos lmove rpoplpush blpop brpop blmove brpoplpush lmpop blmpop"},
	{"elements are in the order of their bytes and in no other; use BS.RANGE", "sort sort_ro"},
	{"keys are sets and bloom filters, not hashes; use SADD, with the field and the value as one element, and BS.PREFIX, which finds it",
		"hset hsetnx hmset hget hmget hgetall hdel hexists hincrby hincrbyfloat hkeys hlen hscan hstrlen hvals hrandfield hexpire hpexpire hexpireat hpexpireat hexpiretime hpexpiretime httl hpttl hpersist hgetex hsetex hgetdel"},
	{"keys are sets and bloom filters, not sorted sets; use SADD, BS.RANGE and BS.PREFIX: elements are in the order of their bytes",
		"zadd zcard zcount zincrby zrange zrangestore zrangebyscore zrangebylex zrevrange zrevrangebyscore zrevrangebylex zrank zrevrank zrem zremrangebylex zremrangebyrank zremrangebyscore zscore zmscore " +
			"zscan zinter zinterstore zintercard zunion zunionstore zdiff zdiffstore zlexcount zpopmin zpopmax bzpopmin bzpopmax zmpop bzmpop zrandmember"},
	{"keys are sets and bloom filters, not places; use SADD, with a geohash at the beginning of each element, and BS.PREFIX",
		"geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore"},
	{"keys are sets and bloom filters, not streams; use SADD and BS.CHANGES, which says what was added since a token", "xadd xlen xrange xrevrange xread xreadgroup xgroup xack xclaim xautoclaim xdel xtrim xinfo xpending xsetid"},
	{"a set's name is where it is in the cluster; use SUNIONSTORE, which makes another set of it, and DEL for the first", "rename renamenx"},
	{"a set of any size can't be copied in one step; use SUNIONSTORE for up to 100000 elements, or SSCAN and SADD", "copy"},
	{"values are not taken out and put back; use bigset set export, and backups of the admin port", "dump restore restore-asking migrate"},
	{"the node saves by itself; use backups of the admin port (bigset serve --admin)", "save bgsave bgrewriteaof lastsave"},
	{"nodes replicate by a protocol of their own; use bigset serve --peers, after which every node answers for every key", "replicaof slaveof replconf psync sync cluster readonly readwrite asking failover role"},
	{"a change waits for disks before it is answered; use BS.ADD with DW, the number of disks", "waitaof"},
	{"its answer is about a redis-server; use the admin port (bigset serve --admin), which has figures and latencies, and the log of the node", "monitor slowlog latency debug"},
	{"its answer is about the memory of a redis-server; use BS.STAT, which says what a set takes", "memory object"},
	{"nothing is loaded into a node; use the commands that COMMAND LIST names", "module"},
	{"a client has an access token and no user; use bigset token add, bigset token ls and bigset token rm", "acl"},
	{"no client stops a node; use a SIGTERM to its process", "shutdown"},
	{"filters are not taken out by this protocol; use bigset filter export", "bf.scandump bf.loadchunk bf.debug"},
	{"a random key would be one of all nodes; use SCAN", "randomkey"},
	{"keys are sets and bloom filters, and filters of other kinds and counts are not kept; use SADD and SREM, or BF.ADD", "cf.* cms.* topk.* tdigest.*"},
	{"keys are sets and bloom filters; use SADD, BS.RANGE and BS.PREFIX", "json.* ft.* ts.* graph.* vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim"},
}

// refusedText returns the error for an unsupported command.
func refusedText(name, why string) string {
	return fmt.Sprintf("ERR %.*s is not served: %s", commandBytesMax, upper(name), why)
}

// refusedCommands are rows for refusedFamilies, without modules. COMMAND does not show them.
func refusedCommands() (list []command) {
	for _, f := range refusedFamilies {
		for _, name := range strings.Fields(f.names) {
			if strings.HasSuffix(name, "*") {
				continue
			}
			text := refusedText(name, f.why)
			list = append(list, command{name: name, arity: -1, asks: asksToken, run: func(c *conn, _ context.Context, _ [][]byte) { c.fail(text) }})
		}
	}
	return list
}

// refusedModules are the beginnings of the names of modules' commands, with the reason.
func refusedModules() map[string]string {
	m := map[string]string{}
	for _, f := range refusedFamilies {
		for _, name := range strings.Fields(f.names) {
			if module, ok := strings.CutSuffix(name, "*"); ok {
				m[module] = f.why
			}
		}
	}
	return m
}

// refusedOfModule returns the error for a command of a module that is not supported; ok is false for any other word.
func (c *conn) refusedOfModule(word []byte) (text string, ok bool) {
	name := string(c.lower(shownOf(word, shownMost)))
	module, _, ok := strings.Cut(name, ".")
	why, known := c.s.modules[module+"."]
	return refusedText(name, why), ok && known
}
