package convergence

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// check reports what is wrong with a declaration, before anything is run.
func (s *System) check() error {
	if b, ok := s.Spec.(interface{ bounded() error }); ok { // a Counter, or a Spec that embeds one
		if err := b.bounded(); err != nil {
			return fmt.Errorf("convergence: system %q: %w", s.Name, err)
		}
	}
	word := s.Name != "" && !strings.ContainsAny(s.Name, " \t\r\n#")
	switch {
	case !word:
		return fmt.Errorf("convergence: system name %q goes into scripts: it must be one word, without #", s.Name)
	case s.Open == nil:
		return fmt.Errorf("convergence: system %q has no Open", s.Name)
	case s.Pace < 0 || s.Pace > paceMost:
		return fmt.Errorf("convergence: system %q has a pace of %v; it is at most %v", s.Name, s.Pace, paceMost)
	case s.CausalNet && (s.Buffers || s.BestEffort):
		return fmt.Errorf("convergence: system %q declares CausalNet, which delivers everything in order, beside Buffers or BestEffort", s.Name)
	case s.CausalNet && s.Restored:
		return fmt.Errorf("convergence: system %q declares CausalNet beside Restored, but such a net does not deliver again what was acknowledged", s.Name)
	case s.CausalNet && s.Parallel:
		return fmt.Errorf("convergence: system %q declares CausalNet beside Parallel, but only the replica knows which of two clients at once was first: "+
			"leave one of them out", s.Name)
	}
	return nil
}

// paceMost keeps clocks within 64 bits: they begin at a million steps.
const paceMost = time.Hour

// fits reports what is declared that the replicas can't do.
func (s *System) fits(can abilities) error {
	switch {
	case s.Restored && !(can.durable && can.backup):
		return fmt.Errorf("convergence: system %q declares Restored, so its replicas have to implement Durable and Backuper", s.Name)
	case s.Restored && s.Merge != nil && !can.copying:
		return fmt.Errorf("convergence: system %q declares Restored beside Merge: a replica that has lost what it acknowledged must not answer reads "+
			"of several replicas until it was filled (Copier)", s.Name)
	}
	if s.BestEffort && !can.repair {
		return fmt.Errorf("convergence: system %q declares BestEffort, so something must bring what messages do not: "+
			"its replicas have to implement Repairer", s.Name)
	}
	return nil
}

// otherSchedules is how many schedules, in addition to the script, another declaration must pass before it is named.
const otherSchedules = 30

// ownRules names the rules on which the other verdicts rest.
var ownRules = map[string]string{
	Torn:      "a batch is done wholly or not at all (Batcher), and so is an operation that was answered by an error other than ErrRefused and ErrNotReady",
	TagReused: "Effect.Tag and Effect.Tags, which name an operation forever; a remove needs no tag",
	Disorder:  "a View has its items in ascending order of Elem, none twice, and the Values of each in ascending order",
	Failed:    "a replica whose disk works opens, answers reads, takes messages and closes without an error",
	Changed:   "messages, questions, contexts and views belong to the kit, once they are given or returned",
}

// restsOn returns the rule or declaration on which a verdict rests.
func (s *System) restsOn(script *Script, v *Violation) (rests string) {
	defer func() {
		if script.parallel() && rests != "" {
			rests += "; Parallel: Do may be called by two clients at once"
		}
	}()
	if !v.bySpec() {
		return ownRules[v.Kind]
	}
	rests = "Spec " + specName(s.spec()) + zeroTime(s.spec())
	switch {
	case s.BestEffort:
		rests += "; BestEffort: anti-entropy brings everything, messages need not"
	case s.Buffers:
		rests += "; Buffers: a message takes effect when all messages that its author knew of have come"
	case s.CausalNet:
		rests += "; CausalNet: messages come once and in causal order"
	default:
		rests += "; a delivered message takes effect at once, even if earlier ones are missing"
	}
	if v.Kind == Repeated {
		rests += "; Retries"
	}
	return rests
}

// bySpec reports whether the verdict depends on what is declared about the specification and the messages.
func (v *Violation) bySpec() bool {
	switch v.Kind {
	case Lost, Resurrected, Phantom, Diverged, Repeated:
		return true
	}
	return false
}

// accepting returns declarations that would accept a script, and whether all were tried before the context and the time of the options
// ended.
func (s *System) accepting(ctx context.Context, can abilities, script *Script, v *Violation, o *Options) (names []string, all bool) {
	if !v.bySpec() {
		return nil, true
	}
	if !o.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.until)
		defer cancel()
	}
	for _, other := range s.others(can, script, v) {
		kind, _, _ := strings.Cut(other.name, ":") // of several, one is named
		kind, _, _ = strings.Cut(kind, "{")
		known := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, kind) })
		if len(names) < 3 && !known && accepts(ctx, other.sys, can, script, o) {
			names = append(names, other.name)
		}
	}
	return names, ctx.Err() == nil
}

