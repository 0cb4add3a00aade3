package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// kept lists what a store keeps of requests to all sets.
func (p *pair) kept(t *testing.T) (all []bigset.KeptRequest) {
	t.Helper()
	for r, err := range p.store.Replica().Requests(bg, 0, keyscheme.SlotMax) {
		must(t, err, p.label+": requests")
		all = append(all, r)
	}
	return all
}

// keep takes what another store keeps, and checks how many were taken.
func (p *pair) keep(t *testing.T, all []bigset.KeptRequest, want int) {
	t.Helper()
	n, err := p.store.Replica().KeepRequests(bg, all, bigset.NoSync)
	if must(t, err, p.label+": keep requests"); n != want {
		t.Errorf("%s has taken %d of %d requests, want %d", p.label, n, len(all), want)
	}
}

// copyFrom takes all of set s as facts.
func (p *pair) copyFrom(t *testing.T, from *pair) {
	t.Helper()
	portion, err := from.store.Replica().ExportPortion(bg, []byte("s"), nil, 0)
	must(t, err, "export")
	f, err := portion.Facts()
	must(t, err, "facts")
	_, err = p.store.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.NoSync})
	must(t, err, "facts")
}

// twoClocks returns two stores on machines whose clocks differ, and the time.
func twoClocks(t *testing.T, age time.Duration) (a, b *pair, now *time.Time) {
	a, b = newPair("first"), newPair("second")
	at := time.UnixMilli(1_000_000_000)
	a.opt.Now = func() time.Time { return at }
	b.opt.Now = func() time.Time { return at.Add(-time.Hour) } // the machines' times differ
	for _, p := range []*pair{a, b} {
		p.opt.RequestAge = age
		p.open(t)
		t.Cleanup(func() { _ = p.store.Close() })
	}
	return a, b, &at
}

// TestRequestsGoWithACopy: a store that was given a set's keys and deaths, and then what another one keeps of its requests, answers them as that
// one does, and forgets them when that one does. It takes none of whose events it has not all.
func TestRequestsGoWithACopy(t *testing.T) {
	t.Parallel()
	a, b, now := twoClocks(t, time.Minute)
	a.asked(t, "", bigset.NoSync, addOp("y"), addOp("w"))
	opsOf := map[string][]bigset.Op{"one": {addOp("x"), rmOp("y")}, "two": {addOp("x"), addOp("z")}, "three": {rmOp("w")}}
	first := map[string]bigset.Result{}
	for _, id := range []string{"one", "two", "three"} {
		first[id] = a.asked(t, id, bigset.NoSync, opsOf[id]...)
		*now = now.Add(10 * time.Second)
	}
	all := a.kept(t)
	if len(all) != 3 {
		t.Fatalf("%d requests are kept: %+v", len(all), all)
	}
	b.keep(t, all, 0) // none of the events is here
	st := a.known(t, "s")
	_, err := b.store.Replica().ApplyFacts(bg, bigset.Facts{Set: []byte("s"), Dead: clock.Of(slices.Collect(st.Dead.Dots())[:1]...)}, bigset.ApplyOptions{Durability: bigset.NoSync})
	must(t, err, "a death")
	b.keep(t, all, 0)
	keysOnly, err := a.store.Replica().ExportPortion(bg, []byte("s"), nil, 0)
	must(t, err, "export")
	keysOnly.Dead = nil
	f, err := keysOnly.Facts()
	must(t, err, "facts")
	_, err = b.store.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.NoSync})
	must(t, err, "keys")
	b.keep(t, all, 0) // what they killed is not dead here
	b.copyFrom(t, a)
	b.keep(t, all, 3)
	b.keep(t, all, 0) // they are here
	b.keep(t, a.kept(t), 0)
	was := b.known(t, "s")
	for id, ops := range opsOf {
		sameResult(t, b.asked(t, id, bigset.NoSync, ops...), first[id])
	}
	if st := b.known(t, "s"); !st.Seen.Equal(was.Seen) || !st.Dead.Equal(was.Dead) {
		t.Errorf("again: %+v, was %+v", st, was)
	}
	must(t, b.store.Close(), "close")
	b.open(t)
	*now = now.Add(30*time.Second + time.Millisecond) // the first one was stored a minute ago, the others 50 and 40 s
	for _, left := range []int{2, 1, 0} {
		for _, p := range []*pair{a, b} {
			if n := len(p.kept(t)); n != left {
				t.Errorf("%s keeps %d requests, want %d", p.label, n, left)
			}
			must(t, p.store.RunnerTick(bg), "tick")
			if n, err := p.store.KeptRequests(); err != nil || n != left {
				t.Errorf("%s has %d requests on disk, want %d, %v", p.label, n, left, err)
			}
		}
		*now = now.Add(10 * time.Second)
	}
	b.keep(t, all[:1], 1) // 30 s old, so the list says
	*now = now.Add(30*time.Second + time.Millisecond)
	if n := len(b.kept(t)); n != 0 {
		t.Errorf("%d requests are kept longer than at the sender", n)
	}
}

