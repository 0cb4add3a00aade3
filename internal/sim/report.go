package sim

import (
	"fmt"
	"math"
	"time"

	"bigset/convergence"
)

// The kinds of schedules.
const (
	kindRules    = "rules"    // over the rules alone
	kindEngines  = "engines"  // over real engines
	kindClusters = "clusters" // whole clusters
	kindMembers  = "members"  // whole clusters whose members agree on epochs
)

// Kinds are the kinds of schedules, in the order in which a report shows them.
var Kinds = []string{kindRules, kindEngines, kindClusters, kindMembers}

// Part counts the schedules of one kind.
type Part struct {
	Schedules int     `json:"schedules"`
	Seconds   float64 `json:"seconds"`
}

// Report is what schedules did and found.
type Report struct {
	Seed      uint64           `json:"seed"`
	Seconds   float64          `json:"seconds"`
	Schedules int              `json:"schedules"`
	Kinds     map[string]*Part `json:"kinds"` // of schedules
	Shapes    map[string]int   `json:"shapes"`
	// Operations are those of clients: elements added and removed, sets deleted; in clusters also sets read, elements looked up,
	// keys marked and checked. A batch of two counts twice; retries and traffic between replicas do not count.
	Operations int            `json:"operations"`
	Steps      int            `json:"steps"`      // of schedules
	Skipped    int            `json:"skipped"`    // those that could not be done
	Checks     int            `json:"checks"`     // states of replicas, and reads, that were judged
	Faults     map[string]int `json:"faults"`     // by name, those that had an effect
	Mechanisms map[string]int `json:"mechanisms"` // by name: what ran, and states that were met
	Never      []string       `json:"never"`      // faults and mechanisms that such schedules can reach, but have not
	Below      []Shortage     `json:"below"`      // those that were reached less often than that many schedules should
	Violations int            `json:"violations"`

	Failure *Failure `json:"-"` // the violation, shrunk

	trace uint64 // a hash of the turns of all clusters
}

// Shortage is a fault or a mechanism that was reached less often than its floor.
type Shortage struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Floor int    `json:"floor"`
}

func (s Shortage) String() string { return fmt.Sprintf("%s %d of %d", s.Name, s.Count, s.Floor) }

func newReport() *Report {
	r := &Report{Kinds: map[string]*Part{}, Shapes: map[string]int{}, Faults: map[string]int{}, Mechanisms: map[string]int{}, Never: []string{}, Below: []Shortage{}}
	for _, k := range Kinds {
		r.Kinds[k] = &Part{}
	}
	for _, s := range sights {
		r.in(s)[s.name] = 0
	}
	return r
}

// Failed reports whether something was violated.
func (r *Report) Failed() bool { return r.Violations > 0 }

// Count returns how often a fault or a mechanism was reached.
func (r *Report) Count(name string) int { return r.Faults[name] + r.Mechanisms[name] }

// Of returns how many schedules of a kind there were.
func (r *Report) Of(kind string) int {
	if p := r.Kinds[kind]; p != nil {
		return p.Schedules
	}
	return 0
}

// Sight reports whether a name in Faults or Mechanisms is known, and whether enough schedules always reach it. Never names an
// expected one that was not reached.
func Sight(name string) (known, expected bool) {
	i, ok := sightOf[name]
	if !ok || sights[i].name != name {
		return false, false
	}
	return true, sights[i].rates != [4]float64{}
}

// in returns where a sight is counted.
func (r *Report) in(s sight) map[string]int {
	if s.fault {
		return r.Faults
	}
	return r.Mechanisms
}

// count counts a fault or a mechanism, by its name or by one of its other names. A name that is not known counts as a mechanism.
func (r *Report) count(what string, times int) {
	if i, ok := sightOf[what]; ok {
		r.in(sights[i])[sights[i].name] += times
		return
	}
	r.Mechanisms[what] += times
}

// ran records schedules of a kind.
func (r *Report) ran(kind string, schedules int, took time.Duration) {
	p := r.Kinds[kind]
	p.Schedules += schedules
	p.Seconds += took.Seconds()
}

// add adds what schedules of the kit did. It leaves out faults of disks, of which the kit knows only that they were requested, and
// jumps of clocks, which no replica there reads.
func (r *Report) add(k *convergence.Report) {
	r.Schedules += k.Schedules
	r.Operations += k.Operations
	r.Steps += k.Steps + k.Skipped
	r.Skipped += k.Skipped
	r.Checks += k.Checks
	for shape, n := range k.Shapes {
		r.Shapes[shape] += n
	}
	for what, n := range k.Faults {
		if what != "skew" && what != "io-error" && what != "disk-full" {
			r.count(what, n)
		}
	}
	for what, n := range k.Sometimes {
		r.count(what, n)
	}
	if k.Failure != nil {
		r.Violations = 1
		r.Failure = &Failure{Violation: k.Failure.Violation, Seed: k.Failure.Script.Seed, Script: k.Failure.Script.String(), text: k.Failure.String()}
	}
}

// A kind with fewer schedules than fewSchedules has no floors: what it reaches may be concentrated in a few of them.
const fewSchedules = 4

// judge records what was never reached, and what was reached less often than it should be.
func (r *Report) judge() {
	r.Never, r.Below = []string{}, []Shortage{}
	for _, p := range r.Kinds {
		p.Seconds = math.Round(p.Seconds*1000) / 1000
	}
	r.Seconds = math.Round(r.Seconds*1000) / 1000
	for _, s := range sights {
		n, rate, sure := r.Count(s.name), 0.0, 0.0
		for i, kind := range Kinds {
			expected := s.rates[i] * float64(r.Of(kind)) / 1000
			if rate += expected; r.Of(kind) >= fewSchedules {
				sure += expected
			}
		}
		if n == 0 && rate > 0 {
			r.Never = append(r.Never, s.name)
		}
		if least := floor(sure); n < least {
			r.Below = append(r.Below, Shortage{s.name, n, least})
		}
	}
}
