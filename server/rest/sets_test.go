package rest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/alone"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// TestRiak does what clients of Riak do with a set.
func TestRiak(t *testing.T) {
	s := start(t, Options{})
	s.want("GET", friends, "", 404, `"type":"set"`, `"error":"notfound"`)
	s.want("POST", friends, `{"add":"paul"}`, 204)
	s.want("POST", friends, `{"add_all":["ringo","george","paul"],"remove":"nobody"}`, 204)
	s.want("GET", friends+"?include_context=false", "", 200, `{"type":"set","value":["george","paul","ringo"]}`)
	old := field[string](t, s.want("GET", friends+"?r=quorum&pr=1&basic_quorum=true&notfound_ok=false&n_val=3&sloppy_quorum=true&timeout=5000", "", 200), "context")
	s.want("POST", friends+"?returnbody=true&include_context=false&w=all&dw=one&pw=1", `{"add":"john"}`, 200, `"value":["george","john","paul","ringo"]`)
	// What the context has not seen stays.
	s.want("POST", friends+"?returnbody=true", fmt.Sprintf(`{"remove_all":["john","paul"],"context":%q}`, old), 200, `"value":["george","john","ringo"]`, `"context":"`)
	s.want("POST", friends+"?returnchanges=true", `{"add":"john","remove":"george","remove_all":["paul"]}`, 200, `"removed":1,"acked":1,"durable":1,"changed":[false,true,false],"contexts":["`, `",null]`)
	s.want("POST", friends+"?dw=0", `{"add":"pete"}`, 204)
	s.want("DELETE", friends+"?context="+old, "", 200, `"left":2`)
	s.want("GET", friends+"?include_context=false", "", 200, `"value":["john","pete"]`)
	s.want("DELETE", friends+"?w=1", "", 200, `{"left":0,"type":"set"}`)
	s.want("GET", friends, "", 200, `"value":[]`)

	status, _, header := s.ask(call{method: "POST", path: "/types/maps/buckets/b%2F/datatypes", body: `{"add":"x"}`})
	at := header.Get("Location")
	if status != 201 || !strings.HasPrefix(at, "/types/maps/buckets/b%2F/datatypes/") {
		t.Fatalf("%d %q", status, at)
	}
	s.want("GET", at, "", 200, `"value":["x"]`)
	s.want("GET", "/sets", "", 200, `{"type":"maps","bucket":"b/","key":"`)
}

// quorums is a backend that records which quorums it is asked for, and uses its own.
type quorums struct {
	door.Backend
	r     int
	write door.Quorum
}

func (b *quorums) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	b.r, r.R = r.R, 0
	return b.Backend.Read(ctx, r)
}

func (b *quorums) Write(ctx context.Context, w door.Write) (door.Result, error) {
	b.write, w.Quorum = w.Quorum, door.Quorum{}
	return b.Backend.Write(ctx, w)
}

// TestPrimaries asks for primary replicas: they never make a quorum smaller than it is without them.
func TestPrimaries(t *testing.T) {
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &quorums{Backend: alone.New(store)}
	s := serve(t, b, bloomdtest.NewMemory(), Options{Replicas: func() door.Replicas { return door.Replicas{N: 3, R: 2, W: 2} }})
	for _, c := range []struct {
		n, primary string
		want       int
	}{{"", "", 0}, {"", "1", 2}, {"", "one", 2}, {"", "all", 3}, {"default", "1", 2}, {"1", "", 1}, {"1", "1", 1}, {"1", "quorum", 2}, {"3", "1", 3}} {
		s.want("POST", friends+"?dw=1&w="+c.n+"&pw="+c.primary, `{"add":"paul"}`, 204)
		if want := (door.Quorum{W: c.want, DW: 1}); b.write != want {
			t.Errorf("w %q, pw %q: %+v, want %+v", c.n, c.primary, b.write, want)
		}
		if s.want("GET", friends+"?r="+c.n+"&pr="+c.primary, "", 200); b.r != c.want {
			t.Errorf("r %q, pr %q: %d, want %d", c.n, c.primary, b.r, c.want)
		}
	}
}

