package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"bigset/bench/load/choose"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// client does operations of a role on the elements of its own parts. What it does depends only on the seed, the phase and its own number.
// Only one goroutine may use it.
type client struct {
	*Clients
	role  *spec.Role
	nth   int // of the role
	index int // of the phase
	parts []int
	quota int // number of its operations; below 0 as many as requested

	rng      *rand.Rand
	sets     *choose.Chooser
	elements *choose.Chooser
	weights  []float64 // of the kinds, cumulative
	turns    []spec.Kind
	turn     int
	batch    int
	limit    int
	handles  map[int]system.Set
	last     system.Set // the handle of set lastSet, or nil
	lastSet  int
	probes   []*client
	every    int // of a probe

	rec  *sample.Recorder
	done int // operations
	late int // operations that were due before the end of the phase but had not begun then
	adds int // elements
	// received is how many batches of other replicas it has taken.
	received int
	hash     uint64
	bytes    int // of the elements of the current operation

	change  system.Change
	arena   []byte
	picked  []element
	fresh   []element
	numbers map[uint64]bool
	lives   []int // of the parts that have elements of a set, ascending
	buf     []byte
}

// element is an element that an operation acts on.
type element struct {
	p      *population
	place  int
	number uint64
	rank   int
}

func newClient(p *Clients, role *spec.Role, nth int, rec *sample.Recorder) *client {
	size := p.size
	return &client{Clients: p, role: role, nth: nth, rec: rec, handles: map[int]system.Set{}, numbers: map[uint64]bool{},
		batch: max(1, role.Batch.At(size)), limit: role.Limit.At(size), every: role.Every.At(size)}
}

// begin initialises what depends on the client's number.
func (c *client) begin(stream uint64) error {
	size := c.Model.size
	c.rng = rand.New(rand.NewPCG(system.Mix(system.Mix(c.seed)+uint64(c.Clients.nth)), system.Mix(stream)))
	c.sets = choose.New(c.overSets(), 0, c.rng) // sets are not chosen by timeline, which alone has a window
	c.elements = choose.New(c.role.Choose, c.role.Choose.Window.At(size), c.rng)
	if c.sets.Kind == spec.Sawtooth && c.index > 0 && len(c.Clients.clients) > 0 {
		c.sets.SetCursor(c.index * c.Model.sets / len(c.Clients.clients)) // so that not all clients begin with the same set
	}
	sum, least := 0., math.Inf(1)
	for _, share := range c.role.Mix {
		sum += share.Weight
		least = min(least, share.Weight)
		c.weights = append(c.weights, sum)
	}
	if c.role.Turns {
		c.turns = takeTurns(c.role.Mix, least)
	}
	if c.role.Context != spec.Wide {
		return nil
	}
	for set := range c.Model.sets { // what the clients have seen when the phase begins
		if err := c.handle(set).See(); err != nil {
			return err
		}
	}
	return nil
}

// overSets returns the distribution by which the client chooses sets.
func (c *client) overSets() spec.Distribution {
	if c.role.Sets.Kind != "" {
		return c.role.Sets
	}
	return c.w.Sets.Choose
}

// takeTurns returns the kinds of a cycle, each as often as its weight says.
func takeTurns(mix []spec.Share, least float64) (turns []spec.Kind) {
	counts, common := make([]int, len(mix)), 0
	for i, share := range mix {
		counts[i] = max(1, int(share.Weight/min(least, 1)+0.5))
		common = gcd(counts[i], common)
	}
	for i, share := range mix {
		for range counts[i] / common {
			turns = append(turns, share.Kind)
		}
	}
	return turns
}

// handlesMax bounds the handles of sets that a client keeps.
const handlesMax = 1 << 16

func (c *client) handle(set int) system.Set {
	if c.last != nil && c.lastSet == set {
		return c.last
	}
	h := c.handles[set]
	if h == nil {
		if len(c.handles) >= handlesMax && c.role.Context != spec.Wide {
			clear(c.handles)
		}
		h = c.sys.Set(c.setName(set))
		c.handles[set] = h
	}
	c.last, c.lastSet = h, set
	return h
}

// checkEvery is how many quick operations pass between two checks of the context.
const checkEvery = 64

// timerGrace is how late a sleep may end without counting as latency: timers are not more exact. Anything that delays a client longer, such
// as a pause of the garbage collector, would delay a user too.
const timerGrace = time.Millisecond

