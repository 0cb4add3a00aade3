package textbook

import (
	"fmt"
	"slices"

	"bigset/convergence"
)

// Correct returns sets that do what they declare.
func Correct() (list []convergence.System) {
	set := func(name string, o setOptions, sys convergence.System) {
		list = append(list, sets(name, o, sys))
	}
	set("or-set", setOptions{}, convergence.System{})
	set("or-set-contexts", setOptions{contexts: true}, convergence.System{})
	set("or-set-split", setOptions{split: true}, convergence.System{})
	set("or-set-causal", setOptions{causal: true}, convergence.System{Buffers: true})
	set("or-set-causal-net", setOptions{relies: true}, convergence.System{CausalNet: true})
	set("or-set-members", setOptions{members: true}, convergence.System{Share: newMembers})
	set("or-set-gaps-dropped", setOptions{gapless: true, repair: true}, convergence.System{BestEffort: true})
	set("or-set-gossip", setOptions{gapless: true, gossip: true, repair: true}, convergence.System{BestEffort: true})
	list = append(list, batched("or-set-batches", setOptions{contexts: true}), onLog("or-set-log", setOptions{}), onLog("or-set-log-gossip", logGossip), onLog("or-set-log-restored", logRestored))
	add := convergence.AddWins{Replace: true}
	for _, o := range []stateOptions{{}, {untagged: true}, {gossip: true}, {repair: true}} {
		list = append(list, stateSets(o, add))
	}
	for _, o := range []stateOptions{{own: true}, {own: true, gossip: true}, {own: true, untagged: true}} {
		list = append(list, stateSets(o, convergence.AddWins{ReplaceOwn: true}))
	}
	for _, s := range []lww{
		{}, {spec: convergence.LastWriterWins{Tie: convergence.TieAdd}}, {spec: convergence.LastWriterWins{Tie: convergence.TieRemove}},
		{spec: convergence.LastWriterWins{Tie: convergence.TieAny}},
		{spec: convergence.LastWriterWins{Time: convergence.TimeMonotonic}}, {strict: true, spec: convergence.LastWriterWins{Time: convergence.TimeMonotonic, Tie: convergence.TieAdd}},
		{spec: convergence.LastWriterWins{Time: convergence.TimeLamport}}, {ticks: true, spec: convergence.LastWriterWins{Time: convergence.TimeLamport, Tie: convergence.TieRemove}},
		{spec: convergence.LastWriterWins{Time: convergence.TimeHybrid}}, {ticks: true, spec: convergence.LastWriterWins{Time: convergence.TimeHybrid, Tie: convergence.TieAdd}},
		{byKey: true, spec: convergence.LastWriterWins{Time: convergence.TimeLamport}}, {byKey: true, spec: convergence.LastWriterWins{Time: convergence.TimeHybrid}},
	} {
		list = append(list, lwwSets(s))
	}
	phase := func(name string, spec convergence.Spec, o phases) { list = append(list, phaseSets(name, spec, o)) }
	phase("2p-set", convergence.TwoPhase{}, phases{})
	phase("2p-set-states", convergence.TwoPhase{}, phases{state: true})
	phase("2p-set-gossip", convergence.TwoPhase{}, phases{gossip: true})
	phase("grow-only-gossip", convergence.GrowOnly{}, phases{gossip: true})
	for _, c := range []struct {
		name  string
		names bool
		sys   convergence.System
	}{{"remove-wins-named", true, convergence.System{}}, {"remove-wins-causal", false, convergence.System{Buffers: true}}} {
		c.sys.Name, c.sys.Spec = c.name, convergence.RemoveWins{}
		c.sys.Open = func(env convergence.Env) (convergence.Replica, error) { return openRemoveWins(env, c.names, ""), nil }
		list = append(list, c.sys)
	}
	direct := convergence.System{Name: "remove-wins-deltas", Spec: convergence.RemoveWins{}, Buffers: true}
	direct.Open = func(env convergence.Env) (convergence.Replica, error) { return openDeltaRemoveWins(env), nil }
	list = append(list, direct, counters(""), registers(""), lwwMap(""), sparseCounters(), storedCounters(""))
	list = append(list, stableSets(""), sending("or-set-causal-net-sends", func(env convergence.Env) convergence.Replica {
		return &sends{orset: openSet(env, setOptions{relies: true})}
	}), sending("or-set-causal-net-outbox", func(env convergence.Env) convergence.Replica {
		return openOutbox(env, setOptions{relies: true})
	}))
	split := sending("or-set-split-sends", func(env convergence.Env) convergence.Replica {
		return &sends{orset: openSet(env, setOptions{split: true})}
	})
	split.CausalNet = false
	list = append(list, split, treeSets(""), sortedLogs(""), orMap(""), registerMaps())
	for _, sys := range slices.Clone(list) {
		if sys.Name == "or-set-causal-net" || sys.Name == "orswot" {
			list = append(list, oneByOne(sys))
		}
	}
	for _, name := range []string{"orswot-riak", "lww-TimeLamport-TieReplica", "lww-TimeLamport-TieReplica-by-key", "lww-TimeMonotonic-TieAdd-counting", "lww-TimeHybrid-TieAdd-counting",
		"or-set-causal", "mv-register"} {
		i := slices.IndexFunc(list, func(s convergence.System) bool { return s.Name == name })
		list = append(list, parallel(list[i]))
	}
	return list
}

