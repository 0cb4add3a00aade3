package parser

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"bigset/bench/spec"
	"bigset/bench/spec/source"
)

// check refuses a workload that was read without a problem but can't be run.
func (r *reader) check(w *spec.Workload) {
	r.checkStrategies(w)
	r.checkNames(w)
	for i := range w.Phases {
		r.checkPhase(w, &w.Phases[i], r.top.in[i])
	}
	if !r.Sound() {
		return // the checks below rely on valid phases
	}
	r.checkElements(w)
	for i := range w.Assertions {
		r.checkAssertion(w, &w.Assertions[i], r.texts[i])
	}
}

// checkStrategies compares the kind of record with those that the strategies work on.
func (r *reader) checkStrategies(w *spec.Workload) {
	if r.top.keys["strategies"] != nil && !slices.Contains(w.Systems, spec.Bigset) {
		r.Wrong(r.top.keys["strategies"], "strategies without the system bigset: others have none, leave the key out")
	}
	for _, s := range r.known.Strategies {
		if w.Store.Record != "" && slices.Contains(w.Strategies, s.Name) && !slices.Contains(s.Records, w.Store.Record) {
			r.Wrong(r.top.of("store"), "strategy %s does not work on %s records: it works on %s", s.Name, w.Store.Record, source.List(s.Records))
		}
	}
}

// checkNames requires one source for each row, and at least one row.
func (r *reader) checkNames(w *spec.Workload) {
	from := map[string]bool{}
	phases := map[string]bool{}
	for i, p := range w.Phases {
		at := r.top.in[i]
		if phases[p.Name] {
			r.Wrong(at.of("name"), "two phases with the name %s: each must have one of its own", p.Name)
		}
		phases[p.Name] = true
		for j, row := range w.PhaseRows(p) {
			n := at.of("name")
			if j > 0 {
				n = at.in[namedRole(p, j)].of("name")
			}
			if from[row] {
				r.Wrong(n, "two rows with the name %s: the name of the phase or of the role must be another", row)
			}
			from[row] = true
		}
	}
	if len(from) == 0 {
		r.Wrong(r.top.of("phases"), "no phase is measured: at least one must not be unmeasured")
	}
}

// namedRole returns the index of the nth role with a name, from 1.
func namedRole(p spec.Phase, nth int) int {
	for i, role := range p.Roles {
		if role.Name != "" {
			if nth--; nth == 0 {
				return i
			}
		}
	}
	return 0
}

func (r *reader) checkPhase(w *spec.Workload, p *spec.Phase, at place) {
	ops, duration := at.keys["ops"], at.keys["duration"]
	switch {
	case len(p.Roles) == 0 && (ops != nil || duration != nil):
		r.Wrong(either(ops, duration), "a phase without a mix has nothing to do: it must have a mix or roles, or neither ops nor duration")
	case len(p.Roles) > 0 && p.Reopen != "":
		r.Wrong(at.of("reopen"), "reopen in a phase with a mix: opening the store is all that the phase does, the mix belongs to another one")
	case len(p.Roles) == 0 && p.Unmeasured && len(p.First) == 0 && !p.Settle && !p.Rest && !p.Compact && p.Reopen == "":
		r.Wrong(at.node, "phase %s does nothing: it must have a mix, roles, or steps in first", p.Name)
	case len(p.Roles) > 0 && ops != nil && duration != nil:
		r.Wrong(duration, "duration beside ops: a phase ends by one of the two")
	case len(p.Roles) > 0 && ops == nil && duration == nil:
		r.Wrong(at.node, "phase %s has no end: it must have ops or duration", p.Name)
	}
	if n := at.keys["beside"]; n != nil {
		r.checkBeside(w, p, n)
	}
	r.checkClients(p, at)
	clients := 0
	for _, role := range p.Roles {
		clients += role.Clients
	}
	for _, size := range allSizes(w) {
		if sets := w.Sets.Count.At(size); sets*clients > partsMax {
			r.Wrong(at.node, "phase %s has %s clients and, at size %s, %s sets: the product may be %s", p.Name, source.Grouped(clients), source.Grouped(size),
				source.Grouped(sets), source.Grouped(partsMax))
			break
		}
	}
	for i := range p.Roles {
		r.checkRole(w, p, &p.Roles[i], at.in[i])
	}
}

func either(a, b *yaml.Node) *yaml.Node {
	if a != nil {
		return a
	}
	return b
}

func (r *reader) checkBeside(w *spec.Workload, p *spec.Phase, n *yaml.Node) {
	var before []string
	for _, other := range w.Phases {
		if other.Name == p.Name {
			break
		}
		if !other.Unmeasured && len(other.Roles) > 0 {
			before = append(before, other.Name)
		}
	}
	if !slices.Contains(before, p.Beside) {
		r.Wrong(n, "beside %s: it must be a phase before this one that is measured and has operations: %s", p.Beside, orNone(before))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "there is none"
	}
	return source.List(names)
}

