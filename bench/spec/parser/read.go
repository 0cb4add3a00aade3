package parser

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"bigset/bench/spec"
	"bigset/bench/spec/source"
)

// Limits of one file.
const (
	sizesMax      = 16
	phasesMax     = 64
	rolesMax      = 16
	stepsMax      = 16
	clientsMax    = 1024 // of a phase
	assertionsMax = 200
	replicasMax   = 32_768 // of all clients of a phase together
	setsMax       = 10_000_000
	batchMax      = 100_000 // elements, as in the engine
	weightMax     = 1_000_000
	elementMin    = 8
	elementMax    = 4096
	aboutMax      = 200
	sizeMax       = 1 << 30       // elements
	countMax      = 1_000_000_000 // of an absolute count
	shareMax      = 100_000       // of the size
	rateMin       = 0.001         // calls a second
	rateMax       = 100_000_000
	bytesMax      = 1 << 40
)

// The default largest sizes for the system blob.
const (
	blobSmall = 1_000
	blobFull  = 10_000
)

// The default parameters of distributions.
const (
	theta        = 0.99 // YCSB's
	paretoShare  = 0.2
	youngShare   = 0.05
	youngChoices = 0.9
)

var timelineWindow = spec.Count{Of: 0.1}

var name = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func systems() []spec.System { return []spec.System{spec.Bigset, spec.Pebble, spec.Blob} }

func steps() []spec.Step {
	return []spec.Step{spec.StepSettle, spec.StepCompact, spec.StepRestart, spec.StepKill, spec.StepVerify, spec.StepDrop, spec.StepBottom, spec.StepEmpty, spec.StepFresh}
}

func contexts() []spec.Context { return []spec.Context{spec.Narrow, spec.Wide, spec.None} }

func distributions() []spec.DistributionKind {
	return []spec.DistributionKind{spec.Uniform, spec.Zipfian, spec.Latest, spec.Pareto, spec.Young, spec.Queue, spec.Sawtooth, spec.Timeline}
}

// workload reads the whole file.
func (r *reader) workload(n *yaml.Node) *spec.Workload {
	w := &spec.Workload{
		Systems: []spec.System{spec.Bigset}, Strategies: []string{""}, BlobSmall: blobSmall, BlobFull: blobFull,
		Sets: spec.Sets{Count: spec.Count{Absolute: 1}, Choose: spec.Distribution{Kind: spec.Uniform}}, Elements: spec.Elements{MinBytes: 16, MaxBytes: 16},
	}
	r.top = place{node: n}
	r.top.keys = r.Object(n, "workload", []field{
		{Key: "name", Read: func(n *yaml.Node) { w.Name = r.name(n, "name") }},
		{Key: "about", Read: func(n *yaml.Node) { w.About = r.about(n) }},
		{Key: "seed", Read: func(n *yaml.Node) { w.Seed = uint64(r.Whole(n, "seed", 1, 1<<53)) }},
		{Key: "size", Read: func(n *yaml.Node) { w.Small, w.Full = r.sizes(n) }},
		{Key: "blob-size", Read: func(n *yaml.Node) { w.BlobSmall, w.BlobFull = r.blobSizes(n) }},
		{Key: "systems", Read: func(n *yaml.Node) { w.Systems = r.systems(n) }},
		{Key: "strategies", Read: func(n *yaml.Node) { w.Strategies = r.strategies(n) }},
		{Key: "sets", Read: func(n *yaml.Node) { r.sets(n, &w.Sets) }},
		{Key: "elements", Read: func(n *yaml.Node) { r.elements(n, &w.Elements) }},
		{Key: "store", Read: func(n *yaml.Node) { r.store(n, &w.Store) }},
		{Key: "phases", Read: func(n *yaml.Node) {
			r.Items(n, "phases", phasesMax, func(n *yaml.Node) { w.Phases = append(w.Phases, r.phase(n)) })
		}},
		{Key: "assert", Read: func(n *yaml.Node) {
			r.Items(n, "assertions", assertionsMax, func(n *yaml.Node) { w.Assertions = append(w.Assertions, r.assertion(n)) })
		}},
	})
	r.needs(r.top, "workload", "name", "about", "size", "phases")
	return w
}

// needs reports keys that an object does not have.
func (r *reader) needs(p place, what string, keys ...string) {
	if p.keys == nil {
		return // not a mapping
	}
	lacks := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return p.keys[k] != nil })
	if len(lacks) > 0 {
		r.Wrong(p.node, "%s has no %s: it must have %s", what, source.List(lacks), source.List(keys))
	}
}

