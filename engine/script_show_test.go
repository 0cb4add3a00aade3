package engine_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
)

// What scripts print: dots, clocks, keys and events, the same in every run.

// know gives the store's actor a name, if it is new: that of the store, with one ' for each actor that it had before.
func (p *scriptStore) know() {
	a := p.Replica().Actor()
	if p.sc.actors[a] != "" {
		return
	}
	name := p.name + strings.Repeat("'", p.actorsHad)
	p.actorsHad++
	p.sc.actors[a], p.sc.byName[name] = name, a
}

// actor returns the name of an actor.
func (sc *script) actor(a clock.Actor) string {
	if name := sc.actors[a]; name != "" {
		return name
	}
	return fmt.Sprintf("unknown-%x-", string(a))
}

// dot inverts dotText.
func (sc *script) dot(l *scriptLine, text string) clock.Dot {
	name := strings.TrimRight(text, "0123456789")
	a, known := sc.byName[name]
	n, err := strconv.ParseUint(text[len(name):], 10, 64)
	if !known || err != nil {
		l.fatal("%q is no dot, and nothing was kept under that name", text)
	}
	return clock.Dot{Actor: a, Counter: n}
}

func (sc *script) dotText(d clock.Dot) string {
	return fmt.Sprintf("%s%d", sc.actor(d.Actor), d.Counter)
}

// clockText is a clock by the names of its actors; nil is the empty one.
func (sc *script) clockText(c *clock.Clock) string {
	if c == nil {
		c = &clock.Clock{}
	}
	byActor := map[string][]string{}
	for r := range c.Runs() {
		name := sc.actor(r.Actor)
		byActor[name] = append(byActor[name], runText(name, r.First, r.Last))
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(byActor)) {
		all = append(all, byActor[name]...)
	}
	return "{" + strings.Join(all, " ") + "}"
}

func runText(name string, first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s%d", name, first)
	}
	return fmt.Sprintf("%s%d-%d", name, first, last)
}

func (sc *script) elementsText(all []fold.Element) string {
	var words []string
	for _, e := range all {
		words = append(words, string(e.Name)+sc.clockText(clock.Of(e.Dots...)))
	}
	return "[" + strings.Join(words, " ") + "]"
}

func (sc *script) chunkText(c *fold.Chunk) string {
	more := ""
	if !c.Done {
		more = ", more to come"
	}
	return fmt.Sprintf("%s of %s%s\n", sc.elementsText(c.Elements), sc.clockText(c.Clock), more)
}

// plain replaces what is random in a text: actors, as they and as dots print.
func (sc *script) plain(text string) string {
	for a, name := range sc.actors {
		text = strings.NewReplacer(fmt.Sprintf("%q", string(a)), name, clock.Dot{Actor: a}.String(), name, fmt.Sprintf("%x", string(a)), name).Replace(text)
	}
	text = fileNumbers.ReplaceAllString(text, "N.$1")
	return logBytes.ReplaceAllString(text, "${1}N$2")
}

var (
	fileNumbers = regexp.MustCompile(`[0-9]{6}\.(log|sst)`)
	logBytes    = regexp.MustCompile(`(byte )[0-9]+|[0-9]+( bytes are needed)`)
)

// linesMax is how many operations of a delta are printed one by one.
const linesMax = 4

// deltaText is what a batch did.
func (sc *script) deltaText(d bigset.Delta) string {
	if d.Empty() {
		return "no event\n"
	}
	if d.Clear != nil && len(d.Items) == 0 {
		return fmt.Sprintf("dropped what is in %s\n", sc.clockText(d.Clear))
	}
	if len(d.Items) > linesMax {
		dead := &clock.Clock{}
		for _, it := range d.Items {
			dead.Union(clock.Of(it.Context...))
		}
		return fmt.Sprintf("%s: %s %d elements%s\n", runText(sc.actor(d.Actor), d.First, d.First+uint64(len(d.Items))-1),
			verbs[d.Items[0].Kind], len(d.Items), sc.deathsText(dead))
	}
	var out strings.Builder
	for i, it := range d.Items {
		text := sc.deathsText(clock.Of(it.Context...))
		if it.Wide != nil {
			text = ", of what is in " + sc.clockText(it.Wide)
		}
		fmt.Fprintf(&out, "%s: %s %s%s\n", sc.dotText(clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}), verbs[it.Kind], it.Element, text)
	}
	return out.String()
}

var verbs = map[keyscheme.Op]string{keyscheme.OpAdd: "adds", keyscheme.OpRemove: "removes"}

func (sc *script) deathsText(dead *clock.Clock) string {
	if dead.Empty() {
		return ""
	}
	return ", dead: " + sc.clockText(dead)
}

