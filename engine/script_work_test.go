package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
)

// The commands of scripts for what a store does by itself, and for bloom filters.

func (p *scriptStore) publishCmd(*scriptLine) string {
	p.eventsCmd(nil)
	if err := p.PublisherRound(); err != nil {
		return p.failedBy(err)
	}
	return p.eventsCmd(nil)
}

func orNothing(text string) string {
	if text == "" {
		return "nothing\n"
	}
	return text
}

func (p *scriptStore) flushCmd(*scriptLine) string {
	if err := p.Flush(bg); err != nil {
		return p.failedBy(err)
	}
	return "flushed\n"
}

func (p *scriptStore) settleCmd(l *scriptLine) string {
	return p.during(l, func() string {
		if err := p.CompactTables(bg); err != nil {
			return p.failedBy(err)
		}
		return "settled\n"
	})
}

func (p *scriptStore) rewriteCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	return p.during(l, func() string {
		out := ""
		for from, first := []byte(nil), true; first || from != nil; first = false {
			pass, err := p.RewriteSpan(bg, set, from, 1)
			if err != nil {
				return out + p.failedBy(err)
			}
			out += passText(pass)
			from = pass.Next
		}
		return out
	})
}

func (p *scriptStore) sweepCmd(l *scriptLine) string {
	return p.during(l, func() string {
		out := ""
		for from, first := []byte(nil), true; first || from != nil; first = false {
			pass, own, err := p.RewriteSets(bg, from, 1)
			if err != nil {
				return out + p.failedBy(err)
			}
			out += passText(pass)
			if own != nil {
				out += fmt.Sprintf("set %s is not for a sweep\n", own)
			}
			from = pass.Next
		}
		return out
	})
}

func passText(p engine.Pass) string {
	switch {
	case p.Left:
		return fmt.Sprintf("%d keys read, left as they are: too much was written since\n", p.Keys)
	case p.Swapped:
		return fmt.Sprintf("%d keys read, %d left out, swapped\n", p.Keys, p.Dropped)
	}
	return fmt.Sprintf("%d keys read, nothing to gain\n", p.Keys)
}

func (p *scriptStore) compactCmd(l *scriptLine) string {
	set := []byte(l.word())
	if len(set) == 0 {
		set = nil
	}
	return p.during(l, func() string {
		r, err := p.Compact(bg, engine.CompactOptions{Set: set})
		if err != nil {
			return p.failedBy(err)
		}
		return fmt.Sprintf("%d keys read, %d left out, %d closed, %d swaps, %d left\n", r.KeysRead, r.KeysDropped, r.KeysResolved, r.Spans, r.SpansLeft)
	})
}

func (p *scriptStore) writtenCmd(l *scriptLine) string {
	set := []byte(l.need("a set"))
	ago := oneOf(l, "when", map[string]time.Duration{"long-ago": time.Hour, "now": -time.Hour})
	must(l.t, p.LastWritten(set, ago), "last written")
	p.RunnerForgets()
	return "ok\n"
}

func (p *scriptStore) tickCmd(l *scriptLine) string {
	p.eventsCmd(nil)
	return p.during(l, func() string {
		if err := p.RunnerTick(bg); err != nil {
			return p.failedBy(err)
		}
		return p.eventsCmd(nil)
	})
}

func (p *scriptStore) statsCmd(l *scriptLine) string {
	st, err := p.Stats()
	if err != nil {
		return p.failedBy(err)
	}
	text, err := json.Marshal(st)
	must(l.t, err, "stats")
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	must(l.t, d.Decode(&all), "stats")
	out := ""
	for name := l.word(); name != ""; name = l.word() {
		if all[name] == nil {
			l.fatal("no figure %s", name)
		}
		out += fmt.Sprintf("%s %v\n", name, all[name])
	}
	return out
}

