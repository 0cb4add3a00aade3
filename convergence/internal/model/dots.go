package model

import "math/bits"

// Each life of a replica is an actor of its own, so the numbers of lives, and of operations in each, are limited. Operations beyond
// that are refused: schedules are short.
const (
	actors   = 64
	lives    = 8
	counters = 64
)

// dot is one event: an actor and a counter from 1 to 64.
type dot struct{ actor, ctr uint8 }

// tag names a dot for people and for the kit.
func (d dot) tag() string {
	b := append(make([]byte, 0, 8), 'A'+d.actor/lives)
	if life := d.actor % lives; life > 0 {
		b = append(b, 'a'+life)
	}
	if d.ctr >= 10 {
		b = append(b, '0'+d.ctr/10)
	}
	return string(append(b, '0'+d.ctr%10))
}

// dots is a set of dots: a word of bits by actor.
type dots [actors]uint64

func (s *dots) has(d dot) bool { return s[d.actor]&(1<<(d.ctr-1)) != 0 }
func (s *dots) add(d dot)      { s[d.actor] |= 1 << (d.ctr - 1) }
func (s *dots) remove(d dot)   { s[d.actor] &^= 1 << (d.ctr - 1) }

func (s *dots) union(o *dots) {
	for i, w := range o {
		s[i] |= w
	}
}

func (s *dots) intersect(o *dots) {
	for i, w := range o {
		s[i] &= w
	}
}

func (s *dots) minus(o *dots) {
	for i, w := range o {
		s[i] &^= w
	}
}

func (s *dots) within(o *dots) bool {
	for i, w := range s {
		if w&^o[i] != 0 {
			return false
		}
	}
	return true
}

func (s *dots) empty() bool { return *s == dots{} }

// list returns the dots, ascending.
func (s *dots) list() (all []dot) {
	for a, w := range s {
		for ; w != 0; w &= w - 1 {
			all = append(all, dot{uint8(a), uint8(bits.TrailingZeros64(w) + 1)})
		}
	}
	return all
}

// from returns the set of a list.
func from(list ...dot) (s dots) {
	for _, d := range list {
		s.add(d)
	}
	return s
}
