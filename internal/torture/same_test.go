package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bigset/server/cluster"
)

// TestAgree: stores that differ are repaired and compared again, up to a bound, and any other error ends it.
func TestAgree(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, c := range []struct {
		name     string
		compared []error // by round
		want     error
		restarts int
	}{
		{"alike", []error{nil}, nil, 0},
		{"alike after two repairs", []error{errDiffer, errDiffer, nil}, nil, 2},
		{"alike in the last round", []error{errDiffer, errDiffer, errDiffer, errDiffer, nil}, nil, roundsMax - 1},
		{"never alike", []error{errDiffer, errDiffer, errDiffer, errDiffer, errDiffer}, errDiffer, roundsMax - 1},
		{"broken", []error{errDiffer, other}, other, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			repairs, compared, restarts := 0, 0, 0
			err := agree(t.Context(), func(context.Context) error { repairs++; return nil }, func(context.Context) error {
				compared++
				if repairs != compared || restarts != compared-1 || compared > len(c.compared) {
					t.Fatalf("comparison %d after %d repairs and %d restarts", compared, repairs, restarts)
				}
				if err := c.compared[compared-1]; err != nil {
					return fmt.Errorf("wrapped: %w", err)
				}
				return nil
			}, func(context.Context) error { restarts++; return nil })
			if !errors.Is(err, c.want) || restarts != c.restarts {
				t.Errorf("%v after %d restarts, want %v after %d", err, restarts, c.want, c.restarts)
			}
		})
	}
}

// fiveNodes are nodes of which set0 belongs to a, c and d, and set1 to b, c and e.
func fiveNodes() (all []*node, owners func(string) []string) {
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, &node{id: id})
	}
	return all, func(name string) []string {
		if name == "set0" {
			return []string{"d", "a", "c"}
		}
		return []string{"b", "e", "c"}
	}
}

// TestSameElements: an owner of a set with an element or an add less or more than the others is found and named, whichever owner it is, and so
// is a node that has something of a set that it does not own. Nodes that own different sets have different elements, rightly.
func TestSameElements(t *testing.T) {
	t.Parallel()
	one, two := held{[]string{"e1", "e2"}, 2}, held{[]string{"e7"}, 1}
	for _, c := range []struct {
		node, set string
		held      held
		copied    []int // nodes whose folders a was copied from
		want      string
	}{
		{},
		{"d", "set0", held{[]string{"e1"}, 1}, nil, "of set0, node d alone has [], and node a alone has [e2]"},
		{"a", "set0", held{[]string{"e1"}, 1}, nil, "of set0, node d alone has [e2], and node a alone has []"},
		{"c", "set0", held{[]string{"e1", "e2", "e3"}, 3}, nil, "of set0, node d alone has [], and node c alone has [e3]"},
		{"e", "set1", held{}, nil, "of set1, node b alone has [e7], and node e alone has []"},
		{"c", "set1", held{[]string{"e7"}, 2}, nil, "of set1, node b has 1 adds, and node c 2, of the same 1 elements"},
		{"b", "set0", one, nil, "node b has set0, which nodes [d a c] own"},
		{"b", "set0", held{}, nil, "node b has set0, which nodes [d a c] own"},
		{"a", "set1", two, nil, "node a has set1, which nodes [b e c] own"},
		{"a", "set1", two, []int{3}, "node a has set1, which nodes [b e c] own"},
		{"a", "set1", two, []int{3, 4}, ""},
		{"a", "set2", two, nil, `node a has a set "set2", which no client has`},
	} {
		all, owners := fiveNodes()
		for _, i := range c.copied {
			all[0].copied = append(all[0].copied, all[i])
		}
		err := sameElements(all, []string{"set0", "set1"}, owners, func(n *node) (map[string]held, error) {
			has := map[string]held{}
			if strings.Contains("acd", n.id) {
				has["set0"] = one
			}
			if strings.Contains("bce", n.id) {
				has["set1"] = two
			}
			if n.id == c.node {
				has[c.set] = c.held
			}
			return has, nil
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
		if repairable := strings.HasPrefix(c.want, "of "); errors.Is(err, errDiffer) != repairable {
			t.Errorf("%+v: %v: whether a repair may help is wrong", c, err)
		}
	}
}

// TestEnoughMarks: a key that too few owners have is found and named, and so is a node that has a key that it does not own.
func TestEnoughMarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have   string // nodes that have key k1 of slice 1, which b, c and e own
		least  int
		copied bool // a was copied from e
		want   string
	}{
		{"bc", 2, false, ""},
		{"ce", 2, false, ""},
		{"bce", 2, false, ""},
		{"b", 2, false, "only [b] have it"},
		{"", 2, false, "only [] have it"},
		{"", 0, false, ""},
		{"abc", 2, false, "node a has key k1 of f, which nodes [b e c] own"},
		{"ab", 2, true, "only [b] have it"},
		{"abc", 2, true, ""},
		{"bd", 0, true, "node d has key k1 of f, which nodes [b e c] own"},
	} {
		all, owners := fiveNodes()
		if c.copied {
			all[0].copied = []*node{all[4]}
		}
		err := enoughMarks(all, "f", []string{"k0", "k1"}, c.least, func(_, key string, sliced uint32) []string {
			if sliced != 2 {
				t.Errorf("%d slices", sliced)
			}
			return owners("set" + key[1:])
		}, func(n *node, _ string, _ []string) (marked, error) {
			m := marked{keys: map[string]bool{"k0": strings.Contains("acd", n.id), "k1": strings.Contains(c.have, n.id)}}
			if n.id != "a" { // which has nothing of the filter
				m.slices = 2
			}
			return m, nil
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	all, owners := fiveNodes()
	none := func(*node, string, []string) (marked, error) { return marked{}, nil }
	lost := enoughMarks(all, "f", []string{"k0"}, 2, func(_, _ string, _ uint32) []string { return owners("set0") }, none)
	if lost == nil || !strings.Contains(lost.Error(), "no node has f") {
		t.Errorf("got %v of a filter that no node has", lost)
	}
}

// TestOwners: the owners are those that the cluster of these members has, three of five, and each of five nodes owns some sets and not all.
func TestOwners(t *testing.T) {
	t.Parallel()
	s := cluster.Status{Settings: cluster.StatusSettings{N: 3, R: 2, W: 2, DW: 2, Buckets: 256, Slices: 256}}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		s.Members = append(s.Members, cluster.MemberStatus{ID: id})
	}
	o, err := ownersOf(&s)
	if err != nil {
		t.Fatal(err)
	}
	owns := map[string]int{}
	for i := range sets {
		own := o.set(fmt.Sprint("set", i))
		if len(own) != 3 {
			t.Errorf("set %d: %v", i, own)
		}
		for _, id := range own {
			owns[id]++
		}
	}
	for i := range s.Members {
		if n := owns[s.Members[i].ID]; n == 0 || n == sets {
			t.Errorf("node %s owns %d of %d sets", s.Members[i].ID, n, sets)
		}
	}
	if got := fmt.Sprint(o.set("set0"), o.key("seen", "paul", 16)); got != "[e d b] [e c a]" {
		t.Errorf("got %s", got)
	}
}
