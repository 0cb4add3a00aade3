package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// blobSystem keeps a set as one value, in the same Pebble as rawSystem. Each operation reads the value, decodes it, and a
// write encodes and writes all of it again. Beside its elements, in order and each with a dot, it holds the last dot.
type blobSystem struct {
	*rawSystem
	writing sync.Mutex // operations on one value exclude each other
}

// blobMax is the number of elements up to which a blob is written at each operation.
const (
	blobMax     = 1_000
	blobMaxFull = 10_000
)

// blobSize returns how many elements a set of blob has where others have n, and each operation rewrites it.
func (e *env) blobSize(c contender, n int) int {
	switch {
	case c.system != systemBlob:
		return n
	case e.cfg.Full:
		return min(n, blobMaxFull)
	}
	return min(n, blobMax)
}

func openBlob(dir string, o openOptions) (*blobSystem, error) {
	raw, err := openRaw(dir, o)
	if err != nil {
		return nil, err
	}
	return &blobSystem{rawSystem: raw}, nil
}

func (b *blobSystem) label(r *Row) { r.System = systemBlob }

func (b *blobSystem) set(name string) set { return &blobSet{sys: b, key: blobKey(name)} }

func blobKey(name string) []byte { return append([]byte("blob"), name...) }

func (b *blobSystem) compact(ctx context.Context, name string) error {
	key := blobKey(name)
	return errors.Join(b.db.Flush(), b.db.Compact(ctx, key, append(bytes.Clone(key), 0), false))
}

func (b *blobSystem) drop(name string) error { return b.db.Delete(blobKey(name), pebble.Sync) }

func (b *blobSystem) verify(name string, elements int) error { return countBy(b.set(name), elements) }

// blobSet is a set in one value.
type blobSet struct {
	sys     *blobSystem
	key     []byte
	value   blobValue
	encoded []byte
}

// blobValue is the decoded value. Its elements alias the encoded one.
type blobValue struct {
	last    uint64 // dot
	entries []blobEntry
}

type blobEntry struct {
	element []byte
	dot     uint64
}

// decode takes an encoded value apart: last dot, then of each entry length, element, dot.
func (v *blobValue) decode(b []byte) error {
	v.last, v.entries = 0, v.entries[:0]
	if len(b) == 0 {
		return nil
	}
	last, at := binary.Uvarint(b)
	v.last = last
	for b = b[max(at, 0):]; len(b) > 0; {
		n, width := binary.Uvarint(b)
		if width <= 0 || uint64(len(b)-width) < n {
			return fmt.Errorf("%w: a damaged blob", ErrWrong)
		}
		element := b[width : width+int(n)]
		b = b[width+int(n):]
		dot, width := binary.Uvarint(b)
		if width <= 0 {
			return fmt.Errorf("%w: a damaged blob", ErrWrong)
		}
		v.entries = append(v.entries, blobEntry{element, dot})
		b = b[width:]
	}
	return nil
}

// append encodes the value.
func (v *blobValue) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, v.last)
	for _, e := range v.entries {
		dst = append(binary.AppendUvarint(dst, uint64(len(e.element))), e.element...)
		dst = binary.AppendUvarint(dst, e.dot)
	}
	return dst
}

// find returns where an element is or belongs.
func (v *blobValue) find(element []byte) (at int, found bool) {
	at = sort.Search(len(v.entries), func(i int) bool { return bytes.Compare(v.entries[i].element, element) >= 0 })
	return at, at < len(v.entries) && bytes.Equal(v.entries[at].element, element)
}

// add puts elements in, with new dots.
func (v *blobValue) add(elements [][]byte, dots []uint64) {
	fresh := make([]blobEntry, 0, len(elements))
	for i, e := range elements {
		v.last++
		if dots != nil {
			dots[i] = v.last
		}
		if at, found := v.find(e); found {
			v.entries[at].dot = v.last
		} else {
			fresh = append(fresh, blobEntry{e, v.last})
		}
	}
	if len(fresh) == 1 {
		at, _ := v.find(fresh[0].element)
		v.entries = append(v.entries, blobEntry{})
		copy(v.entries[at+1:], v.entries[at:])
		v.entries[at] = fresh[0]
		return
	}
	v.entries = append(v.entries, fresh...)
	sort.Slice(v.entries, func(i, j int) bool { return bytes.Compare(v.entries[i].element, v.entries[j].element) < 0 })
}

// loaded calls f with the value decoded.
func (s *blobSet) loaded(f func() error) error {
	value, closer, err := s.sys.db.Get(s.key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		_ = s.value.decode(nil) // nothing can be wrong with nothing
		return f()
	case err != nil:
		return err
	}
	if err = s.value.decode(value); err == nil {
		err = f()
	}
	return errors.Join(err, closer.Close())
}

// change reads, changes and rewrites the value.
func (s *blobSet) change(f func()) error {
	s.sys.writing.Lock()
	defer s.sys.writing.Unlock()
	return s.loaded(func() error {
		f()
		s.encoded = s.value.append(s.encoded[:0])
		return s.sys.db.Set(s.key, s.encoded, s.sys.write)
	})
}

func (s *blobSet) insert(elements [][]byte, dots []uint64) error {
	return s.change(func() { s.value.add(elements, dots) })
}

func (s *blobSet) observe(element []byte, _ uint64) error {
	return s.change(func() { s.value.add([][]byte{element}, nil) })
}

func (s *blobSet) exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	missing := 0
	err := s.change(func() {
		for i, e := range gone {
			at, found := s.value.find(e)
			if !found || s.value.entries[at].dot != goneDots[i] {
				missing++
				continue
			}
			s.value.entries = append(s.value.entries[:at], s.value.entries[at+1:]...)
		}
		s.value.add(fresh, freshDots)
	})
	if err != nil {
		return err
	}
	return expect("elements that were not there", missing, 0)
}

func (s *blobSet) takeFirst(n int) error {
	had := 0
	err := s.change(func() {
		had = len(s.value.entries)
		s.value.entries = s.value.entries[min(n, had):]
	})
	if err != nil {
		return err
	}
	return expect("elements taken off", min(n, had), n)
}

func (s *blobSet) contains(element []byte) (found bool, err error) {
	err = s.loaded(func() error {
		_, found = s.value.find(element)
		return nil
	})
	return found, err
}

func (s *blobSet) read(limit int, each func(n int)) error {
	return s.loaded(func() error {
		n := len(s.value.entries)
		if limit > 0 {
			n = min(n, limit)
		}
		each(n)
		return nil
	})
}

func (s *blobSet) first(q query) (found bool, err error) {
	err = s.loaded(func() error {
		from := q.from
		if q.prefix != nil {
			from = q.prefix
		}
		at, _ := s.value.find(from)
		found = at < len(s.value.entries)
		return nil
	})
	return found, err
}
