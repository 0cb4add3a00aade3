// Package blob decides how a set is stored as one value, which every operation reads, changes and rewrites, as in a key-value store that
// does not know sets. It is a system of package system, in the same Pebble as raw Pebble there.
//
// Only one goroutine at a time may use a System; each Set handle may have a goroutine of its own.
package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset/bench/system"
)

// System stores a set as one value, in the same Pebble as Raw. Each operation reads and decodes the value, and a write encodes and writes
// all of it again. The value contains the elements in order, each with a dot, and the last dot.
type System struct {
	*system.Raw
	writing sync.Mutex // operations on one value exclude each other
}

// Open opens the system in a folder, which it creates.
func Open(dir string, o system.Options) (*System, error) {
	raw, err := system.OpenRaw(dir, o)
	if err != nil {
		return nil, err
	}
	return &System{Raw: raw}, nil
}

// Label implements system.System.
func (b *System) Label() (name, record, strategy string) { return system.NameBlob, "", "" }

// Set implements system.System.
func (b *System) Set(name string) system.Set { return &Set{sys: b, key: keyOf(name)} }

func keyOf(name string) []byte { return append([]byte("blob"), name...) }

// Compact implements system.System.
func (b *System) Compact(ctx context.Context, name string) error {
	key := keyOf(name)
	return errors.Join(b.DB().Flush(), b.DB().Compact(ctx, key, append(bytes.Clone(key), 0), false))
}

// Drop implements system.System.
func (b *System) Drop(name string) error { return b.DB().Delete(keyOf(name), pebble.Sync) }

// Verify implements system.System.
func (b *System) Verify(name string, elements int) error {
	return system.CountBy(b.Set(name), elements)
}

// Set is a set in one value.
type Set struct {
	sys     *System
	key     []byte
	value   value
	encoded []byte
}

// value is the decoded value. Its elements alias the encoded one.
type value struct {
	last    uint64 // dot
	entries []entry
}

type entry struct {
	element []byte
	dot     uint64
}

// decode decodes a value: the last dot, then the length, the element and the dot of each entry.
func (v *value) decode(b []byte) error {
	v.last, v.entries = 0, v.entries[:0]
	if len(b) == 0 {
		return nil
	}
	last, at := binary.Uvarint(b)
	v.last = last
	for b = b[max(at, 0):]; len(b) > 0; {
		n, width := binary.Uvarint(b)
		if width <= 0 || uint64(len(b)-width) < n {
			return fmt.Errorf("%w: a damaged blob", system.ErrWrong)
		}
		element := b[width : width+int(n)]
		b = b[width+int(n):]
		dot, width := binary.Uvarint(b)
		if width <= 0 {
			return fmt.Errorf("%w: a damaged blob", system.ErrWrong)
		}
		v.entries = append(v.entries, entry{element, dot})
		b = b[width:]
	}
	return nil
}

// append encodes the value.
func (v *value) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, v.last)
	for _, e := range v.entries {
		dst = append(binary.AppendUvarint(dst, uint64(len(e.element))), e.element...)
		dst = binary.AppendUvarint(dst, e.dot)
	}
	return dst
}

// find returns the position of an element, or the position where it belongs.
func (v *value) find(element []byte) (at int, found bool) {
	at = sort.Search(len(v.entries), func(i int) bool { return bytes.Compare(v.entries[i].element, element) >= 0 })
	return at, at < len(v.entries) && bytes.Equal(v.entries[at].element, element)
}

// add adds elements with new dots.
func (v *value) add(elements [][]byte, dots []uint64) {
	fresh := make([]entry, 0, len(elements))
	for i, e := range elements {
		v.last++
		if len(dots) > 0 {
			dots[i] = v.last
		}
		if at, found := v.find(e); found {
			v.entries[at].dot = v.last
		} else {
			fresh = append(fresh, entry{e, v.last})
		}
	}
	if len(fresh) == 1 {
		at, _ := v.find(fresh[0].element)
		v.entries = append(v.entries, entry{})
		copy(v.entries[at+1:], v.entries[at:])
		v.entries[at] = fresh[0]
		return
	}
	v.entries = append(v.entries, fresh...)
	sort.Slice(v.entries, func(i, j int) bool { return bytes.Compare(v.entries[i].element, v.entries[j].element) < 0 })
}

