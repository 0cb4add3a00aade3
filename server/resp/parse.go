package resp

import "bytes"

// Limits of a request, as in redis; argumentsMax is that of redis before version 7.
const (
	argumentsMax  = 1 << 20
	lineBytesMax  = 64 << 10 // an inline command, or the line of a length
	argumentsKept = 256      // arguments for which a connection keeps memory

	// Limits for a client that needs a token and has not given one.
	strangerArgumentsMax = 10
	strangerBulkMax      = 16 << 10
)

// Errors of malformed requests, in redis's words. They end the connection.
const (
	faultArguments  = "Protocol error: invalid multibulk length"
	faultArgumentsL = "Protocol error: too big mbulk count string"
	faultBulk       = "Protocol error: invalid bulk length"
	faultStranger   = "Protocol error: unauthenticated multibulk length"
	faultStrangerB  = "Protocol error: unauthenticated bulk length"
	faultBulkLine   = "Protocol error: too big bulk count string"
	faultInline     = "Protocol error: too big inline request"
	faultQuotes     = "Protocol error: unbalanced quotes in request"
	faultDollar     = "Protocol error: expected '$', got '"
)

// span is the position of an argument in a request.
type span struct{ begin, end uint32 }

// parser parses requests. It keeps its state for an incomplete request, so that only the beginning of a line is read twice.
type parser struct {
	bulkMax  int         // length of the longest argument
	stranger func() bool // whether the client needs a token and has not given one; nil means no

	at    int    // bytes of the request read so far
	left  int    // arguments still to come
	size  int    // length of the current argument; -1 before it is known
	n     int    // arguments read so far
	spans []span // of the first arguments; the others are searched again, so that an incomplete request takes little memory besides its bytes
}

// reset begins the next request.
func (p *parser) reset() {
	if cap(p.spans) > argumentsKept {
		p.spans = nil
	}
	p.at, p.left, p.n, p.spans = 0, 0, 0, p.spans[:0]
}

// parse continues to parse buf, which begins where the request does. When the request is complete, it has p.n arguments, possibly none, and
// p.at bytes. A fault is the text of an error, after which the connection can't be parsed any more. An inline command is unquoted in place.
func (p *parser) parse(buf []byte) (whole bool, fault string) {
	if p.at == 0 {
		if len(buf) == 0 {
			return false, ""
		}
		if buf[0] != '*' {
			return p.inline(buf)
		}
		line, ok, long := lineAt(buf, 1)
		switch {
		case long:
			return false, faultArgumentsL
		case !ok:
			return false, ""
		}
		n, good := number(line)
		if !good || n > argumentsMax {
			return false, faultArguments
		}
		if n > strangerArgumentsMax && p.isStranger() {
			return false, faultStranger
		}
		p.at, p.left, p.size = 1+len(line)+2, int(max(0, n)), -1
	}
	for p.left > 0 {
		if p.size < 0 {
			line, ok, long := lineAt(buf, p.at)
			switch {
			case long:
				return false, faultBulkLine
			case !ok:
				return false, ""
			case buf[p.at] != '$':
				return false, faultDollar + string(buf[p.at:p.at+1]) + "'"
			}
			n, good := number(line[1:])
			if !good || n < 0 || n > int64(p.bulkMax) {
				return false, faultBulk
			}
			if n > strangerBulkMax && p.isStranger() {
				return false, faultStrangerB
			}
			p.at, p.size = p.at+len(line)+2, int(n)
		}
		if len(buf)-p.at < p.size+2 {
			return false, ""
		}
		if p.n < argumentsKept {
			p.spans = append(p.spans, span{uint32(p.at), uint32(p.at + p.size)})
		}
		p.at, p.size, p.left, p.n = p.at+p.size+2, -1, p.left-1, p.n+1
	}
	return true, ""
}

func (p *parser) isStranger() bool { return p.stranger != nil && p.stranger() }

