package ring_test

import (
	"container/heap"
	"maps"
	"slices"

	"bigset/internal/ring"
)

// ---- clients

func (k *world) begin(write bool, cl *asker, slot int, list []int, mono bool) {
	o := &op{write: write, cl: cl, slot: slot, items: list, mono: mono, began: k.t}
	o.minted = !write
	if write {
		o.minted = len(list) > 0
		for _, i := range list {
			if _, has := k.dotOf[i]; !has {
				o.minted = false
			}
		}
	}
	o.deadline = k.t + []float64{60, 60, 200}[k.r.IntN(3)]
	k.try(o)
}

func (k *world) try(o *op) {
	if o.tries > 12 || k.t > o.deadline {
		o.done = true
		k.n["gave up"]++
		return
	}
	o.tries++
	o.attempt++
	earlier := o.got
	o.cfg, o.got = o.cl.view[o.slot], map[ring.Member]*items{}
	o.tally = k.tallyOf(o)
	if k.twin == rare {
		for m, data := range earlier {
			o.got[m] = data
			o.tally.Ack(m)
		}
	}
	cfg, attempt := o.cfg, o.attempt
	switch {
	case !o.minted:
		k.askToMint(o)
	case o.write:
		for _, m := range cfg.Everyone() {
			k.send(o.cl.id, hostID(m), func() { k.takeWrite(m, o, attempt, o.items, cfg) })
		}
	default:
		list := cfg.ReadList()
		if k.twin == "joiner-counts" {
			list = cfg.Everyone()
		}
		for _, m := range list {
			k.send(o.cl.id, hostID(m), func() { k.takeRead(m, o, attempt, cfg) })
		}
	}
	wait := 8.0
	if k.chance(0.3) {
		wait += 4 * float64(o.tries)
	}
	k.at(wait, func() { k.retry(o, attempt) })
}

// tallyOf is R2.
func (k *world) tallyOf(o *op) ring.Tally {
	switch {
	case k.twin == "joiner-counts":
		all := o.cfg.Everyone()
		one := &ring.Assignment{Owners: all, Next: all}
		if o.write {
			return ring.NewWrite(one, k.s.WriteQuorum(o.cfg.Owners))
		}
		return ring.NewRead(one, k.s.ReadQuorum(o.cfg.ReadList()))
	case !o.write:
		return ring.NewRead(o.cfg, k.s.R)
	case k.twin == "no-joint-write":
		return ring.NewRead(o.cfg, k.s.W)
	}
	return ring.NewWrite(o.cfg, k.s.W)
}

// askToMint sends a write to a member that mints its dot: the first of the list, or any other.
func (k *world) askToMint(o *op) {
	list := o.cfg.ReadList()
	m := list[0]
	if o.tries > 1 || k.chance(0.3) {
		m = list[k.r.IntN(len(list))]
	}
	if o.tries > 1 { // the fate of the item before is unknown: it is never sent under two dots
		o.items = []int{k.newItem()}
	}
	item, cfg, attempt := o.items[0], o.cfg, o.attempt
	k.send(o.cl.id, hostID(m), func() { k.mint(m, o, attempt, item, cfg) })
}

func (k *world) newItem() int {
	if k.item++; k.item >= itemWords*64 {
		panic("too many items for a schedule")
	}
	return k.item
}

func (k *world) retry(o *op, attempt int) {
	if o.done || o.attempt != attempt {
		return
	}
	if k.chance(0.8) { // all members that the client knows may have gone for good
		n := k.hosts[k.r.IntN(len(k.hosts))]
		if mine := n.view.At(slotAt(o.slot)); n.up && k.reach(n.id, o.cl.id) && mine != nil {
			o.cl.learn(o.slot, mine)
		}
	}
	k.try(o)
}

// learn adopts an assignment with a higher epoch, and reports whether it did.
func (c *asker) learn(slot int, a *ring.Assignment) bool {
	if a.Epoch <= c.view[slot].Epoch {
		return false
	}
	c.view[slot] = a
	return true
}