// TestRequestsKeptAreRefused: records of several sets, that are malformed, or that a store with unresolved contexts can't keep.
func TestRequestsKeptAreRefused(t *testing.T) {
	t.Parallel()
	a, b, _ := twoClocks(t, time.Minute)
	a.asked(t, "id", bigset.NoSync, addOp("x"))
	b.copyFrom(t, a)
	good := a.kept(t)[0]
	was := b.known(t, "s")
	for what, c := range map[string]struct {
		change func(r *bigset.KeptRequest)
		want   error
	}{
		"another set": {func(r *bigset.KeptRequest) { r.Set = []byte("t") }, bigset.ErrRequest},
		"no set":      {func(r *bigset.KeptRequest) { r.Set = nil }, bigset.ErrRequest},
		"no id":       {func(r *bigset.KeptRequest) { r.ID = nil }, bigset.ErrRequest},
		"long id":     {func(r *bigset.KeptRequest) { r.ID = make([]byte, 65) }, bigset.ErrLimit},
		"no events":   {func(r *bigset.KeptRequest) { r.Events = nil }, bigset.ErrRequest},
		"no dot":      {func(r *bigset.KeptRequest) { r.First = 0 }, bigset.ErrRequest},
		"a wrap": {func(r *bigset.KeptRequest) {
			r.First = 1<<64 - 1
			r.Events = append(r.Events, r.Events[0], r.Events[0])
		}, bigset.ErrRequest},
		"no actor":     {func(r *bigset.KeptRequest) { r.Actor = "" }, bigset.ErrRequest},
		"no age":       {func(r *bigset.KeptRequest) { r.Age = -time.Millisecond }, bigset.ErrRequest},
		"part of a ms": {func(r *bigset.KeptRequest) { r.Age = 1 }, bigset.ErrRequest},
		"no operation": {func(r *bigset.KeptRequest) { r.Events = []keyscheme.RequestItem{{Op: 'z'}} }, bigset.ErrRequest},
	} {
		r := good
		r.Events = slices.Clone(r.Events)
		c.change(&r)
		if n, err := b.store.Replica().KeepRequests(bg, []bigset.KeptRequest{good, r}, bigset.NoSync); !errors.Is(err, c.want) || n != 0 {
			t.Errorf("%s: %d taken, %v, want %v", what, n, err, c.want)
		}
	}
	if n, err := b.store.Replica().KeepRequests(bg, nil, bigset.NoSync); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	for _, err := range b.store.Replica().Requests(bg, 2, 1) {
		if !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("an odd range: %v", err)
		}
	}
	if st := b.known(t, "s"); !st.Seen.Equal(was.Seen) || len(b.kept(t)) != 0 {
		t.Errorf("something was taken: %+v", b.kept(t))
	}
	q := openPair(t, "unresolved contexts")
	defer q.close(t)
	if _, err := q.store.Replica().KeepRequests(bg, []bigset.KeptRequest{good}, bigset.NoSync); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("with unresolved contexts: %v", err)
	}
}

// TestRequestsOfARange: a list has the requests to the sets of its slots, those of one set together, of this process and of the one before, and
// not what was dropped.
func TestRequestsOfARange(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	want := map[string]int{}
	for i := range 40 {
		name := fmt.Sprintf("set %d", i)
		want[name] = i%3 + 1
		for j := range want[name] {
			_, err := p.store.Write(bg, []byte(name), []bigset.Op{addOp("a")}, bigset.WriteOptions{Request: fmt.Appendf(nil, "id %d", j), Durability: bigset.NoSync})
			must(t, err, "write")
		}
		if i == 20 {
			must(t, p.store.Close(), "close")
			p.open(t)
		}
	}
	list := func(first, last keyscheme.Slot) map[string]int {
		got, before := map[string]int{}, ""
		for r, err := range p.store.Replica().Requests(bg, first, last) {
			must(t, err, "list")
			name := string(r.Set)
			if at := keyscheme.SetSlot(r.Set); at < first || at > last || got[name] > 0 && before != name || r.Check() != nil {
				t.Errorf("%q after %q: %+v", name, before, r)
			}
			got[name]++
			before = name
		}
		return got
	}
	if got := list(0, keyscheme.SlotMax); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	cut := keyscheme.SetSlot([]byte("set 7"))
	low, high := list(0, cut-1), list(cut+1, keyscheme.SlotMax)
	if one := list(cut, cut); fmt.Sprint(one) != "map[set 7:2]" || len(low)+len(high)+1 != len(want) || len(low) == 0 || len(high) == 0 {
		t.Errorf("%v; %d below, %d above", one, len(low), len(high))
	}
	must(t, p.store.Replica().DropRange(bg, 0, cut), "drop")
	if got := list(0, keyscheme.SlotMax); fmt.Sprint(got) != fmt.Sprint(high) {
		t.Errorf("got %v, want %v", got, high)
	}
}