// checkClients checks what roles of a phase allow in other roles.
func (r *reader) checkClients(p *spec.Phase, at place) {
	clients, unnamed, writers := 0, 0, 0
	for _, role := range p.Roles {
		if role.Every == (spec.Count{}) {
			clients += role.Clients
			if does(role.Mix, spec.Kind.Writes) {
				writers++
			}
		}
		if role.Name == "" {
			unnamed++
		}
	}
	if len(p.Roles) > 0 && clients == 0 {
		r.Wrong(at.node, "phase %s has only probes: a probe acts beside a role without every", p.Name)
	}
	if clients > clientsMax {
		r.Wrong(at.of("roles"), "%d clients: a phase may have %d", clients, clientsMax)
	}
	if unnamed > 1 {
		r.Wrong(at.of("roles"), "%d roles without a name: one role of a phase may have none", unnamed)
	}
	for i, role := range p.Roles {
		where := at.in[i]
		if has(role.Mix, spec.Receive) && role.Clients*role.Replicas > replicasMax {
			r.Wrong(where.of("replicas"), "%s replicas of %d clients each: together there may be %s", source.Grouped(role.Replicas), role.Clients, source.Grouped(replicasMax))
		}
		if has(role.Mix, spec.Drop) && (clients > 1 || len(role.Mix) > 1) {
			r.Wrong(where.of("mix"), "drop beside other operations: it removes whatever lives in a set, so the mix must be drop alone, by one client")
		}
		if has(role.Mix, spec.Take) && (clients > 1 || writers > 1) {
			r.Wrong(where.of("mix"), "take beside %d clients: it removes the first elements, whosever they are, so the phase must have one client beside probes", clients)
		}
		if role.Every != (spec.Count{}) && clients > 1 {
			r.Wrong(where.of("every"), "every beside %d clients: a probe needs a phase with one other client", clients)
		}
	}
}

// has reports whether a mix contains operations of a kind. does reports whether it contains a kind for which is returns true.
func has(mix []spec.Share, k spec.Kind) bool {
	return does(mix, func(other spec.Kind) bool { return other == k })
}

func does(mix []spec.Share, is func(spec.Kind) bool) bool {
	return slices.ContainsFunc(mix, func(s spec.Share) bool { return is(s.Kind) })
}

func looksUp(k spec.Kind) bool { return k == spec.Hit || k == spec.Miss || k == spec.Dead }
func limited(k spec.Kind) bool {
	return k == spec.Read || k == spec.Range || k == spec.Prefix || k == spec.Take
}
func chooses(k spec.Kind) bool {
	return k == spec.Replace || k == spec.Remove || k == spec.Exchange || k == spec.Hit || k == spec.Dead || k == spec.Range || k == spec.Prefix
}

// hasContext reports whether the kind's operations have a context; adds have one only if it is None.
func hasContext(k spec.Kind) bool { return k == spec.Replace || k == spec.Remove || k == spec.Exchange }

func kindsOf(is func(spec.Kind) bool) string {
	var names []string
	for _, k := range spec.Kinds() {
		if is(k) {
			names = append(names, string(k))
		}
	}
	return source.List(names)
}

// checkRole checks one role by itself.
func (r *reader) checkRole(w *spec.Workload, p *spec.Phase, role *spec.Role, at place) {
	for _, only := range []struct {
		key string
		is  func(spec.Kind) bool
	}{{"batch", spec.Kind.Batches}, {"limit", limited}, {"choose", chooses}, {"by-dot", looksUp}, {"replicas", func(k spec.Kind) bool { return k == spec.Receive }}} {
		if n := at.keys[only.key]; n != nil && !does(role.Mix, only.is) {
			r.Wrong(n, "%s in a mix that can't use it: it is for %s", only.key, kindsOf(only.is))
		}
	}
	if n := at.keys["sets"]; n != nil && w.Sets.Count == (spec.Count{Absolute: 1}) {
		r.Wrong(n, "sets in a workload of one set: the workload must have the key sets with a count above 1, such as sets: {count: 1000}")
	}
	if has(role.Mix, spec.Take) && role.Limit == (spec.Count{}) {
		r.Wrong(at.of("mix"), "take without a limit: limit must say how many elements one operation takes")
	}
	if n := at.keys["turns"]; n != nil && turnsOf(role) > turnsMax {
		r.Wrong(n, "turns in a mix of these weights take %s operations until they come round: the maximum is %s", source.Grouped(int(turnsOf(role))), source.Grouped(turnsMax))
	}
	if n := at.keys["turns"]; n != nil && len(role.Mix) < 2 {
		r.Wrong(n, "turns in a mix of one kind: there must be two")
	}
	if n := at.keys["rate"]; n != nil && role.RateEnd > 0 && p.Duration == 0 {
		r.Wrong(n, "a rate that changes in a phase without a duration: it must have one, and no ops")
	}
	if does(role.Mix, spec.Kind.OnlyBigset) && !slices.Equal(w.Systems, []spec.System{spec.Bigset}) {
		r.Wrong(at.of("mix"), "%s with the systems %s: only bigset knows live dots and other replicas, systems must be [bigset]", kindNames(role, spec.Kind.OnlyBigset), systemList(w.Systems))
	}
	r.checkContext(w, role, at)
	r.checkProbe(role, at)
	for _, size := range allSizes(w) {
		if role.Batch.At(size) > batchMax {
			r.Wrong(at.of("batch"), "a batch of %s elements at size %s: the maximum is %s", source.Grouped(role.Batch.At(size)), source.Grouped(size), source.Grouped(batchMax))
			break
		}
	}
}