// TestNames has keys that are odd, and the bucket of redis' keys.
func TestNames(t *testing.T) {
	s := start(t, Options{})
	for _, path := range []string{"sets/buckets/default/datatypes/", "sets/buckets/default/datatypes/%00", "sets/buckets/b/datatypes/", "a/buckets/b/datatypes/x%2Fy", "a%2F/buckets/b/datatypes/x%FF", "/buckets//datatypes/"} {
		path = "/types/" + path
		s.want("POST", path, fmt.Sprintf(`{"add":%q}`, path), 204)
	}
	for _, path := range []string{"sets/buckets/default/datatypes/", "sets/buckets/default/datatypes/%00", "sets/buckets/b/datatypes/", "a/buckets/b/datatypes/x%2Fy", "a%2F/buckets/b/datatypes/x%FF", "/buckets//datatypes/"} {
		path = "/types/" + path
		s.want("GET", path, "", 200, fmt.Sprintf(`"value":[%q]`, path))
		s.want("GET", path+"/count", "", 200, `"count":1`)
	}
	var names []string
	for after := ""; ; {
		page := s.want("GET", "/sets?limit=2&after="+after, "", 200)
		for _, n := range field[[]map[string]any](t, page, "sets") {
			names = append(names, fmt.Sprint(n["type"], " ", n["bucket"], " ", n["key"], n["key_base64"]))
		}
		if after = field[string](t, page, "after"); after == "" {
			break
		}
	}
	slices.Sort(names)
	want := []string{"  <nil>", "a b x/y<nil>", "a/ b <nil>" + base64.StdEncoding.EncodeToString([]byte("x\xff")), "sets b <nil>", "sets default \x00<nil>", "sets default <nil>"}
	want[0] = "  <nil>"
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	s.want("DELETE", "/types/a/buckets/b/datatypes/x%2Fy", "", 200)
	if page := s.want("GET", "/sets", "", 200); strings.Contains(page, "x/y") {
		t.Error(page)
	}
	s.want("GET", "/sets?all=true", "", 200, `"key":"x/y","live":0`)
}

// TestElements reads a set by pages, ranges, streams and questions.
func TestElements(t *testing.T) {
	s := start(t, Options{})
	var all []string
	for i := range 2500 {
		all = append(all, fmt.Sprintf("e%04d", i))
	}
	body, _ := json.Marshal(map[string]any{"add_all": all})
	s.want("POST", friends, string(body), 204)
	for _, reverse := range []bool{false, true} {
		var got []string
		want := slices.Clone(all)
		if reverse {
			slices.Reverse(want)
		}
		for after := ""; ; {
			page := s.want("GET", fmt.Sprintf("%s/elements?limit=999&reverse=%v&after=%s", friends, reverse, after), "", 200)
			got = append(got, field[[]string](t, page, "value")...)
			if after = field[string](t, page, "after"); after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse %v: %d elements, %.100q", reverse, len(got), got)
		}
	}
	s.want("GET", friends+"/elements?from=e0003&to=e0006", "", 200, `{"type":"set","value":["e0003","e0004","e0005"]}`)
	s.want("GET", friends+"/elements?prefix=e249&limit=2&include_context=true&contexts=true", "", 200, `"context":"`, `"value":["e2490","e2491"],"contexts":["`, `"after":"`)
	s.want("GET", friends+"/count?prefix=e00", "", 200, `{"count":100,"type":"set"}`)
	s.want("GET", friends+"/count?from=e2490", "", 200, `"count":10`)
	s.want("GET", friends+"/contains?element=e0001&element=x&element=", "", 200, `{"type":"set","present":[true,false,false]}`)
	s.want("POST", friends+"/contains?contexts=true", string(body[:len(`{"`)])+`elements`+string(body[len(`{"add_all`):]), 200, `"present":[true,true`, `"contexts":["`)
	c := field[[]string](t, s.want("GET", friends+"/contains?element=e0000&contexts=true", "", 200), "contexts")[0]
	s.want("POST", friends, fmt.Sprintf(`{"remove_all":[{"element":"e0000","context":%q}]}`, c), 204)
	s.want("GET", friends+"/contains?element=e0000", "", 200, `[false]`)
	if a, b := s.want("GET", friends+"/context", "", 200), s.want("GET", friends, "", 200); field[string](t, a, "context") == "" || field[string](t, b, "context") == "" {
		t.Error("no context")
	}
	s.want("GET", friends+"/stats?here=true", "", 200, `"live":2499`, `"seen":2501`, `"dead":2`, `"actors":1`)

	lines := strings.Split(strings.TrimSpace(s.want("GET", friends+"/stream", "", 200)), "\n")
	if len(lines) != 2501 || !strings.HasPrefix(lines[0], `{"type":"set","context":"`) || lines[1] != `{"element":"e0001"}` || lines[2500] != `{"done":true,"count":2499}` {
		t.Errorf("%d lines, %.200q", len(lines), lines)
	}
	s.want("GET", friends+"/stream?reverse=true&limit=2&contexts=true&prefix=e1", "", 200, `{"element":"e1999","context":"`, `{"element":"e1998","context":"`, `{"done":true,"count":2}`)
	s.want("GET", friends+"x/stream", "", 404, `"error":"notfound"`)
}

