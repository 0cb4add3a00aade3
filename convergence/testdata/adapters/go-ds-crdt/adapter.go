// Package dscrdt adapts github.com/ipfs/go-ds-crdt v0.6.8 for package convergence. It is a map that gossips the heads of a graph of
// operations; replicas fetch the nodes of the graph from each other.
package dscrdt

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"bigset/convergence"

	mdutils "github.com/ipfs/boxo/ipld/merkledag/test"
	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dssync "github.com/ipfs/go-datastore/sync"
	crdt "github.com/ipfs/go-ds-crdt"
	ipld "github.com/ipfs/go-ipld-format"
)

// network is the replica's Broadcaster.
type network struct {
	in  chan []byte
	out [][]byte
}

func (n *network) Broadcast(_ context.Context, b []byte) error {
	n.out = append(n.out, b)
	return nil
}

func (n *network) Next(ctx context.Context) ([]byte, error) {
	select {
	case b := <-n.in:
		return b, nil
	case <-ctx.Done():
		return nil, crdt.ErrNoMoreBroadcast
	}
}

type replica struct {
	*crdt.Datastore
	net    *network
	id     int
	n      int
	salted bool // each add has a value of its own; otherwise all are empty
}

// Share makes the graph that the replicas of a schedule share.
func Share() any { return mdutils.Mock() }

// Open returns the function that opens replicas.
func Open(salted bool) func(env convergence.Env) (convergence.Replica, error) {
	return func(env convergence.Env) (convergence.Replica, error) {
		dag, ok := env.Shared.(ipld.DAGService)
		if !ok {
			return nil, fmt.Errorf("no graph is shared")
		}
		net := &network{in: make(chan []byte, 1000)}
		o := crdt.DefaultOptions()
		o.RebroadcastInterval = 1000 * time.Hour
		store, err := crdt.New(dssync.MutexWrap(ds.NewMapDatastore()), ds.NewKey("/set"), dag, net, o)
		if err != nil {
			return nil, err
		}
		return &replica{Datastore: store, net: net, id: env.ID, salted: salted}, nil
	}
}

func key(elem string) ds.Key { return ds.NewKey("/x" + hex.EncodeToString([]byte(elem))) }

func (r *replica) Do(op convergence.Op) (e convergence.Effect, err error) {
	if op.Kind == "add" {
		value := []byte{}
		if r.n++; r.salted {
			value = fmt.Appendf(nil, "%d-%d", r.id, r.n)
		}
		err = r.Put(context.Background(), key(op.Elem), value)
	} else {
		err = r.Delete(context.Background(), key(op.Elem))
	}
	synctest.Wait()
	e.Out, r.net.out = r.net.out, nil
	return e, err
}

func (r *replica) Receive(msg []byte) (durable bool, err error) {
	r.net.in <- append([]byte(nil), msg...)
	return false, nil
}

func (r *replica) Read() (v convergence.View, err error) {
	found, err := r.Query(context.Background(), query.Query{KeysOnly: true})
	if err != nil {
		return v, err
	}
	all, err := found.Rest()
	if err != nil {
		return v, err
	}
	var elems []string
	for _, e := range all {
		elem, err := hex.DecodeString(strings.TrimPrefix(e.Key, "/x"))
		if err != nil {
			return v, err
		}
		elems = append(elems, string(elem))
	}
	return convergence.ViewOf(elems), nil
}
