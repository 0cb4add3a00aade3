package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/origin"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// disk keeps a list of tokens nowhere.
type disk struct{}

func (disk) Load() ([]byte, error)              { return nil, nil }
func (disk) Save(context.Context, []byte) error { return nil }

// closedList returns a list that has learned that there are no tokens.
func closedList(t *testing.T) *tokens.List {
	t.Helper()
	l, err := tokens.Open(disk{}, true)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// token makes a token.
func token(t *testing.T, l *tokens.List, verbs tokens.Verbs, prefix string) (secret string, id tokens.ID) {
	t.Helper()
	e, secret, err := tokens.New("test", verbs, []byte(prefix), time.Now())
	if err == nil {
		err = l.Add(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret, e.ID
}

// TestTokens: a token permits what it says, a list shows what it permits, and a removed one permits nothing.
func TestTokens(t *testing.T) {
	l := closedList(t)
	state := func(of string) func(bool) []string {
		return func(names bool) []string { return []string{fmt.Sprint(of, " with names: ", names)} }
	}
	s := start(t, Options{Tokens: &tokens.Guard{List: l}, About: About{NotReady: state("reasons"), Warnings: state("warnings")}})
	const named, unnamed = `"reasons":["reasons with names: true"],"warnings":["warnings with names: true"]`, `"reasons":["reasons with names: false"],"warnings":["warnings with names: false"]`
	s.want("POST", friends, `{"add":"a"}`, 204) // nobody has made a token
	s.want("GET", "/node", "", 200, named)
	inB := "/types/sets/buckets/b/datatypes/"
	s.want("POST", inB+"k", `{"add":"a"}`, 204)
	s.want("PUT", "/filters/fr", "", 201)
	s.want("PUT", "/filters/x", "", 201)
	as := func(secret, method, path, body string, status int, has string) {
		t.Helper()
		got, answer, header := s.ask(call{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + secret}})
		if got != status || !strings.Contains(answer, has) {
			t.Errorf("%s %s: %d %.300s, want %d and %q", method, path, got, answer, status, has)
		}
		if (got == 401) != (header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: %d, WWW-Authenticate %q", method, path, got, header.Get("WWW-Authenticate"))
		}
	}
	reader, id := token(t, l, tokens.Read, "fr")
	writer, _ := token(t, l, tokens.Write, "")
	bucket, _ := token(t, l, tokens.Read|tokens.Write, string(setname.Prefix([]byte("sets"), []byte("b"))))
	admin, _ := token(t, l, tokens.Admin, "")
	all, _ := token(t, l, tokens.Admin|tokens.Read, "")
	blind, _ := token(t, l, tokens.Admin|tokens.Write, "")
	s.want("GET", friends, "", 401, "token")
	s.want("GET", "/sets", "", 401, "token")
	s.want("GET", "/ping", "", 200)
	s.want("GET", "/console", "", 200)
	as("nonsense", "GET", friends, "", 401, "token")
	as(reader, "GET", friends, "", 200, "a")
	as(reader, "POST", friends, `{"add":"b"}`, 403, "denied")
	as(reader, "GET", inB+"k", "", 403, "denied")
	as(reader, "GET", "/node", "", 403, "denied")
	as(reader, "GET", "/sets", "", 200, `{"sets":[{"type":"sets","bucket":"default","key":"friends","live":1,"seen":1}]}`)
	as(reader, "GET", "/filters", "", 200, `{"filters":[{"name":"fr",`)
	as(reader, "GET", "/filters/fr", "", 200, "fr")
	as(reader, "GET", "/filters/x", "", 403, "denied")
	as(reader, "DELETE", "/filters/fr", "", 403, "denied")
	as(writer, "POST", friends, `{"add":"b"}`, 204, "")
	as(writer, "POST", friends+"?returnbody=true", `{"add":"c"}`, 403, "nothing")
	as(writer, "GET", friends, "", 403, "denied")
	as(reader, "GET", friends+"/contains?element=c", "", 200, "[false]")
	as(bucket, "GET", "/sets", "", 200, `{"sets":[{"type":"sets","bucket":"b",`)
	as(bucket, "POST", strings.TrimSuffix(inB, "/"), `{"add":"x"}`, 201, "")
	as(bucket, "POST", friends, `{"add":"x"}`, 403, "denied")
	as(bucket, "POST", "/types/sets/buckets/c/datatypes", `{"add":"x"}`, 403, "denied")
	as(admin, "GET", "/node", "", 200, unnamed)
	as(all, "GET", "/node", "", 200, named)
	as(blind, "GET", "/node", "", 200, unnamed)
	status, answer, _ := s.ask(call{method: "GET", path: friends, header: map[string]string{"Authorization": "Basic eDp5"}})
	if status != 401 || !strings.Contains(answer, "Bearer") {
		t.Errorf("%d %s", status, answer)
	}
	if err := l.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	as(reader, "GET", friends, "", 401, "token")
}

// TestPages: what a browser sends for a page of somewhere else, or for a name that is not the node's, is refused.
func TestPages(t *testing.T) {
	s := start(t, Options{Hosts: origin.NewHosts([]string{"db.example:1"}, "other.example")})
	for _, c := range []struct {
		header map[string]string
		status int
	}{
		{nil, 404},
		{map[string]string{"Sec-Fetch-Site": "same-origin"}, 404},
		{map[string]string{"Sec-Fetch-Site": "none"}, 404},
		{map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{map[string]string{"Origin": "http://elsewhere.example"}, 403},
		{map[string]string{"Origin": "null"}, 403},
		{map[string]string{"Origin": "http://db.example", "Host": "db.example"}, 404},
		{map[string]string{"Host": "OTHER.example.:80"}, 404},
		{map[string]string{"Host": "elsewhere.example"}, 421},
		{map[string]string{"Host": "[::1]:80"}, 404},
	} {
		if status, answer, _ := s.ask(call{method: "GET", path: friends, header: c.header}); status != c.status {
			t.Errorf("%v: %d %s, want %d", c.header, status, answer, c.status)
		}
	}
	status, _, header := s.ask(call{method: "GET", path: "/console"})
	if p := header.Get("Content-Security-Policy"); status != 200 || !strings.HasPrefix(p, "default-src 'self';") || header.Get("Set-Cookie") != "" {
		t.Errorf("%d %q", status, header)
	}
	s.want("GET", "/console/..%2fopenapi.json", "", 404)
}

// TestUnknownOutcome: an error distinguishes what may have happened from what has not, and says with which id it may be sent again.
func TestUnknownOutcome(t *testing.T) {
	b := &broken{&door.UnknownError{Acked: 1, Durable: 1, W: 2, DW: 2, Err: errors.New("nobody there")}}
	s := serve(t, b, bloomdtest.NewMemory(), Options{})
	s.want("POST", friends+"?request_id=abc", `{"add":"a"}`, 503, `"error":"unknown_outcome"`, `"outcome":"unknown","acked":1,"durable":1,"w":2,"dw":2`, `"request_id":"abc"`)
	b.err = fmt.Errorf("%w: two are away", door.ErrUnavailable)
	status, answer, header := s.ask(call{method: "POST", path: friends, body: `{"add":"a"}`})
	if status != 503 || !strings.Contains(answer, `"outcome":"nothing"`) || strings.Contains(answer, "acked") || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, answer)
	}
	b.err = errors.New("a fault of ours")
	s.want("POST", friends, `{"add":"a"}`, 500, `"outcome":"unknown"`)
	if m := s.Metrics(); m.Errors != 3 || m.Failures != 2 {
		t.Errorf("%+v", m)
	}
	b.err = bigset.ErrNotFound
	s.want("DELETE", friends, "", 404, `"outcome":"nothing"`)
}

// TestCrowded: a connection above the limits is answered, though its request is not read.
func TestCrowded(t *testing.T) {
	o := Options{}
	o.Limits = door.NewLimits(door.LimitsOptions{Connections: 1})
	s := start(t, o)
	first := s.dial("")
	for s.Counts().Connections == 0 {
		time.Sleep(time.Millisecond)
	}
	a, err := http.ReadResponse(bufio.NewReader(s.dial("")), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(a.Body)
	if f := field[string](t, string(b), "error"); err != nil || a.StatusCode != 503 || f != "unavailable" || a.Header.Get("Retry-After") == "" || strings.Contains(string(b), "outcome") {
		t.Errorf("%+v %s %v", a, b, err)
	}
	first.Close()
}

// TestUnknownOfRetry: what refuses only this try of a change says nothing about the try before. What is wrong with the request does.
func TestUnknownOfRetry(t *testing.T) {
	o := Options{}
	o.RequestBytesMax = RequestBytesLeast
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: RequestBytesLeast})
	b := &broken{}
	s := serve(t, b, bloomdtest.NewMemory(), o)
	late := Options{}
	late.RequestTime = 50 * time.Millisecond
	hasty := serve(t, b, bloomdtest.NewMemory(), late)
	type try struct {
		name, has string
		ask       func(path string) (status int, answer string)
		status    int
		passing   bool // the next try may succeed
	}
	post := func(body string) func(string) (int, string) {
		return func(path string) (int, string) {
			status, answer, _ := s.ask(call{method: "POST", path: path, body: body})
			return status, answer
		}
	}
	tries := []try{
		{"an element that is too long", "bad_request", post(`{"add":"` + strings.Repeat("x", keyscheme.ElementBytesMax+1) + `"}`), 400, false},
		{"a body that is too long", "too_long", post(strings.Repeat(" ", RequestBytesLeast+1)), 413, false},
		{"no room for a long body", "unavailable", func(path string) (int, string) {
			for !o.Limits.TakeLong(RequestBytesLeast) { // the request before returns its memory after its answer
				time.Sleep(time.Millisecond)
			}
			defer o.Limits.GiveLong(RequestBytesLeast)
			return post(strings.Repeat(" ", 100<<10))(path)
		}, 503, true},
		{"no place", "unavailable", func(path string) (int, string) {
			for range cap(s.requests) {
				s.requests <- struct{}{}
			}
			defer func() {
				for range cap(s.requests) {
					<-s.requests
				}
			}()
			return post(`{"add":"a"}`)(path)
		}, 503, true},
		{"a body that does not come", "body", func(path string) (int, string) {
			answer := hasty.inTime("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n")
			status := 0
			fmt.Sscanf(answer, "HTTP/1.1 %d", &status)
			return status, answer
		}, 408, true},
	}
	for _, f := range []struct {
		err     error
		status  int
		has     string
		passing bool
	}{
		{context.DeadlineExceeded, 503, "timeout", true}, {bigset.ErrClosed, 503, "unavailable", true}, {bigset.ErrDiskFull, 507, "disk_full", true},
		{door.ErrUnavailable, 503, "unavailable", true}, {bigset.ErrBehind, 409, "behind", true}, {bigset.ErrUnresolved, 503, "unavailable", true},
		{tokens.ErrNoToken, 401, "token", true}, {tokens.ErrDenied, 403, "denied", true}, {bigset.ErrRequest, 400, "bad_request", false},
	} {
		tries = append(tries, try{f.err.Error(), f.has, func(path string) (int, string) {
			b.err = f.err
			return post(`{"add":"a"}`)(path)
		}, f.status, f.passing})
	}
	for _, x := range tries {
		for _, retry := range []string{"", "&retry=false", "&retry=true", "&retry=TRUE"} {
			want := `"outcome":"nothing"`
			if x.passing && strings.EqualFold(retry, "&retry=true") {
				want = `"outcome":"unknown"`
			}
			status, answer := x.ask(friends + "?request_id=abc" + retry)
			if status != x.status || !strings.Contains(answer, x.has) || !strings.Contains(answer, want) || !strings.Contains(answer, `"request_id":"abc"`) {
				t.Errorf("%s, %q: %d %.300s, want %d %s %s", x.name, retry, status, answer, x.status, x.has, want)
			}
		}
	}
}

