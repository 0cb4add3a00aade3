package server

import (
	"bytes"
	"sort"
	"sync"
	"time"

	"bigset/engine"
	"bigset/engine/filters"
)

// listingAge is how long a list of filters is good for further parts of it. A client that takes them more slowly has them from newer ones.
const listingAge = time.Second

// listing gives lists of filters in parts. The store makes a list as a whole: one that was made for a first part is kept for the next ones,
// of any client, so that the work does not grow with the number of parts, and the memory not with the number of clients. The zero value is
// ready. Its methods may be called by any number of goroutines.
type listing struct {
	mu     sync.Mutex
	prefix []byte
	all    []filters.Info // those with the prefix, by name; nil where no more parts are to come
	made   time.Time
}

// part returns the filters behind after whose names begin with prefix, at most so many. Of a first part, after is empty: it knows of all that
// was done before.
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
