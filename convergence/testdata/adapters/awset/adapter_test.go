package awset

import (
	"testing"

	"bigset/convergence"
)

func TestConverges(t *testing.T) {
	convergence.Run(t, convergence.System{Name: "awset", Open: Open}, convergence.Options{})
}
