package netfault

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// TestFreeAddressBesideForks: a free address can be listened at, also while this process starts others.
func TestFreeAddressBesideForks(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var forks sync.WaitGroup
	for range 2 {
		forks.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if err := exec.Command(program, "-test.run", "^$").Run(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 300 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("a free address: %v", err)
			break
		}
		l.Close()
	}
	close(done)
	forks.Wait()
}

// TestFreeAddressIsFree: an address that somebody listens at is not handed out.
func TestFreeAddressIsFree(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	if err := free(address); err == nil {
		t.Errorf("%s has a listener", address)
	}
}
