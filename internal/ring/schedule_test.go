package ring_test

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"bigset/internal/ring"
)

// A schedule is a small cluster in virtual time: members; clients with old maps; a store of the map that is sometimes away; a
// manager that is sometimes paused and replaced; messages that are late, lost, duplicated and out of order; partitions, crashes,
// lost disks, joins, leaves, moves, splits and merges. All rules are those of the package: the map and its changes, Decide, Judge
// and views, tallies, sources. The data of a slot is a set of items that only grows. A schedule is a function of its seed.

const (
	slotCount = 16
	maxMoves  = 3
	maxIn     = 2
	lease     = 12.0 // a node that was silent for this long is down
	grace     = 45.0 // and then lost
	itemWords = 48
)

// twin names a broken rule; the empty twin breaks none.
type twin string

// broken are the twins that must be caught, and what each does.
var broken = map[twin]string{
	"cutover-early":       "R3: the manager cuts over without waiting for the copy",
	"snapshot-early":      "R3: a source serves the copy without adopting the epoch first",
	"one-source":          "R3: a lost member is made again from a single survivor",
	"no-joint-write":      "R2: while copying, W of the old owners is enough",
	"joiner-counts":       "R2: owners and joiner are one list, any W or R of it count",
	"drop-early":          "R5: the member that leaves drops when the joiner has asked for the last slot",
	"no-barrier":          "R4: settling becomes stable at once",
	"no-epoch-check":      "R1: members serve requests with an old epoch",
	"forget-map":          "R1: a restart falls back to an older map",
	"torn-gate":           "R1: the check of the epoch and the write are not one step",
	"no-fencing":          "R7: a paused manager writes without comparing anything",
	"no-fencing-data":     "R7: the same, with the checks of the map itself off: is data lost?",
	"wiped-rejoins":       "R6: a wiped disk comes back under its old incarnation",
	"no-limit":            "M5: the manager does not count the moves in flight",
	"actor-outlives-drop": "a node that left a range, dropped it and came back goes on as the same actor",
	"split-bumps-owner":   "R8: a split hands a part to another node without a copy",
}

// caught has for each twin a seed whose schedule violates a promise. If the manager's decisions change, the seeds make other
// schedules: TestTwins then reports which seeds to use.
var caught = map[twin]uint64{"cutover-early": 1, "snapshot-early": 22, "one-source": 1, "no-joint-write": 1, "joiner-counts": 1, "drop-early": 1,
	"no-barrier": 17, "no-epoch-check": 1, "forget-map": 1, "no-fencing": 1, "wiped-rejoins": 1, "no-fencing-data": 10, "no-limit": 1,
	"actor-outlives-drop": 143, "torn-gate": 168, "split-bumps-owner": 3}

// harmless breaks no promise: it shows that the checks raise no false alarm. A leaving member refuses older reads itself once it
// has seen that the bucket settles, so only a spare copy is lost.
const harmless twin = "drop-at-settling"

// rare lets acknowledgements of different epochs add up. It is wrong, but needs a member that leaves, drops and joins again within one
// request.
const rare twin = "mixed-epoch-acks"

// items is a set of items.
type items [itemWords]uint64

func (s *items) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *items) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s *items) join(o *items) {
	for i := range s {
		s[i] |= o[i]
	}
}
func (s *items) empty() bool { return *s == items{} }

// host is one node of a schedule, what survives a crash and what does not.
type host struct {
	id              int
	inc             int
	up, gone, drain bool
	started         uint64
	store           [slotCount]items
	view, old       *ring.View
	rev             int // version of the map that was applied
	salt            [slotCount]int
	counters        map[dotOwner]int
	got             [slotCount]ring.Copies
}

// dotOwner is the source of dots: a member, and the salt of its slot, which a drop changes.
type dotOwner struct{ slot, node, inc, salt int }

type dot struct {
	dotOwner
	counter int
}

