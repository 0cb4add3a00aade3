// Redisclients uses a node through unchanged go-redis, in RESP2 and RESP3. It exits with 1 if a reply differs from that of redis. TOKEN in the
// environment is an access token, for a node with TLS whose CA's certificate is the file CA; then a client without the token must be refused.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: redisclients ADDRESS ...")
		os.Exit(2)
	}
	for _, address := range os.Args[1:] {
		for _, protocol := range []int{2, 3} {
			if err := use(address, protocol); err != nil {
				fmt.Fprintf(os.Stderr, "go-redis, RESP%d, %s: %v\n", protocol, address, err)
				os.Exit(1)
			}
		}
	}
}

// checks collects errors.
type checks []error

func (c *checks) equal(what string, got, want any, err error) {
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		*c = append(*c, fmt.Errorf("%s: %v, %v, want %v", what, got, err, want))
	}
}

// secured returns the configuration of TLS for a node that asks for it, or nil.
func secured() (*tls.Config, error) {
	file := os.Getenv("CA")
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return &tls.Config{RootCAs: roots}, nil
}

func use(address string, protocol int) error {
	ctx := context.Background()
	config, err := secured()
	if err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, ClientName: "test", TLSConfig: config, Password: os.Getenv("TOKEN")})
	defer c.Close()
	var is checks
	if config != nil {
		stranger := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, TLSConfig: config, Password: "wrong"})
		defer stranger.Close()
		err := stranger.SAdd(ctx, "friends", "x").Err()
		is.equal("a wrong password", err != nil && strings.Contains(err.Error(), "WRONGPASS"), true, nil)
	}
	key := func(name string) string { return fmt.Sprintf("goredis:%s:%d:%s", address, protocol, name) }
	a, b, to, filter := key("a"), key("b"), key("to"), key("filter")
	made := os.Getenv("FILTER") // contains x: making and dropping a filter needs all members of a cluster
	if made != "" {
		filter = made
	}

	n, err := c.SAdd(ctx, a, "1", "2", "3", "\x00\xff").Result()
	is.equal("SADD", n, 4, err)
	n, err = c.SAdd(ctx, b, "2", "3", "4").Result()
	is.equal("SADD", n, 3, err)
	n, err = c.SRem(ctx, a, "\x00\xff", "nothing").Result()
	is.equal("SREM", n, 1, err)
	yes, err := c.SIsMember(ctx, a, "1").Result()
	is.equal("SISMEMBER", yes, true, err)
	many, err := c.SMIsMember(ctx, a, "1", "9").Result()
	is.equal("SMISMEMBER", many, []bool{true, false}, err)
	list, err := c.SMembers(ctx, a).Result()
	slices.Sort(list)
	is.equal("SMEMBERS", list, []string{"1", "2", "3"}, err)
	set, err := c.SMembersMap(ctx, a).Result()
	is.equal("SMEMBERS as a map", len(set), 3, err)
	list, err = c.SInter(ctx, a, b).Result()
	slices.Sort(list)
	is.equal("SINTER", list, []string{"2", "3"}, err)
	n, err = c.SInterCard(ctx, 1, a, b).Result()
	is.equal("SINTERCARD", n, 1, err)
	n, err = c.SUnionStore(ctx, to, a, b).Result()
	is.equal("SUNIONSTORE", n, 4, err)
	one, err := c.SRandMember(ctx, b).Result()
	is.equal("SRANDMEMBER", slices.Contains([]string{"2", "3", "4"}, one), true, err)
	list, err = c.SRandMemberN(ctx, b, 2).Result()
	is.equal("SRANDMEMBER 2", len(list), 2, err)
	_, err = c.SRandMember(ctx, key("nothing")).Result()
	is.equal("SRANDMEMBER of nothing", errors.Is(err, redis.Nil), true, nil)

	pipe := c.Pipeline()
	for i := range 3000 {
		pipe.SAdd(ctx, to, fmt.Sprintf("e%04d", i))
	}
	_, err = pipe.Exec(ctx)
	is.equal("a pipeline", nil, nil, err)
	seen := map[string]bool{}
	steps := c.SScan(ctx, to, 0, "e*", 100).Iterator()
	for steps.Next(ctx) {
		if seen[steps.Val()] {
			is.equal("SSCAN", steps.Val(), "once", nil)
		}
		seen[steps.Val()] = true
	}
	is.equal("SSCAN", len(seen), 3000, steps.Err())
	keys := c.ScanType(ctx, 0, key("*"), 10, "set").Iterator()
	found := 0
	for keys.Next(ctx) {
		found++
	}
	is.equal("SCAN", found, 3, keys.Err())

	yes, err = c.BFAdd(ctx, filter, "x").Result()
	is.equal("BF.ADD", yes, made == "", err)
	some, err := c.BFMExists(ctx, filter, "x", "y").Result()
	is.equal("BF.MEXISTS", some, []bool{true, false}, err)
	n, err = c.BFCard(ctx, filter).Result()
	is.equal("BF.CARD", n, 1, err)
	info, err := c.BFInfo(ctx, filter).Result()
	is.equal("BF.INFO", []int64{info.Filters, info.ItemsInserted, info.ExpansionRate}, []int64{1, 1, 4}, err)
	for what, ask := range map[string]func(context.Context, string) *redis.BFInfoCmd{
		"CAPACITY": c.BFInfoCapacity, "SIZE": c.BFInfoSize, "FILTERS": c.BFInfoFilters, "ITEMS": c.BFInfoItems, "EXPANSION": c.BFInfoExpansion} {
		if protocol == 2 { // this go-redis wants pairs, which redis's module does not send either
			break
		}
		one, err := ask(ctx, filter).Result()
		is.equal("BF.INFO "+what, one.Capacity+one.Size+one.Filters+one.ItemsInserted+one.ExpansionRate > 0, true, err)
	}
	kind, err := c.Type(ctx, filter).Result()
	is.equal("TYPE", kind, "MBbloom--", err)
	err = c.SAdd(ctx, filter, "x").Err()
	is.equal("SADD on a filter", err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"), true, nil)
	err = c.Set(ctx, a, "x", 0).Err()
	is.equal("SET", err != nil && strings.Contains(err.Error(), "not served"), true, nil)
	text, err := c.Info(ctx, "server").Result()
	is.equal("INFO", strings.Contains(text, "bigset_version"), true, err)
	commands, err := c.Command(ctx).Result()
	is.equal("COMMAND", commands["sadd"] != nil && commands["sadd"].FirstKeyPos == 1, true, err)
	settings, err := c.ConfigGet(ctx, "save").Result()
	is.equal("CONFIG GET", settings, map[string]string{"save": ""}, err)

	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs { // each uses a connection of the pool
		wg.Go(func() {
			for j := range 50 {
				n, err := c.SAdd(ctx, a, fmt.Sprint(i, "-", j)).Result()
				if err != nil || n != 1 {
					errs[i] = fmt.Errorf("SADD at the same time: %d, %w", n, err)
				}
			}
		})
	}
	wg.Wait()
	is = append(is, errs...)
	n, err = c.SCard(ctx, a).Result()
	is.equal("SCARD", n, 403, err)
	n, err = c.Del(ctx, a, b, to).Result()
	is.equal("DEL", n, 3, err)
	if made == "" {
		reserved := key("reserved")
		done, err := c.BFReserve(ctx, reserved, 0.01, 20000).Result()
		is.equal("BF.RESERVE", done, "OK", err)
		some, err = c.BFInsert(ctx, reserved, &redis.BFInsertOptions{NoCreate: true}, "x", "x").Result()
		is.equal("BF.INSERT", some, []bool{true, false}, err)
		some, err = c.BFMAdd(ctx, reserved, "x", "y").Result()
		is.equal("BF.MADD", some, []bool{false, true}, err)
		yes, err = c.BFExists(ctx, reserved, "y").Result()
		is.equal("BF.EXISTS", yes, true, err)
		n, err = c.Del(ctx, filter, reserved).Result()
		is.equal("DEL of filters", n, 2, err)
	}
	return errors.Join(is...)
}
