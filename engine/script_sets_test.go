package engine_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
)

// The commands of scripts that write and read sets, and those of replicas.

func (p *scriptStore) readerCmd(l *scriptLine) string {
	name, set := l.need("a name"), l.need("a set")
	next, stop := iter.Pull2(p.ReadLong(bg, []byte(set), bigset.ReadOptions{BatchSize: l.number("batch", 0)}))
	r := &scriptReader{stop: stop, next: func() (*fold.Chunk, error, bool) {
		c, err, ok := next()
		return c, err, ok
	}}
	p.readers[name] = r
	return p.chunk(r)
}

func (p *scriptStore) nextCmd(l *scriptLine) string { return p.chunk(p.reader(l)) }

func (p *scriptStore) stopCmd(l *scriptLine) string {
	r := p.reader(l)
	r.stop()
	return "ok\n"
}

func (p *scriptStore) reader(l *scriptLine) *scriptReader {
	r := p.readers[l.need("a reader")]
	if r == nil {
		l.fatal("no such reader")
	}
	return r
}

func (p *scriptStore) chunk(r *scriptReader) string {
	c, err, ok := r.next()
	switch {
	case !ok:
		return "the end\n"
	case err != nil:
		return p.failedBy(err)
	}
	return p.sc.chunkText(c)
}

func (p *scriptStore) addCmd(l *scriptLine) string { return p.write(l, keyscheme.OpAdd) }

func (p *scriptStore) removeCmd(l *scriptLine) string { return p.write(l, keyscheme.OpRemove) }

func (p *scriptStore) write(l *scriptLine, kind keyscheme.Op) string {
	set := []byte(l.need("a set"))
	ctx := p.seen(l)
	o := bigset.WriteOptions{Durability: oneOf(l, "durability", scriptDurabilities), Request: []byte(l.value("request", "")),
		Policy: oneOf(l, "policy", map[string]bigset.Policy{"empty": bigset.PolicyEmpty, "required": bigset.PolicyRequired})}
	as := l.value("as", "")
	var ops []bigset.Op
	for _, e := range l.words() {
		ops = append(ops, bigset.Op{Kind: kind, Element: e, Context: ctx})
	}
	return p.during(l, func() string {
		res, err := p.Write(bg, set, ops, o)
		if err != nil {
			return p.failedBy(err)
		}
		if as != "" {
			p.sc.deltas[as] = res.Delta
		}
		return p.sc.deltaText(res.Delta)
	})
}

// seen returns the context that a line names.
func (p *scriptStore) seen(l *scriptLine) bigset.Context {
	values, given := l.values("seen")
	if !given {
		return bigset.Context{}
	}
	c := bigset.Saw()
	for _, v := range values {
		if kept, ok := p.sc.seen[v]; ok && kept.Wide != nil {
			return kept
		} else if ok {
			c.Dots = append(c.Dots, kept.Dots...)
		} else if v != "" {
			c.Dots = append(c.Dots, p.sc.dot(l, v))
		}
	}
	return c
}

func (p *scriptStore) dropCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	ctx := p.seen(l)
	if ctx.Given && ctx.Wide == nil {
		ctx.Wide = clock.Of(ctx.Dots...)
	}
	as := l.value("as", "")
	durability := oneOf(l, "durability", scriptDurabilities)
	return p.during(l, func() string {
		d, err := p.Drop(bg, set, bigset.DropOptions{Seen: ctx.Wide, Durability: durability})
		if err != nil {
			return p.failedBy(err)
		}
		if as != "" {
			p.sc.deltas[as] = d
		}
		return p.sc.deltaText(d)
	})
}

func (p *scriptStore) dropRangeCmd(l *scriptLine) string {
	first, last := keyscheme.Slot(0), keyscheme.SlotMax
	if set := l.word(); set != "" {
		first = keyscheme.SetSlot([]byte(set))
		last = first
	}
	if err := p.Replica().DropRange(bg, first, last); err != nil {
		return p.failedBy(err)
	}
	p.know()
	return "dropped\n"
}

func (p *scriptStore) applyCmd(l *scriptLine) string {
	d, ok := p.sc.deltas[l.need("a delta")]
	if !ok {
		l.fatal("no such delta")
	}
	before := p.state(d.Set)
	if err := p.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: oneOf(l, "durability", scriptDurabilities)}); err != nil {
		return p.failedBy(err)
	}
	return p.sc.grownText(before, p.state(d.Set))
}

// state is what a store knows of a set; of one that it has never heard of it knows nothing.
func (p *scriptStore) state(set []byte) bigset.State {
	s, err := p.Replica().State(bg, set)
	if err != nil {
		return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}
	}
	return bigset.State{Seen: s.Seen.Clone(), Dead: s.Dead.Clone(), Unresolved: s.Unresolved}
}

func (p *scriptStore) learnCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	from := p.sc.stores[l.value("from", "")]
	if from == nil {
		l.fatal("from whom")
	}
	var out strings.Builder
	for f, err := range from.Replica().Locate(bg, set, lacking(p.state(set), from.state(set))) {
		if err != nil {
			return p.failedBy(err)
		}
		fmt.Fprintf(&out, "keys %s dead %s\n", p.sc.elementsText(f.Keys), p.sc.clockText(f.Dead))
		res, err := p.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.Sync})
		if err != nil {
			return out.String() + p.failedBy(err)
		}
		fmt.Fprintf(&out, "%d keys and %d deaths are new\n", res.Keys, res.Dead)
	}
	if out.Len() == 0 {
		return "nothing is lacking\n"
	}
	return out.String()
}

