package resp

import "fmt"

// patternBytesMax bounds patterns: the memory of a glob, and its time for each byte of a text.
const patternBytesMax = 1 << 10

// patternShort is the length of patterns, all of a command together, that an event loop prepares itself, in some microseconds.
const patternShort = 128

// glob is a pattern by redis's rules: * is anything, ? one byte, [a-c] and [^a] classes, \ takes the next byte literally. A glob is for one
// goroutine.
//
// Each part between two stars has a length, so the first place where it fits is the best one. The time is that of a pass through the text: for
// each byte, a step for each of the first partShort bytes of a part, or for each 64.
type glob struct {
	parts []globPart // what stars divide
}

// globPart is a part of a pattern without stars.
type globPart struct {
	ones []byteSet // what may be at each position
	// masks has for each byte a bit for each position where it may be, in words of 64. It is nil until it is needed.
	masks []uint64
}

// partShort is the longest part that is compared at each place of a text.
const partShort = 16

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

// addRange adds the bytes from one to another, which is not before it.
func (s *byteSet) addRange(from, to byte) {
	for w := from >> 6; w <= to>>6; w++ {
		bits := ^uint64(0)
		if w == from>>6 {
			bits &= ^uint64(0) << (from & 63)
		}
		if w == to>>6 {
			bits &= ^uint64(0) >> (63 - to&63)
		}
		s[w] |= bits
	}
}

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// newGlob returns a pattern, or an error if it is too long.
func newGlob(pattern []byte) (*glob, error) {
	if len(pattern) > patternBytesMax {
		return nil, refusal(fmt.Sprintf("ERR pattern is %d bytes, the maximum is %d", len(pattern), patternBytesMax))
	}
	g := &glob{parts: make([]globPart, 1)}
	for len(pattern) > 0 {
		last := &g.parts[len(g.parts)-1]
		if pattern[0] == '*' {
			if len(g.parts) == 1 || len(last.ones) > 0 { // several stars are one
				g.parts = append(g.parts, globPart{})
			}
			pattern = pattern[1:]
			continue
		}
		one, n := oneOf(pattern)
		last.ones = append(last.ones, one)
		pattern = pattern[n:]
	}
	return g, nil
}

// matches reports whether a text matches the pattern.
func (g *glob) matches(text []byte) bool {
	first, last := &g.parts[0], &g.parts[len(g.parts)-1]
	if len(g.parts) == 1 {
		return len(text) == len(first.ones) && first.at(text)
	}
	end := len(text) - len(last.ones)
	if end < len(first.ones) || !first.at(text) || !last.at(text[end:]) {
		return false
	}
	text = text[len(first.ones):end]
	for i := 1; i < len(g.parts)-1; i++ {
		n := g.parts[i].find(text)
		if n < 0 {
			return false
		}
		text = text[n:]
	}
	return true
}

// at reports whether a text, which is long enough, begins with the part.
func (p *globPart) at(text []byte) bool {
	for i := range p.ones {
		if !p.ones[i].has(text[i]) {
			return false
		}
	}
	return true
}

// find returns where the part ends in a text for the first time, or -1.
func (p *globPart) find(text []byte) (end int) {
	m := len(p.ones)
	switch {
	case m > len(text):
		return -1
	case m > partShort:
		return p.findLong(text)
	}
	for ; end+m <= len(text); end++ {
		if p.at(text[end:]) {
			return end + m
		}
	}
	return -1
}

// findLong is find for a long part: after each byte, it has a bit for each beginning of the part that the text ends with (Shift-And, of
// Baeza-Yates and Gonnet).
func (p *globPart) findLong(text []byte) (end int) {
	words := (len(p.ones) + 63) / 64
	if p.masks == nil {
		p.masks = make([]uint64, 256*words)
		for i := range p.ones {
			for b := range 256 {
				if p.ones[i].has(byte(b)) {
					p.masks[b*words+i/64] |= 1 << (i & 63)
				}
			}
		}
	}
	var room [patternBytesMax / 64]uint64
	begun := room[:words]
	for i, b := range text {
		next := uint64(1) // it may begin at each byte
		for w, mask := range p.masks[int(b)*words : (int(b)+1)*words] {
			begun[w], next = (begun[w]<<1|next)&mask, begun[w]>>63
		}
		if begun[words-1]>>((len(p.ones)-1)&63)&1 != 0 {
			return i + 1
		}
	}
	return -1
}

// oneOf returns the bytes that the beginning of a pattern, which is neither empty nor a star, stands for, and the length of that beginning.
func oneOf(pattern []byte) (one byteSet, n int) {
	switch pattern[0] {
	case '?':
		one.addRange(0, 255)
		return one, 1
	case '[':
		return classOf(pattern)
	case '\\':
		if len(pattern) >= 2 {
			one.add(pattern[1])
			return one, 2
		}
	}
	one.add(pattern[0])
	return one, 1
}

// classOf is oneOf for a class. A class without an end ends with the pattern.
func classOf(pattern []byte) (one byteSet, n int) {
	i, not := 1, false
	if i < len(pattern) && pattern[i] == '^' {
		not = true
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			one.add(pattern[i])
		case i+2 < len(pattern) && pattern[i+1] == '-':
			one.addRange(min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2]))
			i += 2
		default:
			one.add(pattern[i])
		}
	}
	if not {
		for w := range one {
			one[w] = ^one[w]
		}
	}
	return one, min(i+1, len(pattern))
}

// prefixOf returns the prefix shared by all texts that match a pattern.
func prefixOf(pattern []byte) (prefix []byte) {
	for i := 0; i < len(pattern); i++ {
		switch b := pattern[i]; {
		case b == '*' || b == '?' || b == '[':
			return prefix
		case b == '\\' && i+1 < len(pattern):
			i++
			prefix = append(prefix, pattern[i])
		default:
			prefix = append(prefix, b)
		}
	}
	return prefix
}
