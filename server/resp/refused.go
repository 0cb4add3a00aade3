package resp

import (
	"context"
	"strings"
)

// refusedFamilies are commands of redis that are not supported, with the reason.
var refusedFamilies = []struct{ why, names string }{
	{"a random element can't be removed exactly once where several replicas remove; use SRANDMEMBER, then SREM, whose reply says whether it was this client", "spop"},
	{"two sets can't be changed in one step; use SADD, then SREM", "smove"},
	{"keys do not expire; remove elements by SREM and keys by DEL", "expire pexpire expireat pexpireat expiretime pexpiretime persist setex psetex getex"},
	{"a node is not emptied by one command; use SCAN and DEL", "flushdb flushall swapdb"},
	{"several commands are not one transaction; a command is atomic by itself, and SADD and SREM take up to 100000 elements", "multi exec discard watch unwatch"},
	{"no scripts are run; send the commands themselves, in a pipeline", "eval evalsha eval_ro evalsha_ro script function fcall fcall_ro"},
	{"nothing is published; BS.CHANGES key token WAIT 30000 waits until a set changes, and says what has changed", "subscribe unsubscribe psubscribe punsubscribe ssubscribe sunsubscribe publish spublish pubsub"},
	{"keys are sets and bloom filters, not strings; use SADD", "get set setnx getset getdel mget mset msetnx append strlen incr incrby incrbyfloat decr decrby getrange setrange substr getbit setbit bitcount bitpos bitop bitfield bitfield_ro lcs " +
		"pfadd pfcount pfmerge"},
	{"keys are sets and bloom filters, not lists; use SADD", "lpush rpush lpushx rpushx lpop rpop llen lrange lindex linsert lset lrem ltrim lpos lmove rpoplpush blpop brpop blmove brpoplpush lmpop blmpop sort sort_ro"},
	{"keys are sets and bloom filters, not hashes; use SADD", "hset hsetnx hmset hget hmget hgetall hdel hexists hincrby hincrbyfloat hkeys hlen hscan hstrlen hvals hrandfield"},
	{"keys are sets and bloom filters, not sorted sets; elements are in the order of their bytes, use BS.RANGE and BS.PREFIX",
		"zadd zcard zcount zincrby zrange zrangestore zrangebyscore zrangebylex zrevrange zrevrangebyscore zrevrangebylex zrank zrevrank zrem zremrangebylex zremrangebyrank zremrangebyscore zscore zmscore " +
			"zscan zinter zinterstore zintercard zunion zunionstore zdiff zdiffstore zlexcount zpopmin zpopmax bzpopmin bzpopmax zmpop bzmpop zrandmember geoadd geodist geohash geopos georadius geosearch geosearchstore"},
	{"keys are sets and bloom filters, not streams", "xadd xlen xrange xrevrange xread xreadgroup xgroup xack xclaim xautoclaim xdel xtrim xinfo xpending xsetid"},
	{"a set's name is where it is in the cluster; make another set by SUNIONSTORE, and DEL the first", "rename renamenx copy move"},
	{"values are not taken out and put back; use bigset set export, and backups of the admin port", "dump restore migrate"},
	{"the node saves by itself; backups are made by the admin port (bigset serve --admin)", "save bgsave bgrewriteaof lastsave"},
	{"replication is that of the node (bigset serve --peers), not of redis; every node answers for every key", "replicaof slaveof psync sync cluster readonly readwrite asking failover role waitaof"},
	{"it is for those who watch the node: see the admin port (bigset serve --admin) and bigset set stats", "monitor slowlog latency debug memory object module acl shutdown"},
	{"filters are not taken out by this protocol; use bigset filter export", "bf.scandump bf.loadchunk"},
	{"a key has no random neighbour; use SCAN", "randomkey"},
}

// refusedCommands are rows for refusedFamilies. COMMAND does not show them.
func refusedCommands() (list []command) {
	for _, f := range refusedFamilies {
		for _, name := range strings.Fields(f.names) {
			text := "ERR " + upper(name) + " is not served: " + f.why
			list = append(list, command{name: name, arity: -1, asks: asksToken, run: func(c *conn, _ context.Context, _ [][]byte) { c.fail(text) }})
		}
	}
	return list
}
