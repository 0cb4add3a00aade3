package coord_test

import (
	"errors"
	"testing"
	"time"

	"bigset/server/coord"
	"bigset/server/peer"
)

// While a range moves, a write needs W of each list, reads ask the list of readers alone, and dots come from them.
func TestJointLists(t *testing.T) {
	for name, tt := range map[string]struct {
		read  []int
		write [][]int
		down  []int
		acks  bool
	}{
		"all up":                                   {[]int{0}, [][]int{{0}, {0, 1, 2}}, nil, true},
		"one of the new list down":                 {[]int{0}, [][]int{{0}, {0, 1, 2}}, []int{2}, true},
		"two of the new list down":                 {[]int{0}, [][]int{{0}, {0, 1, 2}}, []int{1, 2}, false},
		"the old list down":                        {[]int{0}, [][]int{{0}, {0, 1, 2}}, []int{0}, false},
		"two lists, each with two":                 {[]int{0, 1, 2}, [][]int{{0, 1, 2}, {1, 2, 3}}, []int{0}, true},
		"two lists, of which one has but one":      {[]int{0, 1, 2}, [][]int{{0, 1, 2}, {1, 2, 3}}, []int{2, 3}, false},
		"enough of both together, not of each":     {[]int{0, 1}, [][]int{{0, 1}, {2, 3}}, []int{1, 3}, false},
		"a list that is shorter than W needs both": {[]int{0, 1}, [][]int{{0, 1, 2}, {3}}, []int{2}, true},
		"a list of one that is down":               {[]int{0, 1}, [][]int{{0, 1, 2}, {3}}, []int{3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSched(uint64(len(name)))
			c := newCluster(t, s, 4)
			pick := func(at []int) (list []peer.Replica) {
				for _, i := range at {
					list = append(list, c.links[i])
				}
				return list
			}
			p := coord.Placement[peer.Replica]{Read: pick(tt.read)}
			for _, list := range tt.write {
				p.Write = append(p.Write, pick(list))
			}
			for _, i := range tt.down {
				c.links[i].down = true
			}
			co := c.coordinator(coord.Options{Place: func([]byte) coord.Placement[peer.Replica] { return p }, SendTimeout: time.Second, Timeout: 2 * time.Second})
			s.run(t, minute, func() {
				_, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")})
				if (err == nil) != tt.acks || err != nil && !errors.Is(err, coord.ErrUnknown) && !errors.Is(err, coord.ErrNoQuorum) {
					t.Errorf("write: %v", err)
				}
				if !tt.acks {
					return
				}
				n := 0
				for part, err := range co.Read(ctx, coord.Read{Set: set}) {
					if err != nil {
						t.Errorf("read: %v", err)
						return
					}
					n += len(part.Elements)
				}
				if n != 1 {
					t.Errorf("%d elements", n)
				}
			})
		})
	}
}
