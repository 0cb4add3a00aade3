package setname

import "bytes"

// PlainType and PlainBucket are the type and the bucket whose keys name sets directly.
const (
	PlainType   = "sets"
	PlainBucket = "default"
)

// mark begins names with a type and a bucket, and ends each of these two in the name.
var mark = []byte{0, 1}

// OfKey returns the name of the set of a key. It returns the key itself, not a copy, if the first byte of the key is not zero.
func OfKey(key []byte) []byte {
	if len(key) > 0 && key[0] != 0 {
		return key
	}
	return append([]byte{0}, key...)
}

// Key inverts OfKey. The key points into the name. ok is false for a name that belongs to no key.
func Key(name []byte) (key []byte, ok bool) {
	switch {
	case len(name) == 0:
		return nil, false
	case name[0] != 0:
		return name, true
	case len(name) == 1 || name[1] == 0:
		return name[1:], true
	}
	return nil, false
}

// Name is the name of a set in Riak and HTTP.
type Name struct{ Type, Bucket, Key []byte }

// Set returns the name of the set.
func (n Name) Set() []byte {
	if n.isPlain() {
		return OfKey(n.Key)
	}
	return append(Prefix(n.Type, n.Bucket), n.Key...)
}

func (n Name) isPlain() bool { return string(n.Type) == PlainType && string(n.Bucket) == PlainBucket }

// Prefix returns what the names of all sets of a bucket, and no others, begin with. It must not be called for the bucket of the plain
// names.
func Prefix(typ, bucket []byte) []byte {
	return appendPart(appendPart(append([]byte{}, mark...), typ), bucket)
}

// appendPart appends a type or a bucket and its end mark.
func appendPart(dst, part []byte) []byte {
	for _, b := range part {
		if dst = append(dst, b); b == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, mark...)
}

// Split inverts Name.Set. ok is false for a name that belongs to no client. The results may point into the name.
func Split(set []byte) (n Name, ok bool) {
	if key, ok := Key(set); ok {
		return Name{[]byte(PlainType), []byte(PlainBucket), key}, true
	}
	rest, ok := bytes.CutPrefix(set, mark)
	if ok {
		n.Type, rest, ok = cutPart(rest)
	}
	if ok {
		n.Bucket, n.Key, ok = cutPart(rest)
	}
	if !ok || n.isPlain() {
		return Name{}, false
	}
	return n, true
}

// cutPart inverts appendPart and returns the rest of b.
func cutPart(b []byte) (part, rest []byte, ok bool) {
	part = []byte{}
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 || i+1 == len(b) {
			return nil, nil, false
		}
		part = append(part, b[:i]...)
		switch b[i+1] {
		case 1:
			return part, b[i+2:], true
		case 0xff:
			part, b = append(part, 0), b[i+2:]
		default:
			return nil, nil, false
		}
	}
}
