package filters_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestFilterOfSlices: a filter that is cut into slices has its keys, each in its slice, through flushes, closes, restarts, clear
// and drop, and its figures are the sums.
func TestFilterOfSlices(t *testing.T) {
	t.Parallel()
	for _, d := range []bigset.FilterDurability{bigset.FilterInterval, bigset.FilterSync} {
		p := newRoom("slices")
		p.open(t)
		o := bigset.FilterOptions{Options: bloomslice.Options{Capacity: 20_000, Slices: 8}, Durability: d}
		f, err := p.store.Filters().Create(bg, []byte("f"), o)
		must(t, err, "create")
		keys, added := markKeys(0, 40_000), make([]bool, 40_000)
		must(t, f.MarkAll(bg, keys, added), "mark")
		news := len(keys) - len(slices.DeleteFunc(slices.Clone(added), func(b bool) bool { return b }))
		_, err = f.Mark(bg, []byte("one"))
		must(t, err, "mark one")
		check := func(when string) {
			t.Helper()
			f, err := p.store.Filters().Get([]byte("f"))
			must(t, err, when)
			present := make([]bool, len(keys))
			must(t, f.CheckAll(keys, present), when)
			if i := slices.Index(present, false); i >= 0 {
				t.Fatalf("%s: %q is denied", when, keys[i])
			}
			if yes, err := f.Check([]byte("one")); !yes || err != nil {
				t.Fatalf("%s: %v, %v", when, yes, err)
			}
			absent := markKeys(100_000, 120_000)
			must(t, f.CheckAll(absent, present[:len(absent)]), when)
			if n := len(absent) - len(slices.DeleteFunc(present[:len(absent)], func(b bool) bool { return b })); n > 20 {
				t.Errorf("%s: %d false positives", when, n)
			}
			info, err := f.Info()
			must(t, err, when)
			if info.Size < uint64(news) || info.Size > uint64(news)+1 || info.Capacity != 8*(2500+10_000) || info.Options.Slices != 8 {
				t.Errorf("%s: %+v, %d were new", when, info, news)
			}
			if rep, err := p.store.Verify(); err != nil || !rep.OK() {
				t.Errorf("%s: %+v, %v", when, rep.Problems, err)
			}
		}
		check("made")
		must(t, f.Flush(bg), "flush")
		if closed, err := f.Close(bg); !closed || err != nil {
			t.Fatalf("close: %v, %v", closed, err)
		}
		check("closed")
		p.close(t)
		p.open(t)
		if err := p.store.Filters().Clear([]byte("f")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter()); err != nil {
			t.Fatal(err)
		}
		f, err = p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		if info, err := f.Info(); err != nil || info.PageIns != 8 {
			t.Errorf("made again: %d slices were opened, %v", info.PageIns, err)
		}
		check("cleared, and made again")
		if _, err := f.Read(bg); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("read as one: %v", err)
		}
		must(t, p.store.Filters().Drop(bg, []byte("f")), "drop")
		if _, err := f.Check(keys[0]); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("dropped: %v", err)
		}
		p.store.own.Excised()
		for i := range uint32(8) {
			must(t, p.store.EachKey(keyscheme.NewFilterPrefix([]byte("f"), i).All(), func(k *keyscheme.Key) {
				t.Errorf("slice %d has keys: %x", i, k.Rest)
			}), "keys")
		}
		if present, dropped, err := p.store.Directory(); present+dropped > 0 || err != nil {
			t.Errorf("the directory has %d and %d entries, %v", present, dropped, err)
		}
		p.close(t)
	}
}

// sliceSpec is a filter that replicas share.
func sliceSpec(slice uint32, generation uint64, d bigset.FilterDurability) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte("f"), Slice: slice, Generation: generation, Options: bigset.FilterOptions{
		Options:    bloomslice.Options{Capacity: 10_001, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 2, Owners: 3},
		Durability: d,
	}}
}

// sliceKeys are the hashes of keys that belong to a slice.
func sliceKeys(spec *bigset.SliceSpec, from, to int) (hashes []bloomslice.Hash) {
	for _, key := range markKeys(from, to) {
		if h := bloomslice.Sum(key); h.Slice(spec.Options.Slices) == spec.Slice {
			hashes = append(hashes, h)
		}
	}
	return hashes
}

// sliceReplica is a store that has slices, and what it has acknowledged.
type sliceReplica struct {
	*room
	seat  bloomslice.Seat
	acked []bloomslice.Hash // that it must have, while its generation is
	inbox []bigset.Marks
}

