package history

import (
	"math"
	"sync"
	"time"
)

// Outcome is what a client knows of an operation.
type Outcome byte

// The outcomes. An operation that has not ended is unknown.
const (
	Unknown Outcome = iota // it may have happened, may happen later, or never
	OK                     // acknowledged, answered
	Fail                   // nothing happened
)

func (o Outcome) String() string { return [...]string{"unknown", "ok", "fail"}[o] }

// kind is what an operation does.
type kind byte

const (
	add kind = iota
	remove
	removeAll // a drop of a set
	read
	lookup
	mark
	check
	dropFilter
)

var kindNames = [...]string{"add", "remove", "remove all of", "read", "look up", "mark", "check", "drop"}

// forever is the end of an operation whose outcome is unknown, and of one that has not ended.
const forever = int64(math.MaxInt64)

// Op is one operation. It belongs to the goroutine of its client until the client has stopped.
type Op struct {
	kind    kind
	outcome Outcome
	client  *Client
	begin   int64 // nanoseconds since the recorder was made
	end     int64 // forever until it has ended
	name    string
	items   []string // elements or keys: of an operation on some, or those that a read has shown
	absent  []string // of a lookup or a check: those that were answered with no
	context *Op      // of a remove
	events  []event  // that the answer names
	first   *Op      // the request that this one repeats, by its id
	tries   []*Op    // of a request that was sent more than once: all of them. Check makes such an operation
	err     error
	sorted  []string // items in order, after their first use as a context
}

// event is what an answer says of the adds that keep an element in a set: equal texts name the same adds.
type event struct{ item, text string }

// Recorder is the history of one run.
type Recorder struct {
	now     func() time.Duration
	mu      sync.Mutex
	clients []*Client
	losses  []*loss
}

// loss is a time in which the effects of requests that were not acknowledged may have been lost.
type loss struct{ begin, end int64 }

// New returns an empty history. now is a monotonic clock that all clients share; nil is the machine's.
func New(now func() time.Duration) *Recorder {
	if now == nil {
		began := time.Now()
		now = func() time.Duration { return time.Since(began) }
	}
	return &Recorder{now: now}
}

// Losing begins a time in which a fault may take effects of requests that were not acknowledged, with the record that they happened: a kill,
// or a lost disk. The function that it returns ends the time.
func (r *Recorder) Losing() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &loss{int64(r.now()), forever}
	r.losses = append(r.losses, l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		l.end = int64(r.now())
	}
}

// Client adds a client. Its methods are for one goroutine.
func (r *Recorder) Client(name string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Client{recorder: r, name: name}
	r.clients = append(r.clients, c)
	return c
}

// Client records the operations of one goroutine.
type Client struct {
	recorder *Recorder
	name     string
	slabs    [][]Op // each full but the last
}

// slabOps is how many operations are allocated at once.
const slabOps = 512

func (c *Client) begin(k kind, name string, items []string) *Op {
	if n := len(c.slabs); n == 0 || len(c.slabs[n-1]) == slabOps {
		c.slabs = append(c.slabs, make([]Op, 0, slabOps))
	}
	last := &c.slabs[len(c.slabs)-1]
	*last = append(*last, Op{kind: k, client: c, begin: int64(c.recorder.now()), end: forever, name: name, items: items})
	return &(*last)[len(*last)-1]
}

// Add begins to add elements to a set. Here and in the methods below, the slice of names belongs to the recorder from now on.
func (c *Client) Add(set string, elements ...string) *Op { return c.begin(add, set, elements) }

// Remove begins to remove elements from a set, with the context that a read or a lookup of the set returned. With a nil context the
// coordinator removes what it has.
func (c *Client) Remove(set string, context *Op, elements ...string) *Op {
	op := c.begin(remove, set, elements)
	op.context = context
	return op
}

// Again begins to send an add, a remove or a drop of a filter again, with the id of its request. All tries of a request together must have one effect. The tries
// may be those of other clients, one after the other; the first one has ended.
func (c *Client) Again(request *Op) *Op {
	if request.first != nil {
		request = request.first
	}
	op := c.begin(request.kind, request.name, request.items)
	op.context, op.first = request.context, request
	return op
}

// RemoveAll begins to drop a set, or what a context of it has seen.
func (c *Client) RemoveAll(set string, context *Op) *Op {
	op := c.begin(removeAll, set, nil)
	op.context = context
	return op
}

// Read begins to read a whole set. [Op.Saw] adds what is answered. If the outcome is not OK, only what it saw counts.
func (c *Client) Read(set string) *Op { return c.begin(read, set, nil) }

// Lookup begins to ask for elements of a set; see [Op.Answered].
func (c *Client) Lookup(set string) *Op { return c.begin(lookup, set, nil) }

// Mark begins to set keys in a filter.
func (c *Client) Mark(filter string, keys ...string) *Op { return c.begin(mark, filter, keys) }

// Check begins to ask a filter for keys; see [Op.Answered].
func (c *Client) Check(filter string) *Op { return c.begin(check, filter, nil) }

// DropFilter begins to drop a filter.
func (c *Client) DropFilter(filter string) *Op { return c.begin(dropFilter, filter, nil) }

// Saw adds elements to the answer of a read.
func (o *Op) Saw(elements ...string) { o.items = append(o.items, elements...) }

// Answered adds an element to the answer of a lookup, or a key to that of a check.
func (o *Op) Answered(item string, present bool) {
	if present {
		o.items = append(o.items, item)
	} else {
		o.absent = append(o.absent, item)
	}
}

// Event says of an answer by which adds it has an element: equal texts must be the same adds. An answer to an add names the one add that it has
// become.
func (o *Op) Event(element, text string) { o.events = append(o.events, event{element, text}) }

// End ends an operation. err is for the report.
func (o *Op) End(outcome Outcome, err error) {
	o.outcome, o.err = outcome, err
	o.end = int64(o.client.recorder.now())
}

// acknowledged returns when the operation was acknowledged, or forever if it was not.
func (o *Op) acknowledged() int64 {
	if o.outcome == OK {
		return o.end
	}
	return forever
}

// over returns the time after which the operation can have no effect, or forever if that is not known.
func (o *Op) over() int64 {
	if o.outcome == Unknown {
		return forever
	}
	return o.end
}
