package bench

import "math/rand/v2"

const (
	turnovers  = 10
	churnBatch = 50 // removes in a batch, and as many adds

	// queueShare is the length of the queue: one in queueShare of all elements, 10,000 of a million.
	queueShare = 100
	queueTake  = 10 // the reader takes a tenth of the queue at a time
)

// churnPlan says which elements are removed when: victims[b] in batch b, which adds equally many new ones. New elements are numbered after
// those loaded.
type churnPlan struct {
	elements int
	victims  [][]uint32
	live     []uint32 // at the end
}

// planChurn draws victims, a share of them among the newest twentieth of the live elements. An element is removed in a later batch than the
// one that added it.
func planChurn(n int, young float64, seed uint64) *churnPlan {
	rng := rand.New(rand.NewPCG(seed, 0xC4)) // equal seeds draw the same
	plan := &churnPlan{elements: n}
	newest := max(churnBatch, n/20)
	var old, fresh []uint32 // fresh in order of age
	for i := range n {
		if i < n-newest {
			old = append(old, uint32(i))
		} else {
			fresh = append(fresh, uint32(i))
		}
	}
	next := uint32(n)
	size := min(churnBatch, max(1, n/4))
	for range max(1, turnovers*n/size) {
		batch := make([]uint32, 0, size)
		for range size {
			among := &old
			share := young
			if young == 0 { // uniform: the newest are as likely as any other
				share = float64(len(fresh)) / float64(len(fresh)+len(old))
			}
			if len(old) == 0 || rng.Float64() < share && len(fresh) > 0 {
				among = &fresh
			}
			i := rng.IntN(len(*among))
			batch = append(batch, (*among)[i])
			if among == &old {
				old[i] = old[len(old)-1]
				old = old[:len(old)-1]
			} else {
				fresh = append(fresh[:i], fresh[i+1:]...)
			}
		}
		for range size {
			fresh = append(fresh, next)
			next++
		}
		if over := len(fresh) - newest; over > 0 {
			old = append(old, fresh[:over]...)
			fresh = append(fresh[:0], fresh[over:]...)
		}
		plan.victims = append(plan.victims, batch)
	}
	plan.live = append(old, fresh...)
	return plan
}
