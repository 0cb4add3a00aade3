package rest

import (
	"context"
	"errors"
	"io"
	"iter"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/tokens"
)

// TestRefusedUnread: what is refused by its head is answered without its body, also where that never comes.
func TestRefusedUnread(t *testing.T) {
	o := Options{Tokens: &tokens.Guard{List: closedList(t), Always: true}}
	o.RequestTime = time.Minute
	guarded := start(t, o)
	b := guarded.dial("POST /types/t/buckets/b/datatypes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n")
	if answer := make([]byte, 12); true {
		if _, err := io.ReadFull(b, answer); err != nil || string(answer) != "HTTP/1.1 401" {
			t.Errorf("a set of a new key, without a token: %q %v", answer, err)
		}
	}
	o.RequestTime = 50 * time.Millisecond
	answer := start(t, o).inTime("POST /filters/f/add HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 401") {
		t.Errorf("%q", answer)
	}
}

// TestCreateUnknown: where nobody knows whether a set of a new key was made, the answer says which key that is, and it can be asked for again there only.
func TestCreateUnknown(t *testing.T) {
	b := &broken{&door.UnknownError{Acked: 1, W: 2, Err: errors.New("nobody there")}}
	s := serve(t, b, bloomdtest.NewMemory(), Options{})
	path := "/types/t/buckets/b/datatypes"
	status, answer, header := s.ask(call{method: "POST", path: path + "?request_id=1", body: `{"add":"a"}`})
	if at := header.Get("Location"); status != 503 || !strings.Contains(answer, "unknown_outcome") || !strings.HasPrefix(at, path+"/") || len(at) < len(path)+10 {
		t.Errorf("%d %s at %q", status, answer, at)
	}
	b.err = door.ErrUnavailable
	if _, answer, header := s.ask(call{method: "POST", path: path, body: `{"add":"a"}`}); header.Get("Location") != "" {
		t.Errorf("%s, at %q", answer, header.Get("Location"))
	}
	s.want("POST", path+"?request_id=1&retry=true", `{"add":"a"}`, 400, path+"/KEY", `"outcome":"nothing"`)
}

// fullFilters has one filter that can't be changed.
type fullFilters struct {
	door.Filters
	err error
}

type fullFilter struct {
	door.Filter
	err error
}

func (f *fullFilters) Find(context.Context, []byte) (door.Filter, error) {
	return &fullFilter{err: f.err}, nil
}
func (f *fullFilter) Set(context.Context, [][]byte, []bool) error { return f.err }

// TestFilterPartly: an error after some keys of several may be added does not say that nothing has happened.
func TestFilterPartly(t *testing.T) {
	f := &fullFilters{}
	s := serve(t, &broken{}, f, Options{})
	for _, c := range []struct {
		err    error
		keys   string
		status int
		has    string
	}{
		{bigset.ErrDiskFull, `["a","b"]`, 507, `"outcome":"unknown"`},
		{bigset.ErrDiskFull, `["a"]`, 507, `"outcome":"nothing"`},
		{door.ErrUnavailable, `["a","b"]`, 503, `"outcome":"nothing"`},
		{bigset.ErrNoFilter, `["a","b"]`, 404, `"outcome":"nothing"`},
	} {
		f.err = c.err
		s.want("POST", "/filters/f/add", `{"keys":`+c.keys+`}`, c.status, c.has)
	}
}

