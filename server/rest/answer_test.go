package rest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bigset/server/bloomd/bloomdtest"
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

// dotted is a backend whose elements have contexts of 4,000 bytes, as elements with many dots have.
type dotted struct{ broken }

func (*dotted) Subset(_ context.Context, s door.Subset) ([]door.Presence, error) {
	if !s.Bare && len(s.Elements) > door.ContextsMax {
		return nil, fmt.Errorf("the contexts of %d elements at once", len(s.Elements))
	}
	return slices.Repeat([]door.Presence{{Present: true, Context: make(door.Token, 4000)}}, len(s.Elements)), nil
}

// TestContextsCount: contexts of elements count among the memory of all, and are given back.
func TestContextsCount(t *testing.T) {
	o := Options{}
	o.RequestBytesMax = 1 << 20
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: 3 << 20})
	s := serve(t, &dotted{}, bloomdtest.NewMemory(), o)
	x := func(n int) string { return `{"elements":[` + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + `]}` }
	for range 3 {
		s.want("POST", friends+"/contains?contexts=true", x(300), 503, "memory") // with their text of 2 MiB
		s.want("POST", friends+"/contains?contexts=true", x(150), 200, `"contexts"`)
		s.want("POST", friends+"/contains", x(1000), 200, `"present"`)
	}
}
