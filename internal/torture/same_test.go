package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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

// TestSameElements: a store with an element less or more than the others is found and named, at any node and in any set.
func TestSameElements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node, set string
		list      []string
		want      string
	}{
		{"a", "set0", []string{"e1", "e2"}, ""},
		{"b", "set0", []string{"e1"}, "node a alone has [e2], and node b alone has []"},
		{"c", "set3", []string{"e1", "e2", "e3"}, "of set 3, node a alone has [], and node c alone has [e3]"},
	} {
		err := sameElements([]*node{{id: "a"}, {id: "b"}, {id: "c"}}, func(n *node, set string) ([]string, error) {
			if n.id == c.node && set == c.set {
				return c.list, nil
			}
			return []string{"e1", "e2"}, nil
		})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errDiffer) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
