package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/server/door"
	"bigset/server/origin"
	"bigset/server/tokens"
)

// described is what openapi.json says.
type described struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]any
		Responses  map[string]any
	}
}

type operation struct {
	OperationID string
	Parameters  []parameter
	RequestBody *struct{ Content map[string]any }
	Responses   map[string]any
	Security    *[]any
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
	In   string
}

func describe(t *testing.T) *described {
	t.Helper()
	var d described
	if err := json.Unmarshal(openapi, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// parameters returns the names of an operation's parameters that are somewhere.
func (d *described) parameters(o operation, in string) (names []string) {
	for _, p := range o.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = d.Components.Parameters[name]
		}
		if p.In == in {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestOpenAPIRoutes compares what is described with the table, in both directions: paths, methods, parameters, bodies, tokens.
func TestOpenAPIRoutes(t *testing.T) {
	d := describe(t)
	seen := map[string]bool{}
	for i := range table {
		r := &table[i]
		o, ok := d.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("%s %s is not described", r.method, r.path)
			continue
		}
		seen[r.method+r.path] = true
		if o.OperationID != r.name {
			t.Errorf("%s %s is %s, and described as %s", r.method, r.path, r.name, o.OperationID)
		}
		want, got := slices.Sorted(slices.Values(r.params)), slices.Sorted(slices.Values(d.parameters(o, "query")))
		if !slices.Equal(want, got) {
			t.Errorf("%s takes %q, described are %q", r.name, want, got)
		}
		var inPath []string
		for _, part := range r.parts {
			if strings.HasPrefix(part, "{") {
				inPath = append(inPath, strings.Trim(part, "{}"))
			}
		}
		if got := d.parameters(o, "path"); !slices.Equal(inPath, got) {
			t.Errorf("the path of %s has %q, described are %q", r.name, inPath, got)
		}
		if (o.RequestBody != nil) != (r.body != "") || o.RequestBody != nil && o.RequestBody.Content[r.body] == nil {
			t.Errorf("the body of %s is %q, and described otherwise", r.name, r.body)
		}
		if (o.Security != nil) != (r.verb == 0) {
			t.Errorf("%s asks for %v, and is described otherwise", r.name, r.verb)
		}
	}
	for path, methods := range d.Paths {
		for method := range methods {
			if !seen[strings.ToUpper(method)+path] {
				t.Errorf("%s %s is described and not served", method, path)
			}
		}
	}
	// References lead somewhere, and nothing is described for nobody.
	text := string(openapi)
	for kind, names := range map[string][]string{"parameters": slices.Collect(maps.Keys(d.Components.Parameters)), "schemas": slices.Collect(maps.Keys(d.Components.Schemas)),
		"responses": slices.Collect(maps.Keys(d.Components.Responses))} {
		refs := 0
		for _, name := range names {
			n := strings.Count(text, fmt.Sprintf(`"#/components/%s/%s"`, kind, name))
			if n == 0 {
				t.Errorf("%s %s is not used", kind, name)
			}
			refs += n
		}
		if all := strings.Count(text, `"#/components/`+kind+"/"); all != refs {
			t.Errorf("%d references to %s, of which %d lead somewhere", all, kind, refs)
		}
	}
}

// filled returns the path of a route with names in it.
func (r *route) filled() string {
	return strings.NewReplacer("{type}", "sets", "{bucket}", "b", "{key}", "k", "{filter}", "f", "{file}", "console.js").Replace(r.path)
}

// goodBody is a body that a route takes.
func (r *route) goodBody() string {
	switch {
	case r.body == "":
		return ""
	case strings.HasPrefix(r.name, "filter_create"):
		return `{"capacity":20000}`
	case strings.HasPrefix(r.path, "/filters"):
		return `{"keys":["a"]}`
	case r.name == "drop_seen":
		return `{"context":"AAAA"}`
	case strings.HasSuffix(r.path, "contains"):
		return `{"elements":["a"]}`
	}
	return `{"add":"a"}`
}

// TestOpenAPIParameters: each handler reads each parameter that its route names, and a typed one is refused where it is wrong.
func TestOpenAPIParameters(t *testing.T) {
	s := start(t, Options{})
	read := map[string]bool{}
	s.spy = func(r *route, name string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		read[r.name+" "+name] = true
	}
	s.want("PUT", "/filters/f", "", 201)
	s.want("POST", "/types/sets/buckets/b/datatypes/k", `{"add":"a"}`, 204)
	free := []string{"type", "bucket", "prefix", "from", "to", "request_id", "element"} // any text will do
	for i := range table {
		r := &table[i]
		path := r.filled()
		if slices.Contains(r.params, "element") {
			path += "?element=a"
		}
		s.ask(call{method: r.method, path: path, body: r.goodBody()})
		for _, p := range r.params {
			if !read[r.name+" "+p] && p != "r" { // r is read beside others
				t.Errorf("%s does not read %s", r.name, p)
			}
			status, answer, _ := s.ask(call{method: r.method, path: r.filled() + "?" + p + "=!!", body: r.goodBody()})
			if (status == 400) == slices.Contains(free, p) && p != "element" {
				t.Errorf("%s?%s=!!: %d %.200s", r.name, p, status, answer)
			}
		}
		if r.name == "filter_drop" {
			s.want("PUT", "/filters/f", "", 201)
		}
		if r.name == "drop" {
			s.want("POST", "/types/sets/buckets/b/datatypes/k", `{"add":"a"}`, 204)
		}
	}
}

// broken is a backend that fails.
type broken struct{ err error }

func (b *broken) Remote() bool { return false }

func (b *broken) Write(context.Context, door.Write) (door.Result, error) {
	return door.Result{}, b.err
}
func (b *broken) Subset(context.Context, door.Subset) ([]door.Presence, error) { return nil, b.err }
func (b *broken) Read(context.Context, door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) { yield(door.Part{}, b.err) }
}
func (b *broken) Count(context.Context, door.Read) (door.Count, error) { return door.Count{}, b.err }
func (b *broken) Context(context.Context, []byte, int) (door.Token, error) {
	return nil, b.err
}
func (b *broken) Stats(context.Context, []byte, int) (door.Stats, error) { return door.Stats{}, b.err }
func (b *broken) Drop(context.Context, door.Drop) (door.Dropped, error)  { return door.Dropped{}, b.err }
func (b *broken) CountSets(context.Context) (bigset.SetCount, error)     { return bigset.SetCount{}, b.err }
func (b *broken) Changes(context.Context, door.Changes) iter.Seq2[door.Changed, error] {
	return func(yield func(door.Changed, error) bool) { yield(door.Changed{}, b.err) }
}
func (b *broken) Names(context.Context, bool, []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) { yield(bigset.SetInfo{}, b.err) }
}