func (p *scriptStore) copyCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	from := p.sc.stores[l.value("from", "")]
	if from == nil {
		l.fatal("from whom")
	}
	return p.during(l, func() string {
		out := ""
		for after, done := []byte(nil), false; !done; {
			portion, err := from.Replica().ExportPortion(bg, set, after, 1<<20)
			if err != nil {
				return out + p.failedBy(err)
			}
			res, err := p.Replica().IngestPortion(bg, portion, nil)
			if err != nil {
				return out + p.failedBy(err)
			}
			out += fmt.Sprintf("%d keys and %d deaths are new\n", res.Keys, res.Dead)
			after, done = portion.Bound, portion.Done
		}
		return out
	})
}

// loseCmd deletes keys in the way that leaves what is below in place. The element must be in set records: a delete may not meet others.
func (p *scriptStore) loseCmd(l *scriptLine) string {
	set, element := l.need("a set"), l.need("an element")
	keys, err := p.StoredKeys([]byte(set))
	must(l.t, err, "keys")
	out := ""
	for dot, name := range keys {
		if name == element {
			must(l.t, p.DB().Delete(keyscheme.NewPrefix([]byte(set)).AppendElement(nil, []byte(name), dot, keyscheme.OpAdd), nil), "delete")
			out += "lost " + p.sc.dotText(dot) + "\n"
		}
	}
	return orNothing(out)
}

func (p *scriptStore) healCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	from := p.sc.stores[l.value("from", "")]
	if from == nil {
		l.fatal("from whom")
	}
	return p.during(l, func() string {
		lost, err := p.Replica().Lost(bg, set)
		if err != nil {
			return p.failedBy(err)
		}
		out := "lost: " + p.sc.clockText(lost) + "\n"
		for f, err := range from.Replica().Locate(bg, set, lost) {
			if err != nil {
				return out + p.failedBy(err)
			}
			r, err := p.Replica().Heal(bg, f, nil)
			if err != nil {
				return out + p.failedBy(err)
			}
			out += fmt.Sprintf("%d put back, %d were there, %d are dead, %d are still lost\n", r.Healed, r.Present, r.Dead, r.Left)
		}
		return out
	})
}

func (p *scriptStore) containsCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	as := l.value("as", "")
	var out strings.Builder
	for _, e := range l.words() {
		found, err := p.Look(bg, set, e)
		if err != nil {
			return p.failedBy(err)
		}
		if as != "" {
			p.sc.seen[as] = found.Context
		}
		text := "absent"
		if found.Present {
			text = "present by " + p.sc.clockText(clock.Of(found.Context.Dots...))
		}
		fmt.Fprintf(&out, "%s: %s\n", e, text)
	}
	return out.String()
}

func (p *scriptStore) readCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	o := bigset.ReadOptions{BatchSize: l.number("batch", 0), Limit: l.number("limit", 0), Prefix: []byte(l.value("prefix", "")),
		Reverse: oneOf(l, "order", map[string]bool{"reverse": true})}
	as := l.value("as", "")
	var out strings.Builder
	for c, err := range p.Read(bg, set, o) {
		if err != nil {
			return out.String() + p.failedBy(err)
		}
		if as != "" {
			p.sc.seen[as] = bigset.SawAll(c.Clock.Clone())
		}
		out.WriteString(p.sc.chunkText(c))
	}
	return out.String()
}

func (p *scriptStore) countCmd(l *scriptLine) string {
	c, err := p.Count(bg, []byte(l.need("a set")), engine.CountOptions{})
	if err != nil {
		return p.failedBy(err)
	}
	how := "known without a look"
	if c.Scanned > 0 {
		how = fmt.Sprintf("by %d keys", c.Scanned)
	}
	return fmt.Sprintf("%d, %s\n", c.Elements, how)
}

func (p *scriptStore) contextCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	c, err := p.Seen(bg, set)
	if err != nil {
		return p.failedBy(err)
	}
	if as := l.value("as", ""); as != "" {
		p.sc.seen[as] = bigset.SawAll(c)
	}
	return p.sc.clockText(c) + "\n"
}

func (p *scriptStore) setsCmd(l *scriptLine) string {
	var names []string
	for i, err := range p.Sets(bg, bigset.SetsOptions{Empty: oneOf(l, "all", map[string]bool{"yes": true})}) {
		if err != nil {
			return p.failedBy(err)
		}
		names = append(names, fmt.Sprintf("%s, %d live", i.Name, i.Live))
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "none\n"
	}
	return strings.Join(names, "\n") + "\n"
}

func (p *scriptStore) knowsCmd(l *scriptLine) string {
	known, err := p.Replica().KnowsRequest(bg, []byte(l.need("a set")), []byte(l.need("an id")))
	if err != nil {
		return p.failedBy(err)
	}
	return fmt.Sprintln(known)
}
