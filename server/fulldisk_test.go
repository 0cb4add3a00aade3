package server

import (
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
)

// TestStartOnFullDisk starts a node on a full disk: it answers checks, refuses the rest, and can be stopped; when there is room it takes
// sets without another start.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store = "data", &engine.Options{FS: disk}
	n := startNode(t, c)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	stopNode(t, n)
	for round := range 2 {
		disk.Fill(0)
		n = startNode(t, c)
		talk(t, n, "multi f a b", "Yes No", "set f b", "Internal Error", "create g", "Internal Error")
		if round == 0 {
			began := time.Now()
			stopNode(t, n)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("stopping took %v", took)
			}
			disk.Heal()
			continue
		}
		disk.Heal()
		eventually(t, "there is room again", func() bool {
			f, err := n.store.Load().Filters().Get([]byte("f"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Mark(t.Context(), []byte("b"))
			return err == nil
		})
		talk(t, n, "create g", "Done", "set g a", "Yes", "multi f a b", "Yes Yes")
		stopNode(t, n)
		n = startNode(t, c)
		talk(t, n, "multi f a b", "Yes Yes", "check g a", "Yes")
		stopNode(t, n)
	}
}
