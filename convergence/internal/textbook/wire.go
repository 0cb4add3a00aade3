package textbook

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

var errMalformed = errors.New("textbook: malformed message")

// dot names an add: the n-th operation of an actor.
type dot struct {
	actor int
	n     uint64
}

func (d dot) String() string {
	b := strconv.AppendInt(make([]byte, 0, 24), int64(d.actor), 10)
	return string(strconv.AppendUint(append(b, '.'), d.n, 10))
}

func tags(dots []dot) []string {
	names := make([]string, len(dots))
	for i, d := range dots {
		names[i] = d.String()
	}
	return names
}

// clock is a version vector.
type clock map[int]uint64

func (c clock) has(d dot) bool { return d.n <= c[d.actor] }

func (c clock) join(o clock) {
	for a, n := range o {
		c[a] = max(c[a], n)
	}
}

func (c clock) within(o clock) bool {
	for a, n := range c {
		if n > o[a] {
			return false
		}
	}
	return true
}

// buffer encodes numbers and strings.
type buffer []byte

func (b *buffer) num(n uint64) { *b = binary.AppendUvarint(*b, n) }

func (b *buffer) str(s string) {
	b.num(uint64(len(s)))
	*b = append(*b, s...)
}

func (b *buffer) dot(d dot) {
	b.num(uint64(d.actor))
	b.num(d.n)
}

func (b *buffer) dots(list []dot) {
	b.num(uint64(len(list)))
	for _, d := range list {
		b.dot(d)
	}
}

func (b *buffer) clock(c clock) {
	b.num(uint64(len(c)))
	for _, a := range sorted(c) {
		b.dot(dot{a, c[a]})
	}
}

// source decodes them. After the first error everything is zero.
type source struct {
	b   []byte
	bad bool
}

func (s *source) num() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.bad, s.b = true, nil
		return 0
	}
	s.b = s.b[n:]
	return v
}

// count reads the number of things that follow, each of at least one byte.
func (s *source) count() int {
	n := s.num()
	if n > uint64(len(s.b)) {
		s.bad, s.b = true, nil
		return 0
	}
	return int(n)
}

func (s *source) str() string {
	n := s.count()
	text := string(s.b[:n])
	s.b = s.b[n:]
	return text
}

func (s *source) dot() dot { return dot{int(s.num()), s.num()} }

func (s *source) dots() (list []dot) {
	if n := s.count(); n > 0 {
		list = make([]dot, n)
	}
	for i := range list {
		list[i] = s.dot()
	}
	return list
}

func (s *source) clock() clock {
	n := s.count()
	c := make(clock, n)
	for range n {
		d := s.dot()
		c[d.actor] = d.n
	}
	return c
}

func (s *source) end() error {
	if s.bad || len(s.b) > 0 {
		return errMalformed
	}
	return nil
}

// sorted returns a map's keys in order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func without(list []dot, gone func(d dot) bool) []dot {
	return slices.DeleteFunc(slices.Clone(list), gone)
}

func order(a, b dot) int {
	if a.actor != b.actor {
		return a.actor - b.actor
	}
	if a.n < b.n {
		return -1
	}
	return 1
}