// TestOldRequestsGoFirst: records of another store are older than some that were kept here before, and are forgotten before these.
func TestOldRequestsGoFirst(t *testing.T) {
	t.Parallel()
	a, b, now := twoClocks(t, time.Hour)
	must(t, b.store.Close(), "close")
	b.opt.RequestsKept = 4
	b.open(t)
	for i := range 3 {
		a.asked(t, fmt.Sprint("old ", i), bigset.NoSync, addOp("x"))
		*now = now.Add(time.Second)
	}
	for i := range 2 {
		b.asked(t, fmt.Sprint("new ", i), bigset.NoSync, addOp("x"))
		*now = now.Add(time.Second)
	}
	b.copyFrom(t, a)
	b.keep(t, a.kept(t), 3)
	must(t, b.store.RunnerTick(bg), "tick")
	var ids []string
	for _, r := range b.kept(t) {
		ids = append(ids, string(r.ID))
	}
	if slices.Sort(ids); fmt.Sprint(ids) != "[new 0 new 1 old 1 old 2]" {
		t.Errorf("%q are kept", ids)
	}
}

// TestKeptRequestsCrash crashes at every operation on the disk while a set comes from another store, and then what that keeps of requests to
// it: no record is on disk without its events.
func TestKeptRequestsCrash(t *testing.T) {
	t.Parallel()
	a, _, now := twoClocks(t, time.Hour)
	a.asked(t, "", bigset.NoSync, addOp("c0"), addOp("c1"), addOp("c2"))
	for i := range 6 {
		a.asked(t, fmt.Sprint("id ", i), bigset.NoSync, addOp(fmt.Sprint("e", i)), rmOp(fmt.Sprint("c", i%3)))
	}
	all, kept, ends := a.kept(t), 0, 0
	for at := int64(0); ; at++ {
		p := newPair(fmt.Sprintf("crash at %d", at))
		p.opt.Now = func() time.Time { return *now }
		p.open(t)
		crash := p.disk.CrashAt(at, []int{0, 50, 100}[at%3], uint64(at))
		p.copyFrom(t, a)
		if at%2 == 0 {
			must(t, p.store.FlushTables(), "flush")
		}
		p.keep(t, all[:3], 3)
		must(t, p.store.Flush(bg), "flush")
		_, err := p.store.Replica().KeepRequests(bg, all[3:], bigset.Sync)
		must(t, err, "keep")
		must(t, p.store.FlushTables(), "flush")
		left := crash()
		_ = p.store.Close()
		if left == nil {
			break
		}
		p.disk = left
		p.open(t)
		ends++
		for _, r := range p.kept(t) {
			kept++
			i := slices.IndexFunc(all, func(o bigset.KeptRequest) bool { return bytes.Equal(o.ID, r.ID) })
			st, err := p.store.Replica().State(bg, []byte("s"))
			must(t, err, "state")
			for n, ev := range all[i].Events {
				if !st.Seen.Contains(clock.Dot{Actor: r.Actor, Counter: r.First + uint64(n)}) || !st.Dead.Descends(ev.Context) {
					t.Errorf("%s: request %q is kept and its event %d is not here", p.label, r.ID, n)
				}
			}
		}
		_ = p.store.Close()
	}
	if kept == 0 {
		t.Errorf("none of %d crashes has left a record", ends)
	}
}

// TestRequestsInPages: what is read of requests at a time is bounded in bytes, however many events a request has.
func TestRequestsInPages(t *testing.T) {
	t.Parallel()
	a, _, _ := twoClocks(t, time.Hour)
	ops := make([]bigset.Op, 60_000)
	for i := range ops {
		ops[i] = addOp(fmt.Sprintf("%05d", i))
	}
	for i := range 3 {
		o := bigset.WriteOptions{Request: fmt.Append(nil, "large ", i), Policy: bigset.PolicyEmpty, Durability: bigset.NoSync}
		_, err := a.store.Write(bg, []byte("s"), ops, o)
		must(t, err, "large write")
	}
	for i := range 300 {
		a.asked(t, fmt.Sprint("small ", i), bigset.NoSync, rmOp(fmt.Sprintf("%05d", i)))
	}
	pages, err := a.store.RequestPages(bg)
	must(t, err, "pages")
	sum := 0
	for _, n := range pages {
		if sum += n; n == 0 || n > 256 {
			t.Errorf("pages of %d records", pages)
		}
	}
	if len(pages) < 3 || sum != 303 || len(a.kept(t)) != 303 {
		t.Errorf("pages of %d records", pages)
	}
}

// TestKeptRequestsInOrder: records of another store come among those of this one in the order of their age, however they come.
func TestKeptRequestsInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b, now := twoClocks(t, time.Hour)
		const records = 40
		for i := range records {
			[]*pair{a, b}[rng.IntN(2)].asked(t, fmt.Sprint(i), bigset.NoSync, addOp("x"))
			*now = now.Add(time.Duration(rng.IntN(3)) * time.Second)
		}
		b.copyFrom(t, a)
		all := a.kept(t)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for left := all; len(left) > 0; {
			n := 1 + rng.IntN(len(left))
			b.keep(t, left[:n], n)
			left = left[n:]
		}
		if millis := b.store.KeptMillis(); len(millis) != records || !slices.IsSorted(millis) {
			t.Errorf("seed %d: %d records, stored at %d", seed, len(millis), millis)
		}
	}
}
