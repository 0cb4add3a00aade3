package compaction

import (
	"bytes"
	"cmp"

	"github.com/google/btree"
)

// Span is a range of one set's element keys, or a range of whole sets that are small. The rewriter copies it whole. Lower is
// inclusive, Upper exclusive; both are bounds by keyscheme.
type Span struct {
	Set          string // the set's key prefix; empty for many small sets
	Lower, Upper []byte
	Keys, Dead   uint64 // as last sampled: keys looked at, and those of them that were dead
	Bytes        uint64 // in tables, approximately
}

// Density returns the share of dead keys among those looked at, from 0 to 1.
func (s Span) Density() float64 {
	if s.Keys == 0 {
		return 0
	}
	return float64(s.Dead) / float64(s.Keys)
}

// Index orders spans by the density of their garbage. One goroutine owns it. The zero value is not ready; see NewIndex.
type Index struct {
	byDensity *btree.BTreeG[Span]
	bySpan    map[string]Span
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{btree.NewG(32, denser), map[string]Span{}}
}

// denser orders the densest span first; among equally dense ones, the cheaper to copy; then by place, so that the order is total.
func denser(a, b Span) bool {
	if c := cmp.Compare(a.Density(), b.Density()); c != 0 {
		return c > 0
	}
	if a.Bytes != b.Bytes {
		return a.Bytes < b.Bytes
	}
	return bytes.Compare(a.Lower, b.Lower) < 0
}

// Put adds a span. It replaces a span with the same lower bound.
func (ix *Index) Put(s Span) {
	ix.Remove(s.Lower)
	ix.byDensity.ReplaceOrInsert(s)
	ix.bySpan[string(s.Lower)] = s
}

// Remove deletes the span that starts at lower, if the index has one.
func (ix *Index) Remove(lower []byte) {
	if old, ok := ix.bySpan[string(lower)]; ok {
		ix.byDensity.Delete(old)
		delete(ix.bySpan, string(lower))
	}
}

// Densest returns the span with the highest share of dead keys; ok is false when the index is empty.
func (ix *Index) Densest() (s Span, ok bool) { return ix.byDensity.Min() }

// Len returns the number of spans.
func (ix *Index) Len() int { return ix.byDensity.Len() }