// TestBytes has elements that are no text: nothing changes them.
func TestBytes(t *testing.T) {
	s := start(t, Options{})
	odd := []string{"\xff\x00", "\x00", "", "a\"\\\n\x7f", "€", "\u2028", "\xed\xa0\x80", "�"}
	var coded []string
	for _, e := range odd {
		coded = append(coded, base64.StdEncoding.EncodeToString([]byte(e)))
	}
	body, _ := json.Marshal(map[string]any{"add_all": coded})
	s.want("POST", friends+"?encoding=base64", string(body), 204)
	got := field[[]string](t, s.want("GET", friends+"?encoding=base64", "", 200), "value")
	sorted := slices.Clone(odd)
	slices.Sort(sorted)
	for i, e := range sorted {
		if b, err := base64.StdEncoding.DecodeString(got[i]); err != nil || string(b) != e {
			t.Errorf("%q, want %q", b, e)
		}
		s.want("GET", friends+"/contains?element="+url.QueryEscape(e), "", 200, "[true]")
		s.want("GET", friends+"/count?from="+url.QueryEscape(e)+"&to="+url.QueryEscape(e+"\x00"), "", 200)
	}
	s.want("GET", friends, "", 406, `"error":"not_utf8"`, "encoding=base64")
	s.want("GET", friends+"/elements", "", 406, "encoding=base64")
	s.want("GET", friends+"/stream", "", 200, `{"element_base64":"/wA="}`, `{"element":"€"}`, `{"element":"a\"\\\n\u007f"}`, `"count":8`)
	s.want("POST", friends+"?returnbody=true", `{"add":"x"}`, 200, `"omitted":"not_utf8"`, "the change was made")
	s.want("POST", friends+"/contains?encoding=base64", `{"elements":["/wA=","AQ=="]}`, 200, `[true,false]`)
	// JSON that is no text is refused, not repaired.
	for _, bad := range []string{"{\"add\":\"\xff\"}", `{"add":"\ud800"}`, `{"add":"\udc00\ud800"}`, `{"add":"\ud800\u0041"}`} {
		s.want("POST", friends, bad, 400, "base64", `"outcome":"nothing"`)
	}
	s.want("POST", friends, `{"add":"\ud83d\ude00\\ud800"}`, 204)
	s.want("GET", friends+"/contains?element="+url.QueryEscape("😀\\ud800"), "", 200, "[true]")
}