// first appends the first arguments of the request at the start of buf, as far as they are read.
func (p *parser) first(dst [][]byte, buf []byte) [][]byte {
	for _, at := range p.spans {
		dst = append(dst, buf[at.begin:at.end:at.end])
	}
	return dst
}

// arguments appends the arguments of the complete request at the start of buf.
func (p *parser) arguments(dst [][]byte, buf []byte) [][]byte {
	next := 0
	dst = p.first(dst, buf)
	if n := len(p.spans); n > 0 {
		next = int(p.spans[n-1].end) + 2
	}
	for range p.n - len(p.spans) {
		line, _, _ := lineAt(buf, next)
		n, _ := number(line[1:])
		begin := next + len(line) + 2
		end := begin + int(n)
		dst = append(dst, buf[begin:end:end])
		next = end + 2
	}
	return dst
}

// lineAt returns the line from a position up to a carriage return that is followed by another byte, as redis reads lengths. long reports
// that the line has no end and is too long.
func lineAt(buf []byte, at int) (line []byte, ok, long bool) {
	rest := buf[at:]
	i := bytes.IndexByte(rest[:min(len(rest), lineBytesMax+1)], '\r')
	if i < 0 {
		return nil, false, len(rest) > lineBytesMax
	}
	return rest[:i], i+1 < len(rest), false
}

// number reads a number as redis does: only digits, with at most a minus sign, and no leading zeros.
func number(s []byte) (n int64, ok bool) {
	digits, negative := s, false
	if len(s) > 0 && s[0] == '-' {
		digits, negative = s[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	u := uint64(0)
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		u = 10*u + uint64(d-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// inline reads a line of words.
func (p *parser) inline(buf []byte) (whole bool, fault string) {
	end := bytes.IndexByte(buf[:min(len(buf), lineBytesMax+1)], '\n')
	if end < 0 {
		if len(buf) > lineBytesMax {
			return false, faultInline
		}
		return false, ""
	}
	line := buf[:end]
	if end > 0 && buf[end-1] == '\r' {
		line = buf[:end-1]
	}
	p.at = end + 1
	if p.spans, whole = splitWords(p.spans[:0], line); !whole {
		return false, faultQuotes
	}
	p.n = len(p.spans)
	return true, ""
}

// splitWords appends the words of a line, which it unquotes in place. It reports false if a quote has no end. The rules are those of redis:
// a zero byte ends the line.
func splitWords(dst []span, line []byte) ([]span, bool) {
	at := func(i int) byte {
		if i < len(line) {
			return line[i]
		}
		return 0
	}
	for i := 0; ; {
		for isSpace(at(i)) {
			i++
		}
		if at(i) == 0 {
			return dst, true
		}
		begin, out := i, i
		quote := byte(0)
		for done := false; !done; i++ {
			b := at(i)
			switch {
			case quote != 0 && (i >= len(line) || b == 0):
				return dst, false
			case quote == '"' && b == '\\' && at(i+1) == 'x' && isHex(at(i+2)) && isHex(at(i+3)):
				b = hexOf(at(i+2))<<4 | hexOf(at(i+3))
				i += 3
			case quote == '"' && b == '\\' && at(i+1) != 0:
				i++
				b = unescape(at(i))
			case quote == '\'' && b == '\\' && at(i+1) == '\'':
				i++
				b = '\''
			case quote != 0 && b == quote:
				if next := at(i + 1); next != 0 && !isSpace(next) {
					return dst, false
				}
				done = true
				continue
			case quote != 0:
			case b == ' ' || b == '\n' || b == '\r' || b == '\t' || b == 0:
				done = true
				i-- // read it again
				continue
			case b == '"' || b == '\'':
				quote = b
				continue
			}
			line[out] = b
			out++
		}
		dst = append(dst, span{uint32(begin), uint32(out)})
	}
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func isHex(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' }

func hexOf(b byte) byte {
	switch {
	case b <= '9':
		return b - '0'
	case b <= 'F':
		return b - 'A' + 10
	}
	return b - 'a' + 10
}

func unescape(b byte) byte {
	switch b {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return b
}
