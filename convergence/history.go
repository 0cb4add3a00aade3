package convergence

import (
	"math/bits"
	"slices"
	"strings"
)

// Event is an operation that was issued, as the oracle remembers it. A refused operation is not remembered.
type Event struct {
	Op      Op
	Replica int    // where it was done
	Step    int    // of the script
	Stamp   int64  // what that replica's clock showed
	Tag     string // of an add, if the system names its adds
	Failed  bool   // it was answered by an error: it may have happened or not
	batch   int    // events of one batch share it; 0 when it was done alone
	life    int    // of the replica
	fresh   bool   // with ORMap: its replica may have forgotten the times of the operations on the element
	early   int64  // the earliest and the latest time that a correct clock can have given it, by LastWriterWins.Time
	late    int64
}

// history is what the kit knows of a schedule's operations.
type history struct {
	events []Event
	seen   []bitset // by event: those that its author had surely observed
	guess  []bitset // by event: those that its author may have observed
	heard  []bitset // by event: those that its replica surely had, whatever its client had observed
	acks   []uint32 // by event: the replicas, as bits, that have ever acknowledged it

	owner   map[string]int     // the event that has a tag
	elems   map[string]*bitset // by element: its operations
	order   []string           // the elements, in the order of their first operation
	clears  bitset
	adds    bitset
	kills   bitset // all events that are not adds
	sent    bitset // those that sent messages
	loud    bitset // those that others may have to receive, or wait for
	batched bool
}

func newHistory() *history {
	return &history{owner: map[string]int{}, elems: map[string]*bitset{}}
}

// observation is what the author of an operation had seen.
type observation struct {
	sure, maybe bitset
	view        *View
	group       bitset // earlier operations of its batch that it has seen
	replaces    int    // the replica whose adds it may have replaced, with AddWins.ReplaceOwn; -1 is none
	exact       bool   // the view names all adds: one whose tag is known and not shown was not observed
}

// record stores an operation and returns its index.
func (h *history) record(e Event, o *observation, heard *bitset) int {
	n := len(h.events)
	h.events = append(h.events, e)
	sure, guess := o.sure.clone(), o.maybe.clone()
	guess.union(&sure)
	h.related(e.Op, func(i int) bool {
		old := &h.events[i]
		if exact := o.exact && old.Op.Kind == "add" && old.Tag != ""; exact {
			if it, _ := o.view.find(old.Op.Elem); o.group.has(i) || contains(it.Tags, old.Tag) {
				sure.add(i)
				guess.add(i)
				return true
			}
			sure.remove(i)
			// What was not shown to the author may be known to it as removed already, and its context may say so.
			if !h.observedBy(i, &o.maybe) {
				guess.remove(i)
			}
			return true
		}
		// The operation need not name what its author knows as undone already.
		if sure.has(i) && h.observedBy(i, &o.maybe) {
			sure.remove(i)
		}
		return true
	})
	if o.replaces >= 0 {
		h.on(e.Op.Elem).each(func(i int) bool {
			if old := &h.events[i]; old.Op.Kind == "add" && old.Replica == o.replaces {
				guess.add(i)
			}
			return true
		})
	}
	h.seen, h.guess, h.heard, h.acks = append(h.seen, sure), append(h.guess, guess), append(h.heard, heard.clone()), append(h.acks, 0)
	h.index(n)
	return n
}

// tagged returns the add of an element that has a tag.
func (h *history) tagged(elem, tag string) (i int, ok bool) {
	i, ok = h.owner[tag]
	return i, ok && h.events[i].Op.Elem == elem && h.adds.has(i)
}

// related visits the operations that can be affected by an operation: those on its element, or all if it is a "clear".
func (h *history) related(op Op, do func(i int) bool) {
	if op.Kind != "clear" {
		h.on(op.Elem).each(do)
		return
	}
	for i := range h.events {
		if !do(i) {
			return
		}
	}
}

// observedBy reports whether an event of the set may have observed event i and can have undone it. Any event can, except that only
// an add undoes a remove.
func (h *history) observedBy(i int, set *bitset) bool {
	test := func(j int) bool { return h.guess[j].has(i) && (h.events[i].Op.Kind != "remove" || h.adds.has(j)) }
	return amongFrom(first(i), h.on(h.events[i].Op.Elem), set, test) || amongFrom(first(i), &h.clears, set, test)
}

// first returns the first event that may have observed event i: of two clients at once, it is the one before it.
func first(i int) int { return max(0, i-1) }

var noEvents bitset

// on returns the operations on an element.
func (h *history) on(elem string) *bitset {
	if set := h.elems[elem]; set != nil {
		return set
	}
	return &noEvents
}

func (h *history) index(n int) {
	e := &h.events[n]
	h.loud.add(n)
	switch e.Op.Kind {
	case "add":
		h.adds.add(n)
	default:
		h.kills.add(n)
	}
	if e.Op.Kind == "clear" {
		h.clears.add(n)
	} else {
		set := h.elems[e.Op.Elem]
		if set == nil {
			set = &bitset{}
			h.elems[e.Op.Elem] = set
			h.order = append(h.order, e.Op.Elem)
		}
		set.add(n)
	}
	if e.batch != 0 {
		h.batched = true
	}
}

// ackedBy returns the events that at least n replicas have acknowledged.
func (h *history) ackedBy(n int) (set bitset) {
	for i, mask := range h.acks {
		if ones(mask) >= n {
			set.add(i)
		}
	}
	return set
}

func ones(mask uint32) int { return bits.OnesCount32(mask) }

// Reading is what was shown to a reader, and the operations that it must and may reflect.
type Reading struct {
	View  View
	h     *history
	must  bitset
	may   bitset
	loose map[string]bool // elements that may be missing, because the kit damaged them
	mixed bool            // deaths and adds may have reached the replica separately
}

// Events returns every operation issued so far, in the order in which the kit issued them. The indexes are those of Must,
// May and Observed.
func (r *Reading) Events() []Event { return r.h.events }

// Must reports whether the reading has to reflect event i.
func (r *Reading) Must(i int) bool { return r.must.has(i) }

// May reports whether the reading may reflect event i. It may reflect every event that it must reflect.
func (r *Reading) May(i int) bool { return r.may.has(i) }

// Observed reports whether the author of event j had surely, or possibly, observed event i.
func (r *Reading) Observed(i, j int) (sure, maybe bool) {
	return r.h.seen[j].has(i), r.h.guess[j].has(i)
}

// Loose reports whether an element may be missing because the kit damaged a replica's copy of it.
func (r *Reading) Loose(elem string) bool { return r.loose[elem] }

// shown returns the item of an element.
func (r *Reading) shown(elem string) (Item, bool) { return r.View.find(elem) }

// find returns the item of an element. The view is in order.
func (v *View) find(elem string) (Item, bool) {
	i, ok := slices.BinarySearchFunc(v.Items, elem, func(it Item, elem string) int { return strings.Compare(it.Elem, elem) })
	if !ok {
		return Item{}, false
	}
	return v.Items[i], true
}

// context returns the context that covers the absent elements at elem.
func (v *View) context(elem string) (ctx []byte) {
	for _, r := range v.Ranges {
		if r.After != "" && r.After >= elem {
			break
		}
		ctx = r.Context
	}
	return ctx
}
