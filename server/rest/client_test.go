package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bigset/engine"
	"bigset/server/alone"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// served is a server that a test asks.
type served struct {
	t *testing.T
	*Server
	url string
	mu  sync.Mutex
}

// start serves a store and filters in memory.
func start(t *testing.T, o Options) *served {
	t.Helper()
	store, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return serve(t, alone.New(store), bloomdtest.NewMemory(), o)
}

func serve(t *testing.T, sets door.Backend, filters door.Filters, o Options) *served {
	t.Helper()
	s, err := New(sets, filters, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &served{t: t, Server: s, url: "http://" + ln.Addr().String()}
}

// call is a request; parts that are empty are left out.
type call struct {
	method, path, body string
	header             map[string]string // "Host" is the host
}

// lingerBytes is how much of a refused body net/http reads before it closes the connection. A longer one may be cut off with the answer.
const lingerBytes = 256 << 10

// ask sends a request as a program does, and checks what every answer has.
func (s *served) ask(c call) (status int, body string, header http.Header) {
	s.t.Helper()
	r, err := http.NewRequest(c.method, s.url+c.path, strings.NewReader(c.body))
	if err != nil {
		s.t.Fatal(err)
	}
	if c.body != "" {
		r.Header.Set("Content-Type", typeJSON)
		r.Header.Set("Expect", "100-continue") // what is refused is not sent
	}
	for name, value := range c.header {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	for tries := 0; tries < 20 && len(c.body) > lingerBytes && errors.Is(err, syscall.ECONNRESET); tries++ {
		r.Body, _ = r.GetBody()
		a, err = http.DefaultTransport.RoundTrip(r)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v after %.100q", c.method, c.path, err, b)
	}
	if c.method != http.MethodHead && strings.HasPrefix(a.Header.Get("Content-Type"), typeJSON) && !json.Valid(b) {
		s.t.Errorf("%s %s: no JSON: %.300q", c.method, c.path, b)
	}
	if a.Header.Get("X-Content-Type-Options") != "nosniff" {
		s.t.Errorf("%s %s: a browser may take it for something else", c.method, c.path)
	}
	return a.StatusCode, string(b), a.Header
}

// want asks, and wants a status and an answer that has all of some texts.
func (s *served) want(method, path, body string, status int, has ...string) string {
	s.t.Helper()
	got, answer, _ := s.ask(call{method: method, path: path, body: body})
	if got != status {
		s.t.Errorf("%s %s %.200s: %d %.300s, want %d", method, path, body, got, answer, status)
	}
	for _, h := range has {
		if !strings.Contains(answer, h) {
			s.t.Errorf("%s %s %.200s: %.300s, which has no %s", method, path, body, answer, h)
		}
	}
	return answer
}

// field returns a field of a JSON object.
func field[T any](t *testing.T, answer, name string) (v T) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answer), &all); err != nil {
		t.Fatalf("%v: %.300q", err, answer)
	}
	if all[name] == nil {
		return v
	}
	if err := json.Unmarshal(all[name], &v); err != nil {
		t.Fatalf("%s: %v: %.300q", name, err, answer)
	}
	return v
}

const friends = "/types/sets/buckets/default/datatypes/friends"
