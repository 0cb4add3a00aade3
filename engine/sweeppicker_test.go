package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestLargeSetsAreRemembered: a set that is too large for a sweep is read once, and passed over for a while, while small sets are counted each time.
func TestLargeSetsAreRemembered(t *testing.T) {
	ctx := context.Background()
	s, err := Open("db", &Options{FS: testkit.NewDisk(), BackgroundInterval: -1, SpanBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for set, n := range map[string]int{"big": 200, "small": 3, "tiny": 1} {
		var elements [][]byte
		for i := range n {
			elements = append(elements, fmt.Appendf(nil, "element-%06d", i))
		}
		if _, err := s.Add(ctx, []byte(set), elements, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := keyscheme.Bounds{Lower: keyscheme.AppendSlot(nil, 0), Upper: keyscheme.SlotSets(keyscheme.SlotMax).Upper}
	var large largeSets
	sample := func() sweepCount {
		n, err := s.sampleSets(ctx, all, &large)
		if err != nil {
			t.Fatal(err)
		}
		if n.keys != 4 {
			t.Errorf("%d keys of small sets, want 4", n.keys)
		}
		return n
	}
	big := keyscheme.NewPrefix([]byte("big"))
	first := sample()
	if len(large) != 1 || !large.has(big) || first.read < s.ownBytes() {
		t.Fatalf("large sets %v, %d bytes read", large, first.read)
	}
	if n := sample(); n.read >= s.ownBytes() {
		t.Errorf("%d bytes read, before %d", n.read, first.read)
	}
	large[string(big)] = time.Now().Add(-largeTime)
	if n := sample(); n.read != first.read || len(large) != 1 {
		t.Errorf("after a while: %d bytes read, at first %d", n.read, first.read)
	}
	large = largeSets{}
	for i := range largeMax + 1 {
		large.note(keyscheme.NewPrefix(fmt.Appendf(nil, "set-%d", i)))
	}
	if len(large) > largeMax {
		t.Errorf("%d sets are remembered, at most %d", len(large), largeMax)
	}
}