func (k *world) minted(o *op, attempt int, correction *ring.Assignment) {
	if o.done || o.minted || attempt != o.attempt {
		return
	}
	if correction == nil {
		o.minted = true
	} else if !o.cl.learn(o.slot, correction) {
		return
	}
	k.try(o)
}

func (k *world) reply(o *op, attempt int, from ring.Member, correction *ring.Assignment, data *items) {
	if o.done || attempt != o.attempt && k.twin != rare {
		return
	}
	if correction != nil {
		if o.cl.learn(o.slot, correction) {
			k.n["corrections used"]++
			k.try(o)
		}
		return
	}
	o.got[from] = data
	if !o.tally.Ack(from) {
		return
	}
	o.done = true
	moving := o.cfg.State != ring.Stable
	if o.write {
		k.count("writes acknowledged", moving)
		for _, i := range o.items {
			if _, has := k.must[o.slot][i]; !has {
				k.must[o.slot][i] = k.t
				k.mustSet[o.slot].add(i)
			}
		}
		return
	}
	k.count("reads answered", moving)
	if o.cfg.State == ring.Settling {
		k.n["reads answered while settling"]++
	}
	k.judgeRead(o)
}

func (k *world) count(what string, moving bool) {
	k.n[what]++
	if moving {
		k.n[what+" during a move"]++
	}
}

// judgeRead fails if the read missed what was acknowledged before it began. A monotonic read writes back what some members did not
// have.
func (k *world) judgeRead(o *op) {
	var seen items
	for _, g := range o.got {
		seen.join(g)
	}
	for i, since := range k.must[o.slot] {
		if since <= o.began && !seen.has(i) {
			k.fail("a quorum read missed an acknowledged write")
		}
	}
	if !o.mono {
		return
	}
	var part []int
	for i := range k.item + 1 {
		if seen.has(i) && slices.ContainsFunc(slices.Collect(maps.Values(o.got)), func(g *items) bool { return !g.has(i) }) {
			part = append(part, i)
		}
	}
	if len(part) > 0 {
		k.begin(true, o.cl, o.slot, part, false)
		k.n["write-backs"]++
	}
}

// ---- faults

// mayLose reports whether losing a disk is within what N=3, W=2 survives: one disk of a bucket until it is restored.
func (k *world) mayLose(n *host) bool {
	if k.s.W == 1 {
		return false
	}
	for a := range k.m.All() {
		if !a.Has(n.me()) {
			continue
		}
		if len(a.Owners) < k.s.N {
			return false
		}
		for _, m := range a.Everyone() {
			if o := k.host(hostID(m)); m != n.me() && (o.me() != m || o.gone) {
				return false
			}
		}
	}
	return true
}

func (k *world) cutOff(aimed map[int]bool) {
	k.side = map[int]int{}
	all := []int{etcd}
	for _, n := range k.hosts {
		all = append(all, n.id)
	}
	for _, id := range all {
		k.side[id] = k.r.IntN(2)
		if len(aimed) > 0 { // the one that leaves and one more old owner are on one side, the map's store on the other
			k.side[id] = 0
			if aimed[id] {
				k.side[id] = 1
			}
		}
	}
	for _, c := range k.clients {
		k.side[c.id] = k.r.IntN(2)
	}
	k.n["partitions"]++
	k.at(5+k.r.Float64()*40, func() { k.side = nil })
}

// aim returns the nodes at which a fault does most harm: the one that leaves a bucket in motion, and another old owner. Every
// second time it returns none.
func (k *world) aim(a *ring.Assignment) map[int]bool {
	if a == nil {
		var moving []*ring.Assignment
		for x := range k.m.All() {
			if x.State != ring.Stable {
				moving = append(moving, x)
			}
		}
		if len(moving) == 0 || k.chance(0.5) {
			return nil
		}
		a = moving[k.r.IntN(len(moving))]
	}
	aimed := map[int]bool{}
	for _, m := range a.Leaving() {
		aimed[hostID(m)] = true
	}
	for _, i := range k.r.Perm(len(a.Owners)) {
		if len(aimed) < 2 {
			aimed[hostID(a.Owners[i])] = true
		}
	}
	return aimed
}