// grownText is what a store has learnt.
func (sc *script) grownText(before, after bigset.State) string {
	seen, dead := after.Seen.Clone(), after.Dead.Clone()
	seen.Subtract(before.Seen)
	dead.Subtract(before.Dead)
	if seen.Empty() && dead.Empty() && before.Unresolved == after.Unresolved {
		return "nothing new\n"
	}
	return fmt.Sprintf("new: %s%s\n", sc.clockText(seen), sc.deathsText(dead))
}

// event records the events of a store, except for what Pebble does by itself.
func (p *scriptStore) event(e engine.Event) {
	text := ""
	switch e.Kind {
	case engine.EventPublish:
		text = fmt.Sprintf("the drop filter has %d more dead dots of %s", e.Dots, e.Set)
	case engine.EventRewrite:
		text = fmt.Sprintf("rewrite of %s: %d keys read, %d left out, %d closed", orSmall(e.Set), e.Keys, e.Dropped, e.Resolved)
	case engine.EventRewriteLeft:
		text = fmt.Sprintf("rewrite of %s was given up", orSmall(e.Set))
	case engine.EventExcise:
		text = fmt.Sprintf("elements of %s excised", e.Set)
	case engine.EventIncarnation:
		text = "a new actor"
	case engine.EventFailed:
		text = "the store has failed: " + e.Err.Error()
	case engine.EventDiskSpace, engine.EventCorruption:
		text = fmt.Sprintf("%s: %v", e.Kind, e.Err)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, text+"\n")
}

func orSmall(set []byte) string {
	if set == nil {
		return "small sets"
	}
	return string(set)
}

func (p *scriptStore) eventsCmd(*scriptLine) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.events, "")
	p.events = nil
	return orNothing(p.sc.plain(text))
}

// dumpCmd prints what a store has in memory of a set.
func (p *scriptStore) dumpCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	seen, dead, err := p.SeenAndDead(set)
	if err != nil {
		return p.failedBy(err)
	}
	unresolved, err := p.UnresolvedCount(set)
	must(l.t, err, "unresolved keys")
	flags, err := p.ClockFlags(set)
	must(l.t, err, "flags")
	siblings := ""
	if flags&keyscheme.FlagSiblings != 0 {
		siblings = ", may have siblings"
	}
	return fmt.Sprintf("seen %s\ndead %s\nlive %d, unresolved %d%s\nthe drop filter has %s\n", p.sc.clockText(seen), p.sc.clockText(dead),
		seen.Len()-dead.Len(), unresolved, siblings, p.sc.clockText(p.Published(set, dead)))
}

// scriptKey is a key as ls prints it.
type scriptKey struct {
	set    string // "" for a key of no set
	sort   []byte // up to the dot
	actor  string
	count  uint64 // of the dot
	text   string
	places []string
	state  string
}

// compare is the order of keys. Those of one element are in the order of the names of their actors, which are random.
func (k *scriptKey) compare(o *scriptKey) int {
	return cmp.Or(comparator.Compare(k.sort, o.sort), cmp.Compare(k.actor, o.actor), cmp.Compare(k.count, o.count))
}

