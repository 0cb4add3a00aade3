package demo

import (
	"fmt"
	"math"
	"strings"
	"time"

	"bigset/bench"
)

const (
	// loadShare is how much of a demonstration's time passes until the first store is loaded, as measured at scale 0.1.
	loadShare = 0.05
	// paceFrom is the share of the first store that must be loaded before its time says anything.
	paceFrom = 0.1
	// paceLong is how long a demonstration of the usual scale may take without a note.
	paceLong = 2 * time.Minute
)

// pace finds out from the time of the first load whether a demonstration takes long.
type pace struct {
	scale float64
	text  string // the note, once it is known to take long
}

// note returns what is to be said about the time, or "".
func (p *pace) note(l *bench.Leg, passed time.Duration) string {
	first := strings.HasPrefix(l.Phase, "loading") && strings.HasSuffix(l.Phase, bench.RacerNames[0])
	if p.text != "" || !first || float64(l.Done) < paceFrom*float64(l.Of) {
		return p.text
	}
	whole := time.Duration(float64(passed) * float64(l.Of) / float64(l.Done) / loadShare)
	if whole > time.Duration(float64(paceLong)*max(1, p.scale)) {
		p.text = fmt.Sprintf("this machine is slow or busy: about %.0f minutes in all", math.Ceil(whole.Minutes()))
		if fifth := p.scale / 5; fifth >= ScaleMin {
			p.text += fmt.Sprintf("; `bigset demo --scale %.3g` takes a fifth", fifth)
		}
	}
	return p.text
}
