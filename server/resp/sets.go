package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"unsafe"

	"bigset"
	"bigset/server/door"
)

func (c *conn) scard(ctx context.Context, args [][]byte) {
	c.MayWait()
	n, err := c.cardinality(ctx, args[1])
	if err != nil {
		c.failed("scard", args[1], err)
		return
	}
	c.int(int64(n))
}

func (c *conn) cardinality(ctx context.Context, key []byte) (uint64, error) {
	if err := c.s.forSet(ctx, key); err != nil {
		return 0, err
	}
	return c.count(ctx, door.Read{Set: nameOf(key), Bare: true})
}

// count counts elements of a set, none of a set that no replica has heard of.
func (c *conn) count(ctx context.Context, r door.Read) (uint64, error) {
	defer c.EndParts()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.Part = func() {
		c.nextPart()
		if err := c.gone(); err != nil {
			cancel(err)
		}
	}
	if c.s.sets.Remote() { // other nodes count, and there are no parts
		gone, stop := c.UntilGone()
		defer stop()
		defer context.AfterFunc(gone, func() {
			if errors.Is(context.Cause(gone), door.ErrGone) {
				cancel(errGone)
			}
		})()
	}
	n, err := c.s.sets.Count(ctx, r)
	switch {
	case isUnheard(err):
		return 0, nil
	case err != nil && errors.Is(context.Cause(ctx), errGone):
		return 0, errGone
	}
	return n.Elements, err
}

