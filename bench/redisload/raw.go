package main

import (
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
type raw struct {
	door.Backend // nil: only Write, Subset and Remote are served
	db           *pebble.DB
	write        *pebble.WriteOptions
}

const (
	memTableBytes = 64 << 20
	cacheBytes    = 256 << 20
)

// key returns the key of an element. Its dot is always the same, so that it can be found by Get.
func key(set, element []byte) []byte {
	return keyscheme.NewPrefix(set).AppendElement(nil, element, clock.Dot{Actor: "raw", Counter: 1}, keyscheme.OpAdd)
}

func (r *raw) has(key []byte) (bool, error) {
	_, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// Write adds elements.
func (r *raw) Write(_ context.Context, w door.Write) (door.Written, error) {
	batch := r.db.NewBatch()
	defer batch.Close()
	changed := make([]bool, len(w.Ops))
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != keyscheme.OpAdd {
			return door.Written{}, fmt.Errorf("%w: raw Pebble only adds", bigset.ErrRequest)
		}
		k := key(w.Set, op.Element)
		has, err := r.has(k)
		if err != nil {
			return door.Written{}, err
		}
		changed[i] = !has // of two adds in one batch both are
		if err := batch.Set(k, keyscheme.ResolvedValue, nil); err != nil {
			return door.Written{}, err
		}
	}
	return door.Written{Changed: changed, Acked: 1}, batch.Commit(r.write)
}

// Subset looks elements up.
func (r *raw) Subset(_ context.Context, s door.Subset) ([]door.Presence, error) {
	found := make([]door.Presence, len(s.Elements))
	for i, e := range s.Elements {
		has, err := r.has(key(s.Set, e))
		if err != nil {
			return nil, err
		}
		found[i].Present = has
	}
	return found, nil
}

// Remote implements door.Backend.
func (*raw) Remote() bool { return false }

// noFilters is a node without filters.
type noFilters struct{ door.Filters }

func (noFilters) Find(context.Context, []byte) (door.Filter, error) { return nil, bigset.ErrNoFilter }
func (noFilters) FindsWait() bool                                   { return false }

// serveRaw serves until it is interrupted.
func serveRaw(addr, dir, sync string) error {
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
	server, err := resp.New(&raw{db: db, write: write}, noFilters{}, resp.Options{Durability: sync})
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