// long is a backend that has one endless set.
type long struct {
	broken
	fail  chan error // ends the read
	ended chan error // gets why the read ended: an error of its context, or nil
}

func (l *long) Read(ctx context.Context, _ door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		part := door.Part{Elements: make([]door.Element, 1000)}
		for i := range part.Elements {
			part.Elements[i].Name = []byte(strings.Repeat("e", 100))
		}
		defer func() { l.ended <- ctx.Err() }()
		for {
			select {
			case err := <-l.fail:
				yield(door.Part{}, err)
				return
			default:
			}
			if !yield(part, nil) {
				return
			}
		}
	}
}

// dial sends a request by hand.
func (s *served) dial(text string) net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(nc, text); err != nil {
		s.t.Fatal(err)
	}
	return nc
}

// TestStreamEndsWithClient: a client that goes, or reads nothing, ends its stream; one that fails on its way says so in its last line, and so does one whose
// token is removed, or is needed from now on.
func TestStreamEndsWithClient(t *testing.T) {
	l := &long{fail: make(chan error, 1), ended: make(chan error, 1)}
	request := "GET " + friends + "/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	begin := func(s *served) net.Conn {
		t.Helper()
		nc := s.dial(request)
		if _, err := io.ReadFull(nc, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		return nc
	}
	tail := func(nc net.Conn, has string) {
		t.Helper()
		rest, err := io.ReadAll(nc)
		<-l.ended
		if end := string(rest[max(0, len(rest)-300):]); err != nil || !strings.Contains(end, has) || strings.Contains(end, "done") {
			t.Errorf("%v %q, want %q", err, end, has)
		}
	}
	hasty := Options{}
	hasty.WriteTime = 50 * time.Millisecond
	serve(t, l, bloomdtest.NewMemory(), hasty).dial(request) // reads nothing
	<-l.ended
	list := closedList(t)
	s := serve(t, l, bloomdtest.NewMemory(), Options{Tokens: &tokens.Guard{List: list}})
	begin(s).Close()
	<-l.ended
	nc := begin(s)
	l.fail <- fmt.Errorf("%w: two are away", door.ErrUnavailable)
	tail(nc, `{"error":"unavailable","message":"`)
	nc = begin(s)
	token(t, list, tokens.Read, "")
	tail(nc, `{"error":"token","message":"`)
}

