package server

import (
	"bytes"
	"sort"
	"sync"
	"time"

	"bigset/engine"
	"bigset/engine/filters"
)

// listingAge is how long a list of filters serves further parts. A client that takes them more slowly gets parts of newer lists.
const listingAge = time.Second

// listing returns lists of filters in parts. The store makes a list as a whole. A list made for a first part is kept for the next parts of
// any client, so the work does not grow with the number of parts, nor the memory with the number of clients. The zero value is ready to
// use. The methods may be called by any number of goroutines.
type listing struct {
	mu     sync.Mutex
	prefix []byte
	all    []filters.Info // the filters with the prefix, by name; nil if no more parts follow
	made   time.Time
}

// part returns at most most filters after the name after whose names begin with prefix. For the first part after is empty: that part
// includes every filter created before the call.
func (l *listing) part(s *engine.Store, prefix []byte, after string, most int) ([]filters.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == "" || l.all == nil || !bytes.HasPrefix(prefix, l.prefix) || time.Since(l.made) > listingAge {
		l.all, l.made = nil, time.Now()
		all, err := s.Filters().List(prefix)
		if err != nil {
			return nil, err
		}
		l.all, l.prefix = all, bytes.Clone(prefix)
	}
	begin := sort.Search(len(l.all), func(i int) bool {
		name := l.all[i].Name
		return bytes.Compare(name, prefix) >= 0 && string(name) > after
	})
	rest := l.all[begin:]
	rest = rest[:sort.Search(len(rest), func(i int) bool { return !bytes.HasPrefix(rest[i].Name, prefix) })]
	if len(rest) <= most {
		l.all = nil
		return rest, nil
	}
	return rest[:most], nil
}
