package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTableFiles(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"1.sst": 10, "span.tmp": 5, "2.log": 100} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "span.tmp"), filepath.Join(dir, "3.sst")); err != nil {
		t.Skip(err)
	}
	if got := TableFiles(dir); got != 15 {
		t.Errorf("got %d bytes, want 15: a file with two names counts once", got)
	}
}
