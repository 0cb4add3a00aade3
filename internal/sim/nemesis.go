package sim

import (
	"context"
	"slices"
	"time"

	"bigset/convergence"
)

// inLane does a step of the script, and returns when the next step of its lane may begin.
func (c *cluster) inLane(t *step) {
	if t.args["apart"] == 0 {
		c.step(t)
		return
	}
	c.apart++
	c.turns.Go(func() {
		c.step(t)
		c.apart--
	})
}

// step does a step of the script, if it can be done.
func (c *cluster) step(t *step) {
	if ms := t.args["wait"]; ms > 0 {
		c.turns.Sleep(time.Duration(ms) * time.Millisecond)
	}
	c.facts.step = t.n
	if !c.script.epochs() && slices.Contains(ofMembers, t.kind) {
		t.note = skipped
		return
	}
	switch t.kind {
	case "write":
		c.write(t)
	case "read":
		c.read(t)
	case "lookup":
		c.lookup(t)
	case "drop":
		c.drop(t)
	case "mark":
		c.mark(t)
	case "check":
		c.check(t)
	case "create-filter", "drop-filter", "clear-filter", "flush-filter":
		c.change(t)
	case "exchange":
		c.gossip(t)
	case "refuse", "loss", "mute", "delay", "late", "duplicate", "power":
		l := c.process(t).links[t.args["at"]]
		l.faults = append(l.faults, t)
	default:
		t.note = c.wrong(t, c.members[t.args["at"]])
	}
}

// process returns the process that a step names.
func (c *cluster) process(t *step) *process {
	if via := t.args["via"]; c.script.epochs() {
		return c.members[c.seat(via)].process
	} else if via >= coordinators {
		return c.members[via-coordinators].process
	}
	return c.procs[t.args["via"]]
}

// seat returns the member that a number names if each member is a coordinator.
func (c *cluster) seat(via int) int {
	return (via + len(c.members)*coordinators - coordinators) % len(c.members)
}

// coordinator returns the coordinator to which a client's step goes at the given try.
func (c *cluster) coordinator(t *step, try int) *process {
	if !c.script.epochs() {
		return c.procs[(t.args["via"]+try)%coordinators]
	}
	at := c.seat(t.args["via"] + try)
	for range c.members { // the next one that runs
		if !c.members[at].down {
			break
		}
		at = (at + 1) % len(c.members)
	}
	return c.members[at].process
}

// ofMembers are the steps that exist only in clusters whose members are those of package server/cluster.
var ofMembers = []string{"mark", "check", "create-filter", "drop-filter", "clear-filter", "flush-filter", "outage"}

// skipped is the note of a step that could not be done.
const skipped = "skipped"

// wrong does a fault that is not a fault of calls, or background work. It returns what it did.
func (c *cluster) wrong(t *step, m *member) string {
	switch t.kind {
	case "crash":
		if m.down || !c.mayCrash(m, false) {
			return skipped
		}
		c.power(m, t.args["keep"], t.args["seconds"])
	case "outage":
		if !c.outage(t.args["keep"], t.args["seconds"]) {
			return skipped
		}
	case "wipe":
		if !c.wipe(m, t.args["seconds"]) {
			return skipped
		}
	case "backup":
		if m.down || m.self == nil {
			return skipped
		}
		c.count("backup")
		m.backup[0], m.backup[1] = c.clone(m.store.host.disk, 100), c.clone(m.self.hints.disk, 100)
	case "put-back":
		if !c.putBack(m, t.args["seconds"]) {
			return skipped
		}
	case "restart":
		c.count("restart")
		c.kill(t.args["via"]%coordinators, t.args["keep"])
	case "deaf":
		m.deafness = time.Duration(t.args["seconds"]) * time.Second
	case "partition":
		p := c.process(t)
		p.cut = t.args["cut"] != 0
		for i, l := range p.links {
			l.cut = t.args["cut"]>>i&1 == 1
		}
	case "io-error", "disk-full":
		c.faultDisk(m, t)
	case "copy":
		if from := c.members[t.args["with"]]; from != m && !m.down && !m.joining && c.copy(m, from) {
			return "all has come"
		}
		return skipped
	case "skew":
		clock := c.process(t).clock
		clock.by.Add(int64(time.Duration(t.args["seconds"]) * time.Second))
		clock.unread.Store(true)
		clock.jumped = true
		clear(c.requests) // replicas may have forgotten them by now
	case "maintain":
		return c.maintain(m, t.args["work"])
	}
	return ""
}

func (c *cluster) maintain(m *member, work int) string {
	if m.fault != "" || m.down {
		return skipped
	}
	what, err := m.store.Maintain(work)
	if err != nil {
		c.facts.violated(convergence.Failed, "maintenance at %s: %v", m.node, err)
	}
	if what != "" {
		c.count(what)
	}
	if what == "rewrite" { // whether a compaction finds anything to rewrite depends on the engine's goroutines
		return "compaction"
	}
	return what
}

// kill ends a coordinator's process, and starts it again.
func (c *cluster) kill(i, percent int) {
	p := c.procs[i]
	old := p.Coordinator
	p.folder.disk = c.clone(p.folder.disk, percent)
	for _, l := range p.links { // calls that the old process still makes reach no replica
		l.from = &process{dead: true}
	}
	if err := c.start(p, i); err != nil {
		c.facts.violated(convergence.Failed, "coordinator %d does not come back: %v", i, err)
	}
	c.turns.Go(func() { _ = old.Close(context.Background()) })
}