// brokenFilters fail too.
type brokenFilters struct {
	door.Filters
	b *broken
}

func (f *brokenFilters) Find(_ context.Context, name []byte) (door.Filter, error) {
	if string(name) == "f" { // of a path of filters
		return nil, f.b.err
	}
	return nil, bigset.ErrNoFilter
}
func (f *brokenFilters) Create(context.Context, []byte, door.FilterCreate) (bool, error) {
	return false, f.b.err
}
func (f *brokenFilters) List(context.Context, door.FilterListing) ([]door.FilterInfo, error) {
	return nil, f.b.err
}

// TestOpenAPIStatuses provokes each kind of failure at each route: what is described happens, and nothing else does.
func TestOpenAPIStatuses(t *testing.T) {
	d := describe(t)
	b := &broken{}
	about := About{Figures: func(func(string, string, string, float64)) error { return errors.New("broken") }}
	o := Options{Hosts: origin.NewHosts(nil), About: about}
	o.RequestBytesMax = RequestBytesLeast
	failing := serve(t, b, &brokenFilters{b: b}, o)
	o.Tokens = &tokens.Guard{List: closedList(t), Always: true}
	guarded := serve(t, b, &brokenFilters{b: b}, o)
	full := serve(t, b, &brokenFilters{b: b}, Options{RequestsMax: 1, StreamsMax: 1, About: About{NotReady: func(bool) []string { return []string{"no"} }}})
	full.requests <- struct{}{}
	full.streams <- struct{}{}
	good, short := start(t, Options{}), start(t, Options{AnswerBytesMax: 64})

	for i := range table {
		r := &table[i]
		happened := map[int]bool{}
		try := func(s *served, c call) {
			t.Helper()
			if c.method, c.path = r.method, r.filled()+c.path; c.body == "" {
				c.body = r.goodBody()
			}
			status, answer, header := s.ask(c)
			happened[status] = true
			if o := d.Paths[r.path][strings.ToLower(r.method)]; o.Responses[fmt.Sprint(status)] == nil {
				t.Errorf("%s answers %d %.200s, which is not described", r.name, status, answer)
			}
			if status < 400 || strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
				return
			}
			if code, text, outcome := field[string](t, answer, "error"), field[string](t, answer, "message"), field[string](t, answer, "outcome"); code == "" || text == "" || (outcome != "") != r.changes {
				t.Errorf("%s: %d %s", r.name, status, answer)
			}
		}
		for _, err := range []error{errors.New("broken"), bigset.ErrNotFound, bigset.ErrBehind, bigset.ErrDiskFull, door.ErrUnavailable, door.ErrUnknown, bigset.ErrContext} {
			b.err = err
			path := ""
			if r.name == "contains" {
				path = "?element=a"
			}
			try(failing, call{path: path})
		}
		b.err = errors.New("broken")
		try(failing, call{path: "?surely=not"})
		try(failing, call{header: map[string]string{"Sec-Fetch-Site": "cross-site"}})
		try(failing, call{header: map[string]string{"Host": "elsewhere.example"}})
		try(guarded, call{})
		try(full, call{})
		good.want("POST", "/types/sets/buckets/b/datatypes/k?encoding=base64", `{"add_all":["/w=="]}`, 204)
		short.want("POST", "/types/sets/buckets/b/datatypes/k", `{"add":"`+strings.Repeat("a", 100)+`"}`, 204)
		try(good, call{})
		try(short, call{})
		if path := map[string]string{"update": "?returnbody=true", "fetch": "?encoding=base64", "page": "?encoding=base64", "contains": "?element=a"}[r.name]; path != "" {
			try(good, call{path: path})
		}
		if r.name == "drop_seen" {
			try(good, call{body: good.want("GET", "/types/sets/buckets/b/datatypes/k/context", "", 200)})
		}
		if r.name == "console_file" {
			happened[good.status(call{method: "GET", path: "/console/none.js"})] = true
		}
		if strings.HasPrefix(r.name, "filter") {
			good.ask(call{method: "PUT", path: "/filters/f"})
			try(good, call{})
		}
		if r.name == "filter_drop" {
			good.ask(call{method: "PUT", path: "/filters/f"})
		}
		if r.name == "contains" {
			try(short, call{path: "?element=a&contexts=true"})
		}
		if r.body != "" {
			try(failing, call{body: "x", header: map[string]string{"Content-Type": "text/plain"}})
			try(failing, call{body: strings.Repeat("x", RequestBytesLeast+1)})
			happened[cutOff(t, failing, r)] = true
		}
		for status := range d.Paths[r.path][strings.ToLower(r.method)].Responses {
			if n := 0; !func() bool { fmt.Sscan(status, &n); return happened[n] }() {
				t.Errorf("%s: %s is described and did not happen", r.name, status)
			}
		}
	}
}

func (s *served) status(c call) int {
	status, _, _ := s.ask(c)
	return status
}

// cutOff sends half of a body and returns the status of the answer.
func cutOff(t *testing.T, s *served, r *route) int {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", r.method, r.filled())
	nc.(*net.TCPConn).CloseWrite()
	a, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}