func (r *sliceReplica) denies(t *testing.T, spec bigset.SliceSpec, what string) {
	t.Helper()
	for chunk := range slices.Chunk(r.acked, bigset.MarksMax) {
		present := make([]bool, len(chunk))
		must(t, r.store.Filters().CheckSlice(bg, spec, chunk, present), what)
		if i := slices.Index(present, false); i >= 0 {
			t.Fatalf("%s: %s denies a key", what, r.label)
		}
	}
}

// crash leaves the replica with what of its disk survives: all that was synced, and a share of the rest.
func (r *sliceReplica) crash(percent int) {
	left := r.disk.CrashClone(percent, 1)
	_ = r.store.Close() // of the past
	r.disk = left
}

// pull brings a slice of one replica to another, as an exchange does.
func pull(t *testing.T, spec bigset.SliceSpec, from, to *sliceReplica) (pages int) {
	t.Helper()
	there := map[bigset.PagePlace]uint64{}
	for _, sum := range allSums(t, spec, to).Sums {
		there[sum.PagePlace] = sum.Sum
	}
	has := allSums(t, spec, from)
	var want []bigset.PagePlace
	for _, sum := range has.Sums {
		if s, ok := there[sum.PagePlace]; !ok || s != sum.Sum {
			want = append(want, sum.PagePlace)
		}
	}
	for chunk := range slices.Chunk(want, 7) {
		got, err := from.store.Filters().Pages(bg, spec, chunk)
		must(t, err, "pages")
		if len(got.Pages) != len(chunk) {
			t.Fatalf("%d pages, not %d", len(got.Pages), len(chunk))
		}
		must(t, to.store.Filters().MergePages(bg, got), "merge")
	}
	must(t, to.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: has.Layers}), "merge layers")
	return len(want)
}

func allSums(t *testing.T, spec bigset.SliceSpec, r *sliceReplica) (all bigset.PageSums) {
	t.Helper()
	for after := (*bigset.PagePlace)(nil); !all.Done; {
		sums, err := r.store.Filters().PageSums(bg, spec, after, 5)
		must(t, err, "sums")
		all.Layers, all.Done = sums.Layers, sums.Done
		if all.Sums = append(all.Sums, sums.Sums...); len(sums.Sums) > 0 {
			after = &all.Sums[len(all.Sums)-1].PagePlace
		}
	}
	return all
}

// digestOf returns the digest of a slice among those of a replica.
func (r *sliceReplica) digestOf(t *testing.T, spec bigset.SliceSpec) (found *bigset.SliceDigest) {
	t.Helper()
	for d, err := range r.store.Filters().SliceDigests(bg, spec.Slot(), spec.Slot()) {
		must(t, err, "digests")
		if d.Slice == spec.Slice && string(d.Name) == string(spec.Name) {
			found = &d
		}
	}
	return found
}

