package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/door"
)

func filterCommands() []command {
	return []command{
		{"bf.reserve", -4, writes, 1, 1, 1, aboutFilters, "Makes a bloom filter", asksWrite, false, (*conn).bfReserve},
		{"bf.add", 3, writesD, 1, 1, 1, aboutFilters, "Adds a key to a bloom filter", asksWrite, false, (*conn).bfAdd},
		{"bf.madd", -3, writesD, 1, 1, 1, aboutFilters, "Adds keys to a bloom filter", asksWrite, false, (*conn).bfMadd},
		{"bf.insert", -4, writes, 1, 1, 1, aboutFilters, "Adds keys to a bloom filter, which it creates with the given options if it does not exist", asksWrite, false, (*conn).bfInsert},
		{"bf.exists", 3, readsNow, 1, 1, 1, aboutFilters, "Says whether a key may be in a bloom filter", asksRead, false, (*conn).bfExists},
		{"bf.mexists", -3, readsNow, 1, 1, 1, aboutFilters, "Says for each of some keys whether it may be in a bloom filter", asksRead, false, (*conn).bfMexists},
		{"bf.info", -2, readsNow, 1, 1, 1, aboutFilters, "Says what is known of a bloom filter", asksRead, false, (*conn).bfInfo},
		{"bf.card", 2, readsNow, 1, 1, 1, aboutFilters, "Says how many keys a bloom filter was given", asksRead, false, (*conn).bfCard},
	}
}

// goodFilterName reports whether a filter may have a name.
func goodFilterName(name []byte) bool {
	return len(name) > 0 && len(name) <= keyscheme.FilterNameBytesMax
}

// Errors of filters, in the words of redis's module RedisBloom 2.8 where it has one.
const (
	errNoFilter     = "ERR not found"
	errFilterExists = "ERR item exists"
	errRate         = "ERR bad error rate"
	errRateRange    = "ERR (0 < error rate range < 1) "
	errCapacity     = "ERR bad capacity"
	errCapacityZero = "ERR (capacity should be larger than 0)"
	errFilterName   = "ERR the name of a filter has 1 to 200 bytes, no spaces, tabs, line breaks or zero bytes among them: bloomd's protocol has names in lines"
	errExpansion    = "ERR EXPANSION is not served: how fast filters grow is a setting of the node, scale_size"
	errNonScaling   = "ERR NONSCALING is not served: filters always grow"
	errRequiresItem = "ERR wrong number of arguments for 'bf.insert' command"
	errUnknownArg   = "ERR Unknown argument received"
)

// spec reads the options for a new filter. Values below the least that filters support are raised, values above the largest are lowered:
// the filter is then better than requested.
type spec struct{ door.FilterCreate }

func (s *spec) rate(arg []byte) error {
	p, err := strconv.ParseFloat(string(arg), 64)
	if err != nil || math.IsNaN(p) {
		return refusal(errRate)
	}
	if p <= 0 || p >= 1 {
		return refusal(errRateRange)
	}
	s.Probability = new(min(p, math.Nextafter(bloomslice.ProbabilityMax, 0)))
	return nil
}

func (s *spec) capacity(arg []byte) error {
	n, ok := number(arg)
	if !ok {
		return refusal(errCapacity)
	}
	if n <= 0 {
		return refusal(errCapacityZero)
	}
	s.Capacity = new(max(uint64(n), bloomslice.CapacityMin+1))
	return nil
}

// create makes a filter, unless a set with its name exists.
func (c *conn) create(ctx context.Context, key []byte, o door.FilterCreate) (created bool, err error) {
	if !goodFilterName(key) || bytes.ContainsAny(key, "\x00\t\r\n ") {
		return false, refusal(errFilterName)
	}
	c.MayWait()
	is, err := c.isSet(ctx, key)
	switch {
	case err != nil:
		return false, err
	case is:
		return false, errKind
	}
	c.acked.none() // nothing says how many have it
	return c.s.filters.Create(ctx, key, o)
}

func (c *conn) bfReserve(ctx context.Context, args [][]byte) {
	var s spec
	err := s.rate(args[2])
	if err == nil {
		err = s.capacity(args[3])
	}
	for rest := args[4:]; err == nil && len(rest) > 0; rest = rest[1:] {
		switch {
		case is(rest[0], "NONSCALING"):
			err = refusal(errNonScaling)
		case is(rest[0], "EXPANSION"):
			err = refusal(errExpansion)
		default:
			err = refusal(errSyntax)
		}
	}
	created := false
	if err == nil {
		created, err = c.create(ctx, args[1], s.FilterCreate)
	}
	switch {
	case err != nil:
		c.failed("bf.reserve", args[1], err)
	case !created:
		c.fail(errFilterExists)
	default:
		c.ok()
	}
}