// TestBadRequests: each says what is wrong, and changes nothing.
func TestBadRequests(t *testing.T) {
	s := start(t, Options{})
	long := strings.Repeat("x", keyscheme.ElementBytesMax+1)
	for _, c := range []struct{ method, path, body, has string }{
		{"POST", friends, ``, "JSON"},
		{"POST", friends, `1`, "object"},
		{"POST", friends, `{}`, "no change is requested"},
		{"POST", friends, `{"add_all":[]}`, "no change is requested"},
		{"POST", friends, `{"add":1}`, "strings"},
		{"POST", friends, `{"add_all":"a"}`, "array"},
		{"POST", friends, `{"add":"a"} x`, "byte"},
		{"POST", friends, `{"add":"a"`, "JSON"},
		{"POST", friends, `{"add":"a","add":"b"}`, "twice"},
		{"POST", friends, `{"increment":1}`, "not a field"},
		{"POST", friends, `{"add":{"context":""}}`, "no element"},
		{"POST", friends, `{"add":["a"]}`, "strings"},
		{"POST", friends, `{"add":"a","context":"!"}`, "context"},
		{"POST", friends, `{"add":"a","context":"AAAA"}`, "token"},
		{"POST", friends, `{"add":"` + long + `"}`, "65536"},
		{"POST", friends + "?encoding=base64", `{"add":"a"}`, "base64"},
		{"POST", friends + "?encoding=hex", `{"add":"a"}`, "encoding"},
		{"POST", friends + "?w=2", `{"add":"a"}`, "alone"},
		{"POST", friends + "?w=0", `{"add":"a"}`, "w is"},
		{"POST", friends + "?dw=x", `{"add":"a"}`, "dw is"},
		{"POST", friends + "?returnbody=1", `{"add":"a"}`, "returnbody"},
		{"POST", friends + "?returnbody=true&returnchanges=true", `{"add":"a"}`, "two answers"},
		{"POST", friends + "?retry=true", `{"add":"a"}`, "request id"},
		{"POST", friends + "?request_id=" + strings.Repeat("x", 65), `{"add":"a"}`, "64"},
		{"POST", friends + "?request_id=", `{"add":"a"}`, "request_id has 0 bytes"},
		{"POST", friends + "?timeout=0", `{"add":"a"}`, "timeout"},
		{"GET", friends + "?x=1", "", "not a parameter"},
		{"GET", friends + "?r=1&r=1", "", "twice"},
		{"GET", friends + "?r=%zz", "", "escape"},
		{"GET", friends + "/elements?limit=0", "", "limit"},
		{"GET", friends + "/elements?limit=10001", "", "limit"},
		{"GET", friends + "/elements?after=x", "", "after"},
		{"GET", friends + "/contains", "", "element"},
		{"POST", friends, `{"remove":"a","context":""}`, "context is empty"},
		{"POST", friends, `{"context":"","add":"b","remove_all":["a"]}`, "context is empty"},
		{"POST", friends, `{"remove_all":[{"element":"a","context":""}]}`, "context is empty"},
		{"DELETE", friends + "?context=", "", "context is empty"},
		{"DELETE", friends + "?context", "", "context is empty"},
		{"DELETE", friends + "?context=AAAA", "", "token"},
		{"POST", friends + "/drop", `{}`, "no context"},
		{"POST", friends + "/drop", `{"context":""}`, "no context"},
		{"POST", friends + "/drop", `{"context":"AAAA"}`, "token"},
		{"POST", friends + "/drop", `{"type":"map","context":"AAAA"}`, "type is set"},
		{"POST", friends + "/drop", `{"set":"a"}`, "not a field"},
		{"GET", "/types/t/buckets/b/datatypes/" + strings.Repeat("x", 30<<10), "x", "no body"},
	} {
		status, answer, _ := s.ask(call{method: c.method, path: c.path, body: c.body})
		if status != 400 || !strings.Contains(answer, c.has) {
			t.Errorf("%s %.100s %.100s: %d %.300s, want 400 and %q", c.method, c.path, c.body, status, answer, c.has)
		}
		if change := c.method != "GET"; strings.Contains(answer, `"outcome":"nothing"`) != change {
			t.Errorf("%s %.100s %.100s: %.300s says the wrong of what has happened", c.method, c.path, c.body, answer)
		}
	}
	s.want("GET", friends, "", 404)
	s.want("POST", friends, `{"add_all":["a",{"element":"b","context":""}],"context":""}`, 204) // an add takes nothing away
	status, answer, header := s.ask(call{method: "PATCH", path: friends})
	if status != 405 || header.Get("Allow") != "GET, HEAD, POST, DELETE" {
		t.Errorf("%d %s %q", status, answer, header)
	}
	s.want("GET", "/nowhere", "", 404, "no_such_path", "openapi.json")
}