// elements reads a set. The elements are valid until the next part. A set that no replica has heard of is empty.
func (c *conn) elements(ctx context.Context, r door.Read) iter.Seq2[[]byte, error] {
	r.Bare = true
	return func(yield func([]byte, error) bool) {
		defer c.EndParts()
		for part, err := range c.s.sets.Read(ctx, r) {
			if errors.Is(err, bigset.ErrNotFound) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range part.Elements {
				if !yield(part.Elements[i].Name, nil) {
					return
				}
			}
			if !part.Done {
				c.nextPart()
			}
			if err := c.gone(); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// nextPart begins a part of a read after the first one: a short read waits for no other. In a cluster a part waits for other nodes.
func (c *conn) nextPart() {
	if c.s.spy != nil {
		c.s.spy()
	}
	if !c.s.sets.Remote() {
		c.NextPart()
	}
}

func (c *conn) smembers(ctx context.Context, args [][]byte) {
	c.combine(ctx, "smembers", (*conn).all, args[1:])
}

// all yields the elements of a single set.
func (c *conn) all(ctx context.Context, sets []*source) iter.Seq2[[]byte, error] {
	return sets[0].elements(ctx, nil, 0)
}

// repeatedMost bounds the elements that SRANDMEMBER draws with repetition.
const repeatedMost = 100_000

func (c *conn) srandmember(ctx context.Context, args [][]byte) {
	c.MayWait()
	var n int64
	if len(args) > 3 {
		c.fail(errSyntax)
		return
	}
	if len(args) == 3 {
		var ok bool
		if n, ok = number(args[2]); !ok {
			c.fail(errInteger)
			return
		}
		if n < -1<<63+1 {
			c.fail("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
			return
		}
	}
	if err := c.s.forSet(ctx, args[1]); err != nil {
		c.failed("srandmember", args[1], err)
		return
	}
	switch {
	case len(args) == 2:
		c.randomOne(ctx, args[1])
	case n == 0:
		c.header(typeArray, 0)
	default:
		c.randomMany(ctx, args[1], n)
	}
}

func (c *conn) randomOne(ctx context.Context, key []byte) {
	e, ok, err := c.random(ctx, nameOf(key), c.collect)
	switch {
	case err != nil:
		c.failed("srandmember", key, err)
	case !ok:
		c.null()
	default:
		c.bulk(e)
	}
}

const (
	randomRun  = 128  // of this many elements or fewer, each is drawn with the same probability
	randomOnly = 1024 // once in this many draws from a branch it is a certain one of the first elements that are prefixes of all others
	// randomLevels bounds the levels of a draw. Other clients that remove what it has just read make it begin levels again; the draw then is
	// of the first elements of the branch.
	randomLevels = 100
)

// random draws an element. It descends the tree of the elements' bytes: at each level it draws one of the bytes with which elements
// continue, each with the same probability, until only a few elements are left. If the branches of a level differ in size, elements of the
// smaller ones are drawn more often. Elements that are prefixes of all others of a branch are drawn seldom.
func (c *conn) random(ctx context.Context, name []byte, collect collector) (e []byte, ok bool, err error) {
	var prefix []byte
	for level := 0; ; level++ {
		some, err := collect(ctx, door.Read{Set: name, Prefix: prefix, Limit: randomRun + 1})
		switch {
		case err != nil || len(some) == 0 && len(prefix) == 0:
			return nil, false, err
		case len(some) == 0: // they were removed in between
			prefix = nil
			continue
		case len(some) <= randomRun, level >= randomLevels:
			return some[rand.IntN(len(some))], true, nil
		}
		ends, err := collect(ctx, door.Read{Set: name, Prefix: prefix, Limit: 1, Reverse: true})
		if err != nil {
			return nil, false, err
		}
		if len(ends) == 0 || bytes.Compare(ends[0], some[1]) <= 0 {
			continue
		}
		last := ends[0]
		prefixes := 0
		for prefixes < len(some) && bytes.HasPrefix(last, some[prefixes]) {
			prefixes++
		}
		if i := rand.IntN(randomOnly); i < prefixes {
			return some[i], true, nil
		}
		first := some[min(prefixes, len(some)-1)]
		at := common(first, last)
		if at == len(last) { // elements were removed between the two reads
			continue
		}
		low, high := 0, int(last[at])
		if at < len(first) {
			low = int(first[at])
		}
		next, err := branch(ctx, name, last[:at], low, high, collect)
		if err != nil {
			return nil, false, err
		}
		if next != nil {
			prefix = next
		}
	}
}

// branch draws one of the bytes from low to high with which elements continue a prefix, and returns the prefix with it, or nil if there is none
// any more. The byte after a gap is no more likely than others: in hexadecimal text, most bytes from 0 to f begin nothing.
func branch(ctx context.Context, name, prefix []byte, low, high int, collect collector) ([]byte, error) {
	var left []byte // bytes in order, without those that are known to begin nothing
	for b := low; b <= high; b++ {
		left = append(left, byte(b))
	}
	for len(left) > 0 {
		i := rand.IntN(len(left))
		from := append(slices.Clone(prefix), left[i])
		next, err := collect(ctx, door.Read{Set: name, Prefix: prefix, From: from, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(next) == 0 {
			left = left[:i]
			continue
		}
		found := next[0][len(prefix)]
		if found == left[i] {
			return from, nil
		}
		at, _ := slices.BinarySearch(left, found)
		left = slices.Delete(left, i, at)
	}
	return nil, nil
}

// collector returns copies of a few elements.
type collector func(ctx context.Context, r door.Read) ([][]byte, error)

// collectPart is collect for a command that draws many elements: it is a part of long work.
func (c *conn) collectPart(ctx context.Context, r door.Read) (list [][]byte, err error) {
	c.nextPart()
	return c.collect(ctx, r)
}

// collect is a collector.
func (c *conn) collect(ctx context.Context, r door.Read) (list [][]byte, err error) {
	r.Batch = min(r.Limit, door.BatchMax)
	for e, err := range c.elements(ctx, r) {
		if err != nil {
			return nil, err
		}
		list = append(list, bytes.Clone(e))
	}
	return list, nil
}

// common returns the length of the common prefix of two byte strings.
func common(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// drawLess is how many times as many elements as are drawn a set must have for them to be drawn one by one. A draw reads some hundred elements.
const drawLess = 1000

// drawLessRemote is drawLess in a cluster, where each of these reads asks a quorum.
const drawLessRemote = 10_000

// randomMany answers with n distinct elements, or with -n elements with repetition. A few elements of a large set are drawn as randomOne does
// it. Otherwise it reads the whole set, and each element has the same probability.
func (c *conn) randomMany(ctx context.Context, key []byte, n int64) {
	g := c.gather("srandmember")
	defer g.release()
	drawn, err := c.drawFew(ctx, g, key, n)
	switch {
	case err != nil || drawn != nil:
	case n > 0:
		drawn, err = c.sample(ctx, g, key, n)
	default:
		drawn, err = c.repeat(ctx, g, key, -n)
	}
	size := 0
	if err == nil {
		size, err = sizeOfAnswer(g, drawn)
	}
	if err != nil {
		c.failed("srandmember", key, err)
		return
	}
	c.SendsMore(size)
	rand.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	c.header(typeArray, len(drawn))
	for _, e := range drawn {
		c.bulk(e)
		c.WriteIfFull()
	}
}

// sizeOfAnswer returns how many bytes an answer has. It refuses one that is too long because elements are repeated.
func sizeOfAnswer(g *gathered, list [][]byte) (size int, err error) {
	for _, e := range list {
		if size += len(e); size > g.most {
			return size, g.refuse()
		}
	}
	return size, nil
}

// drawFew draws n distinct elements, or -n elements with repetition, one by one. It returns nil if the set is too small for that, or if the same
// elements come again and again.
func (c *conn) drawFew(ctx context.Context, g *gathered, key []byte, n int64) (drawn [][]byte, err error) {
	live, err := c.s.live(ctx, key)
	few, least := uint64(max(n, -n)), uint64(drawLess)
	if c.s.sets.Remote() {
		least = drawLessRemote
	}
	if err != nil || few > repeatedMost || live/least < few {
		if isUnheard(err) {
			err = nil
		}
		return nil, err
	}
	if few > argumentsFew && !c.Take(int(few)*4*argumentBytes) {
		return nil, refusal(errNoRoom)
	}
	seen := map[string]bool{} // of g's memory; it stays empty where elements may be repeated
	for tries := uint64(0); uint64(len(drawn)) < few; tries++ {
		e, ok, err := c.random(ctx, nameOf(key), c.collectPart)
		if err != nil || !ok || tries == 4*few {
			g.release()
			*g = *c.gather("srandmember")
			return nil, err
		}
		if n > 0 && seen[string(e)] {
			continue
		}
		if e, err = g.keep(e); err != nil {
			return nil, err
		}
		if n > 0 {
			seen[unsafe.String(unsafe.SliceData(e), len(e))] = true
		}
		drawn = append(drawn, e)
	}
	return drawn, nil
}

// sample draws without repetition.
func (c *conn) sample(ctx context.Context, g *gathered, key []byte, n int64) (drawn [][]byte, err error) {
	seen := int64(0)
	for e, err := range c.elements(ctx, door.Read{Set: nameOf(key)}) {
		if err != nil {
			return nil, err
		}
		seen++
		at := int64(len(drawn))
		if at == n {
			if at = rand.Int64N(seen); at >= n {
				continue
			}
		} else {
			if !g.roomFor(len(drawn), argumentBytes) {
				return nil, refusal(errNoRoom)
			}
			drawn = append(drawn, nil)
		}
		if drawn[at], err = g.keepIn(drawn[at], e); err != nil {
			return nil, err
		}
	}
	return drawn, nil
}

// repeat draws with repetition: first the positions, then the elements at them.
func (c *conn) repeat(ctx context.Context, g *gathered, key []byte, n int64) (drawn [][]byte, err error) {
	all, err := c.cardinality(ctx, key)
	if err != nil || all == 0 {
		return nil, err
	}
	if n > repeatedMost {
		return nil, refusal(fmt.Sprintf("ERR at most %d elements are drawn with repetition", repeatedMost))
	}
	if n > argumentsFew && !c.Take(int(n)*2*argumentBytes) {
		return nil, refusal(errNoRoom)
	}
	places := make([]uint64, n)
	for i := range places {
		places[i] = rand.Uint64N(all)
	}
	slices.Sort(places)
	at := uint64(0)
	for e, err := range c.elements(ctx, door.Read{Set: nameOf(key)}) {
		if err != nil {
			return nil, err
		}
		if len(places) == 0 {
			break
		}
		for kept := []byte(nil); len(places) > 0 && places[0] == at; places = places[1:] {
			if kept == nil {
				if kept, err = g.keep(e); err != nil {
					return nil, err
				}
			}
			drawn = append(drawn, kept)
		}
		at++
	}
	for range places { // for elements that were removed in between
		if len(drawn) > 0 {
			drawn = append(drawn, drawn[rand.IntN(len(drawn))])
		}
	}
	return drawn, nil
}
