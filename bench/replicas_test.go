package bench

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"bigset/bench/system"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// TestMetered holds what is counted to what goes over: elements in facts, and the runs of clocks.
func TestMetered(t *testing.T) {
	ctx, c := context.Background(), tiny(t).withDefaults()
	e := &env{ctx: ctx, cfg: c, elements: 1, root: t.TempDir(), rows: &collector{}}
	err := e.replicated(1, system.Options{}, func(list []*replica) error {
		m := &meter{}
		r := metered{list[0].peer, m}
		scattered := &clock.Clock{}
		for i := range uint64(1000) {
			scattered.Add(clock.Dot{Actor: clock.Actor(fmt.Sprintf("actor%07d", i*7919)), Counter: 1 + i})
		}
		counted := func(what string, least uint64, f func() error) {
			t.Helper()
			before := m.bytes
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := m.bytes - before; got < least || got > 2*least+1000 {
				t.Errorf("%s: %d bytes counted, at least %d go over", what, got, least)
			}
		}
		name := []byte(system.SetName)
		counted("facts", 5000, func() error {
			_, _, err := r.ApplyFacts(ctx, bigset.Facts{Set: name, Keys: []fold.Element{
				{Name: bytes.Repeat([]byte("x"), 5000), Dots: []clock.Dot{{Actor: "a", Counter: 1}}}}}, bigset.NoSync)
			return err
		})
		packed := uint64(len(scattered.AppendCompressed(nil)))
		counted("facts of deaths", packed, func() error {
			_, _, err := r.ApplyFacts(ctx, bigset.Facts{Set: name, Dead: scattered}, bigset.NoSync)
			return err
		})
		counted("state", 2*packed, func() error { _, _, err := r.State(ctx, name); return err })
		counted("locate", packed, func() error {
			for _, err := range r.Locate(ctx, name, scattered) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		counted("digests", 16, func() error {
			for _, err := range r.Digests(ctx, 0, keyscheme.SlotMax) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		counted("span", 5000+2*packed, func() error { _, _, err := r.Export(ctx, name, nil, 0); return err })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