// TestRequestIDs: a change that is sent again happens once.
func TestRequestIDs(t *testing.T) {
	s := start(t, Options{})
	s.want("POST", friends+"?request_id=1", `{"add":"a"}`, 204)
	s.want("POST", friends, `{"remove":"a"}`, 204)
	s.want("POST", friends+"?request_id=1&retry=true", `{"add":"a"}`, 204)
	s.want("GET", friends+"/count", "", 200, `"count":0`)
	s.want("POST", friends+"?request_id=2", `{"add":"a"}`, 204)
	s.want("GET", friends+"/count", "", 200, `"count":1`)
}

// TestDropSeen: what a context saw is removed, also if the context is longer than an address may be.
func TestDropSeen(t *testing.T) {
	s := start(t, Options{})
	s.want("POST", friends, `{"add_all":["a","b"]}`, 204)
	seen := s.want("GET", friends+"/context", "", 200)
	s.want("POST", friends, `{"add":"c"}`, 204)
	s.want("POST", friends+"/drop?w=1", seen, 200, `"left":1`)
	s.want("GET", friends+"?include_context=false", "", 200, `"value":["c"]`)
	long := base64.RawURLEncoding.EncodeToString(make([]byte, 100<<10))
	s.want("POST", friends+"/drop", `{"context":"`+long+`"}`, 400, "token", `"outcome":"nothing"`)
}

// TestErrorTexts: an error names the set by its path, a request id as the client wrote it, and no sign is escaped for HTML.
func TestErrorTexts(t *testing.T) {
	s := start(t, Options{})
	s.want("GET", "/types/maps/buckets/b%2Fx/datatypes/%FF", "", 404, `not found: /types/maps/buckets/b%2Fx/datatypes/%FF"`)
	s.want("GET", "/types/sets/buckets/default/datatypes/", "", 404, `not found: /types/sets/buckets/default/datatypes/"`)
	s.want("GET", friends, "", 404, `not found: \"friends\"`)
	s.want("GET", friends+"?a%26b=1", "", 400, `"message":"\"a&b\" is not`)
	s.want("POST", friends+"?request_id=q1", `{"add":"a"}`, 204)
	s.want("POST", friends+"?request_id=q1&retry=true", `{"add":"b"}`, 400, `id \"q1\" is that of another request to \"friends\"`)
}

// TestListsOfSome lists the sets of a bucket, of a type, and those whose keys begin alike, also in pages of one.
func TestListsOfSome(t *testing.T) {
	s := start(t, Options{})
	for _, path := range []string{"/types/sets/buckets/default/datatypes/fa", "/types/sets/buckets/default/datatypes/fb", "/types/sets/buckets/default/datatypes/g", "/types/sets/buckets/b/datatypes/fc",
		"/types/maps/buckets/b/datatypes/fd", "/types/maps/buckets/b/datatypes/%FF", "/types/maps/buckets//datatypes/h", "/types//buckets/b/datatypes/i"} {
		s.want("POST", path, `{"add":"a"}`, 204)
	}
	for query, want := range map[string]string{"": "fa fb fc fd g h i \xff", "prefix=f": "fa fb fc fd", "type=maps": "fd h \xff", "type=maps&prefix=%FF": "\xff", "bucket=b&prefix=f": "fc fd",
		"bucket=default": "fa fb g", "type=sets&bucket=b": "fc", "prefix=x": "", "prefix=": "fa fb fc fd g h i \xff", "bucket=": "h", "type=": "i", "type=&bucket=": ""} {
		for _, limit := range []string{"1", "100"} {
			var keys []string
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				page := s.want("GET", "/sets?"+query+"&limit="+limit+"&after="+after, "", 200)
				for _, n := range field[[]struct {
					Key string
					Odd []byte `json:"key_base64"`
				}](t, page, "sets") {
					keys = append(keys, n.Key+string(n.Odd))
				}
				after = field[string](t, page, "after")
			}
			slices.Sort(keys)
			if got := strings.Join(keys, " "); got != want {
				t.Errorf("%q in pages of %s: %q, want %q", query, limit, got, want)
			}
		}
	}
}

