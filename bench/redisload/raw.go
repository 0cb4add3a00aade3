package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/resp"
)

// raw is what Pebble alone can do by a node's door: an add is a Get and a Set of one key, which has the bytes of a node's, and a question a Get. Clients that ask at the same time
// share a batch and a sync, as a node's do. It knows no clock, no dots and no removes.
//
// Pebble's Get opens the tables that may hold the key, one after the other, and closes them, each time. If seeks is set, all keys of a call are sought by one iterator instead, which
// opens each table once: with bloom filters, as a node's.
type raw struct {
	door.Backend // nil: only Write, Subset and Remote are served
	db           *pebble.DB
	write        *pebble.WriteOptions
	seeks        bool
}

const (
	memTableBytes = 64 << 20
	cacheBytes    = 64 << 20 // the default of a store
)

// key returns the key of an element. Its dot is always the same, so that it can be found by Get.
func key(set, element []byte) []byte {
	return keyscheme.NewPrefix(set).AppendElement(nil, element, clock.Dot{Actor: "raw", Counter: 1}, keyscheme.OpAdd)
}

// has reports for each of some elements whether it has been added.
func (r *raw) has(set []byte, n int, element func(i int) []byte) (has []bool, keys [][]byte, err error) {
	has, keys = make([]bool, n), make([][]byte, n)
	for i := range keys {
		keys[i] = key(set, element(i))
	}
	if r.seeks {
		return has, keys, r.seek(keys, has)
	}
	for i, k := range keys {
		_, closer, err := r.db.Get(k)
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			continue
		case err != nil:
			return nil, nil, err
		}
		has[i] = true
		if err := closer.Close(); err != nil {
			return nil, nil, err
		}
	}
	return has, keys, nil
}

// seek looks keys up by one iterator.
func (r *raw) seek(keys [][]byte, has []bool) (err error) {
	it, err := r.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for i, k := range keys {
		has[i] = it.SeekPrefixGE(k) && bytes.Equal(it.Key(), k)
		if err := it.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Write adds elements. Of two adds of one element in one batch, both are changes.
func (r *raw) Write(_ context.Context, w door.Write) (done door.Result, err error) {
	for i := range w.Ops {
		if w.Ops[i].Kind != keyscheme.OpAdd {
			return done, fmt.Errorf("%w: raw Pebble only adds", bigset.ErrRequest)
		}
	}
	changed, keys, err := r.has(w.Set, len(w.Ops), func(i int) []byte { return w.Ops[i].Element })
	if err != nil {
		return done, err
	}
	batch := r.db.NewBatch()
	for i, k := range keys {
		changed[i] = !changed[i]
		if err := batch.Set(k, keyscheme.ResolvedValue, nil); err != nil {
			return done, errors.Join(err, batch.Close())
		}
	}
	return door.Result{Changed: changed, Acked: 1}, errors.Join(r.db.Apply(batch, r.write), batch.Close())
}

// Subset looks elements up.
func (r *raw) Subset(_ context.Context, s door.Subset) ([]door.Presence, error) {
	has, _, err := r.has(s.Set, len(s.Elements), func(i int) []byte { return s.Elements[i] })
	found := make([]door.Presence, len(has))
	for i := range has {
		found[i].Present = has[i]
	}
	return found, err
}

// Remote implements door.Backend.
func (*raw) Remote() bool { return false }

// noFilters is a node without filters.
type noFilters struct{ door.Filters }

func (noFilters) Find(context.Context, []byte) (door.Filter, error) { return nil, bigset.ErrNoFilter }
func (noFilters) FindsWait() bool                                   { return false }
func (noFilters) List(context.Context, door.FilterListing) ([]door.FilterInfo, error) {
	return nil, nil
}

// serveRaw serves until it is interrupted.
func serveRaw(addr, dir, sync string, seeks bool) error {
	write := map[string]*pebble.WriteOptions{"always": pebble.Sync, "everysec": pebble.NoSync, "no": pebble.NoSync}[sync]
	if write == nil {
		return errUsage
	}
	o := pebbletool.BaselineOptions(memTableBytes, engine.LSM{})
	o.Cache = pebbletool.BaselineCache(memTableBytes, cacheBytes)
	defer o.Cache.Unref()
	db, err := pebble.Open(dir, o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var failed atomic.Pointer[error]
	ticks := make(chan struct{})
	go func() {
		defer close(ticks)
		if sync == "everysec" {
			syncEverySecond(ctx, db, &failed)
		}
	}()
	server, err := resp.New(&raw{db: db, write: write, seeks: seeks}, noFilters{}, resp.Options{Durability: sync})
	if err == nil {
		err = serve(ctx, server, addr)
	}
	stop()
	<-ticks
	if p := failed.Load(); p != nil {
		err = errors.Join(err, *p)
	}
	return errors.Join(err, db.Close())
}

func syncEverySecond(ctx context.Context, db *pebble.DB, failed *atomic.Pointer[error]) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := db.LogData(nil, pebble.Sync); err != nil {
				failed.Store(&err)
				return
			}
		}
	}
}

func serve(ctx context.Context, s *resp.Server, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln)
}
