package rest

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"bigset/server/door"
	"bigset/server/tokens"
)

//go:embed openapi.json
var openapi []byte

//go:embed console
var consoleFiles embed.FS

// ping answers that the process runs.
func (q *request) ping() error {
	return q.send(http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
}

// ready answers whether clients should be sent to this node and, if not, the reasons, one a line.
func (q *request) ready() error {
	reasons, warnings := q.s.opt.About.state(false) // a client needs no token to ask
	if len(reasons) > 0 {
		return q.send(http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte(strings.Join(reasons, "\n")+"\n"))
	}
	return q.send(http.StatusOK, "text/plain; charset=utf-8", []byte(strings.Join(append([]string{"ready"}, warnings...), "\n")+"\n"))
}

func (a *About) state(names bool) (reasons, warnings []string) {
	if a.NotReady != nil {
		reasons = a.NotReady(names)
	}
	if a.Warnings != nil {
		warnings = a.Warnings(names)
	}
	return reasons, warnings
}

// openapi answers with the description of all paths.
func (q *request) openapi() error { return q.send(http.StatusOK, typeJSON, openapi) }

// figure is a figure of the node.
type figure struct {
	Name  string  `json:"name"`
	Label string  `json:"label,omitempty"`
	Of    string  `json:"of,omitempty"`
	Value float64 `json:"value"`
}

// node answers with the information about the node for people and monitoring.
func (q *request) node() error {
	about := &q.s.opt.About
	out := struct {
		Version  string                  `json:"version"`
		Node     string                  `json:"node,omitempty"`
		Seconds  int64                   `json:"seconds"` // since the start
		Ready    bool                    `json:"ready"`
		Reasons  []string                `json:"reasons,omitempty"` // why it is not ready
		Warnings []string                `json:"warnings,omitempty"`
		Cluster  any                     `json:"cluster,omitempty"`
		Requests map[string]door.Latency `json:"requests"` // of this door, by kind
		Figures  []figure                `json:"figures"`
	}{Version: q.s.opt.Version, Node: q.s.opt.Node, Seconds: int64(time.Since(q.s.started) / time.Second), Requests: q.s.Metrics().Requests, Figures: []figure{}}
	out.Reasons, out.Warnings = about.state(q.grant.May(tokens.Read, nil)) // admin permits to see no name
	out.Ready = len(out.Reasons) == 0
	if about.Members != nil {
		out.Cluster = about.Members()
	}
	if about.Figures != nil {
		if err := about.Figures(func(name, label, of string, value float64) {
			out.Figures = append(out.Figures, figure{name, label, of, value})
		}); err != nil {
			return err
		}
	}
	return q.json(http.StatusOK, &out)
}

// contentTypes are the content types of the console's files.
var contentTypes = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// policy forbids a browser to load anything from elsewhere, and to show the console within another page.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// console answers with the files of the console. They are not secret: they show only what the user's token may see.
func (q *request) console() error {
	name := q.path["file"]
	if name == "" {
		name = "index.html"
	}
	kind, ok := contentTypes[path.Ext(name)]
	b, err := fs.ReadFile(consoleFiles, "console/"+name)
	if !ok || err != nil || strings.Contains(name, "/") {
		return faultf(http.StatusNotFound, "no_such_path", "the console has no file %.100q", name)
	}
	h := q.w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	return q.send(http.StatusOK, kind, b)
}
