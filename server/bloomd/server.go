package bloomd

import (
	"fmt"

	"bigset/server/door"
)

// lineBytesLeast holds every line but those of key commands: create with the longest name and all its options.
const lineBytesLeast = 1024

// Server answers bloomd's protocol on any number of listeners, with the filters of one node. Its methods may be called by any number of
// goroutines.
type Server struct {
	*door.Server
	filters  door.Filters
	counters counters
	failures *door.Failures
}

// New returns a server, which does nothing before Serve is called. A request of the options is a line with its line feed; their Name is
// "bloomd" where it is empty.
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