// TestLongString: a body counts its longest string as the decoder keeps it, and an element is measured before it is copied.
func TestLongString(t *testing.T) {
	for body, want := range map[string]int{``: 0, `"`: 0, `"abc`: 3, `{"add":"ab\"c","x":"12"}`: 5, `"\\","abc"`: 3, `"a\`: 2} {
		if got := longestString([]byte(body)); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
	o := Options{}
	o.RequestBytesMax = 1 << 20
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: 3 << 20})
	s := start(t, o)
	s.want("POST", friends, `{"add":"`+strings.Repeat("x", 1000<<10)+`"}`, 503, "memory")
	s.want("POST", friends, `{"add_all":["`+strings.Repeat(strings.Repeat("x", 50<<10)+`","`, 18)+`"]}`, 204)
	long := strings.Repeat("x", 8<<20)
	in := &input{base64: true}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in.bytes("add", long)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; in.err == nil || !strings.Contains(in.err.Error(), "65536") || grown > 1<<20 {
		t.Errorf("%v, after %d bytes", in.err, grown)
	}
	in = &input{}
	if b := in.bytes("add", long[:keyscheme.ElementBytesMax]); len(b) != keyscheme.ElementBytesMax || in.err != nil {
		t.Errorf("%d bytes, %v", len(b), in.err)
	}
}

// TestLongContext: a context in a body counts as the bytes and the clock that are made of it.
func TestLongContext(t *testing.T) {
	o := Options{}
	o.RequestBytesMax = 1 << 20
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: 3300 << 10})
	s := start(t, o)
	s.want("POST", friends+"/drop", `{"context":"`+strings.Repeat("A", 500<<10)+`"}`, 503, "memory")
	s.want("POST", friends+"/drop", `{"context":"`+strings.Repeat("A", 100<<10)+`"}`, 400, "token")
}

// parted is a backend of one set.
type parted struct {
	broken
	part door.Part
}

func (p *parted) Read(context.Context, door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) { yield(p.part, nil) }
}
func (p *parted) Context(context.Context, []byte, int) (door.Token, error) {
	return p.part.Context, nil
}

// TestLongAnswer: an answer takes no more memory than it may have bytes, and a wide context counts beside it.
func TestLongAnswer(t *testing.T) {
	const most = 1_000_000
	o := Options{AnswerBytesMax: most}
	o.RequestBytesMax = RequestBytesLeast
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: most})
	b := &parted{}
	s := serve(t, b, bloomdtest.NewMemory(), o)
	all := func() { // the request before returns its memory after its answer
		for !o.Limits.TakeLong(most) {
			time.Sleep(time.Millisecond)
		}
		o.Limits.GiveLong(most)
	}
	b.part.Done = true
	for range 900 {
		b.part.Elements = append(b.part.Elements, door.Element{Name: []byte(strings.Repeat("x", 1000))})
	}
	s.want("GET", friends, "", 200)
	b.part.Elements = nil
	for size, status := range map[int]int{100 << 10: 200, 300 << 10: 503} {
		b.part.Context = make(door.Token, size)
		for _, path := range []string{friends, friends + "/context", friends + "/stream"} {
			all()
			s.want("GET", path, "", status)
		}
	}
	all()
}

// stepped is a backend of one set that sends one part for each step.
type stepped struct {
	broken
	steps chan door.Part
}

func (s *stepped) Read(context.Context, door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		for part := range s.steps {
			if !yield(part, nil) {
				return
			}
		}
	}
}

// TestStreamGivesBack: a stream returns the memory for the context of the set when that is sent, not at its end.
func TestStreamGivesBack(t *testing.T) {
	const most = 1_000_000
	o := Options{}
	o.RequestBytesMax = RequestBytesLeast
	o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: most})
	b := &stepped{steps: make(chan door.Part)}
	s := serve(t, b, bloomdtest.NewMemory(), o)
	nc := s.dial("GET " + friends + "/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, nc)
		close(ended)
	}()
	b.steps <- door.Part{Context: make(door.Token, 200<<10)}
	b.steps <- door.Part{} // the first part is done
	if !o.Limits.TakeLong(most) {
		t.Error("the memory is taken while the stream runs")
	} else {
		o.Limits.GiveLong(most)
	}
	close(b.steps)
	<-ended
}

// TestStreamAfterRemoval: of what a stream gathers after its token was removed nothing is sent.
func TestStreamAfterRemoval(t *testing.T) {
	list := closedList(t)
	secret, id := token(t, list, tokens.Read, "")
	b := &stepped{steps: make(chan door.Part)}
	s := serve(t, b, bloomdtest.NewMemory(), Options{Tokens: &tokens.Guard{List: list}})
	nc := s.dial("GET " + friends + "/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + secret + "\r\n\r\n")
	b.steps <- door.Part{Elements: []door.Element{{Name: []byte("early")}}}
	if err := list.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.steps <- door.Part{Elements: []door.Element{{Name: []byte("late1")}, {Name: []byte(strings.Repeat("late2", 10_000))}}}
	close(b.steps)
	if answer, err := io.ReadAll(nc); err != nil || strings.Contains(string(answer), "late") || !strings.Contains(string(answer), `{"error":"token"`) {
		t.Errorf("%.300q %v", answer, err)
	}
}

// TestConsoleAddress: the console asks for a set by no other path than that of one, whatever the page's address says.
func TestConsoleAddress(t *testing.T) {
	js, err := consoleFiles.ReadFile("console/console.js")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^const setHash = /(.*)/ //`).FindSubmatch(js)
	if found == nil || !strings.Contains(string(js), "view = setHash.test(hash) ? 'set'") {
		t.Fatal("the console does not look at the address")
	}
	set := regexp.MustCompile(string(found[1]))
	for hash, want := range map[string]bool{
		"#set/types/%73/buckets/%62/datatypes/%6B": true, "#set/types/%73/buckets/%62/datatypes/": true,
		"#set//other.host/": false, "#set//other.host/types/%73/buckets/%62/datatypes/%6b": false, "#set/types/%73/buckets/%62/datatypes/%6b?x": false, "#set/types/../buckets/%62/datatypes/": false,
	} {
		if set.MatchString(hash) != want {
			t.Errorf("%s: %v, want %v", hash, !want, want)
		}
	}
}

// TestRemovedMeanwhile: a token that is removed while the body of a request comes permits nothing.
func TestRemovedMeanwhile(t *testing.T) {
	list := closedList(t)
	secret, id := token(t, list, tokens.Write, "")
	s := start(t, Options{Tokens: &tokens.Guard{List: list}})
	nc := s.dial("POST " + friends + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 14\r\nAuthorization: Bearer " + secret + "\r\n\r\n")
	begun := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(nc, begun); err != nil || !strings.HasPrefix(string(begun), "HTTP/1.1 100") { // the body is awaited
		t.Fatalf("%q %v", begun, err)
	}
	if err := list.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write([]byte(`{"add":"late"}`)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(nc); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
		t.Errorf("%.300q %v", answer, err)
	}
}

// held is a backend whose writes wait.
type held struct {
	*broken
	began, goes chan struct{}
}

func (b *held) Write(context.Context, door.Write) (door.Result, error) {
	b.began <- struct{}{}
	<-b.goes
	return door.Result{}, nil
}

// TestHealthOfFullNode: a node that executes as many requests as it may is healthy, and describes itself.
func TestHealthOfFullNode(t *testing.T) {
	b := &held{&broken{}, make(chan struct{}), make(chan struct{})}
	s := serve(t, b, bloomdtest.NewMemory(), Options{RequestsMax: 1})
	done := make(chan int)
	go func() {
		defer close(done)
		status, _, _ := s.ask(call{method: "POST", path: friends, body: `{"add":"a"}`})
		done <- status
	}()
	<-b.began
	for _, path := range []string{"/ping", "/healthz", "/readyz", "/openapi.json", "/console"} {
		s.want("GET", path, "", 200)
	}
	s.want("GET", friends, "", 503, "1 requests are being executed")
	close(b.goes)
	if status := <-done; status != 204 {
		t.Errorf("the change that was held: %d", status)
	}
}