// remove removes elements with the given dots, and returns how many were not found.
func (v *value) remove(elements [][]byte, dots []uint64) (missing int) {
	for i, e := range elements {
		at, found := v.find(e)
		if !found || v.entries[at].dot != dots[i] {
			missing++
			continue
		}
		v.entries = append(v.entries[:at], v.entries[at+1:]...)
	}
	return missing
}

// loaded calls f with the value decoded.
func (s *Set) loaded(f func() error) error {
	value, closer, err := s.sys.DB().Get(s.key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		_ = s.value.decode(nil) // an empty value is valid
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
func (s *Set) change(f func()) error {
	s.sys.writing.Lock()
	defer s.sys.writing.Unlock()
	return s.loaded(func() error {
		f()
		s.encoded = s.value.append(s.encoded[:0])
		return s.sys.DB().Set(s.key, s.encoded, s.sys.WriteOptions())
	})
}

// Insert implements system.Set.
func (s *Set) Insert(elements [][]byte, dots []uint64) error {
	return s.change(func() { s.value.add(elements, dots) })
}

// Exchange implements system.Set.
func (s *Set) Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	missing := 0
	err := s.change(func() {
		missing = s.value.remove(gone, goneDots)
		s.value.add(fresh, freshDots)
	})
	if err != nil {
		return err
	}
	return system.Expect("elements that were not there", missing, 0)
}

// TakeFirst implements system.Set.
func (s *Set) TakeFirst(n int) error {
	taken := 0
	if err := s.Take(n, func([]byte) { taken++ }); err != nil {
		return err
	}
	return system.Expect("elements taken off", taken, n)
}

// Take implements system.Set.
func (s *Set) Take(n int, each func(element []byte)) error {
	return s.change(func() {
		n := min(n, len(s.value.entries))
		for i := 0; each != nil && i < n; i++ {
			each(s.value.entries[i].element)
		}
		s.value.entries = s.value.entries[n:]
	})
}

// See implements system.Set. A blob has no clock.
func (s *Set) See() error { return nil }

// Change implements system.Set.
func (s *Set) Change(c *system.Change) error {
	missing := 0
	err := s.change(func() {
		missing = s.value.remove(c.Gone, c.GoneDots)
		for i, e := range c.Again {
			if at, found := s.value.find(e); !found || s.value.entries[at].dot != c.AgainDots[i] {
				missing++
			}
		}
		s.value.add(c.Again, c.AgainDots)
		s.value.add(c.Fresh, c.FreshDots)
	})
	if err != nil {
		return err
	}
	return system.Expect("elements that were not there", missing, 0)
}

// Scan implements system.Set.
func (s *Set) Scan(q system.Query, dst []byte) (n int, first []byte, err error) {
	err = s.loaded(func() error {
		from := q.From
		if q.Prefix != nil {
			from = q.Prefix
		}
		at, _ := s.value.find(from)
		for _, e := range s.value.entries[at:] {
			if q.Limit > 0 && n == q.Limit || q.Prefix != nil && !bytes.HasPrefix(e.element, q.Prefix) || q.To != nil && bytes.Compare(e.element, q.To) >= 0 {
				break
			}
			if n++; n == 1 {
				dst = append(dst, e.element...)
			}
		}
		return nil
	})
	return n, dst, err
}

// Count implements system.Set.
func (s *Set) Count() (n int, err error) {
	err = s.loaded(func() error {
		n = len(s.value.entries)
		return nil
	})
	return n, err
}

// Look implements system.Set.
func (s *Set) Look(element []byte, _ uint64) (bool, error) { return s.Contains(element) }

// Contains implements system.Set.
func (s *Set) Contains(element []byte) (found bool, err error) {
	err = s.loaded(func() error {
		_, found = s.value.find(element)
		return nil
	})
	return found, err
}

// Read implements system.Set.
func (s *Set) Read(limit int, each func(n int)) error {
	return s.loaded(func() error {
		n := len(s.value.entries)
		if limit > 0 {
			n = min(n, limit)
		}
		each(n)
		return nil
	})
}

// First implements system.Set.
func (s *Set) First(q system.Query) (found bool, err error) {
	err = s.loaded(func() error {
		from := q.From
		if q.Prefix != nil {
			from = q.Prefix
		}
		at, _ := s.value.find(from)
		found = at < len(s.value.entries)
		return nil
	})
	return found, err
}
