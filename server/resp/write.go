package resp

import "strconv"

// First bytes of replies. Those of RESP3 have a form in RESP2, too.
const (
	typeArray = '*'
	typeSet   = '~' // RESP2: an array
	typeMap   = '%' // RESP2: an array of keys and values
)

// appendHeader appends the header of an aggregate with n elements; for a map, n pairs.
func appendHeader(dst []byte, proto int, kind byte, n int) []byte {
	if proto < 3 {
		if kind == typeMap {
			n *= 2
		}
		kind = typeArray
	}
	return appendLine(dst, kind, int64(n))
}

func appendLine(dst []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(dst, kind), n, 10), '\r', '\n')
}

func appendInt(dst []byte, n int64) []byte { return appendLine(dst, ':', n) }

func appendBulk[T []byte | string](dst []byte, b T) []byte {
	dst = append(appendLine(dst, '$', int64(len(b))), b...)
	return append(dst, '\r', '\n')
}

// bulkBytes is the largest overhead of a bulk reply.
const bulkBytes = 16

// appendVerbatim appends a text to be shown verbatim.
func appendVerbatim(dst []byte, proto int, text string) []byte {
	if proto < 3 {
		return appendBulk(dst, text)
	}
	dst = appendLine(dst, '=', int64(len(text)+4))
	dst = append(append(dst, "txt:"...), text...)
	return append(dst, '\r', '\n')
}

func appendNull(dst []byte, proto int) []byte {
	if proto < 3 {
		return append(dst, "$-1\r\n"...)
	}
	return append(dst, "_\r\n"...)
}

// appendBool appends a boolean as modules do.
func appendBool(dst []byte, proto int, b bool) []byte {
	switch {
	case proto < 3 && b:
		return append(dst, ":1\r\n"...)
	case proto < 3:
		return append(dst, ":0\r\n"...)
	case b:
		return append(dst, "#t\r\n"...)
	}
	return append(dst, "#f\r\n"...)
}

func appendDouble(dst []byte, proto int, f float64) []byte {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if proto < 3 {
		return appendBulk(dst, text)
	}
	return append(append(append(dst, ','), text...), '\r', '\n')
}

func appendSimple(dst []byte, text string) []byte {
	return append(append(append(dst, '+'), text...), '\r', '\n')
}

// appendError appends an error, whose text begins with its code. Line breaks become spaces.
func appendError(dst []byte, text string) []byte {
	dst = append(dst, '-')
	at := len(dst)
	dst = append(dst, text...)
	for i, b := range dst[at:] {
		if b == '\r' || b == '\n' {
			dst[at+i] = ' '
		}
	}
	return append(dst, '\r', '\n')
}
