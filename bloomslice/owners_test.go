package bloomslice

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// owned is what a replica has of a slice that several replicas fill, and the keys that it has received.
type owned struct {
	*Slice
	name string
	keys map[string]bool
}

// message is something of a slice that one replica has sent to others: a mark, a page, or layers.
type message struct {
	to     Layer
	hash   Hash
	key    string
	page   uint32
	value  []byte
	layers []Layer
}

// mark adds a key in a layer of the replica's own, and returns the message for the others. A key that was already present is sent,
// too.
func (o *owned) mark(t rapid.TB, key string) message {
	t.Helper()
	h := Sum([]byte(key))
	to, added, err := o.Admit(&h, o.name)
	if err != nil {
		t.Fatal(err)
	}
	if added {
		o.Commit()
	}
	o.keys[key] = true
	return message{to: to, hash: h, key: key}
}

// receive does what a message says.
func (o *owned) receive(t rapid.TB, m *message) {
	t.Helper()
	var err error
	switch {
	case m.layers != nil:
		for i := range m.layers {
			if err = o.Restore(m.layers[i]); err != nil {
				break
			}
		}
	case m.value != nil:
		if err = o.Restore(m.to); err == nil {
			err = o.MergePage(m.to.ID, m.page, m.value)
		}
	default:
		o.set(t, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// set applies a mark. AdmitSet must report the key as Check did before.
func (o *owned) set(t rapid.TB, m *message) {
	t.Helper()
	had, err := o.Check(&m.hash)
	if err != nil {
		t.Fatal(err)
	}
	has, err := o.AdmitSet(m.to, &m.hash)
	if err != nil || has != had {
		t.Fatalf("%q: in the slice %v, before that %v, %v", m.key, has, had, err)
	}
	o.CommitSet(m.to)
	if there, err := o.Check(&m.hash); !there || err != nil {
		t.Fatalf("%q is set: %v, %v", m.key, there, err)
	}
	o.keys[m.key] = true
}

// pages returns all pages that have bits.
func (o *owned) pages() (all []message) {
	for _, l := range *o.layers.Load() {
		for page := range l.pages {
			if w := l.pages[page].Load(); w != nil && w != &zeroPage {
				all = append(all, message{to: l.now(), page: uint32(page), value: w.append(nil)})
			}
		}
	}
	return all
}

// sendAll sends everything that one replica has to another.
func sendAll(t rapid.TB, from, to *owned) {
	t.Helper()
	to.receive(t, &message{layers: from.Layers()})
	for _, m := range from.pages() {
		to.receive(t, &m)
	}
	for key := range from.keys {
		to.keys[key] = true
	}
}

// equal checks that two have the same layers, counts and bits.
func equal(t rapid.TB, a, b *owned) {
	t.Helper()
	if x, y := a.Layers(), b.Layers(); !slices.Equal(x, y) {
		t.Fatalf("%s and %s have other layers: %+v, %+v", a.name, b.name, x, y)
	}
	x, y := a.pages(), b.pages()
	if !slices.EqualFunc(x, y, func(m, n message) bool { return m.to == n.to && m.page == n.page && slices.Equal(m.value, n.value) }) {
		t.Fatalf("%s and %s have other bits", a.name, b.name)
	}
}

func owners(t testing.TB, o Options, n int) (replicas []*owned) {
	for i := range n {
		replicas = append(replicas, &owned{slice(t, o, nil, nil), fmt.Sprint("owner", i), map[string]bool{}})
	}
	return replicas
}

// TestOwnersConverge: owners fill a slice concurrently, and their messages are lost, late, duplicated and out of order. No replica
// denies a key that it has received, and when all have sent everything, all are equal.
func TestOwnersConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := options(10001, 0.05)
		o.Owners = 64 // so that layers are full soon
		replicas := owners(t, o, rapid.IntRange(2, 4).Draw(rt, "owners"))
		var sent []message
		one := rapid.IntRange(0, len(replicas)-1)
		some := func() *message { return &sent[rapid.IntRange(0, len(sent)-1).Draw(rt, "message")] }
		rt.Repeat(map[string]func(*rapid.T){
			"mark": func(rt *rapid.T) {
				r := replicas[one.Draw(rt, "at")]
				from := rapid.IntRange(0, 1500).Draw(rt, "from")
				for i := range rapid.IntRange(1, 400).Draw(rt, "keys") {
					sent = append(sent, r.mark(rt, fmt.Sprint(from+i)))
				}
			},
			"pages": func(rt *rapid.T) {
				sent = append(sent, replicas[one.Draw(rt, "at")].pages()...)
			},
			"layers": func(rt *rapid.T) {
				if l := replicas[one.Draw(rt, "at")].Layers(); len(l) > 0 {
					sent = append(sent, message{layers: l})
				}
			},
			"deliver": func(rt *rapid.T) {
				to := replicas[one.Draw(rt, "to")]
				for range min(len(sent), rapid.IntRange(1, 60).Draw(rt, "messages")) {
					to.receive(rt, some())
				}
			},
			"": func(rt *rapid.T) {
				for _, r := range replicas {
					for key := range r.keys {
						if h := Sum([]byte(key)); !must(rt, r, &h) {
							rt.Fatalf("%s denies %s", r.name, key)
						}
					}
				}
			},
		})
		for _, r := range replicas[1:] {
			sendAll(rt, r, replicas[0])
		}
		for _, r := range replicas[1:] {
			sendAll(rt, replicas[0], r)
			equal(rt, replicas[0], r)
		}
	})
}