func (r *reader) name(n *yaml.Node, what string) string {
	s, ok := r.Text(n, what)
	if ok && (len(s) > 60 || !name.MatchString(s)) {
		r.Wrong(n, "%q for %s: it must have small letters and digits, with hyphens between them, at most 60", source.Short(s), what)
		return ""
	}
	return s
}

func (r *reader) about(n *yaml.Node) string {
	s, ok := r.Text(n, "about")
	if ok && (s == "" || len(s) > aboutMax || slices.Contains([]byte(s), '\n')) {
		r.Wrong(n, "about has %d bytes: it must be one line of 1 to %d", len(s), aboutMax)
		return ""
	}
	return r.printable(n, s, "about")
}

// printable returns a text that a terminal and a page show as it is.
func (r *reader) printable(n *yaml.Node, s, what string) string {
	if i := strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 {
		r.Wrong(n, "%s has a character that can't be printed, byte %d is %q: it must be plain text in one line", what, i+1, s[i])
		return ""
	}
	return s
}

// two reads a mapping with two keys, such as {small: 16k, full: 200k}, and reports whether it is one. A single value is first.
func two[T any](r *reader, n *yaml.Node, what, firstKey, secondKey string, read func(n *yaml.Node) T) (first, second T, both bool) {
	if n.Kind != yaml.MappingNode {
		return read(n), second, false
	}
	p := place{node: n}
	p.keys = r.Object(n, what, []field{
		{Key: firstKey, Read: func(n *yaml.Node) { first = read(n) }},
		{Key: secondKey, Read: func(n *yaml.Node) { second = read(n) }},
	})
	r.needs(p, what, firstKey, secondKey)
	return first, second, true
}

// sizes reads 16k, [10k, 150k], or {small: 16k, full: 200k} with lists or not.
func (r *reader) sizes(n *yaml.Node) (small, full []int) {
	small, full, both := two(r, n, "size", "small", "full", r.sizeList)
	if !both {
		full = slices.Clone(small)
	}
	return small, full
}

func (r *reader) sizeList(n *yaml.Node) (sizes []int) {
	if n.Kind != yaml.SequenceNode {
		return []int{r.Whole(n, "size", 1, sizeMax)}
	}
	r.Items(n, "sizes", sizesMax, func(n *yaml.Node) {
		v := r.Whole(n, "size", 1, sizeMax)
		if len(sizes) > 0 && v > 0 && v <= sizes[len(sizes)-1] {
			r.Wrong(n, "size %s after %s: sizes must ascend", source.Grouped(v), source.Grouped(sizes[len(sizes)-1]))
		}
		sizes = append(sizes, v)
	})
	return sizes
}

func (r *reader) blobSizes(n *yaml.Node) (small, full int) {
	small, full, both := two(r, n, "blob-size", "small", "full", func(n *yaml.Node) int { return r.Whole(n, "blob-size", 1, sizeMax) })
	if !both {
		full = small
	}
	return small, full
}

func (r *reader) systems(n *yaml.Node) (names []spec.System) {
	r.Items(n, "systems", len(systems()), func(n *yaml.Node) {
		s := source.Word(&r.Reader, n, "system", systems())
		if s != "" && slices.Contains(names, s) {
			r.Wrong(n, "system %s stands twice: once is allowed", s)
		}
		names = append(names, s)
	})
	slices.SortStableFunc(names, func(a, b spec.System) int { return slices.Index(systems(), a) - slices.Index(systems(), b) })
	return names
}

// RunStrategy is the name of the run's strategy in files; a Workload stores it as "".
const RunStrategy = "run"

func (r *reader) strategies(n *yaml.Node) (names []string) {
	allowed := []string{RunStrategy}
	for _, s := range r.known.Strategies {
		allowed = append(allowed, s.Name)
	}
	r.Items(n, "strategies", 32, func(n *yaml.Node) {
		var s string
		if r.known.Strategies == nil {
			s = r.name(n, "strategy")
		} else if s, _ = r.Text(n, "strategy"); !slices.Contains(allowed, s) {
			r.Wrong(n, "unknown strategy %q%s: allowed are %s", source.Short(s), source.Hint(s, allowed), source.List(allowed))
			return
		}
		if s == RunStrategy {
			s = ""
		}
		if slices.Contains(names, s) {
			r.Wrong(n, "strategy %s stands twice: once is allowed", n.Value)
		}
		names = append(names, s)
	})
	return names
}

