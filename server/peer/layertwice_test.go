package peer

import (
	"testing"

	"bigset/bloomslice"
)

// TestLayerTwice has few layers and many, without and with one that comes twice.
func TestLayerTwice(t *testing.T) {
	t.Parallel()
	for n := range 2*layersFew + 1 {
		all := make([]bloomslice.Layer, n)
		for i := range all {
			all[i].ID = bloomslice.LayerID{Index: uint16(i / 2), Owner: []string{"", "x"}[i%2]}
		}
		if layerTwice(all) {
			t.Errorf("%d layers: one comes twice", n)
		}
		for i := 1; i < n; i++ {
			was := all[i]
			if all[i] = all[0]; !layerTwice(all) {
				t.Errorf("%d layers: the first comes again at %d, unseen", n, i)
			}
			all[i] = was
		}
	}
}
