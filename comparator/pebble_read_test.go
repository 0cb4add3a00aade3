package comparator_test

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"bigset/comparator"
)

// checkAt compares the position of an iterator with that of the model; nil is no position.
func (h *harness) checkAt(it *pebble.Iterator, want *pair, what string, key []byte) {
	h.t.Helper()
	h.must(it.Error())
	switch {
	case want == nil && it.Valid():
		h.t.Fatalf("%s %s stands at %s, want nowhere", what, comparator.Format(key), comparator.Format(it.Key()))
	case want == nil:
	case !it.Valid():
		h.t.Fatalf("%s %s stands nowhere, want %s", what, comparator.Format(key), comparator.Format(want.key))
	case !bytes.Equal(it.Key(), want.key) || !bytes.Equal(it.Value(), want.value):
		h.t.Fatalf("%s %s stands at %s = %s, want %s = %s", what, comparator.Format(key),
			comparator.Format(it.Key()), it.Value(), comparator.Format(want.key), want.value)
	}
}

func (h *harness) ceiling(key []byte, upper []byte) (found *pair) {
	h.model.AscendGreaterOrEqual(pair{key: key}, func(p pair) bool {
		if upper == nil || refCompare(p.key, upper) < 0 {
			found = &p
		}
		return false
	})
	return found
}

func (h *harness) above(key []byte, upper []byte) (found *pair) {
	h.model.AscendGreaterOrEqual(pair{key: key}, func(p pair) bool {
		if bytes.Equal(p.key, key) {
			return true
		}
		if upper == nil || refCompare(p.key, upper) < 0 {
			found = &p
		}
		return false
	})
	return found
}

func (h *harness) below(key []byte, lower []byte) (found *pair) {
	h.model.DescendLessOrEqual(pair{key: key}, func(p pair) bool {
		if bytes.Equal(p.key, key) {
			return true
		}
		if lower == nil || refCompare(p.key, lower) >= 0 {
			found = &p
		}
		return false
	})
	return found
}

// iterate seeks and steps with one iterator, with bounds half of the time.
func (h *harness) iterate() {
	var lower, upper []byte
	if h.rng.IntN(2) == 0 {
		if lower, upper = h.bound(), h.bound(); refCompare(lower, upper) >= 0 {
			return
		}
	}
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	h.must(err)
	defer func() { h.must(it.Close()) }()
	for range 4 {
		key := h.stored()
		if h.rng.IntN(2) == 0 {
			it.SeekGE(key)
			if lower != nil && refCompare(key, lower) < 0 {
				key = lower
			}
			h.checkAt(it, h.ceiling(key, upper), "SeekGE", key)
		} else {
			it.SeekLT(key)
			if upper != nil && refCompare(key, upper) > 0 {
				key = upper
			}
			h.checkAt(it, h.below(key, lower), "SeekLT", key)
		}
		h.walk(it, lower, upper)
	}
}

func (h *harness) walk(it *pebble.Iterator, lower, upper []byte) {
	for range h.rng.IntN(12) {
		if !it.Valid() {
			return
		}
		at := bytes.Clone(it.Key())
		if h.rng.IntN(3) > 0 {
			it.Next()
			h.checkAt(it, h.above(at, upper), "Next from", at)
		} else {
			it.Prev()
			h.checkAt(it, h.below(at, lower), "Prev from", at)
		}
	}
}

// seekPrefix asks for the keys of one element, which a bloom filter may answer.
func (h *harness) seekPrefix() {
	it, err := h.db.NewIter(nil)
	h.must(err)
	defer func() { h.must(it.Close()) }()
	p, element := h.prefix(), h.element()
	b := p.Element(element)
	it.SeekPrefixGE(b.Lower)
	for _, want := range h.between(b.Lower, b.Upper) {
		if len(want.key) > 0 && !bytes.Equal(want.key[:comparator.Split(want.key)], b.Lower) {
			h.t.Fatalf("%s is not of element %s", comparator.Format(want.key), comparator.Format(b.Lower))
		}
		h.checkAt(it, &want, "SeekPrefixGE", b.Lower)
		it.Next()
	}
	h.checkAt(it, nil, "behind SeekPrefixGE", b.Lower)
}

// checkAll compares the whole store with the model, forwards and backwards, and checks its tables.
func (h *harness) checkAll() {
	h.must(h.db.CheckLevels(nil))
	it, err := h.db.NewIter(nil)
	h.must(err)
	defer func() { h.must(it.Close()) }()
	it.First()
	h.model.Ascend(func(p pair) bool {
		h.checkAt(it, &p, "scan", p.key)
		it.Next()
		return true
	})
	h.checkAt(it, nil, "scan", nil)
	it.Last()
	h.model.Descend(func(p pair) bool {
		h.checkAt(it, &p, "scan back", p.key)
		it.Prev()
		return true
	})
	h.checkAt(it, nil, "scan back", nil)
}