// forFilter returns the filter of a key, or nil if there is none. It returns an error if the key can't be a filter: errKind if it is a set.
func (c *conn) forFilter(ctx context.Context, key []byte) (door.Filter, error) {
	f, err := c.filterOf(ctx, key)
	if f != nil || err != nil {
		return f, err
	}
	if checkKey(key) != nil {
		return nil, nil
	}
	c.MayWait()
	is, err := c.isSet(ctx, key)
	if err == nil && is {
		err = errKind
	}
	return nil, err
}

// forMarks returns the filter of a key. It makes the filter if it does not exist.
func (c *conn) forMarks(ctx context.Context, key []byte, o door.FilterCreate) (door.Filter, error) {
	f, err := c.forFilter(ctx, key)
	if f != nil || err != nil {
		return f, err
	}
	if _, err := c.create(ctx, key, o); err != nil {
		return nil, err
	}
	f, err = c.filterOf(ctx, key)
	if err == nil && f == nil {
		err = bigset.ErrNoFilter // it was dropped in between
	}
	return f, err
}

// keysAtOnce is how many keys of a filter go to the node in one call, fewer if a key is more than one piece of work.
const keysAtOnce = 16 << 10

// call checks or sets keys, as bloomd's door does.
func (c *conn) call(ctx context.Context, set bool, f door.Filter, keys [][]byte, yes []bool) error {
	done, err := c.callInParts(ctx, set, f, keys, yes)
	if set {
		c.acked.none() // nothing says how many have it
	}
	if set && err != nil && done > 0 {
		err = partly(err, fmt.Sprintf("%d keys were added before it", done))
	}
	return err
}

// callInParts is call, and returns how many keys were done.
func (c *conn) callInParts(ctx context.Context, set bool, f door.Filter, keys [][]byte, yes []bool) (done int, err error) {
	now, all, wait := f.CheckNow, f.Check, f.ChecksWait
	if set {
		now, all, wait = f.SetNow, f.Set, f.SetsWait
	}
	c.s.counters.elements.Add(uint64(len(keys)))
	pieces := f.Pieces()
	defer c.EndParts()
	for done < len(keys) {
		if done > 0 {
			c.MayWait()
			c.nextPart()
		}
		end := min(len(keys), done+max(1, keysAtOnce/pieces))
		if !wait() {
			if n := c.Now((end-done)*pieces) / pieces; n > 0 {
				n, err = now(keys[done:done+n], yes[done:done+n])
				if done += n; err != nil {
					return done, err
				}
			}
		}
		if done < end {
			c.MayWait()
			if err = all(ctx, keys[done:end], yes[done:end]); err != nil {
				return done, err
			}
			done = end
		}
	}
	return done, nil
}

// mark adds keys to a filter and answers for each whether it was new.
func (c *conn) mark(ctx context.Context, cmd string, key []byte, keys [][]byte, many bool, f door.Filter, err error) {
	yes := make([]bool, len(keys))
	if err == nil {
		err = c.call(ctx, true, f, keys, yes)
	}
	if err != nil {
		c.failed(cmd, key, err)
		return
	}
	c.answerKeys(yes, many)
}

func (c *conn) answerKeys(yes []bool, many bool) {
	if many {
		c.header(typeArray, len(yes))
	}
	for _, y := range yes {
		c.Out = appendBool(c.Out, c.proto, y)
		c.WriteIfFull()
	}
}

func (c *conn) bfAdd(ctx context.Context, args [][]byte) {
	f, err := c.forMarks(ctx, args[1], door.FilterCreate{})
	c.mark(ctx, "bf.add", args[1], args[2:], false, f, err)
}

func (c *conn) bfMadd(ctx context.Context, args [][]byte) {
	f, err := c.forMarks(ctx, args[1], door.FilterCreate{})
	c.mark(ctx, "bf.madd", args[1], args[2:], true, f, err)
}

func (c *conn) bfInsert(ctx context.Context, args [][]byte) {
	o, keys, making, err := insertArgs(args[2:])
	var f door.Filter
	switch {
	case err != nil:
	case making:
		f, err = c.forMarks(ctx, args[1], o)
	default:
		if f, err = c.forFilter(ctx, args[1]); err == nil && f == nil {
			err = refusal(errNoFilter)
		}
	}
	c.mark(ctx, "bf.insert", args[1], keys, true, f, err)
}