func (k *world) pick(ok func(*host) bool) *host {
	var list []*host
	for _, n := range k.hosts {
		if ok(n) {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[k.r.IntN(len(list))]
}

func (k *world) alive(ok func(*host) bool) (n int) {
	for _, h := range k.hosts {
		if !h.gone && ok(h) {
			n++
		}
	}
	return n
}

func isUp(n *host) bool  { return n.up }
func exists(*host) bool  { return true }
func stays(n *host) bool { return !n.drain }

func (k *world) fate() {
	if k.calm {
		return
	}
	k.at(4+k.r.Float64()*8, k.fate)
	x := k.r.Float64()
	n := k.pick(isUp)
	switch {
	case x < 0.10:
		if k.alive(exists) < 8 {
			k.addHost()
			k.n["joins"]++
		}
	case x < 0.30:
		if n != nil {
			k.crash(n)
		}
	case x < 0.40:
		if n != nil && k.mayLose(n) {
			k.loseDisk(n)
		}
	case x < 0.43:
		if n != nil && k.alive(exists) > 5 && k.mayLose(n) {
			n.up, n.gone = false, true
			k.n["nodes gone for ever"]++
			k.at(grace+k.r.Float64()*30, func() { k.bury(n) })
		}
	case x < 0.50:
		k.drain()
	case x < 0.65:
		if k.side == nil {
			k.cutOff(k.aim(nil))
		}
	case x < 0.73:
		if !k.away {
			k.away = true
			k.n["map's store away"]++
			k.at(5+k.r.Float64()*30, k.back)
		}
	case x < 0.81:
		if len(k.deaf) == 0 {
			if k.deaf = k.aim(nil); k.deaf == nil {
				k.deaf = map[int]bool{k.hosts[k.r.IntN(len(k.hosts))].id: true, k.hosts[k.r.IntN(len(k.hosts))].id: true}
			}
			k.n["nodes cut from the map's store alone"] += len(k.deaf)
			k.at(10+k.r.Float64()*50, func() { k.deaf = map[int]bool{} })
		}
	case x < 0.87:
		if c := k.clients[k.r.IntN(len(k.clients))]; n != nil {
			for y := range slotCount {
				if mine := n.view.At(slotAt(y)); mine != nil {
					c.learn(y, mine)
				}
			}
		}
	}
}

func (k *world) crash(n *host) {
	n.up = false
	k.n["crashes"]++
	for a := range n.view.All() {
		if a.State == ring.Copying && a.Has(n.me()) && !a.Reads(n.me()) {
			k.n["crashes of a joiner while copying"]++
			break
		}
	}
	k.at([]float64{3, 10, 30, 70}[k.r.IntN(4)]*(0.5+k.r.Float64()), func() { k.restart(n) })
}

// loseDisk wipes a disk, or loses a part of what was written last.
func (k *world) loseDisk(n *host) {
	n.up = false
	k.n["disks lost"]++
	tail := k.chance(0.3)
	for x := range n.store {
		kept := items{}
		for i := range k.item + 1 {
			if tail && n.store[x].has(i) && k.chance(0.7) {
				kept.add(i)
			}
		}
		n.store[x], n.got[x] = kept, ring.Copies{}
	}
	n.counters = map[dotOwner]int{}
	if !tail {
		n.view, n.rev = ring.NewView(), -1
	}
	if k.twin != "wiped-rejoins" {
		n.inc++
		n.salt = [slotCount]int{}
		k.checkDurable()
	} else if !tail && n.old != nil {
		n.view, n.rev = n.old.Clone(), 0
	}
	k.at(5+k.r.Float64()*60, func() { k.restart(n) })
}

func (k *world) drain() {
	if n := k.pick(func(n *host) bool { return !n.gone && n.drain }); n != nil && k.chance(0.5) {
		n.drain = false
		k.n["leaves taken back"]++
	} else if k.alive(stays) > 4 {
		k.pick(func(n *host) bool { return !n.gone }).drain = true
		k.n["leaves"]++
	}
}

func (k *world) restart(n *host) {
	if n.gone || n.up {
		return
	}
	n.up = true
	if k.twin == "forget-map" && n.old != nil {
		n.view, n.rev = n.old.Clone(), 0
	}
	k.n["restarts"]++
}

// bury is an operator's statement that a disk never answers again.
func (k *world) bury(n *host) {
	list := slices.Clone(k.m.Nodes)
	for i := range list {
		if list[i].Node == n.me().Node {
			list[i].Incarnation = hostMember(n.id, n.inc+1).Incarnation
		}
	}
	next, err := k.m.WithNodes(list)
	if err != nil {
		panic(err)
	}
	k.m = next
	k.revs = append(k.revs, next)
}

// back ends the time in which the map's store was away: all leases start again.
func (k *world) back() {
	k.away = false
	for id, b := range k.beats {
		k.beats[id] = beat{k.t, b.rev}
	}
	k.holderT = k.t
}

func (k *world) load() {
	if k.calm {
		return
	}
	k.at(0.2+k.r.Float64()*1.2, k.load)
	cl, slot := k.clients[k.r.IntN(len(k.clients))], []int{1, 6, 11}[k.r.IntN(3)]
	if k.chance(0.4) {
		slot = k.r.IntN(slotCount)
	}
	if k.chance(0.55) {
		k.begin(true, cl, slot, []int{k.newItem()}, false)
	} else {
		k.begin(false, cl, slot, nil, k.chance(0.3))
	}
}

// ---- a run

func (k *world) runUntil(t float64) {
	for n := 1; len(k.q) > 0 && k.q[0].t <= t; n++ {
		e := heap.Pop(&k.q).(event)
		k.t = e.t
		e.f()
		k.n["events"]++
		if n%64 == 0 {
			k.checkDurable()
		}
	}
	k.t = t
}

// quiet reports whether the ring is at rest.
func (k *world) quiet() bool {
	for _, n := range k.hosts {
		if !n.gone && k.t-k.beats[n.id].t >= lease {
			return false
		}
	}
	for a := range k.m.All() {
		if a.State != ring.Stable {
			return false
		}
		for _, m := range a.Owners {
			if k.Buried(m) || k.state(hostID(m)) != ring.NodeActive {
				return false
			}
		}
	}
	return len(k.decide()) == 0
}

// run runs the schedule, then lets everything heal: the ring must come to rest, balanced, with nothing lost.
func (k *world) run() {
	k.at(1, k.fate)
	k.at(0.5, k.load)
	k.runUntil(300)
	k.calm, k.side, k.deaf = true, nil, map[int]bool{}
	if k.away {
		k.back()
	}
	for _, n := range k.hosts {
		n.up = n.up || !n.gone
		if !n.gone && k.alive(stays) < 3 {
			n.drain = false
		}
	}
	k.runUntil(k.t + 60) // what a paused manager has planned may still arrive
	for i := 0; ; i++ {
		k.runUntil(k.t + 20)
		if k.quiet() {
			break
		}
		if i == 120 {
			k.fail("the ring never comes to rest")
		}
	}
	k.runUntil(k.t + 40)
	k.atRest()
}

func (k *world) atRest() {
	k.checkDurable()
	load := map[string]int{}
	for _, n := range k.hosts {
		if !n.gone && !n.drain {
			load[n.me().Node] = 0
		}
	}
	for a := range k.m.All() {
		if len(a.Owners) != min(k.s.N, len(load)) {
			k.fail("too few copies at rest")
		}
		for _, m := range a.Owners {
			load[m.Node]++
		}
	}
	if all := slices.Collect(maps.Values(load)); slices.Max(all)-slices.Min(all) > 1 {
		k.fail("not balanced at rest")
	}
	for _, n := range k.hosts {
		for x := range slotCount {
			if !n.gone && !n.store[x].empty() && !k.m.Lookup(slotAt(x)).Has(n.me()) {
				k.fail("data is left over at rest")
			}
		}
	}
	answered := k.n["reads answered"]
	for _, cl := range k.clients[:2] {
		for x := range slotCount {
			k.begin(false, cl, x, nil, false)
		}
	}
	k.runUntil(k.t + 100)
	if k.n["reads answered"]-answered < 2*slotCount {
		k.fail("a read at rest got no answer")
	}
}
