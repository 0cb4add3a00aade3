package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	largeClients  = 50
	largePipeline = 16
)

// member returns a member of some bytes that no compression makes shorter, in no order.
func member(i, bytes int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // six bits each
	r := rand.New(rand.NewPCG(uint64(i), 0x9e3779b97f4a7c15))
	var b strings.Builder
	for b.Len() < bytes {
		for n, k := r.Uint64(), 0; k < 10 && b.Len() < bytes; n, k = n>>6, k+1 {
			b.WriteByte(letters[n&63])
		}
	}
	return b.String()
}

// pipelines sends requests over some connections, in pipelines, until next returns nothing more, and returns how many were answered.
// The answer that each must have is want; another one is an error.
func pipelines(addr, want string, next func() []string) (done int64, err error) {
	var all atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, largeClients)
	for range largeClients {
		c, err := dial(addr)
		if err != nil {
			return 0, err
		}
		wg.Go(func() {
			defer c.nc.Close()
			for {
				var send []byte
				n := 0
				for ; n < largePipeline; n++ {
					args := next()
					if args == nil {
						break
					}
					send = appendRequest(send, args...)
				}
				if n == 0 {
					return
				}
				_, err := c.nc.Write(send)
				for i := 0; i < n && err == nil; i++ {
					var got reply
					if got, err = c.read(); err == nil && got.text != want {
						err = fmt.Errorf("a request was answered with %q, want %q", got.text, want)
					}
				}
				if err != nil {
					errs <- err
					return
				}
				all.Add(int64(n))
			}
		})
	}
	wg.Wait()
	select {
	case err = <-errs:
	default:
	}
	return all.Load(), err
}

// grow adds n new members to a set. It prints a line for each of some equal parts: the number of members, and how many were added a second.
// A member that the set has already is an error.
func grow(addr, key string, n, bytes, parts int) error {
	for part := range parts {
		first, last := n*part/parts, n*(part+1)/parts
		at := int64(first)
		began := time.Now()
		if _, err := pipelines(addr, "1", func() []string {
			i := atomic.AddInt64(&at, 1) - 1
			if i >= int64(last) {
				return nil
			}
			return []string{"SADD", key, member(int(i), bytes)}
		}); err != nil {
			return fmt.Errorf("add new members: %w", err)
		}
		fmt.Printf("%d %.0f\n", last, float64(last-first)/time.Since(began).Seconds())
	}
	return nil
}

// look asks for members of a set that grow has made, at random, for a while, and prints how many were found a second. A member
// that is not found is an error.
func look(addr, key string, n, bytes int, d time.Duration) error {
	began, asked := time.Now(), false
	found, err := pipelines(addr, "1", func() []string {
		if asked && time.Since(began) > d {
			return nil
		}
		asked = true
		return []string{"SISMEMBER", key, member(rand.IntN(n), bytes)}
	})
	if err != nil {
		return fmt.Errorf("look for members that were added: %w", err)
	}
	fmt.Printf("%.0f\n", float64(found)/time.Since(began).Seconds())
	return nil
}