func (r *reader) sets(n *yaml.Node, s *spec.Sets) {
	r.Object(n, "sets", []field{
		{Key: "count", Read: func(n *yaml.Node) { s.Count = r.count(n, "sets", setsMax) }},
		{Key: "choose", Read: func(n *yaml.Node) { s.Choose = r.overSets(n) }},
	})
}

// overSets reads a distribution over sets.
func (r *reader) overSets(n *yaml.Node) spec.Distribution {
	d := r.distribution(n)
	if slices.Contains([]spec.DistributionKind{spec.Latest, spec.Young, spec.Queue, spec.Timeline}, d.Kind) {
		r.Wrong(n, "sets chosen by %s: sets have no age, allowed are uniform, zipfian, pareto, sawtooth", d.Kind)
	}
	return d
}

func (r *reader) elements(n *yaml.Node, e *spec.Elements) {
	r.Object(n, "elements", []field{
		{Key: "bytes", Read: func(n *yaml.Node) { r.lengths(n, e) }},
		{Key: "order", Read: func(n *yaml.Node) {
			e.Ascending = source.Word(&r.Reader, n, "order", []string{"hashed", "ascending"}) == "ascending"
		}},
	})
}

// lengths reads 16, or {least: 8, most: 64}.
func (r *reader) lengths(n *yaml.Node, e *spec.Elements) {
	least, most, both := two(r, n, "bytes", "least", "most", func(n *yaml.Node) int { return r.Whole(n, "bytes", elementMin, elementMax) })
	if !both {
		most = least
	}
	if e.MinBytes, e.MaxBytes = least, most; most > 0 && least > most {
		r.Wrong(n, "least is %d, most is %d: least must not be above most", least, most)
	}
}

func (r *reader) store(n *yaml.Node, s *spec.Store) {
	p := place{node: n}
	p.keys = r.Object(n, "store", []field{
		{Key: "memtable", Read: func(n *yaml.Node) { s.MemTableBytes = int(r.Bytes(n, "memtable", 64<<10, 1<<31-1)) }},
		{Key: "memtable-at", Read: func(n *yaml.Node) { s.MemTableAt = r.Whole(n, "memtable-at", 1, sizeMax) }},
		{Key: "cache", Read: func(n *yaml.Node) { s.CacheBytes = r.Bytes(n, "cache", 1, bytesMax) }},
		{Key: "cache-share", Read: func(n *yaml.Node) { s.CacheShare = r.Share(n, "cache-share", true) }},
		{Key: "set-cache", Read: func(n *yaml.Node) { s.SetCacheBytes = r.Bytes(n, "set-cache", 1, bytesMax) }},
		{Key: "record", Read: func(n *yaml.Node) { s.Record = source.Word(&r.Reader, n, "record", []string{"merge", "set"}) }},
		{Key: "sync", Read: func(n *yaml.Node) { s.Sync = r.Flag(n, "sync") }},
		{Key: "warm", Read: func(n *yaml.Node) { s.Warm = r.Flag(n, "warm") }},
		{Key: "open-contexts", Read: func(n *yaml.Node) { s.KeepContexts = r.Flag(n, "open-contexts") }},
		{Key: "pebble", Read: func(n *yaml.Node) { s.Pebble = r.options(n) }},
	})
	if p.keys["cache"] != nil && p.keys["cache-share"] != nil {
		r.Wrong(p.keys["cache-share"], "cache-share beside cache: one of the two is allowed")
	}
}

func (r *reader) options(n *yaml.Node) map[string]int64 {
	have := map[string]int64{}
	var fields []field
	for _, o := range spec.Options() {
		fields = append(fields, field{Key: o.Name, Read: func(n *yaml.Node) {
			if o.Bytes {
				have[o.Name] = r.Bytes(n, o.Name, o.Least, o.Most)
			} else {
				have[o.Name] = int64(r.Whole(n, o.Name, int(o.Least), int(o.Most)))
			}
		}})
	}
	keys := r.Object(n, "pebble", fields)
	const compact, stop = "l0-compaction-threshold", "l0-stop-writes-threshold"
	c, s := cmp.Or(have[compact], l0Compact), cmp.Or(have[stop], l0Stop)
	if s < c { // Pebble would refuse it
		r.Wrong(either(keys[stop], keys[compact]), "%s is %d and %s is %d (%d and %d are those of the engine): writes must not stop before L0 is compacted, %s must be at least %d",
			stop, s, compact, c, l0Stop, l0Compact, stop, c)
	}
	return have
}

