package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// BenchmarkAddThatLooksUp adds new elements under policy coordinator, unsynced, to a set that has some, and in turns the same elements to raw Pebble with the same
// options, after a Get of each and without. of-get and of-blind are the engine's rate beside these: the median of rounds, each with the least and the greatest.
//
//	go test ./engine -run - -bench AddThatLooksUp -benchtime 1x
func BenchmarkAddThatLooksUp(b *testing.B) {
	for _, size := range []int{40_000, tier.Pick(100_000, 100_000, 10_000_000)} {
		for _, batch := range []int{1, 16, 256, 1000} {
			b.Run(fmt.Sprintf("elements=%d/batch=%d", size, batch), func(b *testing.B) { addThatLooksUp(b, size, batch) })
		}
	}
}

func addThatLooksUp(b *testing.B, size, batch int) {
	store, raw := openBench(b, nil), [2]*pebble.DB{openRaw(b), openRaw(b)}
	r := rand.New(rand.NewPCG(1, 2))
	elements := func(n int) [][]byte {
		list := make([][]byte, n)
		for i := range list {
			list[i] = fmt.Appendf(nil, "%016x", r.Uint64())
		}
		return list
	}
	add := func(list [][]byte) {
		if _, err := store.Add(b.Context(), []byte("set"), list, bigset.WriteOptions{Policy: bigset.PolicyCoordinator, Durability: bigset.NoSync}); err != nil {
			b.Fatal(err)
		}
	}
	// A key of raw Pebble is one of the engine, whose dot is the same for each element: so a Get finds it.
	prefix, clockValue := keyscheme.NewPrefix([]byte("set")), rawClock()
	key := func(e []byte) []byte {
		return prefix.AppendElement(nil, e, clock.Dot{Actor: "0123456789ab", Counter: 1}, keyscheme.OpAdd)
	}
	put := func(db *pebble.DB, list [][]byte, look bool) {
		w := db.NewBatch()
		for _, e := range list {
			k := key(e)
			if look {
				if _, closer, err := db.Get(k); err == nil {
					closer.Close()
				} else if !errors.Is(err, pebble.ErrNotFound) {
					b.Fatal(err)
				}
			}
			w.Merge(k, keyscheme.ResolvedValue, nil)
		}
		w.Set(prefix.AppendClock(nil), clockValue, nil)
		if err := db.Apply(w, pebble.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	for done := 0; done < size; done += 1000 {
		list := elements(1000)
		add(list)
		put(raw[0], list, false)
		put(raw[1], list, false)
	}
	rounds := 7
	perRound := max(4000/batch, 4)
	var ofGet, ofBlind, micros []float64
	for range b.N {
		for range rounds {
			var took [3]time.Duration
			for range perRound {
				list := elements(batch)
				for i, do := range []func(){func() { add(list) }, func() { put(raw[0], list, true) }, func() { put(raw[1], list, false) }} {
					began := time.Now()
					do()
					took[i] += time.Since(began)
				}
			}
			ofGet = append(ofGet, float64(took[1])/float64(took[0]))
			ofBlind = append(ofBlind, float64(took[2])/float64(took[0]))
			micros = append(micros, took[0].Seconds()*1e6/float64(perRound*batch))
		}
	}
	report := func(name string, list []float64) {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
		b.ReportMetric(list[0], name+"-least")
		b.ReportMetric(list[len(list)-1], name+"-most")
	}
	report("of-get", ofGet)
	report("of-blind", ofBlind)
	report("µs/element", micros)
}

// BenchmarkAddAgain adds a few elements again and again under policy coordinator, unsynced: each add looks its element up, and replaces it. It
// reports the time of an add, and of the last tenth of them.
//
//	go test ./engine -run - -bench AddAgain -benchtime 1x
func BenchmarkAddAgain(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, adds := range []int{5000, 20_000} {
			b.Run(fmt.Sprintf("elements=%d/adds=%d", size, adds), func(b *testing.B) {
				store := openBench(b, nil)
				add := func(from, to int) float64 {
					began := time.Now()
					for i := from; i < to; i++ {
						element := fmt.Appendf(nil, "element-%d", i%size)
						if _, err := store.Add(b.Context(), []byte("set"), [][]byte{element}, bigset.WriteOptions{Policy: bigset.PolicyCoordinator, Durability: bigset.NoSync}); err != nil {
							b.Fatal(err)
						}
					}
					return time.Since(began).Seconds() * 1e6 / float64(to-from)
				}
				for range b.N {
					first := add(0, adds-adds/10)
					last := add(adds-adds/10, adds)
					b.ReportMetric((9*first+last)/10, "µs/add")
					b.ReportMetric(last, "µs/last-add")
				}
			})
		}
	}
}