// TestSliceReplicas marks keys at three replicas at the same time. Marks reach the others late, twice, in any order or not at all;
// pages are exchanged in between; stores are closed, crash, flush. No replica ever denies what it has acknowledged, and when all
// have exchanged everything they are equal: digests, layers, counts.
func TestSliceReplicas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Times(12)) {
		rng := rand.New(rand.NewPCG(seed, 6))
		d := []bigset.FilterDurability{bigset.FilterInterval, bigset.FilterLog, bigset.FilterSync}[seed%3]
		spec := sliceSpec(uint32(seed%2), 7, d)
		var replicas []*sliceReplica
		for i := range 3 {
			r := &sliceReplica{room: newRoom(fmt.Sprint("replica ", i)), seat: bloomslice.Seat(i)}
			r.opt.FilterCacheBytes = 1 << 18
			r.open(t)
			replicas = append(replicas, r)
		}
		for range 60 {
			i := rng.IntN(3)
			r := replicas[i]
			what := fmt.Sprintf("seed %d, %s", seed, r.label)
			switch rng.IntN(8) {
			case 0, 1:
				from := rng.IntN(30_000)
				hashes := sliceKeys(&spec, from, from+rng.IntN(3000))
				m, err := r.store.Filters().MarkSlice(bg, spec, r.seat, hashes, make([]bool, len(hashes)))
				must(t, err, what)
				r.acked = append(r.acked, hashes...)
				for j, other := range replicas {
					if j != i && len(m.Marks) > 0 {
						other.inbox = append(other.inbox, m, m)
					}
				}
			case 2, 3, 4:
				if len(r.inbox) == 0 {
					break
				}
				at := rng.IntN(len(r.inbox))
				m := r.inbox[at]
				r.inbox = slices.Delete(r.inbox, at, at+1)
				if rng.IntN(4) == 0 {
					break // lost
				}
				must(t, r.store.Filters().ApplyMarks(bg, m, make([]bool, len(m.Marks))), what)
				for _, mark := range m.Marks {
					r.acked = append(r.acked, mark.Hash)
				}
			case 5:
				pull(t, spec, r, replicas[(i+1)%3])
			case 6:
				must(t, r.store.Filters().Flush(bg), what)
			case 7:
				if d == bigset.FilterInterval || rng.IntN(2) == 0 {
					r.close(t)
				} else {
					survives := map[bigset.FilterDurability]int{bigset.FilterLog: 100, bigset.FilterSync: rng.IntN(101)}[d]
					r.crash(survives)
				}
				r.open(t)
			}
			r.denies(t, spec, what)
		}
		for range 2 {
			for i := range replicas {
				pull(t, spec, replicas[i], replicas[(i+1)%3])
				pull(t, spec, replicas[(i+1)%3], replicas[i])
			}
		}
		first := replicas[0].digestOf(t, spec)
		for _, r := range replicas {
			for _, other := range replicas {
				r.acked = append(r.acked, other.acked...)
			}
			r.denies(t, spec, "at the end")
			if got := r.digestOf(t, spec); first == nil || got == nil || got.Sum != first.Sum || got.Sum == [16]byte{} {
				t.Errorf("seed %d: %s has digest %+v, want %+v", seed, r.label, got, first)
			}
			if n := pull(t, spec, r, replicas[0]); n > 0 {
				t.Errorf("seed %d: %d pages differ", seed, n)
			}
			for _, l := range allSums(t, spec, r).Layers {
				if l.Count > l.Shape.Capacity {
					t.Errorf("seed %d: layer %+v is overfilled", seed, l)
				}
			}
			if rep, err := r.store.Verify(); err != nil || !rep.OK() {
				t.Errorf("seed %d: %+v, %v", seed, rep.Problems, err)
			}
		}
		for _, r := range replicas {
			r.close(t)
		}
	}
}

// TestDropGeneration: a dropped generation is refused, for good, also after a restart, and is listed as dropped; a later generation
// takes its place, and also that of an earlier one that was never dropped.
func TestDropGeneration(t *testing.T) {
	r := &sliceReplica{room: newRoom("replica")}
	r.open(t)
	mark := func(spec bigset.SliceSpec) error {
		hashes := sliceKeys(&spec, 0, 100)
		_, err := r.store.Filters().MarkSlice(bg, spec, 0, hashes, make([]bool, len(hashes)))
		return err
	}
	five, six, seven := sliceSpec(1, 5, bigset.FilterSync), sliceSpec(1, 6, bigset.FilterSync), sliceSpec(1, 7, bigset.FilterSync)
	must(t, mark(five), "mark")
	must(t, mark(sliceSpec(0, 5, bigset.FilterSync)), "mark slice 0")
	hashes := sliceKeys(&five, 0, 100)
	late, err := r.store.Filters().MarkSlice(bg, five, 1, hashes, make([]bool, len(hashes)))
	must(t, err, "mark")
	must(t, r.store.Filters().DropGeneration(bg, five.Name, 2, 5), "drop")
	must(t, r.store.Filters().DropGeneration(bg, five.Name, 2, 4), "drop an earlier one")
	for range 2 {
		for what, err := range map[string]error{
			"mark":  mark(five),
			"apply": r.store.Filters().ApplyMarks(bg, late, make([]bool, len(late.Marks))),
			"check": r.store.Filters().CheckSlice(bg, five, hashes, make([]bool, len(hashes))),
			"merge": r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: five, Layers: late.Layers}),
		} {
			if !errors.Is(err, bigset.ErrNoFilter) {
				t.Errorf("%s of a dropped generation: %v", what, err)
			}
		}
		for i := range uint32(2) {
			if d := r.digestOf(t, sliceSpec(i, 5, 0)); d == nil || !d.Dropped || d.Generation != 5 || d.Options.Slices != 2 {
				t.Errorf("slice %d is listed as %+v", i, d)
			}
		}
		r.crash(0)
		r.open(t)
	}
	present := make([]bool, len(hashes))
	must(t, r.store.Filters().CheckSlice(bg, six, hashes, present), "check")
	if slices.Contains(present, true) {
		t.Error("keys of a dropped generation")
	}
	must(t, mark(six), "mark the next")
	if d := r.digestOf(t, six); d == nil || d.Dropped || d.Generation != 6 {
		t.Errorf("listed as %+v", d)
	}
	must(t, mark(seven), "mark the one after")
	if err := mark(six); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("generation 6, when 7 exists: %v", err)
	}
	r.crash(0)
	r.open(t)
	must(t, r.store.Filters().CheckSlice(bg, seven, hashes, present), "check")
	if slices.Contains(present, false) {
		t.Error("a key is denied")
	}
	other := seven
	other.Name = []byte("g")
	if err := mark(other); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("a generation of another filter: %v", err)
	}
	for what, change := range map[string]func(*bigset.SliceSpec){
		"other options": func(s *bigset.SliceSpec) { s.Options.Probability = 0.02 },
		"in memory":     func(s *bigset.SliceSpec) { s.Options.InMemory = true; s.Generation = 9 },
		"no generation": func(s *bigset.SliceSpec) { s.Name, s.Generation = []byte("h"), 0 },
		"no slice":      func(s *bigset.SliceSpec) { s.Slice, s.Generation = 2, 9 },
		"no owners":     func(s *bigset.SliceSpec) { s.Options.Owners, s.Generation = 0, 9 },
	} {
		bad := seven
		change(&bad)
		err := r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: bad, Layers: late.Layers})
		if !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wrong := sliceKeys(&[]bigset.SliceSpec{sliceSpec(0, 7, 0)}[0], 0, 10)
	if _, err := r.store.Filters().MarkSlice(bg, seven, 0, wrong, make([]bool, len(wrong))); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("keys of another slice: %v", err)
	}
	if rep, err := r.store.Verify(); err != nil || !rep.OK() {
		t.Errorf("%+v, %v", rep.Problems, err)
	}
	r.close(t)
}