type declaration struct {
	name string
	sys  System
}

// longPass is a time in which the goroutines and timers of most replicas have done what they were given.
const longPass = 10 * time.Second

// others returns the declarations that differ in one thing.
func (s System) others(can abilities, script *Script, v *Violation) (list []declaration) {
	add := func(name string, change func(s *System)) {
		other := s
		change(&other)
		list = append(list, declaration{name, other})
	}
	if s.WithinPass != nil {
		add(fmt.Sprintf("bubble.In with a pass of %v", longPass), func(s *System) { s.Within = s.WithinPass(longPass) })
	}
	plain := !s.BestEffort && !s.Buffers && !s.CausalNet
	if v.Kind == Repeated {
		add("no Retries", func(s *System) { s.Retries = false })
	}
	if script.parallel() {
		add("no Parallel", func(s *System) { s.Parallel = false })
	}
	if plain && can.repair {
		add("BestEffort", func(s *System) { s.BestEffort = true })
	}
	if plain {
		add("Buffers", func(s *System) { s.Buffers = true })
		add("CausalNet", func(s *System) { s.CausalNet = true })
	}
	for _, spec := range otherSpecs(s.spec()) {
		add("Spec "+specName(spec), func(s *System) { s.Spec = spec })
	}
	if _, timed := byTime(s.spec()); timed {
		for _, unit := range []struct {
			time.Duration
			name string
		}{{time.Millisecond, "Millisecond"}, {time.Second, "Second"}} {
			if s.Pace < unit.Duration {
				add(fmt.Sprintf("Pace: time.%s, if that is what its clock counts", unit.name), func(s *System) { s.Pace = unit.Duration })
			}
		}
	}
	switch s.spec().(type) {
	case RemoveWins, TwoPhase, LastWriterWins, LWWMap: // in which a remove that finds nothing counts
		add("ErrRefused from a remove that finds nothing and so does nothing", func(s *System) { s.refusing = true })
	}
	return list
}

// otherSpecs returns the specifications of the same kind of value, sets or maps by time, other than the given one.
func otherSpecs(spec Spec) (list []Spec) {
	all := []Spec{AddWins{}, GrowOnly{}, TwoPhase{}, RemoveWins{}}
	var maps, observed []Spec
	for _, time := range []Time{TimeWall, TimeMonotonic, TimeLamport, TimeHybrid} { // what accepts less first
		for _, tie := range []Tie{TieReplica, TieAdd, TieRemove, TieAny} {
			all, maps, observed = append(all, LastWriterWins{tie, time}), append(maps, LWWMap{tie, time}), append(observed, ORMap{tie, time})
		}
	}
	all, maps, observed = append(all, LastWriterWins{TieAny, TimeAny}), append(maps, LWWMap{TieAny, TimeAny}), append(observed, ORMap{TieAny, TimeAny})
	switch s := spec.(type) {
	case AddWins:
		all[0] = AddWins{ReplaceOwn: true, Clear: s.Clear}
		if s.Replace && !s.ReplaceOwn {
			all = append([]Spec{AddWins{Clear: s.Clear}}, all...)
		}
	case LastWriterWins: // these first
		all = append(append([]Spec(nil), all[4:]...), all[:4]...)
	case LWWMap:
		all = append(maps, observed...)
	case ORMap:
		all = append(observed, maps...)
	case GrowOnly, TwoPhase, RemoveWins:
	default:
		return nil
	}
	for _, other := range all {
		if specName(other) != specName(spec) {
			list = append(list, other)
		}
	}
	return list
}

// accepts reports whether the script, and some schedules of its own, pass under another declaration.
func accepts(ctx context.Context, sys System, can abilities, s *Script, o *Options) bool {
	if ctx.Err() != nil || sys.check() != nil || sys.fits(can) != nil || failsAgain(sys, s, o) {
		return false
	}
	for i := range otherSchedules {
		if ctx.Err() != nil || failsAgain(sys, generate(sys, can, o, i, nil), o) {
			return false
		}
	}
	return true
}

func failsAgain(sys System, s *Script, o *Options) bool {
	v, _ := watched(sys, s, false, o.StepLimit)
	return v != nil
}

// zeroTime returns in words what the zero fields of a specification by time stand for, or "" if it has none.
func zeroTime(spec Spec) string {
	s, ok := byTime(spec)
	if !ok || s.Tie != 0 && s.Time != 0 {
		return ""
	}
	return fmt.Sprintf(" (%v, %v)", s.Tie, s.Time)
}

// specName writes a specification as it is declared, without its zero fields.
func specName(spec Spec) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", spec), "convergence.")
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Struct {
		return name
	}
	var set []string
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			set = append(set, fmt.Sprintf("%s: %v", f.Name, v.Field(i)))
		}
	}
	return name + "{" + strings.Join(set, ", ") + "}"
}
