package filters_test

import (
	"context"
	"errors"
	"testing"

	"bigset"
)

// TestStamps: a filter's stamp changes with every bit and every slice, with a restart and with a new generation, and with nothing else;
// filters with the same bits have equal digests, and others have not.
func TestStamps(t *testing.T) {
	t.Parallel()
	spec := sliceSpec(0, 7, bigset.FilterSync)
	r := openReplicas(t, 2)
	hashes := sliceKeys(&spec, 0, 400)
	other := spec
	other.Slice = 1
	others := sliceKeys(&other, 0, 20)
	if _, ok := r[0].store.Filters().StampNow(&spec); ok {
		t.Error("a filter that does not exist has a stamp")
	}
	if _, err := r[0].store.Filters().Stamp(bg, spec); !errors.Is(err, bigset.ErrSliceAway) {
		t.Errorf("a filter that does not exist: %v", err)
	}
	r[0].marks(t, spec, hashes[:10])
	stamp := func(i int) uint64 {
		t.Helper()
		now, ok := r[i].store.Filters().StampNow(&spec)
		got, err := r[i].store.Filters().Stamp(bg, spec)
		if !ok || got != now {
			t.Fatalf("stamps %d and %d, %v", now, got, ok)
		}
		must(t, err, "stamp")
		return got
	}
	digest := func(i int) [16]byte {
		t.Helper()
		of, sum, err := r[i].store.Filters().FilterDigest(bg, spec)
		must(t, err, "digest")
		if of != stamp(i) {
			t.Errorf("a digest of stamp %d, now it is %d", of, stamp(i))
		}
		return sum
	}
	last := stamp(0)
	seen := map[uint64]string{last: "the first marks"}
	changed := func(what string, want bool) {
		t.Helper()
		now := stamp(0)
		if now != last != want {
			t.Errorf("%s: the stamp was %d, is %d", what, last, now)
		}
		if before := seen[now]; want && before != "" {
			t.Errorf("%s: the stamp was the same after %s", what, before)
		}
		seen[now], last = what, now
	}
	changed("nothing", false)
	must(t, r[0].store.Filters().CheckSlice(bg, spec, hashes, make([]bool, len(hashes))), "check")
	digest(0)
	changed("a check and a digest", false)
	r[0].marks(t, spec, hashes[10:20])
	changed("marks", true)
	r[0].marks(t, spec, hashes[:20])
	changed("marks of keys that it has", false)
	r[0].marks(t, other, others)
	changed("marks in another slice", true)
	m, _ := r[1].marks(t, spec, hashes[20:30])
	r[0].applies(t, m)
	changed("marks of another", true)
	r[0].applies(t, m)
	changed("marks of another, again", false)
	r[1].marks(t, spec, hashes[30:40])
	pull(t, spec, r[1], r[0])
	changed("pages", true)
	if digest(0) == digest(1) {
		t.Error("different filters have equal digests")
	}
	pull(t, spec, r[0], r[1])
	if digest(0) == digest(1) {
		t.Error("a filter has the digest of one with another slice")
	}
	pull(t, other, r[0], r[1])
	if digest(0) != digest(1) {
		t.Error("filters with the same bits have other digests")
	}
	if stamp(0) == stamp(1) {
		t.Error("two stores have the same stamp")
	}
	f, err := r[0].store.Filters().Get(spec.Name)
	must(t, err, "filter")
	if closed, err := f.Close(bg); !closed || err != nil {
		t.Fatalf("close: %v, %v", closed, err)
	}
	if last = stamp(0); digest(0) != digest(1) {
		t.Error("a closed filter has another digest")
	}
	changed("a close, and opening it again", false)
	r[0].close(t)
	r[0].open(t)
	changed("a restart", true)
	for i := range 60 { // with a number of its own, not with one of the process before
		r[0].marks(t, spec, hashes[40+i:41+i])
		changed("a mark after a restart", true)
	}
	r[0].replaced(t, spec, changed)
	for _, r := range r {
		r.close(t)
	}
}

// replaced checks what has no stamp: a filter whose caller has gone, an earlier generation, and a dropped one.
func (r *sliceReplica) replaced(t *testing.T, spec bigset.SliceSpec, changed func(string, bool)) {
	t.Helper()
	other := spec
	other.Slice = 1
	must(t, r.store.DropRange(bg, other.Slot(), other.Slot()), "drop range")
	changed("the removal of a slice", true)
	gone, end := context.WithCancel(bg)
	end()
	if _, _, err := r.store.Filters().FilterDigest(gone, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("a digest without a caller: %v", err)
	}
	next := spec
	next.Generation++
	if _, ok := r.store.Filters().StampNow(&next); ok {
		t.Error("the next generation has a stamp already")
	}
	must(t, r.store.Filters().DropGeneration(bg, spec.Name, spec.Options.Slices, spec.Generation), "drop")
	if _, ok := r.store.Filters().StampNow(&spec); ok {
		t.Error("a dropped filter has a stamp")
	}
	for _, err := range []error{second(r.store.Filters().Stamp(bg, spec)), third(r.store.Filters().FilterDigest(bg, spec))} {
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("a dropped filter: %v", err)
		}
	}
}

// hooked is a context that calls a function whenever it is asked whether it has ended.
type hooked struct {
	context.Context
	hook func()
}

func (h hooked) Err() error {
	h.hook()
	return h.Context.Err()
}

// TestStampOfDigest: if the filter still has the stamp of a digest, it has the bits of the digest, whatever was marked while the digest was
// computed and when.
func TestStampOfDigest(t *testing.T) {
	t.Parallel()
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	other := spec
	other.Slice = 1
	r := openReplicas(t, 2)
	hashes := sliceKeys(&spec, 0, 400)
	r[0].marks(t, spec, hashes[:1])
	r[0].marks(t, other, sliceKeys(&other, 0, 20))
	marked := 0
	for i := range 8 { // in each place where it asks, and nowhere; by marks, and by those of another replica
		calls := 0
		stamp, sum, err := r[0].store.Filters().FilterDigest(hooked{bg, func() {
			if calls++; calls != 1+i%4 {
				return
			}
			from, h := r[i/4], hashes[1+i:2+i]
			if m, _ := from.marks(t, spec, h); from != r[0] {
				r[0].applies(t, m)
			}
			marked++
		}}, spec)
		must(t, err, "digest")
		now, after, err := r[0].store.Filters().FilterDigest(bg, spec)
		must(t, err, "digest")
		if stamp == now && sum != after {
			t.Errorf("marked at call %d: digests %x and %x of stamp %d", calls, sum, after, now)
		}
	}
	if marked != 6 {
		t.Errorf("%d marks during digests", marked)
	}
	for _, r := range r {
		r.close(t)
	}
}

// TestDigestOfLarge: a filter that is too large to be digested is refused, also if none of it was opened since the store was.
func TestDigestOfLarge(t *testing.T) {
	t.Parallel()
	spec := sliceSpec(0, 7, bigset.FilterSync)
	spec.Options.Capacity = 400_000_000
	r := openReplicas(t, 1)[0]
	r.marks(t, spec, sliceKeys(&spec, 0, 20))
	for _, what := range []string{"open", "not opened yet"} {
		if _, _, err := r.store.Filters().FilterDigest(bg, spec); !errors.Is(err, bigset.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
		r.close(t)
		r.open(t)
	}
	r.close(t)
}

func second(_ uint64, err error) error            { return err }
func third(_ uint64, _ [16]byte, err error) error { return err }
