package bloomd

import (
	"fmt"

	"bigset/server/door"
)

// lineBytesLeast holds every line without keys, such as create with the longest name and all options.
const lineBytesLeast = 1024

// Server answers bloomd's protocol on any number of listeners, with the filters of one node. Its methods may be called by any number of
// goroutines.
// goroutines.
type Server struct {
	*door.Server
	filters  door.Filters
	counters counters
	failures *door.Failures
}

// New returns a server, which does nothing before Serve is called. A request, in the sense of the options, is a line with its line feed.
// Their Name defaults to "bloomd".
func New(filters door.Filters, o door.Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "bloomd"
	}
	if o.RequestBytesMax != 0 && o.RequestBytesMax < lineBytesLeast {
		return nil, fmt.Errorf("%s: longest line of %d bytes, at least %d are needed", o.Name, o.RequestBytesMax, lineBytesLeast)
	}
	s := &Server{filters: filters, failures: door.NewFailures(o.Log, o.Name+": request failed", "command", "filter")}
	var err error
	s.Server, err = door.New(func(c *door.Conn) door.Handler { return &conn{Conn: c, s: s} }, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}
