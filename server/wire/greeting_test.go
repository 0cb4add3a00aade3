package wire

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is a buffer for any number of goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSilentCrowd has a crowd connect that says nothing, and connects again when it is cut off: a node and a client get in all the same, and the
// log does not grow with the crowd.
func TestSilentCrowd(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	v := serve(t, ServerOptions{Options: Options{HelloTime: time.Hour}, GreetingMax: 3, Log: slog.New(slog.NewTextHandler(&log, nil))})
	stop := make(chan struct{})
	var crowd sync.WaitGroup
	cut := make(chan struct{}, 1000)
	for range 9 {
		crowd.Go(func() {
			for {
				nc, err := net.Dial("tcp", v.ln.Addr().String())
				if err != nil {
					return
				}
				gone := make(chan struct{})
				go func() {
					_, _ = io.Copy(io.Discard, nc)
					close(gone)
				}()
				select {
				case <-gone:
					_ = nc.Close()
					select {
					case cut <- struct{}{}:
					default:
					}
				case <-stop:
					_ = nc.Close()
					<-gone
					return
				}
			}
		})
	}
	defer crowd.Wait()
	defer close(stop)
	<-cut // all places are taken
	for _, role := range []Role{RoleNode, RoleClient} {
		var c *Client
		var err error
		for end := time.Now().Add(20 * time.Second); c == nil && time.Now().Before(end); { // on a slow machine it may be cut off, too
			c, err = v.try(ClientOptions{Role: role})
		}
		if err != nil {
			t.Fatalf("%v: %v", role, err)
		}
		if _, err := c.Do(inTime(t), Call{Verb: verbEcho}); err != nil {
			t.Errorf("%v: %v", role, err)
		}
		_ = c.Close()
	}
	if n := strings.Count(log.String(), "\n"); n > 3 { // one in ten seconds
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
