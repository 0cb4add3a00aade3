package setname

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
)

// pathStart is what all paths begin with.
const pathStart = "/types/"

// Path returns the path of the set in HTTP: /types/T/buckets/B/datatypes/K, in which T, B and K are percent-encoded.
func (n Name) Path() string {
	return pathStart + url.PathEscape(string(n.Type)) + "/buckets/" + url.PathEscape(string(n.Bucket)) + "/datatypes/" + url.PathEscape(string(n.Key))
}

// Text returns the name of a set for people. No two sets have the same text. A plain set is shown by its key, all others by their Path. A
// plain set is shown by its Path, too, if its key is empty, begins with a zero byte or looks like a Path. A name that belongs to no client is
// returned unchanged.
func Text(set []byte) string {
	if key, ok := Key(set); ok && len(key) > 0 && key[0] != 0 && !bytes.HasPrefix(key, []byte(pathStart)) {
		return string(key)
	}
	if n, ok := Split(set); ok {
		return n.Path()
	}
	return string(set)
}

// OfText inverts Text: it returns the set that a Path names, or any other text as a name. Percent signs may escape any byte of a Path.
func OfText(text string) []byte {
	rest, ok := strings.CutPrefix(text, pathStart)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 5 || parts[1] != "buckets" || parts[3] != "datatypes" {
		return []byte(text)
	}
	var n [3]string
	for i := range n {
		var err error
		if n[i], err = url.PathUnescape(parts[2*i]); err != nil {
			return []byte(text)
		}
	}
	return Name{[]byte(n[0]), []byte(n[1]), []byte(n[2])}.Set()
}

// Quoted returns the Text of a set for a sentence: in quotes, unless it is a path.
func Quoted(set []byte) string {
	if text := Text(set); text != string(set) {
		return text
	}
	return strconv.Quote(string(set))
}

// InError replaces the quoted name of a set in the text of an error by Quoted.
func InError(text string, set []byte) string {
	if len(set) == 0 {
		return text
	}
	return strings.ReplaceAll(text, strconv.Quote(string(set)), Quoted(set))
}