func must(t rapid.TB, r *owned, h *Hash) bool {
	t.Helper()
	has, err := r.Check(h)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// TestOwnersFalsePositives: three owners fill one slice, each with its part of the keys and some of the others', while marks reach
// the others late and in another order. At the capacity and at ten times the capacity, the probability over all layers is as
// requested.
func TestOwnersFalsePositives(t *testing.T) {
	const p, capacity, asked = 0.01, 10_001, 200_000
	o := options(capacity, p)
	o.Owners = 3
	replicas := owners(t, o, 3)
	rng := rand.New(rand.NewPCG(4, 2))
	late := make([][]message, len(replicas)) // for each, messages that have not arrived
	deliver := func(to, left int) {
		rng.Shuffle(len(late[to]), func(i, j int) { late[to][i], late[to][j] = late[to][j], late[to][i] })
		for _, m := range late[to][left:] {
			replicas[to].receive(t, &m)
		}
		late[to] = late[to][:left]
	}
	n := 0
	for _, size := range []int{capacity, 10 * capacity} {
		for ; n < size; n++ {
			at := rng.IntN(len(replicas))
			m := replicas[at].mark(t, fmt.Sprint("in", n))
			if n%50 == 0 {
				m = replicas[(at+1)%3].mark(t, fmt.Sprint("in", n)) // before it has received the key, or not
			}
			for to := range replicas {
				if late[to] = append(late[to], m); len(late[to]) > 2000 {
					deliver(to, 500)
				}
			}
		}
		for to := range replicas {
			deliver(to, 0)
		}
		for i := range replicas { // a replica that was asked for a key twice has sent only one mark
			sendAll(t, replicas[i], replicas[(i+1)%3])
			sendAll(t, replicas[i], replicas[(i+2)%3])
		}
		for _, r := range replicas[1:] {
			equal(t, replicas[0], r)
		}
		for _, l := range replicas[0].Layers() {
			if l.Count > l.Shape.Capacity {
				t.Errorf("%d keys: layer %+v is overfilled", n, l)
			}
		}
		found := 0
		for i := range asked {
			if has(t, replicas[0].Slice, fmt.Sprint("out", i)) {
				found++
			}
		}
		rate := float64(found) / asked
		t.Logf("%d keys in %d layers: %.5f of others are found", n, len(replicas[0].Layers()), rate)
		last := replicas[0].Layers()[len(replicas[0].Layers())-1].ID.Index
		most := p * (1 - math.Pow(o.Reduction, float64(last)+1)) // of one owner's layers of these indexes; below p
		if rate > 1.1*most {
			t.Errorf("%d keys: %.5f of others are found, want at most %.5f", n, rate, 1.1*most)
		}
	}
}

// TestSlicesFalsePositives: the keys of a filter that is cut in 8 are found in their slices, and others are found no more often
// than requested.
func TestSlicesFalsePositives(t *testing.T) {
	const p, capacity, asked, parts = 0.01, 20_000, 200_000, 8
	o := options(capacity, p)
	o.Slices = parts
	var filter [parts]*Slice
	for i := range filter {
		filter[i] = slice(t, o, nil, nil)
	}
	of := func(key string) *Slice {
		h := Sum([]byte(key))
		return filter[h.Slice(parts)]
	}
	n := 0
	for _, size := range []int{capacity, 10 * capacity} {
		for ; n < size; n++ {
			key := fmt.Sprint("in", n)
			add(t, of(key), key)
		}
		for i := range n {
			if key := fmt.Sprint("in", i); !has(t, of(key), key) {
				t.Fatalf("%s is denied", key)
			}
		}
		found := 0
		for i := range asked {
			if key := fmt.Sprint("out", i); has(t, of(key), key) {
				found++
			}
		}
		if rate := float64(found) / asked; rate > 1.1*p {
			t.Errorf("%d keys: %.4f of others are found, want at most %.4f", n, rate, 1.1*p)
		}
	}
}

// TestGrowRule: an owner's next layer comes after its others, at the first index at which not every owner has one.
func TestGrowRule(t *testing.T) {
	o := options(10001, 0.01)
	o.Owners = 2
	s := slice(t, o, nil, nil)
	full := func(index uint16, owner string) {
		t.Helper()
		shape, err := o.Shape(int(index))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Restore(Layer{LayerID{index, owner}, shape, shape.Capacity}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		owner string
		want  uint16
	}{{"a", 0}, {"b", 0}, {"c", 1}, {"a", 1}, {"b", 2}, {"c", 2}, {"a", 3}, {"d", 3}, {"b", 4}, {"a", 4}, {"a", 5}, {"e", 5}} {
		h := Sum(fmt.Append(nil, "grow", i))
		to, added, err := s.Admit(&h, c.owner)
		if err != nil || !added {
			t.Fatal(added, err)
		}
		s.Commit()
		want := LayerID{c.want, c.owner}
		shape, _ := o.Shape(int(c.want))
		if to.ID != want || to.Shape != shape || to.Count != 1 {
			t.Fatalf("step %d: %+v, want %+v in %+v", i, to, want, shape)
		}
		full(c.want, c.owner)
	}
}

// TestAdmitThere: for a key that is present, Admit names a layer that has its bits, whichever owner it belongs to, and however many
// are newer. Setting the key there changes nothing here, and brings the key to another replica.
func TestAdmitThere(t *testing.T) {
	o := options(10001, 0.001)
	o.Owners = 100
	s := slice(t, o, nil, nil)
	where := map[string]Layer{}
	for i := range 3000 {
		key := fmt.Sprint(i)
		h := Sum([]byte(key))
		to, added, err := s.Admit(&h, fmt.Sprint("owner", i%3))
		if err != nil {
			t.Fatal(err)
		}
		if added {
			s.Commit()
			where[key] = to
		}
	}
	bits := func() (all [][]uint64) {
		for i := range s.Layers() {
			all = append(all, allBits(s, i))
		}
		return all
	}
	was, layers := bits(), s.Layers()
	elsewhere := 0
	for key, first := range where {
		h := Sum([]byte(key))
		for _, owner := range []string{"owner0", "owner1", "stranger"} {
			to, added, err := s.Admit(&h, owner)
			if err != nil || added {
				t.Fatalf("%s: %v, %v", key, added, err)
			}
			if to.ID != first.ID {
				elsewhere++ // a false positive of another layer
			}
			if now := s.find(to.ID).now(); to != now {
				t.Fatalf("%s: %+v, want %+v", key, to, now)
			}
			if err := s.Set(to, &h); err != nil {
				t.Fatal(err)
			}
			other := slice(t, o, nil, nil)
			if err := other.Set(to, &h); err != nil {
				t.Fatal(err)
			}
			if is, err := other.Check(&h); err != nil || !is || len(other.Layers()) != 1 {
				t.Fatalf("%s is denied where the mark went: %v", key, err)
			}
		}
	}
	if now := bits(); !slices.EqualFunc(was, now, slices.Equal) || !slices.Equal(layers, s.Layers()) {
		t.Error("marks of keys that were there have changed bits or layers")
	}
	if elsewhere > len(where)/10 {
		t.Errorf("%d times another layer than the first was named", elsewhere)
	}
}

// TestSeatOwners: each seat has an owner of its own, and only those are seats.
func TestSeatOwners(t *testing.T) {
	last := LayerID{}
	for i := range OwnersMax {
		id := LayerID{Owner: Seat(i).Owner()}
		if seat, ok := id.Seat(); !ok || seat != Seat(i) {
			t.Errorf("seat %d comes back as %d, %v", i, seat, ok)
		}
		if i > 0 && last.Compare(id) >= 0 {
			t.Errorf("layers of seat %d are not in order", i)
		}
		last = id
	}
	for _, owner := range []string{"\x00", "node", "\x01\x01", "\x00\x01"} {
		if seat, ok := (LayerID{Owner: owner}).Seat(); ok {
			t.Errorf("%q is seat %d", owner, seat)
		}
	}
	for id, want := range map[LayerID]string{{}: "layer 0 of seat 0", {2, "\xFF"}: "layer 2 of seat 255", {3, "node"}: `layer 3 of "node"`} {
		if got := id.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// handed marks keys in a slice of three seats. Every so often a move hands one of the seats to another replica, which has
// everything that the previous one had. It returns the slice of a replica that has received everything.
func handed(t *testing.T, o Options, keys, moves int, owner func(seat, move int) string) *owned {
	t.Helper()
	replicas := owners(t, o, 3)
	for i := range replicas {
		replicas[i].name = owner(i, 0)
	}
	for i := range keys {
		if at := i * moves / keys; i > 0 && at != (i-1)*moves/keys {
			seat := at % 3
			next := &owned{slice(t, o, nil, nil), owner(seat, at), map[string]bool{}}
			sendAll(t, replicas[seat], next)
			replicas[seat] = next
		}
		m := replicas[i%3].mark(t, fmt.Sprint("key", i))
		for _, r := range replicas {
			r.receive(t, &m)
		}
	}
	for _, r := range replicas {
		for key := range r.keys {
			if !has(t, r.Slice, key) {
				t.Fatalf("%s is denied", key)
			}
		}
	}
	return replicas[0]
}

// TestSeatHandedOn: a slice has as many layers after 200 moves as after none. If each replica that ever existed had its own owner,
// it would grow without bound.
func TestSeatHandedOn(t *testing.T) {
	o := options(10001, 0.01)
	o.Owners = 3
	const keys = 30_000
	seat := func(seat, _ int) string { return Seat(seat).Owner() }
	still, moved := handed(t, o, keys, 1, seat), handed(t, o, keys, 200, seat)
	if a, b := still.Layers(), moved.Layers(); len(a) != len(b) || a[len(a)-1].ID.Index != b[len(b)-1].ID.Index {
		t.Errorf("%d moves lead to layers %+v, none to %+v", 200, b, a)
	}
	named := handed(t, o, keys, 12, func(seat, move int) string { return fmt.Sprint("node", seat, " ", move) })
	if a, b := moved.Layers(), named.Layers(); len(b) <= len(a) {
		t.Errorf("12 nodes have %d layers, and seats %d: this test shows nothing", len(b), len(a))
	}
}

// TestSeatFilledByTwo: while a move settles, two replicas fill one seat without hearing of each other. Then each sends everything
// to the other. No key is denied, no count exceeds its layer's capacity, layers hold at most what both put there, and there are no
// more layers than one replica makes.
func TestSeatFilledByTwo(t *testing.T) {
	o := options(10001, 0.01)
	o.Owners = 3
	shape, err := o.Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []int{100, int(shape.Capacity) - 1, int(shape.Capacity) + 500} {
		a := &owned{slice(t, o, nil, nil), Seat(1).Owner(), map[string]bool{}}
		b := &owned{slice(t, o, nil, nil), Seat(1).Owner(), map[string]bool{}}
		for i := range each {
			a.mark(t, fmt.Sprint("a", i))
			b.mark(t, fmt.Sprint("b", i))
		}
		sendAll(t, a, b)
		sendAll(t, b, a)
		equal(t, a, b)
		for i := range 2000 { // only b goes on
			m := b.mark(t, fmt.Sprint("later", i))
			a.receive(t, &m)
		}
		for _, r := range []*owned{a, b} {
			for key := range r.keys {
				if !has(t, r.Slice, key) {
					t.Fatalf("%d keys each: %s is denied", each, key)
				}
			}
		}
		counted := uint64(0)
		for i, l := range b.Layers() {
			if counted += l.Count; l.Count > l.Shape.Capacity || int(l.ID.Index) != i {
				t.Errorf("%d keys each: layers %+v", each, b.Layers())
			}
		}
		if all := uint64(len(b.keys)); counted+uint64(each) < all-all/50 { // false positives are not counted
			t.Errorf("%d keys each: %d of %d are counted", each, counted, all)
		}
	}
}

// TestSetOwners: when several owners fill a slice that one owner has filled, the existing layers keep their indexes to themselves,
// and the one owner continues in the last of them.
func TestSetOwners(t *testing.T) {
	o := options(10001, 0.01)
	s := slice(t, o, nil, nil)
	key := func(i int, owner string) Layer {
		t.Helper()
		h := Sum(fmt.Append(nil, "key", i))
		to, added, err := s.Admit(&h, owner)
		if err != nil {
			t.Fatal(err)
		}
		if added {
			s.Commit()
		}
		return to
	}
	n := 0
	for ; len(s.Layers()) < 2; n++ {
		key(n, "")
	}
	s.SetOwners(3)
	three := o
	three.Owners = 3
	was := s.Layers()
	for i, c := range []struct {
		seat Seat
		want LayerID
	}{{0, LayerID{1, ""}}, {1, LayerID{2, "\x01"}}, {2, LayerID{2, "\x02"}}, {0, LayerID{1, ""}}} {
		for n++; has(t, s, fmt.Sprint("key", n)); n++ {
		}
		to := key(n, c.seat.Owner())
		if to.ID != c.want {
			t.Fatalf("step %d: %+v, want %+v", i, to, c.want)
		}
		if shape, _ := three.Shape(int(c.want.Index)); c.seat > 0 && to.Shape != shape {
			t.Errorf("step %d: %+v, want %+v", i, to.Shape, shape)
		}
	}
	full := was[1]
	full.Count = full.Shape.Capacity
	if err := s.Restore(full); err != nil {
		t.Fatal(err)
	}
	n++
	if to := key(n, ""); to.ID != (LayerID{2, ""}) {
		t.Errorf("%+v", to)
	}
	if now := s.Layers(); now[0] != was[0] || now[1].Shape != was[1].Shape {
		t.Errorf("%+v, there was %+v", now, was)
	}
}
