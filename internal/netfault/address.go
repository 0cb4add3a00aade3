package netfault

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress uses these ports: below those that systems assign when a listener or dialer asks for any.
const (
	portFirst = 10_000
	portLast  = 32_000
)

// FreeAddress returns an address on this machine that has no listener, for a process that is about to listen. A port that the
// system chose could be given to another listener before that.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", portFirst+rand.IntN(portLast-portFirst))
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("netfault: no free port: %w", err)
}