// lsCmd prints the keys that an iterator shows and those in tables, in order.
func (p *scriptStore) lsCmd(l *scriptLine) string {
	only, own := l.word(), l.value("own", "") != ""
	keys := map[string]*scriptKey{}
	err := p.EachRecord(func(k *keyscheme.Key, key, value []byte) { keys[string(key)] = p.scriptKey(k, key, value) })
	if err != nil {
		return p.failedBy(err)
	}
	records, err := p.TableRecords()
	if err != nil {
		return p.failedBy(err)
	}
	for _, r := range records {
		k, err := keyscheme.Decode(r.Key)
		must(l.t, err, "key")
		if keys[string(r.Key)] == nil && k.Kind != keyscheme.KindElement {
			continue // it was deleted, or written over by something that was
		}
		if keys[string(r.Key)] == nil {
			keys[string(r.Key)] = p.scriptKey(&k, r.Key, nil)
			keys[string(r.Key)].state += " hidden"
		}
		if k.Kind == keyscheme.KindElement {
			keys[string(r.Key)].places = append(keys[string(r.Key)].places, placeText(r))
		}
	}
	var lines []string
	for _, k := range slices.SortedFunc(maps.Values(keys), (*scriptKey).compare) {
		if k.set == "" && !own || k.set != "" && only != "" && k.set != only {
			continue
		}
		if k.actor != "" && len(k.places) == 0 {
			k.places = []string{"memory"}
		}
		line := strings.TrimRight(fmt.Sprintf("%-24s %-12s %s", k.text, k.state, strings.Join(k.places, ", ")), " ")
		if n := len(lines); n == 0 || lines[n-1] != line { // the pages of a filter are all the same
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "nothing\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

func placeText(r engine.TableRecord) string {
	return fmt.Sprintf("L%d %s", r.Level, kindText(r.Kind))
}

// scriptKey describes a key. Without its value it is one that the drop filter hides.
func (p *scriptStore) scriptKey(k *keyscheme.Key, key, value []byte) *scriptKey {
	at := &scriptKey{set: string(k.Set), sort: bytes.Clone(key[:comparator.Split(key)])}
	switch k.Kind {
	case keyscheme.KindElement:
		at.text = fmt.Sprintf("%s e %s %s %s", k.Set, k.Element, p.sc.dotText(k.Dot()), verbs[k.Op][:len(verbs[k.Op])-1])
		at.state, at.actor, at.count = "live", p.sc.actor(clock.Actor(k.Actor)), k.Counter
		if _, dead, err := p.SeenAndDead(k.Set); err != nil {
			at.state = err.Error()
		} else if dead.Contains(k.Dot()) {
			at.state = "dead"
		}
		if wide, err := keyscheme.DecodeElementValue(value); value != nil && err == nil && wide != nil {
			at.state += " unresolved " + p.sc.clockText(wide)
		}
	case keyscheme.KindClock:
		v, err := keyscheme.DecodeClockValue(value)
		at.text = fmt.Sprintf("%s c %s", k.Set, p.sc.clockText(v.Seen)) + errText(err)
	case keyscheme.KindTombstone:
		c, err := keyscheme.DecodeTombstoneValue(value)
		at.text = fmt.Sprintf("%s d %s", k.Set, p.sc.clockText(c)) + errText(err)
	case keyscheme.KindClockPage, keyscheme.KindTombstonePage:
		c, err := keyscheme.DecodePageValue(value)
		at.text = fmt.Sprintf("%s %s %d %s", k.Set, k.Kind, k.Page, p.sc.clockText(c)) + errText(err)
	case keyscheme.KindSlotMeta:
		at.text = "slot: other metadata"
		if k.IsRequest() {
			r, err := keyscheme.DecodeRequestValue(value)
			if err != nil {
				at.text = err.Error()
				break
			}
			at.text = fmt.Sprintf("slot: a request, %s", runText(p.sc.actor(r.Actor), r.First, r.First+uint64(len(r.Items))-1))
		}
	case keyscheme.KindSlotBloom:
		f, _ := keyscheme.DecodeFilterKey(k.Rest)
		at.text = fmt.Sprintf("filter %s %s", p.filterText(f.Generation), map[keyscheme.FilterPart]string{
			keyscheme.FilterHead: "head", keyscheme.FilterLayer: "layer", keyscheme.FilterPage: "pages"}[f.Part])
	case keyscheme.KindDirectory:
		e, _ := keyscheme.DecodeDirectoryKey(k.Rest)
		at.text = fmt.Sprintf("directory: filter %s is %s", p.filterText(e.Generation), map[keyscheme.EntryKind]string{
			keyscheme.EntryPresent: "present", keyscheme.EntryLeft: "to be excised"}[e.Kind])
	case keyscheme.KindStoreMeta:
		at.text = "store: " + storeKeys[string(k.Rest)]
	}
	return at
}

// storeKeys are the store's own keys.
var storeKeys = map[string]string{"i": "identity", "m": "mark of an open store", "ks": "keys of tokens", "r": "requests were kept",
	"fg": "the last generation of a filter", "n": "identity of the disk", "q": "promises", "s": "salts"}

func (p *scriptStore) filterText(generation uint64) string { return p.sc.filters[generation] }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return " " + err.Error()
}

// tablesCmd counts the records of each level by kind.
func (p *scriptStore) tablesCmd(*scriptLine) string {
	records, err := p.TableRecords()
	if err != nil {
		return p.failedBy(err)
	}
	type row struct {
		level int
		what  string
	}
	counts := map[row]int{}
	for _, r := range records {
		k, err := keyscheme.Decode(r.Key)
		if err != nil {
			return p.failedBy(err)
		}
		if k.Kind == keyscheme.KindStoreMeta {
			continue
		}
		counts[row{r.Level, fmt.Sprintf("%s %s", k.Kind, kindText(r.Kind))}]++
	}
	var lines []string
	for r, n := range counts {
		lines = append(lines, fmt.Sprintf("L%d %s: %d\n", r.level, r.what, n))
	}
	slices.Sort(lines)
	return orNothing(strings.Join(lines, ""))
}

func kindText(k pebble.InternalKeyKind) string { return strings.ToLower(k.String()) }
