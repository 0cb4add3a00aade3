package compaction_test

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/compaction"
)

// byWorth orders spans as an index should: by the share of dead keys without a division, then the cheaper, then by place.
func byWorth(a, b compaction.Span) int {
	return cmp.Or(
		-cmp.Compare(a.Dead*max(b.Keys, 1), b.Dead*max(a.Keys, 1)),
		cmp.Compare(a.Bytes, b.Bytes),
		bytes.Compare(a.Lower, b.Lower))
}

// TestIndex compares an index with a sorted slice: Put replaces, Remove deletes, Densest is the first.
func TestIndex(t *testing.T) {
	spans := rapid.Custom(func(t *rapid.T) compaction.Span {
		keys := rapid.Uint64Range(0, 6).Draw(t, "keys")
		return compaction.Span{
			Set:   rapid.SampledFrom([]string{"s", "t"}).Draw(t, "set"),
			Lower: []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 3, -1).Draw(t, "lower")),
			Keys:  keys,
			Dead:  rapid.Uint64Range(0, keys).Draw(t, "dead"),
			Bytes: rapid.Uint64Range(0, 2).Draw(t, "bytes"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		index, model := compaction.NewIndex(), []compaction.Span{}
		remove := func(lower []byte) {
			model = slices.DeleteFunc(model, func(s compaction.Span) bool { return bytes.Equal(s.Lower, lower) })
		}
		check := func() {
			slices.SortFunc(model, byWorth)
			if index.Len() != len(model) {
				t.Fatalf("%d spans, want %d", index.Len(), len(model))
			}
			got, ok := index.Densest()
			if ok != (len(model) > 0) || ok && !reflect.DeepEqual(got, model[0]) {
				t.Fatalf("densest %+v, %v, want the first of %+v", got, ok, model)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"Put": func(t *rapid.T) {
				s := spans.Draw(t, "span")
				index.Put(s)
				remove(s.Lower)
				model = append(model, s)
			},
			"Remove": func(t *rapid.T) {
				lower := spans.Draw(t, "span").Lower
				index.Remove(lower)
				remove(lower)
			},
		})
		for range len(model) {
			check()
			index.Remove(model[0].Lower)
			remove(model[0].Lower)
		}
		check()
	})
}

func TestDensity(t *testing.T) {
	for _, c := range []struct {
		keys, dead uint64
		want       float64
	}{{0, 0, 0}, {0, 3, 0}, {4, 0, 0}, {4, 1, 0.25}, {4, 4, 1}} {
		if got := (compaction.Span{Keys: c.keys, Dead: c.dead}).Density(); got != c.want {
			t.Errorf("%d of %d: %v, want %v", c.dead, c.keys, got, c.want)
		}
	}
}
