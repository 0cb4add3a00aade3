package rest

import (
	"net/http"
	"os"
	"strings"
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

// TestContextsCount: the contexts of a few elements may be long, and an element may be named again and again. They count among the memory of all, and are given back.
func TestContextsCount(t *testing.T) {
	o := Options{}
	o.RequestBytesMax = 1 << 20
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: 2 << 20})
	s := start(t, o)
	s.want("POST", friends, `{"add":"z"}`, 204)
	none := field[[]string](t, s.want("GET", friends+"/contains?contexts=true&element=x", "", 200), "contexts")[0]
	for range 3 {
		some := strings.Repeat(`{"element":"x","context":"`+none+`"},"y",`, 500) // each adds a dot, between which are those of another element
		s.want("POST", friends, `{"add_all":[`+strings.TrimSuffix(some, ",")+`]}`, 204)
	}
	x := func(n int) string { return `{"elements":[` + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + `]}` }
	if one := field[[]string](t, s.want("POST", friends+"/contains?contexts=true", x(1), 200), "contexts")[0]; len(one) < 2000 {
		t.Fatalf("a context of %d bytes", len(one))
	}
	for range 3 {
		s.want("POST", friends+"/contains?contexts=true", x(2000), 503, "memory")
		s.want("POST", friends+"/contains?contexts=true", x(100), 200, none[:1])
		s.want("GET", friends+"/elements?contexts=true", "", 200, "contexts")
	}
}
