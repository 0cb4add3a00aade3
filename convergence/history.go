package convergence

// Event is an operation that was issued, as the oracle remembers it. One that was refused is not remembered.
type Event struct {
	Op      Op
	Replica int    // where it was done
	Step    int    // of the script
	Stamp   int64  // what that replica's clock showed
	Tag     string // of an add, if the system names it
	Failed  bool   // it was answered by an error: it may have happened or not
	batch   int    // events of one batch share it; 0 when it was done alone
}

type elemTag struct{ elem, tag string }

// history is what the kit knows of a schedule's operations.
type history struct {
	events []Event
	sure   []bitset // by event: the later ones whose authors had surely observed it
	maybe  []bitset // by event: the later ones whose authors may have observed it
	acks   []uint32 // by event: the replicas, as bits, that have ever acknowledged it

	tags    map[elemTag]int   // the last add of an element under a tag
	owner   map[string]int    // the first event under a tag, whatever its element
	elems   map[string]bitset // by element: its operations, and those of kind "clear"
	clears  bitset
	adds    bitset
	kills   bitset // all that are no adds
	batched bool
}

func newHistory() *history {
	return &history{tags: map[elemTag]int{}, owner: map[string]int{}, elems: map[string]bitset{}}
}

// observation is what the author of an operation had seen.
type observation struct {
	sure, maybe bitset
	tags        map[elemTag]bool // adds that it was shown, where the system names adds
	exact       bool             // tags is all: an add whose tag is known and not in tags was not observed
}

// record remembers an operation and returns its index.
func (h *history) record(e Event, o observation) int {
	n := len(h.events)
	h.events = append(h.events, e)
	h.sure, h.maybe, h.acks = append(h.sure, nil), append(h.maybe, nil), append(h.acks, 0)
	for i := range n {
		sure, maybe := o.sure.has(i), o.maybe.has(i)
		if old := &h.events[i]; old.Op.Kind == "add" && old.Tag != "" && o.exact {
			sure = o.tags[elemTag{old.Op.Elem, old.Tag}]
			// What the author was not shown it may know as removed already, and its context may say so.
			maybe = maybe && h.maybe[i].meets(o.maybe)
		}
		if sure {
			h.sure[i].add(n)
		}
		if sure || maybe {
			h.maybe[i].add(n)
		}
	}
	h.index(n)
	return n
}

func (h *history) index(n int) {
	e := h.events[n]
	switch e.Op.Kind {
	case "add":
		h.adds.add(n)
		if e.Tag != "" {
			h.tags[elemTag{e.Op.Elem, e.Tag}] = n
		}
	default:
		h.kills.add(n)
	}
	if e.Op.Kind == "clear" {
		h.clears.add(n)
	} else {
		set := h.elems[e.Op.Elem]
		set.add(n)
		h.elems[e.Op.Elem] = set
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

func ones(mask uint32) (n int) {
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// Reading is what a reader was shown, beside the operations that it must and may reflect.
type Reading struct {
	View  View
	h     *history
	must  bitset
	may   bitset
	loose map[string]bool // elements that may be missing, because the kit damaged them
	mixed bool            // a replica was told of deaths and adds apart
}

// Events returns every operation issued so far, in the order in which the kit issued them. The indexes are those of Must,
// May and Observed.
func (r *Reading) Events() []Event { return r.h.events }

// Must reports whether the reading has to reflect event i.
func (r *Reading) Must(i int) bool { return r.must.has(i) }

// May reports whether the reading may reflect event i. What it must reflect, it may.
func (r *Reading) May(i int) bool { return r.may.has(i) }

// Observed reports whether the author of event j had surely, or possibly, observed event i.
func (r *Reading) Observed(i, j int) (sure, maybe bool) {
	return r.h.sure[i].has(j), r.h.maybe[i].has(j)
}

// Loose reports whether an element may be missing because the kit damaged a replica's copy of it.
func (r *Reading) Loose(elem string) bool { return r.loose[elem] }

// shown returns the item of an element.
func (r *Reading) shown(elem string) (Item, bool) { return r.View.find(elem) }

func (v *View) find(elem string) (Item, bool) {
	for _, it := range v.Items {
		if it.Elem == elem {
			return it, true
		}
	}
	return Item{}, false
}

// context returns the context of the absent elements at elem.
func (v *View) context(elem string) (ctx []byte) {
	for _, r := range v.Ranges {
		if r.After != "" && r.After >= elem {
			break
		}
		ctx = r.Context
	}
	return ctx
}