func sending(name string, open func(env convergence.Env) convergence.Replica) convergence.System {
	return convergence.System{Name: name, CausalNet: true, Open: func(env convergence.Env) (convergence.Replica, error) { return open(env), nil }}
}

func stableSets(bug string) convergence.System {
	return convergence.System{Name: "or-set-log-cut", Buffers: true, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openStable(env, setOptions{causal: true, bug: bug}), nil
	}}
}

func phaseSets(name string, spec convergence.Spec, o phases) convergence.System {
	return convergence.System{Name: name, Spec: spec, BestEffort: o.gossip, Open: func(convergence.Env) (convergence.Replica, error) {
		if o.gossip {
			return phasesRepair{openPhases(o)}, nil
		}
		return openPhases(o), nil
	}}
}

var (
	logGossip   = setOptions{gapless: true, repair: true}
	logRestored = setOptions{gapless: true, repair: true, restored: true}
)

func sets(name string, o setOptions, sys convergence.System) convergence.System {
	sys.Name = name
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		if o.repair {
			return gossips{openSet(env, o)}, nil
		}
		return openSet(env, o), nil
	}
	return sys
}

func batched(name string, o setOptions) convergence.System {
	return convergence.System{Name: name, Open: func(env convergence.Env) (convergence.Replica, error) { return batches{openSet(env, o)}, nil }}
}

func onLog(name string, o setOptions) convergence.System {
	return convergence.System{Name: name, BestEffort: o.gapless, Restored: o.restored, Open: func(env convergence.Env) (convergence.Replica, error) { return openLog(env, o) }}
}

func stateSets(o stateOptions, spec convergence.Spec) convergence.System {
	name := "orswot"
	for _, f := range []struct {
		on   bool
		name string
	}{{o.own, "-riak"}, {o.untagged, "-untagged"}, {o.gossip, "-gossip"}, {o.repair, "-repair"}} {
		if f.on {
			name += f.name
		}
	}
	return convergence.System{Name: name, Spec: spec, BestEffort: o.gossip, Open: func(env convergence.Env) (convergence.Replica, error) {
		if o.gossip || o.repair {
			return states{openState(env, o)}, nil
		}
		return openState(env, o), nil
	}}
}

func removeWinsSets(bug string) convergence.System {
	return convergence.System{Name: "remove-wins-named", Spec: convergence.RemoveWins{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openRemoveWins(env, true, bug), nil
	}}
}

