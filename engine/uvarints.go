package engine

import "encoding/binary"

// uvarints reads numbers and strings until something is wrong.
type uvarints struct {
	b   []byte
	bad bool
}

func (r *uvarints) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *uvarints) bytes() []byte {
	n := r.next()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}