// turnsMax bounds the operations until the turns of a mix repeat.
const turnsMax = 100_000

// turnsOf returns an upper bound of the operations until the turns of a mix repeat.
func turnsOf(role *spec.Role) (n float64) {
	least := 1.0
	for _, s := range role.Mix {
		least = min(least, s.Weight)
	}
	for _, s := range role.Mix {
		n += max(1, s.Weight/least)
	}
	return min(n, 1e15)
}

// partsMax bounds the pairs of a set and a client in a phase: each pair may own elements.
const partsMax = 1 << 24

func systemList(systems []spec.System) string {
	var names []string
	for _, s := range systems {
		names = append(names, string(s))
	}
	return source.List(names)
}

func (r *reader) checkContext(w *spec.Workload, role *spec.Role, at place) {
	n := at.keys["context"]
	if n == nil {
		return
	}
	adds := role.Context == spec.None && has(role.Mix, spec.Add)
	if !does(role.Mix, hasContext) && !adds {
		r.Wrong(n, "context in a mix that can't use it: it is for %s, and none also for add", kindsOf(hasContext))
	}
	if role.Context != spec.Wide {
		return
	}
	if !slices.Equal(w.Systems, []spec.System{spec.Bigset}) {
		r.Wrong(n, "wide contexts with the systems %s: only bigset keeps a clock, systems must be [bigset]", systemList(w.Systems))
	}
	if has(role.Mix, spec.Exchange) || has(role.Mix, spec.Remove) && (has(role.Mix, spec.Add) || has(role.Mix, spec.Receive) || has(role.Mix, spec.Replace)) {
		r.Wrong(n, "wide contexts of elements that the phase itself writes: they know what was there when it began, so the mix must replace alone or remove alone")
	}
}

func (r *reader) checkProbe(role *spec.Role, at place) {
	n := at.keys["every"]
	switch {
	case n == nil:
	case does(role.Mix, spec.Kind.Writes):
		r.Wrong(n, "every in a mix that writes: a probe only reads, the mix may have %s", kindsOf(func(k spec.Kind) bool { return !k.Writes() }))
	case role.Clients > 1:
		r.Wrong(at.of("clients"), "a probe of %d clients: it must be one", role.Clients)
	case role.Rate > 0:
		r.Wrong(at.of("rate"), "rate beside every: a probe acts after a number of operations of others, and has no rate")
	}
}