// run does the client's operations.
func (c *client) run() error {
	paced := c.role.Rate > 0
	last := time.Now()
	from := last
	for i := 0; c.done < c.quota || !c.until.IsZero(); i++ {
		if i%checkEvery == 0 || last.Sub(from) > time.Millisecond {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		from = last
		if paced {
			due, more := c.due(i)
			from = c.began.Add(due)
			if !more || !c.until.IsZero() && !from.Before(c.until) {
				return c.untilEnd()
			}
			if last.Before(from) { // the operation is in time
				if err := sleep(c.ctx, time.Until(from)); err != nil {
					return err
				}
				if last = time.Now(); last.Sub(from) <= timerGrace {
					from = last
				}
			}
		}
		if !c.until.IsZero() && !last.Before(c.until) {
			if paced {
				c.late = operations(c.dueInAll()-i, c.done, i)
			}
			break
		}
		n, err := c.one()
		if err != nil {
			return fmt.Errorf("operation %d: %w", i+1, err)
		}
		last = time.Now()
		c.rec.Record(last.Sub(from), n, c.bytes)
		before := c.done
		c.done += n
		for _, probe := range c.probes {
			for range c.done/probe.every - before/probe.every {
				if err := c.aside(probe); err != nil {
					return err
				}
				last = time.Now()
			}
		}
	}
	return nil
}

// untilEnd waits for the end of a phase that ends by time: a client that has nothing more to do takes as long as the others.
func (c *client) untilEnd() error {
	if c.until.IsZero() {
		return nil
	}
	return sleep(c.ctx, time.Until(c.until))
}

// operations returns as how many operations a number of calls counts, if these are like earlier calls, which counted as done.
func operations(calls, done, earlier int) int {
	if earlier == 0 {
		return calls
	}
	return int(math.Round(float64(calls) * float64(done) / float64(earlier)))
}

// aside makes a probe do one operation while the clock is stopped.
func (c *client) aside(probe *client) error {
	cpu, began := cpuNow(), time.Now()
	n, err := probe.one()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("probe %s: %w", probe.role.Name, err)
	}
	probe.rec.Record(took, n, probe.bytes)
	probe.done += n
	c.Clients.away += time.Since(began)
	c.Clients.awayCPU += cpuNow() - cpu
	return nil
}

// due returns when the client's i-th call is due, counted from the beginning of the phase, and whether such a call exists.
func (c *client) due(i int) (time.Duration, bool) {
	k := float64(i*c.role.Clients + c.nth) // of all clients of the role
	from, to := c.role.Rate, c.role.RateEnd
	if to == 0 || to == from {
		return time.Duration(k / from * float64(time.Second)), true
	}
	// With a rate of from + a*t, there are from*t + a*t*t/2 calls before t.
	a := (to - from) / c.duration.Seconds()
	root := from*from + 2*a*k
	if root < 0 {
		return 0, false
	}
	return time.Duration(2 * k / (from + math.Sqrt(root)) * float64(time.Second)), true
}

// dueInAll returns how many calls of the client are due before the end of a phase that ends by time.
func (c *client) dueInAll() int {
	rate := c.role.Rate
	if c.role.RateEnd > 0 {
		rate = (c.role.Rate + c.role.RateEnd) / 2
	}
	all := rate * c.duration.Seconds() // of all clients of the role, which take turns
	return int(math.Ceil((all - float64(c.nth)) / float64(c.role.Clients)))
}

// sleep waits for d, or returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	const short = 20 * time.Millisecond
	if d <= short {
		time.Sleep(d)
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrEmpty is in the chain of the error of a client for whose operation no element exists.
var ErrEmpty = errors.New("no element to choose")

// emptyMax is how often a client draws again if no element exists for an operation.
const emptyMax = 1000

// one does an operation, and returns as how many operations it counts.
func (c *client) one() (n int, err error) {
	for range emptyMax {
		kind, set := c.kind(), 0
		if c.Model.sets > 1 {
			set = c.sets.Choose(c.Model.sets)
		}
		c.bytes = 0
		switch n, err = c.do(kind, set); {
		case err == nil:
			return n, nil
		case !errors.Is(err, ErrEmpty):
			return n, fmt.Errorf("%s in set %s: %w", kind, c.setName(set), err)
		}
	}
	return 0, fmt.Errorf("%w, after %d draws: the phase removes more than there is", ErrEmpty, emptyMax)
}

// kind draws the kind of the next operation.
func (c *client) kind() spec.Kind {
	if c.turns != nil {
		c.turn++
		return c.turns[(c.turn-1)%len(c.turns)]
	}
	if len(c.weights) == 1 {
		return c.role.Mix[0].Kind
	}
	x := c.rng.Float64() * c.weights[len(c.weights)-1]
	i := 0
	for i < len(c.weights)-1 && x >= c.weights[i] {
		i++
	}
	return c.role.Mix[i].Kind
}

// hashIn adds a number to the hash of the client's operations.
func (c *client) hashIn(x uint64) {
	c.hash = (bits.RotateLeft64(c.hash, 27) ^ x) * 0x9E3779B97F4A7C15
}

// hashKind adds the kind of an operation and its set to the hash.
func (c *client) hashKind(kind spec.Kind, set int) {
	x := uint64(set)
	for i := range len(kind) {
		x = x<<7 ^ x>>57 ^ uint64(kind[i])
	}
	c.hashIn(x)
}

// size returns how many elements the next operation of a kind names. Each of them counts as times operations.
func (c *client) size(times int) int {
	if c.quota < 0 || !c.until.IsZero() {
		return c.batch
	}
	return max(1, min(c.batch, (c.quota-c.done+times-1)/times))
}