func hostMember(id, inc int) ring.Member {
	return ring.Member{Node: hostNames[id], Incarnation: strconv.Itoa(inc)}
}

// hostNames are the names of hosts.
var hostNames = func() (names [200]string) {
	for id := range names {
		names[id] = fmt.Sprintf("n%03d", id)
	}
	return names
}()

func (n *host) me() ring.Member { return hostMember(n.id, n.inc) }

func hostID(m ring.Member) (id int) {
	for _, c := range m.Node[1:] {
		id = id*10 + int(c-'0')
	}
	return id
}

// asker is a client: the assignments that it knows.
type asker struct {
	id   int
	view [slotCount]*ring.Assignment
}

// op is one write or read of a client.
type op struct {
	write, mono, minted, done bool
	cl                        *asker
	slot                      int
	items                     []int
	cfg                       *ring.Assignment
	attempt, tries            int
	tally                     ring.Tally
	got                       map[ring.Member]*items
	began, deadline           float64
}

type event struct {
	t   float64
	seq int
	f   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].t < e[j].t || e[i].t == e[j].t && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// violation is what a schedule panics with.
type violation string

type report struct {
	bucket ring.Bucket
	epoch  uint64
	member ring.Member
}

type beat struct {
	t   float64
	rev int
}

// world is the state of a schedule.
type world struct {
	r     *rand.Rand
	twin  twin
	s     ring.Settings
	n     map[string]int // how often each event happened
	t     float64
	q     events
	seq   int
	calm  bool
	side  map[int]int // of a partition; nil is none
	deaf  map[int]bool
	hosts []*host // host i has the id i+1

	m       *ring.Map // what the store of the map has
	revs    []*ring.Map
	away    bool // the store of the map is away
	beats   map[int]beat
	reports map[report]bool
	term    uint64
	holder  int
	holderT float64

	clients []*asker
	must    [slotCount]map[int]float64 // acknowledged items, with the time
	mustSet [slotCount]items
	item    int
	dots    map[dot]bool
	dotOf   map[int]dot
}

const (
	etcd        = 0
	firstClient = 1000
)

// slotAt is a slot of the ring for each slot of a schedule: 16 buckets of 4 bits.
func slotAt(x int) ring.Slot { return ring.Slot(x) << 28 }

// span returns the schedule's slots of a bucket.
func span(b ring.Bucket) (lo, hi int) { return int(b.First() >> 28), int(b.Last()>>28) + 1 }

func newWorld(seed uint64, broken twin, r, w int) *world {
	k := &world{r: rand.New(rand.NewPCG(seed, 15)), twin: broken, n: map[string]int{}, beats: map[int]beat{}, reports: map[report]bool{},
		deaf: map[int]bool{}, dots: map[dot]bool{}, dotOf: map[int]dot{}, holderT: -99}
	k.s = ring.Settings{N: 3, R: r, W: w, Buckets: []int{4, 4, 1}[k.r.IntN(3)], Slices: 1}
	for range []int{1, 3, 4, 5}[k.r.IntN(4)] {
		k.addHost()
	}
	var list []ring.Node
	for _, n := range k.hosts {
		list = append(list, ring.Node{Member: n.me()})
		k.beats[n.id] = beat{}
	}
	var err error
	if k.m, err = ring.Static(ring.ID{}, k.s, list, nil); err != nil {
		panic(err)
	}
	k.revs = append(k.revs, k.m)
	for _, n := range k.hosts {
		n.view = ring.ViewOf(k.m)
		n.old = n.view.Clone()
	}
	for i := range 4 {
		c := &asker{id: firstClient + i}
		for x := range slotCount {
			c.view[x] = k.m.Lookup(slotAt(x))
		}
		k.clients = append(k.clients, c)
	}
	for x := range k.must {
		k.must[x] = map[int]float64{}
	}
	return k
}

