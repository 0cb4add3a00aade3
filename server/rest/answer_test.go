package rest

import (
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"bigset/server/door"
)

// slowClient takes each part of an answer after a while, unless the deadline has passed by then.
type slowClient struct {
	head  http.Header
	pace  int // bytes a second
	until time.Time
	taken int
}

func (c *slowClient) Header() http.Header { return c.head }
func (c *slowClient) WriteHeader(int)     {}

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.until = t
	return nil
}

func (c *slowClient) Write(p []byte) (int, error) {
	if time.Sleep(time.Duration(len(p)) * time.Second / time.Duration(c.pace)); time.Now().After(c.until) {
		return 0, os.ErrDeadlineExceeded
	}
	c.taken += len(p)
	return len(p), nil
}

// TestSlowClients: a client on a slow network gets a long answer, and one that takes it as slowly as it can does not hold its memory for hours.
func TestSlowClients(t *testing.T) {
	const bytes = 8 << 20
	for _, c := range []struct {
		pace  int
		whole bool
	}{{1 << 20, true}, {32 << 10, true}, {16 << 10, false}, {5 << 10, false}, {1 << 10, false}} {
		synctest.Test(t, func(t *testing.T) {
			w := &slowClient{head: http.Header{}, pace: c.pace}
			q := &request{s: &Server{opt: Options{Options: door.Options{WriteTime: time.Minute}}}, w: w}
			began := time.Now()
			if err := q.send(http.StatusOK, typeJSON, make([]byte, bytes)); err != nil {
				t.Fatal(err)
			}
			if got := w.taken == bytes; got != c.whole {
				t.Errorf("%d bytes a second: %d bytes were sent", c.pace, w.taken)
			}
			if d := time.Since(began); d > 7*time.Minute {
				t.Errorf("%d bytes a second: it took %v", c.pace, d)
			}
		})
	}
}