func lwwSets(s lww) convergence.System {
	name := fmt.Sprintf("lww-%v-%v", s.spec.Time, s.spec.Tie)
	if s.strict || s.ticks {
		name += "-counting"
	}
	if s.byKey {
		name += "-by-key"
	}
	return convergence.System{Name: name, Spec: s.spec, Open: func(env convergence.Env) (convergence.Replica, error) { return openLWW(env, s), nil }}
}

// A Bug is a correct set and its broken version.
type Bug struct {
	Name, What string
	Broken     convergence.System
	Correct    convergence.System
}

// Bugs returns sets that are broken as real ones were.
func Bugs() (list []Bug) {
	add := func(name, what string, make func(bug string) convergence.System) {
		b := Bug{name, what, make(name), make("")}
		b.Broken.Name += "+" + name
		list = append(list, b)
	}
	set := func(o setOptions) func(bug string) convergence.System {
		return func(bug string) convergence.System {
			o.bug = bug
			return sets("or-set", o, convergence.System{BestEffort: o.gossip})
		}
	}
	state := func(o stateOptions) func(bug string) convergence.System {
		return func(bug string) convergence.System {
			o.bug = bug
			return stateSets(o, convergence.AddWins{ReplaceOwn: o.own})
		}
	}
	cluster := func(bug string) convergence.System {
		return sets("or-set-members", setOptions{members: true, bug: bug}, convergence.System{Share: newMembers})
	}
	log := func(o setOptions) func(bug string) convergence.System {
		return func(bug string) convergence.System {
			o.bug = bug
			return onLog("or-set-log", o)
		}
	}
	clock := func(s lww) func(bug string) convergence.System {
		return func(bug string) convergence.System {
			s.bug = bug
			return lwwSets(s)
		}
	}
	riak := stateOptions{own: true}
	add("dominated-skipped", "a state whose clock is dominated, not strictly, is skipped whole", state(stateOptions{}))
	add("both-sides-stay", "what is on both sides of a merge stays", state(stateOptions{}))
	add("deferred-once", "deferred removes are done once and forgotten", state(riak))
	add("deferred-unmerged", "deferred removes are not merged", state(riak))
	add("present-skipped", "an add of what is present is skipped", set(setOptions{}))
	add("one-takes-all", "a remove that covers one dot takes all", set(setOptions{contexts: true}))
	add("all-or-none", "a remove that does not cover all dots takes none", set(setOptions{contexts: true}))
	add("clocks-pruned", "long clocks are pruned", state(stateOptions{}))
	add("contexts-ignored", "contexts of clients are not looked at", state(riak))
	add("own-ignored", "own messages are ignored, also after a crash lost their contents", log(setOptions{}))
	add("snapshot-cuts-log", "a snapshot cuts off the log that it does not have", log(setOptions{}))
	add("torn-record-stays", "a torn record stays, and what is written after it is never read", log(setOptions{}))
	add("failed-sync-forgotten", "after a failed sync the next one succeeds without what it had lost", log(setOptions{}))
	add("first-neighbour", "a buffer of deltas is emptied by the first neighbour that asks", set(setOptions{gapless: true, gossip: true, repair: true}))
	add("equal-live", "equal live sets are taken for equal states", set(setOptions{gapless: true, gossip: true, repair: true}))
	add("highest-live", "the next counter is the highest live one", log(setOptions{}))
	add("own-only", "anti-entropy sends only what the sender itself has made", log(logGossip))
	add("batch-by-map", "a batch is applied in a map's order", func(bug string) convergence.System { return batched("or-set-batches", setOptions{bug: bug}) })
	add("by-element", "an add that comes twice kills a concurrent one of its element", set(setOptions{}))
	add("shows-three", "a read shows three elements at most", set(setOptions{}))
	add("decodes-in-place", "decoding changes the message", set(setOptions{}))
	add("rounds-time", "times are rounded", clock(lww{}))
	add("drops-what-is-ahead", "a message that is ahead of the clock is dropped", clock(lww{}))
	add("stale-cache", "removes look at a cache that reads refresh", set(setOptions{}))
	add("prefix", "a remove of an element also removes those that begin with it", set(setOptions{}))
	add("counter-wraps", "a counter wraps at 256", set(setOptions{}))
	add("actor-mod-5", "replicas 0 and 5 are one actor", set(setOptions{}))
	add("page-of-1000", "a page ends at 1,000 elements, and there is no next", set(setOptions{}))
	add("failed-half-done", "an operation that failed is done in memory alone", log(logGossip))
	add("counts-twice", "a message that comes twice is counted twice", counters)
	add("keeps-one", "of concurrent values one is kept", registers)
	add("deletes-forgotten", "a delete leaves nothing that an older put could be compared with", lwwMap)
	add("tombstones-of-100", "of more than 100 tombstones the oldest go", set(setOptions{}))
	add("counter-of-16-bits", "a counter wraps at 65,536", set(setOptions{}))
	add("counter-of-32-bits", "a counter wraps at 2^32", set(setOptions{}))
	add("actor-by-place", "a member's actor is how many were there before it", cluster)
	add("gone-ignored", "messages of a member that has left are ignored", cluster)
	add("clock-not-joined", "a Lamport clock does not join what it receives", clock(lww{spec: convergence.LastWriterWins{Time: convergence.TimeLamport}}))
	add("batches-of-100", "a batch of more than 100 operations is written in parts", storedCounters)
	add("batch-half-kept", "a crash keeps a half of a batch", storedCounters)
	for _, c := range []struct {
		name string
		make func(bug string) convergence.System
	}{
		{"counter", counters}, {"register", registers}, {"map", lwwMap}, {"remove-wins", removeWinsSets}, {"lww", clock(lww{})},
		{"grow-only", func(bug string) convergence.System {
			return phaseSets("grow-only", convergence.GrowOnly{}, phases{bug: bug})
		}},
		{"two-phase", func(bug string) convergence.System {
			return phaseSets("2p-set", convergence.TwoPhase{}, phases{bug: bug})
		}},
	} {
		add("page-of-100-"+c.name, "a page ends at 100 elements, and there is no next", c.make)
	}
	add("cut-off-by-majority", "a log is cut off when a majority has acknowledged it", stableSets)
	add("acknowledged-before-durable", "what is not on the disk is acknowledged, and others cut it off their logs", stableSets)
	add("lives-counted-on-disk", "a replica counts its lives on its disk, and a backup brings back an older count", log(logRestored))
	add("below-a-path", "a remove of an element takes those that begin with it and a slash", set(setOptions{}))
	add("ignores-case", "elements that differ in case are one", set(setOptions{}))
	add("value-of-16-bits", "the number of a counter wraps at 65,536", counters)
	add("equal-values-are-one", "of concurrent equal values one is kept", registers)
	add("empty-is-none", "an empty value is taken for none", lwwMap)
	add("version-of-8-bits", "the version of an element wraps at 256", clock(lww{byKey: true, spec: convergence.LastWriterWins{Time: convergence.TimeLamport}}))
	add("counter-as-float", "messages carry counters as floating-point numbers", set(setOptions{}))
	add("time-as-float", "messages carry times as floating-point numbers", clock(lww{}))
	add("hash-counts", "a hash tree compares how many operations its leaves have", treeSets)
	add("log-by-arrival", "a log that has to be sorted is read in the order of arrival", sortedLogs)
	add("deletes-take-all", "a delete removes puts that its author had not observed", orMap)
	add("early-deletes-forgotten", "a delete that comes before its put is forgotten", orMap)
	add("earliest-shown", "of concurrent puts the earliest is shown", orMap)
	add("ties-by-arrival", "of equal times what comes last decides", clock(lww{}))
	return list
}
