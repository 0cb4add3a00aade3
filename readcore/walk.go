package readcore

import (
	"bytes"
	"slices"

	"bigset/clock"
	"bigset/fold"
)

// merge merges everything that is certain into r, and releases the chunks that are used up.
func (m *Merge) merge(r *Result) {
	bound, all := m.leastLast()
	for i := range m.streams {
		m.runs[i] = m.certain(&m.streams[i], bound, all)
	}
	clear(m.lacks)
	m.arena = nil
	m.used = true
	m.walk(r)
	for i := range m.lacks {
		if l := m.lacks[i]; len(l.Missing)+len(l.Suspects) > 0 {
			l.Stream = i
			r.Lacking = append(r.Lacking, l)
		}
	}
	m.bound, m.done = bound, all
	if m.full() && !(all && m.exhausted()) {
		m.bound, m.done = r.Elements[len(r.Elements)-1].Name, true
	}
	for i := range m.streams {
		m.release(&m.streams[i])
	}
	clear(m.runs)
	clear(m.heads)
}

// leastLast returns the least of the bounds of all streams that have not ended; all says that every stream has ended.
func (m *Merge) leastLast() (bound []byte, all bool) {
	all = true
	for i := range m.streams {
		if s := &m.streams[i]; !s.over && (all || m.compare(s.bound, bound) < 0) {
			bound, all = s.bound, false
		}
	}
	return bound, all
}

// certain returns the elements of a stream that lie up to bound.
func (m *Merge) certain(s *stream, bound []byte, all bool) []fold.Element {
	if s.chunk == nil {
		return nil
	}
	rest := s.chunk.Elements[s.next:]
	n := len(rest)
	if !all && n > 0 && m.compare(rest[n-1].Name, bound) > 0 {
		n, _ = slices.BinarySearchFunc(rest, bound, func(e fold.Element, bound []byte) int {
			if m.compare(e.Name, bound) <= 0 {
				return -1
			}
			return 1
		})
	}
	s.next += n
	return rest[:n]
}

// release drops a stream's chunk when nothing of it is needed any more.
func (m *Merge) release(s *stream) {
	switch {
	case s.chunk == nil:
	case m.done, s.over && s.next == len(s.chunk.Elements), !s.over && m.compare(s.bound, m.bound) <= 0:
		if !s.shared {
			s.scrap = s.chunk
		}
		s.chunk = nil
	}
}

// full reports whether the read has reached its limit of elements.
func (m *Merge) full() bool { return m.opt.Limit > 0 && m.left == 0 }

// exhausted reports whether the walk has used up everything that was certain.
func (m *Merge) exhausted() bool {
	for _, run := range m.runs {
		if len(run) > 0 {
			return false
		}
	}
	return true
}

// walk merges the runs: it passes on elements on which the streams agree, and merges all others one by one.
func (m *Merge) walk(r *Result) {
	for {
		n := agreed(m.runs)
		if m.opt.Limit > 0 {
			n = min(n, m.left)
		}
		if n > 0 {
			m.streams[0].shared = m.streams[0].shared || !m.opt.Passing
			m.emit(r, m.runs[0][:n:n])
			for i := range m.runs {
				m.runs[i] = m.runs[i][n:]
			}
		}
		if m.full() || !m.pick() {
			return
		}
		m.mergeElement(r)
	}
}

// agreed returns how many elements at the head of all runs are the same, with the same dots.
func agreed(runs [][]fold.Element) int {
	n := len(runs[0])
	for _, run := range runs[1:] {
		n = min(n, len(run))
	}
	for _, run := range runs[1:] {
		if n == 0 || &run[0] == &runs[0][0] { // they share memory: comparing one compares all
			continue
		}
		for k := range n {
			if !same(&runs[0][k], &run[k]) {
				n = k
				break
			}
		}
	}
	return n
}

func same(a, b *fold.Element) bool {
	return bytes.Equal(a.Name, b.Name) && slices.Equal(a.Dots, b.Dots)
}

// emit adds elements to the result. A result that is one run shares it.
func (m *Merge) emit(r *Result, elements []fold.Element) {
	m.left -= len(elements)
	if r.Elements == nil {
		r.Elements = elements
		return
	}
	m.grow(r, len(elements))
	r.Elements = append(r.Elements, elements...)
}

// grow ensures room for n elements. If it allocates, it makes room for those that are likely to follow as well.
func (m *Merge) grow(r *Result, n int) {
	if cap(r.Elements)-len(r.Elements) >= n {
		return
	}
	for _, run := range m.runs {
		n = max(n, len(run)+1)
	}
	r.Elements = slices.Grow(r.Elements, n)
}

// pick takes the least element off all runs that have it, and reports false when no elements are left.
func (m *Merge) pick() bool {
	var least []byte
	found := false
	for i, run := range m.runs {
		m.heads[i] = nil
		if len(run) > 0 && (!found || m.compare(run[0].Name, least) < 0) {
			least, found = run[0].Name, true
		}
	}
	for i, run := range m.runs {
		if len(run) > 0 && bytes.Equal(run[0].Name, least) {
			m.heads[i], m.runs[i], m.streams[i].shared = &run[0], run[1:], true
		}
	}
	return found
}

// mergeElement merges the current element dot by dot.
func (m *Merge) mergeElement(r *Result) {
	clear(m.at)
	m.live = m.live[:0]
	var name []byte
	for _, e := range m.heads {
		if e != nil {
			name = e.Name
		}
	}
	for {
		dot, ok := m.leastDot()
		if !ok {
			break
		}
		witness := m.witness(dot)
		if witness < 0 {
			m.live = append(m.live, dot)
		}
		m.lackOf(name, dot, witness)
	}
	if len(m.live) > 0 {
		m.left--
		m.grow(r, 1)
		r.Elements = append(r.Elements, fold.Element{Name: name, Dots: m.survivors()})
	}
}

// leastDot returns the least dot of the current element that is not decided yet.
func (m *Merge) leastDot() (dot clock.Dot, ok bool) {
	for i, e := range m.heads {
		if e == nil || m.at[i] == len(e.Dots) {
			continue
		}
		if d := e.Dots[m.at[i]]; !ok || d.Compare(dot) < 0 {
			dot, ok = d, true
		}
	}
	return dot, ok
}

// shows reports whether a stream has dot, the least undecided dot, for the current element.
func (m *Merge) shows(i int, dot clock.Dot) bool {
	e := m.heads[i]
	return e != nil && m.at[i] < len(e.Dots) && e.Dots[m.at[i]] == dot
}

// witness returns the first stream that has seen a dot and does not show it. It returns -1 if no such stream exists and the dot
// survives.
func (m *Merge) witness(dot clock.Dot) int {
	for i := range m.streams {
		if !m.shows(i, dot) && m.streams[i].clock.Contains(dot) {
			return i
		}
	}
	return -1
}

// survivors returns the surviving dots of the current element in memory of the result. If they are exactly the dots of a stream, it
// returns that stream's.
func (m *Merge) survivors() []clock.Dot {
	for _, e := range m.heads {
		if e != nil && slices.Equal(e.Dots, m.live) {
			return e.Dots
		}
	}
	at := len(m.arena)
	m.arena = append(m.arena, m.live...)
	return m.arena[at:len(m.arena):len(m.arena)]
}