// The engine's defaults for Pebble.
const (
	l0Compact = 4
	l0Stop    = 24
)

// distribution reads a word, or a mapping with parameters.
func (r *reader) distribution(n *yaml.Node) spec.Distribution {
	d := spec.Distribution{}
	p := place{node: n}
	if n.Kind != yaml.MappingNode {
		d.Kind = source.Word(&r.Reader, n, "distribution", distributions())
	} else {
		p.keys = r.Object(n, "choose", []field{
			{Key: "kind", Read: func(n *yaml.Node) { d.Kind = source.Word(&r.Reader, n, "distribution", distributions()) }},
			{Key: "theta", Read: func(n *yaml.Node) { d.Theta = r.Share(n, "theta", false) }},
			{Key: "share", Read: func(n *yaml.Node) { d.Share = r.Share(n, "share", false) }},
			{Key: "choices", Read: func(n *yaml.Node) { d.Choices = r.Share(n, "choices", false) }},
			{Key: "window", Read: func(n *yaml.Node) { d.Window = r.count(n, "window", countMax) }},
		})
		r.needs(p, "choose", "kind")
	}
	own := map[spec.DistributionKind][]string{spec.Zipfian: {"theta"}, spec.Latest: {"theta"}, spec.Pareto: {"share"}, spec.Young: {"share", "choices"}, spec.Timeline: {"window"}}
	for _, key := range []string{"theta", "share", "choices", "window"} {
		if at := p.keys[key]; at != nil && d.Kind != "" && !slices.Contains(own[d.Kind], key) {
			r.Wrong(at, "%s for the distribution %s: it has %s", key, d.Kind, cmpList(own[d.Kind]))
		}
	}
	return filled(d)
}

func cmpList(names []string) string {
	if len(names) == 0 {
		return "no parameters"
	}
	return "only " + source.List(names)
}

// filled returns the distribution with default parameters for those that a file does not set.
func filled(d spec.Distribution) spec.Distribution {
	or := func(v *float64, other float64) {
		if *v == 0 {
			*v = other
		}
	}
	switch d.Kind {
	case spec.Zipfian, spec.Latest:
		or(&d.Theta, theta)
	case spec.Pareto:
		or(&d.Share, paretoShare)
	case spec.Young:
		or(&d.Share, youngShare)
		or(&d.Choices, youngChoices)
	case spec.Timeline:
		if d.Window == (spec.Count{}) {
			d.Window = timelineWindow
		}
	}
	return d
}

// phase reads a phase, with the keys of its role in it if it has one.
func (r *reader) phase(n *yaml.Node) (p spec.Phase) {
	at := place{node: n}
	inline := newRole()
	var inRoles []place
	own := []field{
		{Key: "name", Read: func(n *yaml.Node) { p.Name = r.name(n, "name of a phase") }},
		{Key: "first", Read: func(n *yaml.Node) {
			r.Items(n, "steps", stepsMax, func(n *yaml.Node) { p.First = append(p.First, source.Word(&r.Reader, n, "step", steps())) })
		}},
		{Key: "ops", Read: func(n *yaml.Node) { p.Ops = r.count(n, "ops", countMax) }},
		{Key: "duration", Read: func(n *yaml.Node) { p.Duration, p.DurationFull = r.durations(n) }},
		{Key: "unmeasured", Read: func(n *yaml.Node) { p.Unmeasured = r.Flag(n, "unmeasured") }},
		{Key: "settle", Read: func(n *yaml.Node) { p.Settle = r.Flag(n, "settle") }},
		{Key: "rest", Read: func(n *yaml.Node) { p.Rest = r.Flag(n, "rest") }},
		{Key: "compact", Read: func(n *yaml.Node) { p.Compact = r.Flag(n, "compact") }},
		{Key: "reopen", Read: func(n *yaml.Node) {
			p.Reopen = source.Word(&r.Reader, n, "reopen", []spec.Step{spec.StepRestart, spec.StepKill})
		}},
		{Key: "space-back", Read: func(n *yaml.Node) { p.SpaceBack = r.Share(n, "space-back", false) }},
		{Key: "beside", Read: func(n *yaml.Node) { p.Beside = r.name(n, "beside") }},
		{Key: "roles", Read: func(n *yaml.Node) {
			r.Items(n, "roles", rolesMax, func(n *yaml.Node) {
				role, where := r.role(n)
				p.Roles, inRoles = append(p.Roles, role), append(inRoles, where)
			})
		}},
	}
	shared := r.roleFields(&inline)
	at.keys = r.Object(n, "phase", append(own, shared...))
	r.needs(at, "phase", "name")
	for _, f := range shared {
		n := at.keys[f.Key]
		switch {
		case n == nil:
		case at.keys["roles"] != nil:
			r.Wrong(n, "%s in a phase with roles: it stands in each of the roles, or there are none", f.Key)
		case at.keys["mix"] == nil:
			r.Wrong(n, "%s in a phase without a mix: the phase must have a mix or roles", f.Key)
		}
	}
	if at.keys["mix"] != nil && at.keys["roles"] == nil {
		p.Roles, inRoles = []spec.Role{inline}, []place{at}
	}
	at.in = inRoles
	r.top.in = append(r.top.in, at)
	return p
}