func (p *scriptStore) verifyCmd(*scriptLine) string {
	r, err := p.Verify(bg, engine.VerifyOptions{})
	if err != nil {
		return p.failedBy(err)
	}
	out := fmt.Sprintf("%d sets, %d elements, keys: %d live, %d dead, %d open\n", r.Sets, r.Elements, r.LiveKeys, r.DeadKeys, r.UnresolvedKeys)
	for _, problem := range r.Problems {
		out += p.sc.plain(fmt.Sprintf("set %s: %s\n", problem.Set, problem.What))
	}
	return out
}

func (p *scriptStore) failedCmd(*scriptLine) string {
	if err := p.Failed(); err != nil {
		return p.failedBy(err)
	}
	return "no\n"
}

func (p *scriptStore) filterCmd(l *scriptLine) string {
	o := testkit.SmallFilter()
	o.Durability = oneOf(l, "durability", map[string]bigset.FilterDurability{
		"interval": bigset.FilterInterval, "log": bigset.FilterLog, "sync": bigset.FilterSync})
	o.InMemory = oneOf(l, "memory", map[string]bool{"only": true})
	f, err := p.Filters().Create(bg, []byte(l.need("a name")), o)
	if err != nil {
		return p.failedBy(err)
	}
	info, err := f.Info()
	must(l.t, err, "info")
	p.sc.filters[info.Generation] = fmt.Sprintf("%s#%d", info.Name, len(p.sc.filters)+1)
	return "made " + p.sc.filters[info.Generation] + "\n"
}

func (p *scriptStore) markCmd(l *scriptLine) string { return p.keys(l, true) }

func (p *scriptStore) checkCmd(l *scriptLine) string { return p.keys(l, false) }

// keys marks or checks keys, and prints a line for those with either answer.
func (p *scriptStore) keys(l *scriptLine, mark bool) string {
	f, err := p.Filters().Get([]byte(l.need("a filter")))
	if err != nil {
		return p.failedBy(err)
	}
	keys := l.words()
	is := make([]bool, len(keys))
	yes, no := "here: ", "not here: "
	if mark {
		yes, no = "new: ", "here before: "
		for _, k := range keys {
			p.sc.marked[bloomslice.Sum(k)] = string(k)
		}
		err = f.MarkAll(bg, keys, is)
	} else {
		err = f.CheckAll(keys, is)
	}
	if err != nil {
		return p.failedBy(err)
	}
	out := ""
	for _, answer := range []struct {
		text string
		is   bool
	}{{yes, true}, {no, false}} {
		var which [][]byte
		for i, k := range keys {
			if is[i] == answer.is {
				which = append(which, k)
			}
		}
		if len(which) > 0 {
			out += answer.text + string(bytes.Join(which, []byte(" "))) + "\n"
		}
	}
	return out
}

func (p *scriptStore) flushFiltersCmd(*scriptLine) string {
	if err := p.Filters().Flush(bg); err != nil {
		return p.failedBy(err)
	}
	return "stored\n"
}

func (p *scriptStore) dropFilterCmd(l *scriptLine) string {
	if err := p.Filters().Drop(bg, []byte(l.need("a filter"))); err != nil {
		return p.failedBy(err)
	}
	return "dropped\n"
}

func (p *scriptStore) exciseFiltersCmd(l *scriptLine) string {
	if l.value("stop", "") != "" {
		p.StopExcising()
		return "they stay until the next open\n"
	}
	p.FiltersExcised()
	return "excised\n"
}

// marksCmd prints what each segment of the log of marks holds.
func (p *scriptStore) marksCmd(*scriptLine) string {
	type place struct {
		segment int
		filter  string
	}
	var order []place
	keys := map[place][]string{}
	n, err := p.MarksInLog(func(segment int, generation uint64, hash bloomslice.Hash) {
		at := place{segment, p.sc.filters[generation]}
		if keys[at] == nil {
			order = append(order, at)
		}
		keys[at] = append(keys[at], p.sc.marked[hash])
	})
	if err != nil {
		return p.failedBy(err)
	}
	out := fmt.Sprintf("%d segments\n", n)
	for _, at := range order {
		out += fmt.Sprintf("segment %d, %s: %s\n", at.segment+1, at.filter, strings.Join(keys[at], " "))
	}
	return out
}
