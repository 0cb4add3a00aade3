package resp

import (
	"bytes"
	"fmt"
)

// patternBytesMax bounds patterns: a class of many bytes is searched for each byte of each name.
const patternBytesMax = 4 << 10

// checkPattern returns an error for a pattern that is too long.
func checkPattern(pattern []byte) error {
	if len(pattern) > patternBytesMax {
		return refusal(fmt.Sprintf("ERR pattern is %d bytes, the maximum is %d", len(pattern), patternBytesMax))
	}
	return nil
}

// matches reports whether text matches a pattern by redis's rules: * is anything, ? one byte, [a-c] and [^a] classes, \ takes the next byte
// literally.
//
// It backtracks only to the last star, so that a pattern with many stars takes no more time than the product of both lengths.
func matches(pattern, text []byte) bool {
	p, t := 0, 0
	star, from := -1, 0 // position of the last star, and of the text after what it has taken
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p, t
			p++
			continue
		}
		if p < len(pattern) {
			if n, ok := matchOne(pattern[p:], text[t]); ok {
				p, t = p+n, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, t = star+1, from
	}
	return len(bytes.TrimLeft(pattern[p:], "*")) == 0
}

// matchOne matches one byte against the beginning of a pattern, which is neither empty nor a star. n is the length of the used part.
func matchOne(pattern []byte, b byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(pattern, b)
	case '\\':
		if len(pattern) >= 2 {
			return 2, pattern[1] == b
		}
	}
	return 1, pattern[0] == b
}

// matchClass matches a byte against a class. A class without an end ends with the pattern.
func matchClass(pattern []byte, b byte) (n int, ok bool) {
	i, not, found := 1, false, false
	if i < len(pattern) && pattern[i] == '^' {
		not = true
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			found = found || pattern[i] == b
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := pattern[i], pattern[i+2]
			if low > high {
				low, high = high, low
			}
			found = found || b >= low && b <= high
			i += 2
		default:
			found = found || pattern[i] == b
		}
	}
	return min(i+1, len(pattern)), found != not
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
