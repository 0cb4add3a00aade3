package filters_test

import (
	"testing"

	"bigset"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
)

// TestMarksPromise: before marks of slices are acknowledged, the disk says what a crash may take back of them; if several filters
// are marked at once, it says so for each.
func TestMarksPromise(t *testing.T) {
	t.Parallel()
	const memory, log = lsm.PromiseFiltersMemory, lsm.PromiseFiltersLog
	for _, c := range []struct {
		what []bigset.FilterDurability
		want lsm.Promise
	}{
		{[]bigset.FilterDurability{bigset.FilterSync}, 0},
		{[]bigset.FilterDurability{bigset.FilterLog}, log},
		{[]bigset.FilterDurability{bigset.FilterInterval}, memory},
		{[]bigset.FilterDurability{bigset.FilterSync, bigset.FilterInterval, bigset.FilterLog, bigset.FilterSync}, memory | log},
	} {
		a, b := openReplicas(t, 1)[0], openReplicas(t, 1)[0]
		var all []filters.SliceMarking
		for i, d := range c.what {
			spec, hashes := manySlices(4, d)
			spec.Name, spec.Generation = []byte{byte(i)}, uint64(i+1)
			all = append(all, markings(spec, hashes)...)
		}
		a.store.Filters().MarkSlices(bg, all)
		var marks []filters.SliceMarks
		for i := range all {
			must(t, all[i].Err, "mark")
			marks = append(marks, filters.SliceMarks{Marks: all[i].Marks, Added: make([]bool, len(all[i].Added))})
		}
		b.store.Filters().ApplyMarksOf(bg, marks)
		for _, r := range []*sliceReplica{a, b} {
			for _, p := range []lsm.Promise{memory, log} {
				if got := r.store.db.Promised(p); got != (c.want&p != 0) {
					t.Errorf("durabilities %v: promise %d is given: %v", c.what, p, got)
				}
			}
			r.close(t)
		}
	}
}