// insertArgs reads the arguments after the key of BF.INSERT.
func insertArgs(args [][]byte) (o door.FilterCreate, keys [][]byte, making bool, err error) {
	s := spec{}
	making = true
	for i := 0; i < len(args) && err == nil; i++ {
		value := i + 1
		last := value == len(args)
		switch {
		case last && (is(args[i], "ITEMS") || is(args[i], "CAPACITY") || is(args[i], "ERROR") || is(args[i], "EXPANSION")):
			err = refusal(errRequiresItem)
		case is(args[i], "ITEMS"):
			return s.FilterCreate, args[value:], making, nil
		case is(args[i], "NOCREATE"):
			making = false
		case is(args[i], "NONSCALING"):
			err = refusal(errNonScaling)
		case is(args[i], "EXPANSION"):
			err = refusal(errExpansion)
		case is(args[i], "CAPACITY"):
			err = s.capacity(args[value])
			i++
		case is(args[i], "ERROR"):
			err = s.rate(args[value])
			i++
		default:
			err = refusal(errUnknownArg)
		}
	}
	if err == nil {
		err = refusal(errRequiresItem)
	}
	return o, nil, false, err
}

// check answers for each key whether a filter may contain it. A filter that does not exist contains none.
func (c *conn) check(ctx context.Context, cmd string, args [][]byte, many bool) {
	f, err := c.forFilter(ctx, args[1])
	yes := make([]bool, len(args)-2)
	if err == nil && f != nil {
		err = c.call(ctx, false, f, args[2:], yes)
	}
	if err != nil && !errors.Is(err, bigset.ErrNoFilter) {
		c.failed(cmd, args[1], err)
		return
	}
	c.answerKeys(yes, many)
}

func (c *conn) bfExists(ctx context.Context, args [][]byte)  { c.check(ctx, "bf.exists", args, false) }
func (c *conn) bfMexists(ctx context.Context, args [][]byte) { c.check(ctx, "bf.mexists", args, true) }

// filterInfo returns the information about the filter of a key; ok is false if it does not exist.
func (c *conn) filterInfo(ctx context.Context, key []byte) (i door.FilterInfo, ok bool, err error) {
	f, err := c.forFilter(ctx, key)
	if err != nil || f == nil {
		return i, false, err
	}
	c.MayWait()
	if i, err = f.Info(ctx, false); errors.Is(err, bigset.ErrNoFilter) {
		return i, false, nil
	}
	return i, err == nil, err
}

func (c *conn) bfCard(ctx context.Context, args [][]byte) {
	i, _, err := c.filterInfo(ctx, args[1])
	if err != nil {
		c.failed("bf.card", args[1], err)
		return
	}
	c.int(int64(i.Size))
}

// bfInfo answers with all figures, or with one. The figures are those of redis's module, no more: go-redis refuses a name that it does not
// know, and redis-py needs all of them. A filter that has grown is still one.
func (c *conn) bfInfo(ctx context.Context, args [][]byte) {
	if len(args) > 3 {
		c.failArity("bf.info")
		return
	}
	i, ok, err := c.filterInfo(ctx, args[1])
	switch {
	case err != nil:
		c.failed("bf.info", args[1], err)
		return
	case !ok:
		c.fail(errNoFilter)
		return
	}
	rows := []figure{{"CAPACITY", "Capacity", i.Capacity}, {"SIZE", "Size", i.Storage}, {"FILTERS", "Number of filters", 1},
		{"ITEMS", "Number of items inserted", i.Size}, {"EXPANSION", "Expansion rate", uint64(c.s.opt.Expansion)}}
	if len(args) == 3 {
		c.bfFigure(args[2], rows, i.Probability)
		return
	}
	c.header(typeMap, len(rows))
	for _, r := range rows {
		c.text(r.name)
		c.int(int64(r.n))
	}
}

// figure is a figure of a filter: the word that asks for it alone, its name and its value.
type figure struct {
	word, name string
	n          uint64
}

// bfFigure answers with one figure, or with the error rate, which redis's module does not report.
func (c *conn) bfFigure(word []byte, rows []figure, rate float64) {
	begin := func(name string) {
		if c.proto < 3 {
			c.header(typeArray, 1)
			return
		}
		c.header(typeMap, 1)
		c.text(name)
	}
	for _, r := range rows {
		if is(word, r.word) {
			begin(r.name)
			c.int(int64(r.n))
			return
		}
	}
	if is(word, "ERROR") {
		begin("Error rate")
		c.Out = appendDouble(c.Out, c.proto, rate)
		return
	}
	c.fail(fmt.Sprintf("ERR Invalid information value %.32q: CAPACITY, SIZE, FILTERS, ITEMS, EXPANSION and ERROR are known", word))
}
