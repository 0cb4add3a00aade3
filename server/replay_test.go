package server

import (
	"os"
	"path/filepath"
	"testing"

	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
)

// TestReplay holds the conversations that were recorded at a real bloomd with a node and its store.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("bloomd/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	share := tier.ShareOf(t, 3, 2)
	for i, file := range files {
		if !share.Has(i + 1) { // the others are those of TestReplayInCluster
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, err := bloomdtest.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c, err := bloomd.Dial(t.Context(), startNode(t, testConfig(t)).Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := script.Replay(c.Do); err != nil {
				t.Error(err)
			}
		})
	}
}
