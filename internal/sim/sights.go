package sim

import "math"

// sight is a fault or a mechanism that schedules can reach.
type sight struct {
	name  string
	fault bool
	from  []string   // its other names, used where it is counted
	rates [4]float64 // how often 1,000 schedules of each of Kinds reach it
}

// floor returns the least acceptable count of what is expected that often: a quarter of the expected count, less three times its
// square root. Seeds differ, and a fault may be concentrated in a few schedules. What is expected a dozen times must be reached at
// least once.
func floor(expected float64) int {
	least := 0
	if expected >= 12 {
		least = 1
	}
	return max(least, int(expected/4-3*math.Sqrt(expected)))
}

// Whether a sight is a fault.
const (
	fault     = true
	mechanism = false
)

// sights are all faults and mechanisms, with rates measured over about as many schedules as a push runs.
var sights = []sight{
	{"loss", fault, nil, [4]float64{33000, 34000, 760, 380}},
	{"loss-for-good", fault, nil, [4]float64{360, 550, 0, 0}},
	{"mute", fault, nil, [4]float64{0, 0, 970, 220}},
	{"refuse", fault, nil, [4]float64{0, 0, 0, 1700}},
	{"duplicate", fault, nil, [4]float64{7700, 9100, 1000, 380}},
	{"delay", fault, nil, [4]float64{5700, 6600, 3000, 1900}},
	{"late", fault, nil, [4]float64{0, 0, 2800, 1300}},
	{"reorder", fault, nil, [4]float64{6000, 7000, 0, 0}},
	{"partition", fault, nil, [4]float64{110, 88, 1200, 1600}},
	{"crash", fault, nil, [4]float64{3600, 4100, 90, 440}},
	{"crash-unsynced", fault, nil, [4]float64{1800, 2100, 1500, 4700}},
	{"crash-in-operation", fault, nil, [4]float64{320, 360, 0, 0}},
	{"crash-in-call", fault, []string{"crash in the middle of a call"}, [4]float64{0, 110, 790, 140}},
	{"outage", fault, nil, [4]float64{0, 0, 0, 280}},
	{"restart", fault, nil, [4]float64{150, 160, 640, 0}},
	{"wipe", fault, nil, [4]float64{68, 25, 390, 2000}},
	{"restore", fault, nil, [4]float64{51, 38, 0, 460}},
	{"leave", fault, nil, [4]float64{59, 50, 0, 0}},
	{"io-error", fault, []string{"effect of io-error"}, [4]float64{200, 110, 190, 0}},
	{"disk-full", fault, []string{"effect of disk-full"}, [4]float64{180, 130, 140, 0}},
	{"copy-cut", fault, nil, [4]float64{440, 450, 0, 0}},
	{"copy-crash", fault, nil, [4]float64{750, 840, 210, 0}},
	{"copy-broken-off", fault, []string{"copy broken off"}, [4]float64{0, 0, 5000, 0}},
	{"skew", fault, nil, [4]float64{0, 0, 530, 0}},
	{"deaf", fault, nil, [4]float64{0, 0, 0, 60000}},

	{"acknowledged", mechanism, nil, [4]float64{0, 0, 12000, 6200}},
	{"backup", mechanism, nil, [4]float64{220, 120, 0, 570}},
	{"check", mechanism, nil, [4]float64{0, 0, 0, 5800}},
	{"clear-filter", mechanism, nil, [4]float64{0, 0, 0, 37}},
	{"compaction", mechanism, nil, [4]float64{1300, 1000, 490, 920}},
	{"concurrent-operations", mechanism, []string{"concurrent operations on one element"}, [4]float64{7300, 7300, 0, 0}},
	{"copies-at-once", mechanism, []string{"two copies into one replica"}, [4]float64{2300, 1800, 0, 0}},
	{"copy", mechanism, nil, [4]float64{4400, 4000, 1600, 0}},
	{"copy-begun-again", mechanism, []string{"copy begun again after a cut"}, [4]float64{5600, 5800, 0, 0}},
	{"copy-done", mechanism, []string{"copy done"}, [4]float64{8800, 9000, 0, 0}},
	{"copy-fetched", mechanism, []string{"copy fetched what had not come by its chunks"}, [4]float64{26, 12, 0, 0}},
	{"copy-noted", mechanism, []string{"copy noted"}, [4]float64{380, 480, 0, 0}},
	{"copy-refused", mechanism, []string{"copy refused"}, [4]float64{540, 280, 0, 0}},
	{"copy-resumed", mechanism, []string{"copy resumed"}, [4]float64{200, 280, 0, 0}},
	{"crash-lost-acknowledged", mechanism, []string{"crash lost what another replica had acknowledged"}, [4]float64{1100, 1200, 0, 0}},
	{"create-filter", mechanism, nil, [4]float64{0, 0, 0, 1400}},
	{"deltas-together", mechanism, []string{"deltas together"}, [4]float64{0, 0, 0, 50}},
	{"digests", mechanism, nil, [4]float64{0, 0, 9200, 39000}},
	{"drop-filter", mechanism, nil, [4]float64{0, 0, 0, 93}},
	{"epoch", mechanism, []string{"cluster: epoch"}, [4]float64{0, 0, 0, 18000}},
	{"exchanged-at-end", mechanism, []string{"all exchanged"}, [4]float64{0, 0, 210, 0}},
	{"exchanged-by-copies", mechanism, []string{"everything exchanged by copies"}, [4]float64{200, 170, 0, 0}},
	{"exchanged-by-messages", mechanism, []string{"everything exchanged by messages"}, [4]float64{410, 430, 0, 0}},
	{"exchanged-by-repair", mechanism, []string{"everything exchanged by repair"}, [4]float64{390, 400, 0, 0}},
	{"failed-operation-done", mechanism, []string{"failed operation was done"}, [4]float64{1.5, 1.5, 0, 0}},
	{"filters-not-learned", mechanism, []string{"cluster: it could not be learned which filters and tokens exist, it is tried again"}, [4]float64{0, 0, 0, 90}},
	{"flush", mechanism, nil, [4]float64{0, 1300, 350, 730}},
	{"flush-filter", mechanism, nil, [4]float64{0, 0, 0, 130}},
	{"gate-epoch", mechanism, []string{"another epoch"}, [4]float64{0, 0, 0, 33000}},
	{"gate-incarnation", mechanism, []string{"another incarnation"}, [4]float64{0, 0, 0, 80}},
	{"handoff", mechanism, []string{"made whole"}, [4]float64{0, 0, 390, 3100}},
	{"handoff-failed", mechanism, []string{"cluster: this member could not be filled, it is tried again"}, [4]float64{0, 0, 0, 15000}},
	{"hedge", mechanism, []string{"hedged"}, [4]float64{0, 0, 2600, 1300}},
	{"hint", mechanism, []string{"not-sent"}, [4]float64{0, 0, 11000, 20000}},
	{"hint-expired", mechanism, nil, [4]float64{0, 0, 50, 0}},
	{"hint-of-dropped-filter", mechanism, []string{"marks of a dropped filter refused", "cluster: refused"}, [4]float64{0, 0, 0, 50}},
	{"hint-replayed", mechanism, nil, [4]float64{0, 0, 3200, 6500}},
	{"joined", mechanism, []string{"replica joined in the middle"}, [4]float64{23, 23, 0, 0}},
	{"lookup", mechanism, nil, [4]float64{0, 0, 4300, 2200}},
	{"mark", mechanism, nil, [4]float64{0, 0, 0, 4500}},
	{"message-to-author", mechanism, []string{"message delivered to its own author"}, [4]float64{3900, 4200, 0, 0}},
	{"new-again-after-loss", mechanism, nil, [4]float64{0, 0, 0, 1}},
	{"no-change", mechanism, []string{"no change"}, [4]float64{0, 0, 730, 2700}},
	{"no-check", mechanism, []string{"no check"}, [4]float64{0, 0, 0, 1100}},
	{"no-clear-filter", mechanism, []string{"no clear-filter"}, [4]float64{0, 0, 0, 200}},
	{"no-create-filter", mechanism, []string{"no create-filter"}, [4]float64{0, 0, 0, 140}},
	{"no-drop-filter", mechanism, []string{"no drop-filter"}, [4]float64{0, 0, 0, 83}},
	{"no-filter", mechanism, []string{"no filter"}, [4]float64{0, 0, 0, 2000}},
	{"no-flush-filter", mechanism, []string{"no flush-filter"}, [4]float64{0, 0, 0, 100}},
	{"no-lookup", mechanism, []string{"no lookup"}, [4]float64{0, 0, 620, 1200}},
	{"no-mark", mechanism, []string{"no mark"}, [4]float64{0, 0, 0, 2700}},
	{"no-read", mechanism, []string{"no read"}, [4]float64{0, 0, 1200, 7900}},
	{"operation-refused", mechanism, []string{"operation refused"}, [4]float64{2200, 2000, 0, 0}},
	{"outcome-unknown", mechanism, []string{"unknown"}, [4]float64{0, 0, 5900, 9600}},
	{"overtaken", mechanism, []string{"try overtaken by a later one"}, [4]float64{0, 0, 250, 32}},
	{"read", mechanism, nil, [4]float64{0, 0, 8100, 8100}},
	{"read-of-several", mechanism, []string{"read of several replicas"}, [4]float64{1700, 2000, 0, 0}},
	{"read-refused", mechanism, []string{"read refused"}, [4]float64{280, 180, 0, 0}},
	{"read-repair", mechanism, []string{"read repair", "repaired"}, [4]float64{3000, 3400, 1800, 480}},
	{"read-replaced", mechanism, []string{"replica replaced in the middle of a read"}, [4]float64{75, 50, 0, 0}},
	{"remove-before-add", mechanism, []string{"remove delivered before what it removes"}, [4]float64{1800, 2400, 0, 0}},
	{"repair-left", mechanism, nil, [4]float64{0, 0, 310, 0}},
	{"replica-not-ready", mechanism, []string{"replica not ready"}, [4]float64{3100, 1600, 0, 0}},
	{"retries-at-once", mechanism, []string{"retries at once"}, [4]float64{0, 0, 220, 190}},
	{"retry", mechanism, []string{"retried"}, [4]float64{0, 0, 3000, 4800}},
	{"rewrite", mechanism, nil, [4]float64{0, 320, 130, 250}},
	{"slice-digests", mechanism, []string{"slice digests"}, [4]float64{0, 0, 0, 17000}},
	{"slice-pages-merged", mechanism, []string{"slice pages merged"}, [4]float64{0, 0, 0, 310}},
	{"slices-dropped", mechanism, []string{"slices dropped"}, [4]float64{0, 0, 0, 5}},
	{"store-reopened", mechanism, []string{"store failed and was opened again"}, [4]float64{0, 240, 330, 0}},
	{"stream-failover", mechanism, nil, [4]float64{490, 610, 270, 0}},
	{"united", mechanism, []string{"cluster: all owners of a range may have lost what they acknowledged: what they have was united, and what was acknowledged last may be missing"}, [4]float64{0, 0, 0, 290}},
	{"waiting", mechanism, []string{"cluster: waiting"}, [4]float64{0, 0, 0, 20000}},
	{"writes-together", mechanism, []string{"writes together"}, [4]float64{0, 0, 0, 4}},
}

// sightOf maps the names of each sight to its index.
var sightOf = func() map[string]int {
	of := map[string]int{}
	for i, s := range sights {
		of[s.name] = i
		for _, name := range s.from {
			of[name] = i
		}
	}
	return of
}()
