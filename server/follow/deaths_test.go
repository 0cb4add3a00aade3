package follow

import (
	"context"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/server/door"
)

// again adds an element again everywhere, in place of the dots that it has.
func (s *some) again(e string) {
	first := s.copies[0]
	first.last++
	d := clock.Dot{Actor: first.actor, Counter: first.last}
	for _, c := range s.copies {
		for old, name := range c.keys {
			if name == e {
				c.kill(old)
			}
		}
		c.seen.Add(d)
		c.keys[d], s.names[d] = e, e
	}
}

// TestAddedAgainMeanwhile: an element that is added again while each answer is made never goes missing, and holds back no death of another element whose name is known.
func TestAddedAgainMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		forget func(e string) bool // whether the name of a dead dot is forgotten
		other  bool                // whether the other element stays until the next answer
	}{
		{"named", func(string) bool { return false }, false},
		{"nameless", func(string) bool { return true }, true},
		{"the replaced one is nameless", func(e string) bool { return e == "e" }, true},
		{"the removed one is nameless", func(e string) bool { return e == "other" }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSome(func(int) int { return 0 })
			a := &asker{k: &Kept{}, s: s, resets: map[string]int{}}
			s.again("e")
			s.again("other")
			a.catchUp(t, 0)
			s.again("e")
			for _, c := range s.copies {
				for d, name := range c.keys {
					if name == "other" {
						c.kill(d)
					}
				}
			}
			for d, name := range s.names {
				s.forget[d] = tc.forget(name)
			}
			src := s.source()
			src.State = func(context.Context) (bigset.State, error) {
				st := stateOf(s.copies)
				s.again("e")
				for d, name := range s.names {
					s.forget[d] = tc.forget(name)
				}
				return st, nil
			}
			for range 10 {
				var last door.Changed
				for c, err := range a.k.Changes(t.Context(), src, bigset.NewTokens(ring, []byte("set")), door.Changes{Set: []byte("set"), Since: a.Since()}) {
					if err != nil {
						t.Fatal(err)
					}
					a.Apply(&c, nil)
					last = c
				}
				if !last.More {
					t.Error("a death is held back, and the answer does not say so")
				}
				if !a.Contains("e") {
					t.Fatal("an element that was in the set all the time is missing")
				}
				if a.Contains("other") != tc.other {
					t.Errorf("the follower has the element that was removed: %v", !tc.other)
				}
			}
			a.catchUp(t, 0)
			if !a.Contains("e") || a.Contains("other") {
				t.Error("the deaths that were held back do not come")
			}
		})
	}
}
