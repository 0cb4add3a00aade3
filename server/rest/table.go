package rest

import (
	"net/http"
	"net/url"
	"strings"

	"bigset/server/tokens"
)

// route is a method of a path. openapi.json describes each.
type route struct {
	name    string // in figures
	method  string
	path    string       // parts in braces are parameters, percent-encoded
	verb    tokens.Verbs // that a token must permit on the set or the filter or, without one, on the node; 0 needs no token
	any     bool         // any token is enough
	params  []string     // parameters that may follow the path
	body    string       // content type of the body; empty means no body
	changes bool         // errors contain an outcome
	stream  bool         // the answer takes as long as the client reads it
	run     func(*request) error
	parts   []string // of the path
}

const (
	setPath    = "/types/{type}/buckets/{bucket}/datatypes/{key}"
	filterPath = "/filters/{filter}"
	typeJSON   = "application/json"
	typeLines  = "application/x-ndjson"
)

// Parameters of several routes.
var (
	ofWrites = []string{"w", "pw", "dw", "timeout"}
	ofReads  = []string{"r", "pr", "timeout"}
	ofRanges = []string{"from", "to", "prefix"}
	ofRiak   = []string{"basic_quorum", "notfound_ok", "sloppy_quorum", "n_val"} // Riak's parameters that are accepted without effect
	ofUpdate = list(ofWrites, ofReads[:2], ofRiak, []string{"returnbody", "returnchanges", "include_context", "encoding", "request_id", "retry"})
)

func list(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var table []route

func init() {
	table = []route{
		{name: "fetch", method: "GET", path: setPath, verb: tokens.Read, params: list(ofReads, ofRiak, []string{"include_context", "encoding"}), run: (*request).fetch},
		{name: "update", method: "POST", path: setPath, verb: tokens.Write, params: ofUpdate, body: typeJSON, changes: true, run: (*request).update},
		{name: "create", method: "POST", path: strings.TrimSuffix(setPath, "/{key}"), verb: tokens.Write, params: ofUpdate, body: typeJSON, changes: true, run: (*request).create},
		{name: "drop", method: "DELETE", path: setPath, verb: tokens.Write, params: list(ofWrites, []string{"context"}), changes: true, run: (*request).drop},
		{name: "drop_seen", method: "POST", path: setPath + "/drop", verb: tokens.Write, params: ofWrites, body: typeJSON, changes: true, run: (*request).dropSeen},
		{name: "page", method: "GET", path: setPath + "/elements", verb: tokens.Read,
			params: list(ofReads, ofRanges, []string{"reverse", "limit", "after", "contexts", "include_context", "encoding"}), run: (*request).page},
		{name: "stream", method: "GET", path: setPath + "/stream", verb: tokens.Read, stream: true,
			params: list(ofReads[:2], ofRanges, []string{"reverse", "limit", "contexts"}), run: (*request).streamElements},
		{name: "changes", method: "GET", path: setPath + "/changes", verb: tokens.Read, stream: true,
			params: list(ofReads[:2], []string{"since", "limit", "wait"}), run: (*request).changesSince},
		{name: "count", method: "GET", path: setPath + "/count", verb: tokens.Read, params: list(ofReads, ofRanges), run: (*request).count},
		{name: "contains", method: "GET", path: setPath + "/contains", verb: tokens.Read, params: list(ofReads, []string{"element", "contexts"}), run: (*request).contains},
		{name: "contains_many", method: "POST", path: setPath + "/contains", verb: tokens.Read, params: list(ofReads, []string{"contexts", "encoding"}), body: typeJSON, run: (*request).containsMany},
		{name: "context", method: "GET", path: setPath + "/context", verb: tokens.Read, params: ofReads, run: (*request).context},
		{name: "stats", method: "GET", path: setPath + "/stats", verb: tokens.Read, params: list(ofReads, []string{"here"}), run: (*request).stats},
		{name: "sets", method: "GET", path: "/sets", verb: tokens.Read, any: true, params: []string{"type", "bucket", "prefix", "all", "after", "limit", "timeout"}, run: (*request).listSets},

		{name: "filters", method: "GET", path: "/filters", verb: tokens.Read, any: true, params: []string{"prefix", "after", "limit", "timeout"}, run: (*request).listFilters},
		{name: "filter", method: "GET", path: filterPath, verb: tokens.Read, params: []string{"timeout"}, run: (*request).filterInfo},
		{name: "filter_create", method: "PUT", path: filterPath, verb: tokens.Write, params: []string{"timeout"}, body: typeJSON, changes: true, run: (*request).filterCreate},
		{name: "filter_drop", method: "DELETE", path: filterPath, verb: tokens.Write, params: []string{"timeout"}, changes: true, run: (*request).filterDrop},
		{name: "filter_add", method: "POST", path: filterPath + "/add", verb: tokens.Write, params: []string{"encoding", "timeout"}, body: typeJSON, changes: true, run: (*request).filterAdd},
		{name: "filter_contains", method: "POST", path: filterPath + "/contains", verb: tokens.Read, params: []string{"encoding", "timeout"}, body: typeJSON, run: (*request).filterContains},

		{name: "node", method: "GET", path: "/node", verb: tokens.Admin, run: (*request).node},
		{name: "ping", method: "GET", path: "/ping", run: (*request).ping},
		{name: "healthz", method: "GET", path: "/healthz", run: (*request).ping},
		{name: "readyz", method: "GET", path: "/readyz", run: (*request).ready},
		{name: "openapi", method: "GET", path: "/openapi.json", run: (*request).openapi},
		{name: "console", method: "GET", path: "/console", run: (*request).console},
		{name: "console_file", method: "GET", path: "/console/{file}", run: (*request).console},
	}
	for i := range table {
		table[i].parts = strings.Split(table[i].path, "/")
	}
}

// find returns the route of a request and the parameters in its path, or why there is none. An empty part is valid: the empty key is a key.
func find(r *http.Request) (*route, map[string]string, error) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	var allow []string
	for i := range table {
		t := &table[i]
		named, ok := t.match(parts)
		switch {
		case !ok:
		case t.method == r.Method, r.Method == http.MethodHead && t.method == http.MethodGet && !t.stream: // net/http leaves out the body
			return t, named, nil
		default:
			if allow = append(allow, t.method); t.method == http.MethodGet && !t.stream {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	if len(allow) > 0 {
		return nil, nil, &wrongMethod{strings.Join(allow, ", ")}
	}
	return nil, nil, faultf(http.StatusNotFound, "no_such_path", "%.200q is not a path here; GET /openapi.json lists all, and the console is at /console", r.URL.Path)
}

// wrongMethod is the error for a path that exists for other methods.
type wrongMethod struct{ allow string }

func (e *wrongMethod) Error() string { return "this path is asked by " + e.allow }

// match reports whether a path matches the route, and returns the parameters in it.
func (t *route) match(parts []string) (named map[string]string, ok bool) {
	if len(parts) != len(t.parts) {
		return nil, false
	}
	for i, p := range t.parts {
		if len(p) == 0 || p[0] != '{' {
			if p != parts[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, false
		}
		if named == nil {
			named = map[string]string{}
		}
		named[strings.Trim(p, "{}")] = value
	}
	return named, true
}