// TestBodiesTogether: what clients send at one time is bounded by what all long requests may have, and comes back.
func TestBodiesTogether(t *testing.T) {
	const all = 3 * RequestBytesLeast
	o := Options{}
	o.RequestBytesMax = RequestBytesLeast
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: all})
	s := start(t, o)
	body := `{"add_all":["` + strings.Repeat(strings.Repeat("x", 60000)+`","`, 6) + `"]}`
	// Others have all but as much as a body takes while it is read; then not even that.
	for left, status := range map[int64]int{100 << 10: 503, 600 << 10: 503, all: 204} {
		if !o.Limits.TakeLong(all - left) {
			t.Fatal("the memory of the body before has not come back")
		}
		s.want("POST", friends, body, status)
		for end := time.Now().Add(20 * time.Second); !o.Limits.TakeLong(left); time.Sleep(time.Millisecond) { // it is given back after the answer
			if time.Now().After(end) {
				t.Fatalf("with %d bytes left, not all came back", left)
			}
		}
		o.Limits.GiveLong(all)
	}
	s.want("POST", friends, strings.Repeat(" ", RequestBytesLeast+1), 413, `"error":"too_long"`)
	// A body whose length is not announced ends at the same place.
	r, err := http.NewRequest("POST", s.url+friends, io.LimitReader(endless{}, RequestBytesLeast+2))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", typeJSON)
	if a, err := http.DefaultTransport.RoundTrip(r); err == nil {
		if a.Body.Close(); a.StatusCode != 413 {
			t.Errorf("%d", a.StatusCode)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestSlowBodies: a head or a body that does not come ends its connection.
func TestSlowBodies(t *testing.T) {
	o := Options{}
	o.RequestTime = 50 * time.Millisecond
	s := start(t, o)
	answer := s.inTime("POST " + friends + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if !strings.Contains(answer, "408") || !strings.Contains(answer, `"outcome":"nothing"`) {
		t.Errorf("%q", answer)
	}
}

// inTime sends the beginning of a request to a server that waits for the rest for a moment, and returns its answer. It tries again if there
// is none: on a busy machine the moment may pass before the server has read the head.
func (s *served) inTime(text string) string {
	s.t.Helper()
	for tries := 1; ; tries++ {
		answer, err := io.ReadAll(s.dial(text))
		if err == nil && len(answer) > 0 || tries == 20 {
			return string(answer)
		}
	}
}

// TestLongHead: a head that is too long is refused before it is kept.
func TestLongHead(t *testing.T) {
	s := start(t, Options{})
	nc := s.dial("GET /ping?" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer, err := io.ReadAll(nc); !strings.Contains(string(answer), "431") {
		t.Errorf("%q %v", answer, err)
	}
}

// TestManyOperations: a short body with many operations counts too, and gives back what it took.
func TestManyOperations(t *testing.T) {
	o := Options{}
	o.RequestBytesMax = RequestBytesLeast
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: RequestBytesLeast})
	s := start(t, o)
	body := `{"add_all":[""` + strings.Repeat(`,""`, 20_000) + `]}`
	s.want("POST", friends, body, 503, "memory", `"outcome":"nothing"`)
	s.want("POST", friends, `{"add_all":[""`+strings.Repeat(`,""`, 3000)+`]}`, 204)
}

// slow is a backend whose changes wait.
type slow struct {
	broken
	begun, goOn chan struct{}
}

func (s *slow) Write(context.Context, door.Write) (door.Result, error) {
	close(s.begun)
	<-s.goOn
	return door.Result{Acked: 1}, nil
}

// TestDrains: what was asked is answered, a connection that has said nothing is closed soon, and no new one is served.
func TestDrains(t *testing.T) {
	for tries := 1; ; tries++ { // this machine may stop for a moment
		if took := drains(t); took <= 4*time.Second {
			break
		} else if tries == 3 {
			t.Fatalf("it took %v", took)
		}
	}
}

func drains(t *testing.T) time.Duration {
	b := &slow{begun: make(chan struct{}), goOn: make(chan struct{})}
	srv, err := New(b, bloomdtest.NewMemory(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(t.Context(), ln) }()
	s := &served{t: t, Server: srv, url: "http://" + ln.Addr().String()}
	silent := s.dial("")
	idle := s.dial("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	if line, err := bufio.NewReader(idle).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	asked := s.dial("POST " + friends + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"add\":\"a\"}")
	<-b.begun
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- srv.Shutdown(t.Context()) }()
	if _, err := io.Copy(io.Discard, silent); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	select {
	case err := <-stopped:
		t.Errorf("it stopped (%v) while it was asked", err)
	default:
	}
	close(b.goOn)
	answer, err := io.ReadAll(asked)
	if !strings.Contains(string(answer), "204") || !strings.Contains(string(answer), "Connection: close") {
		t.Errorf("%q %v", answer, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	if nc, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		nc.Close()
		t.Error("it takes connections")
	}
	return took
}

// TestHandshakeFailed: a TLS handshake that fails is counted and logged, and one that hangs ends with the server.
func TestHandshakeFailed(t *testing.T) {
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	logged := make(logLines, 16)
	t.Run("", func(t *testing.T) {
		o := Options{}
		o.TLS, o.Log = pair.TLS, slog.New(slog.NewTextHandler(logged, nil))
		s := start(t, o)
		connections := func(n int64) {
			for s.Counts().Connections != n {
				time.Sleep(time.Millisecond)
			}
		}
		client := pair.Client()
		if a, err := client.Get(strings.Replace(s.url, "http:", "https:", 1) + "/ping"); err != nil {
			t.Fatal(err)
		} else if a.Body.Close(); s.Counts().Handshakes != 0 {
			t.Error("a handshake that succeeds counts as failed")
		}
		client.CloseIdleConnections()
		connections(0)
		if b, _ := io.ReadAll(s.dial("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")); !strings.Contains(string(b), "HTTP request to an HTTPS server") {
			t.Errorf("without TLS: %q", b)
		}
		if n := s.Counts().Handshakes; n != 1 || s.Counts().Timed {
			t.Errorf("%d handshakes failed", n)
		}
		connections(0)
		s.dial("\x16") // the beginning of a handshake: the end of the server is not to wait for the rest
		connections(1)
		ctx, cancel := context.WithTimeout(t.Context(), headerTime/2)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	if first := <-logged; !strings.Contains(first, `request="TLS handshake"`) || !strings.Contains(first, "127.0.0.1") {
		t.Errorf("%s", first)
	}
}

// logLines is a log that passes each line on.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestTLS: the port speaks TLS if it has a certificate, HTTP 1.1 only, and a client without it gets no answer from a handler.
func TestTLS(t *testing.T) {
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	o := Options{}
	o.TLS = pair.TLS
	s := start(t, o)
	client := pair.Client()
	a, err := client.Get(strings.Replace(s.url, "http:", "https:", 1) + "/ping")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if b, err := io.ReadAll(a.Body); err != nil || string(b) != "OK" || a.ProtoMajor != 1 || a.TLS == nil {
		t.Errorf("%q %v %s", b, err, a.Proto)
	}
	client.CloseIdleConnections()
	nc := s.dial("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, err := io.ReadAll(nc); err == nil && strings.HasSuffix(string(b), "OK") {
		t.Errorf("%q without TLS", b)
	}
}

// TestHead: HEAD answers as GET does, without a body, but not for streams. The page that a browser asks for first names the console.
func TestHead(t *testing.T) {
	s := start(t, Options{})
	s.want("HEAD", "/ping", "", 200)
	s.want("HEAD", friends+"/count", "", 404)
	s.want("HEAD", friends+"/stream", "", 405)
	s.want("GET", "/", "", 404, "/console")
}
