package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"bigset/internal/netfault"
)

// wipe takes a node's folder away. The process has ended.
func (n *node) wipe() error {
	n.lives++
	return os.Rename(n.dir, fmt.Sprintf("%s.lost-%d", n.dir, n.lives))
}

func (r *run) how(rng *rand.Rand) netfault.How {
	if rng.IntN(2) == 0 {
		return netfault.FIN
	}
	return netfault.RST
}

// delay delays both directions of a link.
func (r *run) delay(l *netfault.Link, d time.Duration) {
	l.Delay(netfault.Forth, d, d/2)
	l.Delay(netfault.Back, d, d/2)
}
