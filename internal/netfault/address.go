package netfault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// FreeAddress uses these ports: below those that systems assign when a listener or dialer asks for any. A process takes blocks of them.
const (
	portFirst  = 10_000
	portLast   = 32_000
	blockPorts = 100
)

// block is the block of this process. A listener has its first port as long as the process runs, so no other process takes the block. The
// other ports are handed out once.
var block struct {
	mu        sync.Mutex
	next, end int
	kept      []net.Listener // of all blocks
}

// FreeAddress returns an address on this machine that has no listener, for a process that is about to listen. A port that the
// system chose could be given to another listener before that. No other call returns the address, here or in another process, and none returns
// the first port of a block.
func FreeAddress() (string, error) {
	block.mu.Lock()
	defer block.mu.Unlock()
	var err error
	for range 1000 {
		first := block.next == block.end
		if first {
			block.next = portFirst + blockPorts*rand.IntN((portLast-portFirst)/blockPorts)
			block.end = block.next + blockPorts
		}
		address := fmt.Sprintf("127.0.0.1:%d", block.next)
		block.next++
		if !first {
			if err = free(address); err == nil {
				return address, nil
			}
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			block.kept = append(block.kept, l)
		} else {
			block.next = block.end // it is another process's
		}
	}
	return "", fmt.Errorf("netfault: no free port: %w", err)
}

// free reports why nobody can listen at an address. It does not listen there itself where processes fork: a child that begins at that moment
// has the listener until it executes its program: until then the address is in use.
func free(address string) error {
	if runtime.GOOS == "windows" { // processes do not fork, and a dial takes two seconds to be refused
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		return l.Close()
	}
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("%s has a listener", address)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}
