package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"bigset"
	"bigset/internal/history"
	"bigset/server/api"
	"bigset/server/bloomd"
	"bigset/server/door"
	"bigset/server/wire"
)

// The filters that clients share. The last one is dropped and created again and again.
const (
	filters    = 3
	keysAtOnce = 16
)

func filterName(i int) string { return fmt.Sprint("filter", i) }

// bloomdClient is a client that uses bloomd's protocol.
type bloomdClient struct {
	r    *run
	rng  *rand.Rand
	h    *history.Client
	node *node
	nc   net.Conn
	c    *bloomd.Client
	mine [filters][]string // keys that it has marked

	order     func(ctx context.Context, filter string) error // drops a filter at its node
	unsettled *history.Op                                    // a drop of the last filter of which nothing is known
	unknownAt time.Time                                      // when its last try ended
}

// settleTime is how long after a try of a drop the node may still do it: a node ends what takes longer than its caller waits, and no fault stops
// one as long. A try that begins later, and is answered, settles what the tries before it have done.
const settleTime = 2 * operationTime

// work marks and checks keys until the run has ended.
func (c *bloomdClient) work(ctx context.Context) {
	defer c.hangUp()
	for !c.r.over.Load() && ctx.Err() == nil {
		if c.c == nil || c.rng.IntN(20) == 0 {
			c.hangUp()
			c.node = c.r.ns.all[c.rng.IntN(len(c.r.ns.all))]
			if err := c.dial(ctx); err != nil {
				pause(ctx, 20*time.Millisecond)
				continue
			}
		}
		i := c.rng.IntN(filters)
		var err error
		switch n := c.rng.IntN(20); {
		case n == 0 && i == filters-1:
			err = c.drop(ctx, i)
		case n < 10:
			err = c.check(i, c.some(i))
		default:
			err = c.mark(i)
		}
		if err != nil {
			pause(ctx, 10*time.Millisecond)
		}
	}
}

func (c *bloomdClient) hangUp() {
	if c.c != nil {
		c.c.Close()
		c.c = nil
	}
}

func (c *bloomdClient) dial(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if c.nc, err = (&net.Dialer{}).DialContext(ctx, "tcp", c.node.bloomd); err == nil {
		c.c = bloomd.NewClient(c.nc)
	}
	return err
}

// do makes one request. A connection that fails, or does not answer in time, is not used again.
func (c *bloomdClient) do(f func() error) error {
	_ = c.nc.SetDeadline(time.Now().Add(2 * operationTime))
	err := f()
	var refusal bloomd.Refusal
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, bloomd.ErrNoFilter) {
		c.hangUp()
	}
	return err
}

// outcomeOf returns what is known of a request that changes something. A filter that does not exist took nothing; an answer
// "Internal Error" says nothing.
func outcomeOf(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, bloomd.ErrNoFilter):
		return history.Fail
	}
	return history.Unknown
}

func bytesOf(keys []string) (list [][]byte) {
	for _, k := range keys {
		list = append(list, []byte(k))
	}
	return list
}

func (c *bloomdClient) mark(i int) error {
	var keys []string
	for range 1 + c.rng.IntN(keysAtOnce) {
		keys = append(keys, fmt.Sprintf("k%08d", c.r.next.Add(1)))
	}
	op := c.h.Mark(filterName(i), keys...)
	err := c.do(func() error {
		_, err := c.c.Bulk([]byte(filterName(i)), bytesOf(keys))
		return err
	})
	op.End(outcomeOf(err), err)
	switch {
	case err == nil:
		c.mine[i] = append(c.mine[i], keys...)
	case errors.Is(err, bloomd.ErrNoFilter) && i == filters-1:
		return c.create(i)
	}
	return err
}

// some returns some of its own keys.
func (c *bloomdClient) some(i int) (keys []string) {
	for range min(keysAtOnce, len(c.mine[i])) {
		keys = append(keys, c.mine[i][c.rng.IntN(len(c.mine[i]))])
	}
	return keys
}

// check checks keys.
func (c *bloomdClient) check(i int, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	op := c.h.Check(filterName(i))
	var words []bool
	err := c.do(func() (err error) {
		words, err = c.c.Multi([]byte(filterName(i)), bytesOf(keys))
		return err
	})
	if err == nil && len(words) == len(keys) {
		for j, k := range keys {
			op.Answered(k, words[j])
		}
	}
	if errors.Is(err, bloomd.ErrNoFilter) { // an answer, by which it has none of them: only a drop explains that
		for _, k := range keys {
			op.Answered(k, false)
		}
		op.End(history.OK, err)
		return err
	}
	op.End(outcomeOf(err), err)
	return err
}

func (c *bloomdClient) create(i int) error {
	return c.do(func() error {
		_, err := c.c.Create([]byte(filterName(i)), door.FilterCreate{})
		return err
	})
}

// drop drops a filter and creates it again, or settles the drop before. It uses the port for nodes and clients, which says whether a drop that
// failed has done nothing: bloomd's protocol can't, and a drop that may happen at any time explains whatever is denied later.
func (c *bloomdClient) drop(ctx context.Context, i int) error {
	op := c.unsettled
	switch {
	case op == nil:
		op = c.h.DropFilter(filterName(i))
	case time.Since(c.unknownAt) < settleTime:
		return nil
	default:
		op = c.h.Again(op)
	}
	err := c.order(ctx, filterName(i))
	known := outcome(err)
	switch {
	case !errors.Is(err, bigset.ErrNoFilter):
	case c.unsettled == nil:
		known = history.Fail
	default: // an earlier try has dropped it, or another client, and none of ours is under way
		known = history.OK
	}
	op.End(known, err)
	if known == history.Unknown {
		c.unsettled, c.unknownAt = op, time.Now()
	}
	if known != history.OK {
		return err
	}
	c.unsettled, c.mine[i] = nil, nil
	return c.create(i)
}

// dropHere drops a filter at the client's node.
func (c *bloomdClient) dropHere(ctx context.Context, filter string) error {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	_, err := c.node.link.Do(ctx, wire.Call{Verb: api.VerbChangeFilter, Body: api.AppendFilterChange(nil, &api.FilterChange{Do: api.DropFilter, Name: []byte(filter)})})
	return err
}

// makeFilters creates the filters that the clients share, while all members are up.
func (r *run) makeFilters(ctx context.Context) error {
	c := &bloomdClient{r: r, node: r.ns.all[len(r.ns.all)-1]}
	if err := c.dial(ctx); err != nil {
		return err
	}
	defer c.hangUp()
	for i := range filters {
		if err := c.create(i); err != nil {
			return fmt.Errorf("torture: %s: %w", filterName(i), err)
		}
	}
	return nil
}

// checkAll asks every node for all keys that were acknowledged.
func (r *run) checkAll(ctx context.Context) error {
	for _, n := range r.ns.all {
		c := &bloomdClient{r: r, node: n, h: r.history.Client("the end, at " + n.id)}
		if err := c.dial(ctx); err != nil {
			return err
		}
		for _, of := range r.bloomd {
			for i := range filters {
				for keys := of.mine[i]; len(keys) > 0; {
					some := min(len(keys), 500)
					if err := c.check(i, keys[:some]); err != nil && !errors.Is(err, bloomd.ErrNoFilter) {
						return fmt.Errorf("a check at the end, at node %s: %w", n.id, err)
					}
					keys = keys[some:]
				}
			}
		}
		c.hangUp()
	}
	return nil
}