func (r *reader) durations(n *yaml.Node) (small, full time.Duration) {
	small, full, _ = two(r, n, "duration", "small", "full", func(n *yaml.Node) time.Duration { return r.Duration(n, "duration") })
	return small, full
}

// newRole returns a role with the defaults.
func newRole() spec.Role {
	return spec.Role{Clients: 1, Batch: spec.Count{Absolute: 1}, Replicas: 1, Choose: spec.Distribution{Kind: spec.Uniform}, Context: spec.Narrow}
}

func (r *reader) role(n *yaml.Node) (spec.Role, place) {
	role := newRole()
	at := place{node: n}
	own := []field{{Key: "name", Read: func(n *yaml.Node) { role.Name = r.name(n, "name of a role") }}}
	at.keys = r.Object(n, "role", append(own, r.roleFields(&role)...))
	r.needs(at, "role", "mix")
	return role, at
}

// roleFields are the keys of a role other than its name. They may also be keys of a phase.
func (r *reader) roleFields(role *spec.Role) []field {
	return []field{
		{Key: "clients", Read: func(n *yaml.Node) { role.Clients = r.Whole(n, "clients", 1, clientsMax) }},
		{Key: "rate", Read: func(n *yaml.Node) { role.Rate, role.RateEnd = r.rates(n) }},
		{Key: "every", Read: func(n *yaml.Node) { role.Every = r.count(n, "every", countMax) }},
		{Key: "mix", Read: func(n *yaml.Node) { role.Mix = r.mix(n) }},
		{Key: "turns", Read: func(n *yaml.Node) { role.Turns = r.Flag(n, "turns") }},
		{Key: "batch", Read: func(n *yaml.Node) { role.Batch = r.count(n, "batch", batchMax) }},
		{Key: "replicas", Read: func(n *yaml.Node) { role.Replicas = r.Whole(n, "replicas", 1, replicasMax) }},
		{Key: "sets", Read: func(n *yaml.Node) { role.Sets = r.overSets(n) }},
		{Key: "choose", Read: func(n *yaml.Node) { role.Choose = r.distribution(n) }},
		{Key: "limit", Read: func(n *yaml.Node) { role.Limit = r.count(n, "limit", countMax) }},
		{Key: "context", Read: func(n *yaml.Node) { role.Context = source.Word(&r.Reader, n, "context", contexts()) }},
		{Key: "by-dot", Read: func(n *yaml.Node) { role.ByDot = r.Flag(n, "by-dot") }},
	}
}

// rates reads 1000, or {from: 1000, to: 50k}.
func (r *reader) rates(n *yaml.Node) (from, to float64) {
	from, to, _ = two(r, n, "rate", "from", "to", func(n *yaml.Node) float64 {
		rate := r.Number(n, "rate", rateMax)
		if rate > 0 && rate < rateMin {
			r.Wrong(n, "a rate of %s: it must be at least %v, which is a call in %v seconds", n.Value, rateMin, 1/rateMin)
		}
		return rate
	})
	return from, to
}

func (r *reader) mix(n *yaml.Node) (mix []spec.Share) {
	var fields []field
	for _, k := range spec.Kinds() {
		fields = append(fields, field{Key: string(k), Read: func(n *yaml.Node) {
			mix = append(mix, spec.Share{Kind: k, Weight: r.Number(n, "weight", weightMax)})
		}})
	}
	if have := r.Object(n, "mix", fields); have != nil && len(n.Content) == 0 {
		r.Wrong(n, "an empty mix: it must have weights, such as {add: 1}")
	}
	return mix
}