// TestFilters uses a filter, which is one key space with sets.
func TestFilters(t *testing.T) {
	s := start(t, Options{})
	s.want("POST", "/filters/seen/add", `{"keys":["a"]}`, 404)
	s.want("PUT", "/filters/seen", `{"capacity":20000,"probability":0.001}`, 201, `{"created":true}`)
	s.want("PUT", "/filters/seen", "", 200, `{"created":false}`)
	s.want("PUT", "/filters/seen", `{"capacity":30000}`, 200, `"created":false`, "options are not changed")
	s.want("POST", "/filters/seen/add?encoding=base64", `{"keys":["YQ==","/w=="]}`, 200, `{"added":[true,true]}`)
	s.want("POST", "/filters/seen/contains", `{"keys":["a","b"]}`, 200, `{"present":[true,false]}`)
	s.want("GET", "/filters/seen", "", 200, `"capacity":20000`, `"size":2`)
	s.want("GET", "/filters/seen", "", 200, `"in_memory":false`, `"loaded":true`)
	s.want("PUT", "/filters/other", `{"in_memory":true}`, 201)
	s.want("GET", "/filters/other", "", 200, `"in_memory":true`, `"loaded":true`)
	page := s.want("GET", "/filters?limit=1", "", 200, `"name":"other"`)
	s.want("GET", "/filters?limit=1&after="+field[string](t, page, "after"), "", 200, `"name":"seen"`)
	if got := s.want("GET", "/filters?prefix=se", "", 200); strings.Contains(got, "other") {
		t.Error(got)
	}
	s.want("POST", strings.Replace(friends, "friends", "seen", 1), `{"add":"a"}`, 409, `"error":"kind"`, `"outcome":"nothing"`)
	s.want("POST", strings.Replace(friends, "default/datatypes/friends", "b/datatypes/seen", 1), `{"add":"a"}`, 204)
	s.want("POST", friends, `{"add":"a"}`, 204)
	s.want("PUT", "/filters/friends", "", 409, "is a set")
	for _, c := range []struct{ path, body, has string }{
		{"/filters/a%20b", "", "spaces"}, {"/filters/", "", "bytes"}, {"/filters/x", `{"capacity":-1}`, "whole"}, {"/filters/x", `{"capacity":1.5}`, "whole"},
		{"/filters/x", `{"probability":2}`, ""}, {"/filters/x", `{"in_memory":1}`, "true or false"}, {"/filters/x", `{"size":1}`, "not a field"},
	} {
		s.want("PUT", c.path, c.body, 400, c.has)
	}
	s.want("DELETE", "/types/sets/buckets/default/datatypes/seen", "", 409, "is a bloom filter", `"outcome":"nothing"`)
	s.want("DELETE", "/types/sets/buckets/b/datatypes/seen", "", 200)
	s.want("DELETE", "/filters/seen", "", 204)
	s.want("DELETE", "/filters/seen", "", 404)
}

// FuzzBody: every body is understood or refused, and what is understood is text or base64 as it stood there.
func FuzzBody(f *testing.F) {
	for _, b := range []string{`{"add":"a"}`, `{"add_all":["a",{"element":"b","context":""}],"remove":"c"}`, `{"add":"\ud83d\ude00"}`, `{"elements":[]}`, "\xff", `{"add":"\ud800"}`, `[`} {
		f.Add([]byte(b), false)
	}
	limits := door.NewLimits(door.LimitsOptions{})
	f.Fuzz(func(t *testing.T, body []byte, inBase64 bool) {
		q := &request{s: &Server{opt: Options{Options: door.Options{Limits: limits}}}, route: &table[1], body: body, query: url.Values{}}
		if inBase64 {
			q.query.Set("encoding", "base64")
		}
		ops, _, err := q.changes()
		if err != nil {
			if status, _, _ := answerOf(err, true); status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge {
				t.Errorf("%q: %d %v", body, status, err)
			}
			return
		}
		var want struct {
			Add, Remove any
		}
		if json.Unmarshal(body, &want) != nil {
			t.Fatalf("%q is taken, and is no JSON", body)
		}
		if e, ok := want.Add.(string); ok && !inBase64 && !slices.ContainsFunc(ops, func(o door.Op) bool { return string(o.Element) == e }) {
			t.Errorf("%q adds %q, and not %q", body, ops, e)
		}
	})
}