// TestCheckSlicesNow: CheckSlicesNow answers for keys in memory, and for nothing that has to be read, that belongs to another
// slice, or that was dropped.
func TestCheckSlicesNow(t *testing.T) {
	t.Parallel()
	p := newRoom("now")
	p.open(t)
	defer p.close(t)
	spec := bigset.SliceSpec{Name: []byte("f"), Generation: 3, Options: bigset.FilterOptions{Options: bloomslice.Options{Capacity: 20_000, Probability: 1e-6, Scale: 2, Reduction: 0.5,
		Slices: 2, Owners: 1}, Durability: bigset.FilterLog}}
	var hashes [2][]bloomslice.Hash
	for i := range 40 {
		h := bloomslice.Sum(fmt.Append(nil, i))
		hashes[h.Slice(2)] = append(hashes[h.Slice(2)], h)
	}
	fs := p.store.Filters()
	now := func(order ...uint32) (present []bool, known bool) {
		present = slices.Repeat([]bool{true}, len(hashes[0])+len(hashes[1])) // whatever was marked before
		known = fs.CheckSlicesNow(spec, 2, func(i int) (uint32, []bloomslice.Hash) { return order[i], hashes[i] }, present)
		return present, known
	}
	want := make([]bool, 40)
	expect := func(when string, known bool) {
		t.Helper()
		if got, k := now(0, 1); k != known || known && !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v, %v", when, got, k, want, known)
		}
	}
	expect("without the filter", true)
	for s := range uint32(2) {
		spec.Slice = s
		half := hashes[s][:len(hashes[s])/2]
		_, err := fs.MarkSlice(bg, spec, 0, half, make([]bool, len(half)))
		must(t, err, "mark")
		at := int(s) * len(hashes[0])
		for i := range half {
			want[at+i] = true
		}
		expect("marked", true)
	}
	if _, known := now(1, 0); known {
		t.Error("keys of another slice are known")
	}
	f, err := fs.Get([]byte("f"))
	must(t, err, "get")
	must(t, f.Flush(bg), "flush")
	_, err = f.Close(bg)
	must(t, err, "close")
	expect("closed", false)
	check := func() {
		for s := range uint32(2) {
			spec.Slice = s
			must(t, fs.CheckSlice(bg, spec, hashes[s], make([]bool, len(hashes[s]))), "check")
		}
	}
	check()
	expect("read", true)
	p.close(t)
	p.open(t)
	fs = p.store.Filters()
	expect("opened again", false)
	check()
	expect("read again", true)
	spec.Options.Durability = bigset.FilterInterval
	expect("other options", false)
	spec.Options.Durability = bigset.FilterLog
	spec.Generation--
	if _, known := now(0, 1); known {
		t.Error("an earlier generation is known")
	}
	spec.Generation++
	must(t, fs.DropGeneration(bg, spec.Name, 2, spec.Generation), "drop")
	expect("dropped", false)
}