// allSizes returns each size that some run of the workload uses, including those of the system blob.
func allSizes(w *spec.Workload) []int {
	sizes := append(sizesOf(w, false), sizesOf(w, true)...)
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// sizesOf returns the sizes of small runs or of full ones, including those of the system blob, in ascending order.
func sizesOf(w *spec.Workload, full bool) (sizes []int) {
	list, most := w.Small, w.BlobSmall
	if full {
		list, most = w.Full, w.BlobFull
	}
	for _, n := range list {
		sizes = append(sizes, n)
		if slices.Contains(w.Systems, spec.Blob) {
			sizes = append(sizes, min(n, most))
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// stock is what is known about the elements between two phases, at one size of a small or a full run.
type stock struct {
	size    int
	full    bool
	live    float64 // all sets together
	removed bool    // some elements of the same store were removed
}

// checkElements follows the elements through the phases at each size, and reports operations that run out of them. A place is reported
// once.
func (r *reader) checkElements(w *spec.Workload) {
	for _, full := range []bool{false, true} {
		for _, size := range sizesOf(w, full) {
			s := &stock{size: size, full: full}
			for i := range w.Phases {
				r.stepsOn(s, &w.Phases[i], r.top.in[i])
				r.phaseOn(w, s, &w.Phases[i], r.top.in[i])
				if !r.Sound() {
					return
				}
			}
		}
	}
}

func (r *reader) stepsOn(s *stock, p *spec.Phase, at place) {
	for i, step := range p.First {
		n := at.keys["first"].Content[i]
		switch step {
		case spec.StepDrop, spec.StepFresh:
			if s.live == 0 {
				r.Wrong(n, "%s where no element lives: a phase before it must add some", step)
			}
			if step == spec.StepDrop {
				s.live = 0
			}
			s.removed = false
		case spec.StepEmpty:
			s.live, s.removed = 0, false
		}
	}
}

// phaseOn accounts for the operations of a phase.
func (r *reader) phaseOn(w *spec.Workload, s *stock, p *spec.Phase, at place) {
	sets := w.Sets.Count.At(s.size)
	clients := 0
	for _, role := range p.Roles {
		if role.Every == (spec.Count{}) {
			clients += role.Clients
		}
	}
	after, removes := s.live, false
	for i := range p.Roles {
		role, where := &p.Roles[i], at.in[i]
		if does(role.Mix, chooses) && s.live < 1 {
			r.Wrong(where.of("mix"), "%s where no element lives at size %s: a phase before it must add some", kindNames(role, chooses), source.Grouped(s.size))
			return
		}
		if does(role.Mix, chooses) && s.live < float64(sets*clients) {
			r.Wrong(where.of("mix"), "%s by %s clients in %s sets with %s elements in all, at size %s: each client chooses among its own, and must have one in each set",
				kindNames(role, chooses), source.Grouped(clients), source.Grouped(sets), source.Grouped(int(s.live)), source.Grouped(s.size))
			return
		}
		if has(role.Mix, spec.Drop) && s.live < float64(sets) {
			r.Wrong(where.of("mix"), "drop where no element lives, or not in each set, at size %s: a phase before it must add some", source.Grouped(s.size))
			return
		}
		if has(role.Mix, spec.Dead) && !s.removed {
			r.Wrong(where.of("mix"), "dead where nothing was removed at size %s: a phase before it must remove some elements of this store", source.Grouped(s.size))
			return
		}
		if role.Every != (spec.Count{}) {
			continue
		}
		adds, gone, known := changes(role, p, s, clients, sets)
		if !known && gone > 0 {
			r.Wrong(where.of("mix"), "removes for a duration, at no rate, and adds fewer: the set may run empty, end the phase by ops or give it a rate")
			return
		}
		after += adds - gone
		removes = removes || does(role.Mix, spec.Kind.Removes)
		if after < -0.5 {
			r.Wrong(where.of("mix"), "removes about %s elements and adds %s at size %s, where %s live: there must be as many as it removes", source.Grouped(int(gone)),
				source.Grouped(int(adds)), source.Grouped(s.size), source.Grouped(int(s.live)))
			return
		}
	}
	s.live, s.removed = max(0, after), s.removed || removes
}

func kindNames(role *spec.Role, is func(spec.Kind) bool) string {
	var names []string
	for _, s := range role.Mix {
		if is(s.Kind) {
			names = append(names, string(s.Kind))
		}
	}
	return strings.Join(names, " and ")
}

// changes returns about how many elements a role adds and removes in a phase, without exchanges. If that is unknown, it returns the numbers
// of one operation, less what they have in common.
func changes(r *spec.Role, p *spec.Phase, s *stock, clients, sets int) (adds, gone float64, known bool) {
	batch := float64(r.Batch.At(s.size))
	var weights, counted float64 // of calls, and of what ops counts
	for _, share := range r.Mix {
		unit := 1.0
		if share.Kind.Batches() {
			unit = batch
			if share.Kind == spec.Exchange {
				unit = 2 * batch
			}
		}
		weights, counted = weights+share.Weight, counted+share.Weight*unit
		switch share.Kind {
		case spec.Add, spec.Receive:
			adds += share.Weight * batch
		case spec.Drop:
			gone += share.Weight * s.live / float64(sets)
		case spec.Remove:
			gone += share.Weight * batch
		case spec.Take:
			gone += share.Weight * float64(r.Limit.At(s.size))
		}
	}
	calls := 0.0
	switch {
	case p.Duration == 0:
		calls = float64(p.Ops.At(s.size)) * float64(r.Clients) / float64(clients) / counted
	case r.Rate > 0:
		rate := r.Rate
		if r.RateEnd > 0 {
			rate = (r.Rate + r.RateEnd) / 2
		}
		calls = rate * p.Lasts(s.full).Seconds() / weights
	default:
		both := min(adds, gone)
		return (adds - both) / weights, (gone - both) / weights, false
	}
	return adds * calls, gone * calls, true
}