func (k *world) fail(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

func (k *world) at(dt float64, f func()) {
	k.seq++
	heap.Push(&k.q, event{k.t + dt, k.seq, f})
}

func (k *world) chance(p float64) bool { return k.r.Float64() < p }

func (k *world) host(id int) *host { return k.hosts[id-1] }

func (k *world) reach(a, b int) bool {
	if b == etcd && k.deaf[a] {
		return false
	}
	return k.side == nil || k.side[a] == k.side[b]
}

func (k *world) send(from, to int, f func()) {
	if !k.reach(from, to) {
		return
	}
	x := k.r.Float64()
	if !k.calm && x < 0.06 {
		k.n["messages lost"]++
		return
	}
	d := 0.2 + k.r.Float64()*1.5
	if !k.calm && x > 0.93 {
		d += k.r.Float64() * 30
		k.n["messages late"]++
	}
	k.at(d, f)
	if !k.calm && x > 0.5 && x < 0.53 {
		k.at(d+k.r.Float64()*20, f)
		k.n["messages doubled"]++
	}
}

func (k *world) addHost() *host {
	n := &host{id: len(k.hosts) + 1, inc: 1, up: true, started: uint64(k.t), view: ring.NewView(), counters: map[dotOwner]int{}, rev: -1}
	if k.t == 0 {
		n.rev = 0
	}
	for x := range n.got {
		n.got[x] = ring.Copies{}
	}
	k.hosts = append(k.hosts, n)
	k.at(k.r.Float64()*3, func() { k.tick(n) })
	return n
}

// ---- the store of the map

// install makes a map the current one.
func (k *world) install(next *ring.Map) {
	before := k.m
	k.m = next
	k.revs = append(k.revs, next)
	k.checkMap(before)
	k.checkDurable()
}

// checkMap checks the invariants of the map, and M4 slot by slot.
func (k *world) checkMap(before *ring.Map) {
	if k.twin == "no-fencing-data" {
		return
	}
	for x := range slotCount {
		a, b := before.Lookup(slotAt(x)), k.m.Lookup(slotAt(x))
		if b.Epoch < a.Epoch || b.Epoch == a.Epoch && !a.SameContent(b) {
			k.fail("an epoch is used twice")
		}
	}
	if err := k.m.Check(ring.Limits{Moves: maxMoves, In: maxIn}); err != nil {
		if errors.Is(err, ring.ErrLimit) {
			k.fail("too many moves in flight")
		}
		k.fail("%v", err)
	}
	flight := 0
	for a := range k.m.All() {
		if a.State != ring.Stable {
			flight++
		}
	}
	k.n["most in flight"] = max(k.n["most in flight"], flight)
}

// checkDurable fails when a read quorum of the committed map could miss an acknowledged item.
func (k *world) checkDurable() {
	for a := range k.m.All() {
		list := a.ReadList()
		need := k.s.ReadQuorum(list)
		var able []*host
		for _, m := range list {
			if n := k.host(hostID(m)); n.me() == m && !n.gone {
				able = append(able, n)
			}
		}
		lo, hi := span(a.Bucket)
		for x := lo; x < hi; x++ {
			if missed(able, need, x, &k.mustSet[x]) {
				k.fail("an acknowledged write can be missed")
			}
		}
	}
}

// missed reports whether some item is absent at need hosts of a slot or more.
func missed(able []*host, need, x int, must *items) bool {
	for w, bits := range must {
		if bits == 0 {
			continue
		}
		for who := range 1 << len(able) {
			absent, n := bits, 0
			for i, h := range able {
				if who&(1<<i) != 0 {
					absent &^= h.store[x][w]
					n++
				}
			}
			if n == need && absent != 0 {
				return true
			}
		}
	}
	return false
}

// ---- members

func (k *world) adopt(n *host, a *ring.Assignment) {
	if _, err := n.view.Adopt(a); err != nil && k.twin != "no-fencing-data" {
		k.fail("%v", err)
	}
}

// gate is R1 and R6: it returns nil if the request may be served, otherwise the correction.
func (k *world) gate(n *host, x int, cfg *ring.Assignment, to ring.Member, need ring.Need) *ring.Assignment {
	q := ring.Request{To: to, Epoch: cfg.Epoch, Need: need, Assignment: cfg}
	v := n.view.Judge(slotAt(x), n.me(), &q)
	if v == ring.Adopt {
		k.n["adopted from a request"]++
		k.adopt(n, cfg)
		v = n.view.Judge(slotAt(x), n.me(), &q)
	}
	switch {
	case v == ring.Serve:
		return nil
	case v == ring.OldEpoch && k.twin == "no-epoch-check" && cfg.Has(to):
		return nil
	case v == ring.NoReader && k.twin == "joiner-counts":
		return nil
	}
	k.n["refused: "+v.String()]++
	if mine := n.view.At(slotAt(x)); mine != nil {
		return mine
	}
	return cfg
}

// takeWrite handles a delta that arrives at a member.
func (k *world) takeWrite(to ring.Member, o *op, attempt int, list []int, cfg *ring.Assignment) {
	n := k.host(hostID(to))
	if !n.up {
		return
	}
	c := k.gate(n, o.slot, cfg, to, ring.NeedMember)
	put := func() {
		if !n.up || n.me() != to {
			return
		}
		for _, i := range list {
			n.store[o.slot].add(i)
		}
		k.send(n.id, o.cl.id, func() { k.reply(o, attempt, to, nil, &items{}) })
	}
	switch {
	case c != nil:
		k.send(n.id, o.cl.id, func() { k.reply(o, attempt, to, c, nil) })
	case k.twin == "torn-gate":
		k.at(k.r.Float64()*6, put)
	default:
		put()
	}
}

// mint handles a client's write that arrives at the member that coordinates it.
func (k *world) mint(to ring.Member, o *op, attempt, item int, cfg *ring.Assignment) {
	n := k.host(hostID(to))
	if !n.up {
		return
	}
	c := k.gate(n, o.slot, cfg, to, ring.NeedRead)
	if _, has := k.dotOf[item]; c == nil && !has {
		who := dotOwner{o.slot, n.id, n.inc, n.salt[o.slot]}
		d := dot{who, n.counters[who]}
		for i, other := range k.dotOf {
			if other.dotOwner == who && n.store[o.slot].has(i) {
				d.counter = max(d.counter, other.counter)
			}
		}
		d.counter++
		if k.dots[d] {
			k.fail("a counter is issued twice")
		}
		k.dots[d], k.dotOf[item], n.counters[who] = true, d, d.counter
		n.store[o.slot].add(item)
		k.n["dots minted"]++
	}
	k.send(n.id, o.cl.id, func() { k.minted(o, attempt, c) })
}

func (k *world) takeRead(to ring.Member, o *op, attempt int, cfg *ring.Assignment) {
	n := k.host(hostID(to))
	if !n.up {
		return
	}
	if c := k.gate(n, o.slot, cfg, to, ring.NeedRead); c != nil {
		k.send(n.id, o.cl.id, func() { k.reply(o, attempt, to, c, nil) })
		return
	}
	data := n.store[o.slot]
	k.send(n.id, o.cl.id, func() { k.reply(o, attempt, to, nil, &data) })
}

// takeCopy handles the request of a joiner for a slot.
func (k *world) takeCopy(to, joiner ring.Member, x int, cfg *ring.Assignment, last bool) {
	n := k.host(hostID(to))
	if !n.up {
		return
	}
	if k.twin == "snapshot-early" {
		if n.me() != to {
			return
		}
	} else if k.gate(n, x, cfg, to, ring.NeedRead) != nil {
		return
	}
	data := n.store[x]
	k.send(n.id, hostID(joiner), func() { k.takeData(joiner, to, x, cfg, &data) })
	if k.twin == "drop-early" && last && !slices.Contains(cfg.Next, to) {
		for y := range slotCount {
			if v := n.view.At(slotAt(y)); v != nil && v.Epoch == cfg.Epoch && slices.Equal(v.Owners, cfg.Owners) {
				n.store[y] = items{}
			}
		}
	}
}

func (k *world) takeData(joiner, from ring.Member, x int, cfg *ring.Assignment, data *items) {
	n := k.host(hostID(joiner))
	if !n.up || n.me() != joiner {
		return
	}
	if v := n.view.At(slotAt(x)); v == nil || v.Epoch != cfg.Epoch {
		return
	}
	n.store[x].join(data)
	n.got[x][from] = cfg.Epoch
}

// copied is R3 for one slot of a joiner.
func (k *world) copied(n *host, x int, cfg *ring.Assignment) bool {
	s := cfg.Sources(n.me(), k.s)
	if k.twin == "one-source" {
		s.Need = 1
	}
	return s.Whole(n.got[x])
}

// tick does what a member does periodically.
func (k *world) tick(n *host) {
	if n.gone {
		return
	}
	k.at(2+k.r.Float64()*4, func() { k.tick(n) })
	if !n.up {
		return
	}
	online := !k.away && k.reach(n.id, etcd)
	if online {
		k.watch(n)
		k.enrol(n)
		k.beats[n.id] = beat{k.t, n.rev}
		k.manage(n)
	}
	for a := range k.m.All() { // the ranges only group the reports: the decision is by slot, and by the member's own view
		k.join(n, a.Bucket, online)
	}
	k.leave(n)
}

// watch applies any version between the one that was applied and the newest.
func (k *world) watch(n *host) {
	newest := len(k.revs) - 1
	if newest <= n.rev {
		return
	}
	low := max(0, n.rev)
	if n.rev = newest; !k.calm {
		n.rev = low + k.r.IntN(newest-low+1)
	}
	for a := range k.revs[n.rev].All() {
		if mine := n.view.At(a.Bucket.First()); mine == nil || mine.Epoch < a.Epoch || mine.Bucket != a.Bucket {
			if k.twin == "forget-map" || k.twin == "no-fencing-data" || mine == nil || mine.Epoch <= a.Epoch || mine.Bucket != a.Bucket {
				k.adopt(n, a)
			}
		}
	}
}

// enrol adds a node, or its new incarnation, to the map.
func (k *world) enrol(n *host) {
	if have := k.m.Node(n.me().Node); have != nil && have.Member == n.me() {
		return
	}
	list := slices.DeleteFunc(slices.Clone(k.m.Nodes), func(o ring.Node) bool { return o.Node == n.me().Node })
	next, err := k.m.WithNodes(append(list, ring.Node{Member: n.me(), Started: n.started}))
	if err != nil {
		panic(err)
	}
	k.m = next
	k.revs = append(k.revs, next)
	k.n["registered"]++
}

// join pulls what a joiner is missing of a bucket, from every owner.
func (k *world) join(n *host, b ring.Bucket, online bool) {
	lo, hi := span(b)
	cfg := n.view.At(slotAt(lo))
	if cfg == nil || cfg.State != ring.Copying || cfg.Reads(n.me()) || !cfg.Has(n.me()) {
		return
	}
	var todo []int
	for x := lo; x < hi; x++ {
		v := n.view.At(slotAt(x))
		if v == nil || v.Epoch != cfg.Epoch || !v.SameContent(cfg) {
			return
		}
		if !k.copied(n, x, cfg) {
			todo = append(todo, x)
		}
	}
	for i, x := range todo {
		for _, m := range cfg.Owners {
			joiner, last := n.me(), i == len(todo)-1
			k.send(n.id, hostID(m), func() { k.takeCopy(m, joiner, x, cfg, last) })
		}
	}
	if r := (report{b, cfg.Epoch, n.me()}); len(todo) == 0 && online {
		if !k.reports[r] && !k.calm && k.side == nil && k.chance(0.12) {
			k.cutOff(k.aim(cfg)) // the worst moment: no member there hears of the cut-over
		}
		k.reports[r] = true
	}
}

// leave is R5: a member drops what by its own view it no longer holds.
func (k *world) leave(n *host) {
	for x := range slotCount {
		if n.store[x].empty() {
			continue
		}
		mine := n.view.Holds(slotAt(x), n.me())
		if cfg := n.view.At(slotAt(x)); k.twin == "drop-at-settling" && cfg != nil && cfg.State == ring.Settling && !cfg.Reads(n.me()) {
			mine = false
		}
		if mine {
			continue
		}
		n.store[x], n.got[x] = items{}, ring.Copies{}
		for who := range n.counters {
			if who.slot == x {
				delete(n.counters, who)
			}
		}
		if k.twin != "actor-outlives-drop" {
			n.salt[x]++
		}
		k.n["slots dropped"]++
		k.checkDurable()
	}
}

// ---- the manager

// Copied, Seen and Buried are what the store of the map knows.
func (k *world) Copied(b ring.Bucket, joiner ring.Member) ring.Copies {
	a := k.m.Lookup(b.First())
	if !k.reports[report{b, a.Epoch, joiner}] && k.twin != "cutover-early" {
		return nil
	}
	got := ring.Copies{}
	for _, m := range a.Owners {
		got[m] = a.Epoch
	}
	return got
}

func (k *world) Seen(b ring.Bucket, m ring.Member) uint64 {
	if k.twin == "no-barrier" {
		return 1 << 60
	}
	if rev := k.beats[hostID(m)].rev; rev >= 0 {
		return k.revs[rev].Lookup(b.First()).Epoch
	}
	return 0
}

func (k *world) Buried(m ring.Member) bool {
	n := k.m.Node(m.Node)
	return n == nil || n.Member != m
}

func (k *world) state(id int) ring.NodeState {
	b, ok := k.beats[id]
	switch {
	case !ok || k.t-b.t >= grace:
		return ring.NodeLost
	case k.t-b.t >= lease:
		return ring.NodeDown
	case k.host(id).drain:
		return ring.NodeDraining
	}
	return ring.NodeActive
}

func (k *world) limits() ring.Limits {
	if k.twin == "no-limit" {
		return ring.Limits{}
	}
	return ring.Limits{Moves: maxMoves, In: maxIn}
}

// planned is one change that a manager wants: a step of Decide, or a split or merge.
type planned struct {
	what string
	step ring.Step // if Old is not nil
	olds []ring.Assignment
	news []ring.Assignment
}

func (k *world) decide() (list []planned) {
	nodes := slices.Clone(k.m.Nodes)
	for i := range nodes {
		nodes[i].State = k.state(hostID(nodes[i].Member))
	}
	seen, err := k.m.WithNodes(nodes)
	if err != nil {
		panic(err)
	}
	for _, s := range ring.Decide(seen, k, ring.Quota{}, k.limits(), ring.Constraints{}) {
		list = append(list, planned{what: s.Kind.String(), step: s, olds: []ring.Assignment{*s.Old}, news: []ring.Assignment{s.Assignment}})
	}
	if !k.calm {
		list = append(list, k.reshape()...)
	}
	return list
}

// reshape splits a bucket or merges some, now and then.
func (k *world) reshape() (list []planned) {
	if k.chance(0.06) {
		var big []*ring.Assignment
		for a := range k.m.All() {
			if a.State == ring.Stable && a.Bucket.Bits() <= 2 {
				big = append(big, a)
			}
		}
		if len(big) > 0 {
			a := big[k.r.IntN(len(big))]
			kids, err := a.Split(2)
			if err != nil {
				panic(err)
			}
			if k.twin == "split-bumps-owner" {
				k.giveAway(&kids[0])
			}
			list = append(list, planned{what: "split", olds: []ring.Assignment{*a}, news: kids})
		}
	}
	if k.chance(0.03) {
		for a := range k.m.All() {
			if a.Bucket.Bits() < 2 {
				continue
			}
			var siblings []ring.Assignment
			for _, b := range a.Bucket.Parent(2).Split(2) {
				siblings = append(siblings, *k.m.Lookup(b.First()))
			}
			if one, err := ring.Merge(siblings); err == nil {
				return append(list, planned{what: "merged", olds: siblings, news: []ring.Assignment{one}})
			}
		}
	}
	return list
}

// giveAway hands a part of a split to another node without a copy.
func (k *world) giveAway(kid *ring.Assignment) {
	for _, n := range k.m.Nodes {
		if k.state(hostID(n.Member)) == ring.NodeActive && !slices.ContainsFunc(kid.Owners, func(m ring.Member) bool { return m.Node == n.Node }) {
			kid.Owners = append([]ring.Member{n.Member}, kid.Owners[1:]...)
			kid.Next = kid.Owners
			kid.Epoch++
			kid.Since = kid.Epoch
			return
		}
	}
}

func (k *world) manage(n *host) {
	if k.holder != n.id {
		if k.t-k.holderT < lease {
			return
		}
		k.term++
		k.holder = n.id
		k.n["managers elected"]++
	}
	k.holderT = k.t
	list := k.decide()
	k.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, p := range list[:min(3, len(list))] {
		d := 0.1 + k.r.Float64()
		if !k.calm && k.chance(0.12) {
			d += 15 + k.r.Float64()*30
			k.n["manager paused"]++
		}
		term := k.term
		k.at(d, func() { k.commit(n, term, p) })
	}
}

// commit is R7: a change counts only if the manager's term has not ended and what it was planned from is unchanged.
func (k *world) commit(n *host, term uint64, p planned) {
	if !n.up || k.away || !k.reach(n.id, etcd) {
		return
	}
	if k.twin == "no-fencing" || k.twin == "no-fencing-data" {
		k.force(p)
		return
	}
	if k.term != term {
		k.n["fenced: term"]++
		return
	}
	var next *ring.Map
	var err error
	if p.step.Old != nil {
		next, err = k.m.Take(p.step, term, k.limits())
	} else {
		next, err = k.take(p, term)
	}
	switch {
	case errors.Is(err, ring.ErrVersion):
		k.n["fenced: revision"]++
	case errors.Is(err, ring.ErrLimit):
		k.n["fenced: limit"]++
	case err != nil:
		k.fail("%v", err)
	default:
		k.install(next)
		k.n["map: "+p.what]++
	}
}

// take applies a split or a merge if the buckets are as they were.
func (k *world) take(p planned, term uint64) (*ring.Map, error) {
	for _, old := range p.olds {
		if now := k.m.Lookup(old.Bucket.First()); now.Bucket != old.Bucket || now.Epoch != old.Epoch {
			return nil, ring.ErrVersion
		}
	}
	return k.m.Apply(&ring.Delta{Generation: k.m.Generation, From: k.m.Version, Term: term, Assignments: p.news})
}

// force installs a change whatever the map has now, as long as the buckets fit.
func (k *world) force(p planned) {
	var list []ring.Assignment
	for a := range k.m.All() {
		if !slices.ContainsFunc(p.olds, func(o ring.Assignment) bool { return o.Bucket == a.Bucket }) {
			list = append(list, *a)
		}
	}
	if len(list)+len(p.olds) != k.m.Len() {
		return
	}
	list = append(list, p.news...)
	slices.SortFunc(list, func(a, b ring.Assignment) int { return int(int64(a.Bucket.First()) - int64(b.Bucket.First())) })
	h := k.m.Head
	h.Version++
	next, err := ring.New(h, list)
	if err != nil {
		panic(err)
	}
	k.install(next)
	k.n["map: "+p.what]++
}
