package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"bigset/engine"
	"bigset/server/door"
	"bigset/server/rest"
)

// newHTTP makes the door for HTTP.
func (n *Node) newHTTP(s *engine.Store, limits *door.Limits) (protocol, func() []engine.Metric, error) {
	c := &n.config
	o := rest.Options{Version: c.Version, Node: c.Peers.Node, Hosts: n.hosts(), Tokens: n.guard(c.HTTP), Replicas: n.replicas,
		Options: door.Options{Limits: limits, RequestBytesMax: max(c.MaxLine, rest.RequestBytesLeast), IdleTime: c.Idle, Log: n.log},
		About: rest.About{NotReady: n.NotReady, Warnings: n.Warnings, Figures: n.eachFigure, Here: func(ctx context.Context, set []byte) (any, error) {
			return setHere(ctx, s, set)
		}}}
	if n.member != nil {
		o.Learned = n.entered
		o.About.Members = func() any { return n.member.Status() }
	}
	n.clientTLS(&o.Options)
	srv, err := rest.New(n.servedSets(s), n.servedFilters(s), o)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return srv, func() []engine.Metric { return httpMetrics(srv.Metrics()) }, nil
}

// replicas returns the numbers of replicas.
func (n *Node) replicas() door.Replicas {
	if n.member == nil {
		return door.Replicas{N: 1, R: 1, W: 1}
	}
	if v := n.member.View(); v.Record != nil {
		s := v.Record.Settings
		return door.Replicas{N: s.N, R: s.R, W: s.W}
	}
	return door.Replicas{} // the backend reports what is missing
}

// eachFigure calls f for every figure of /metrics.
func (n *Node) eachFigure(f func(name, label, of string, value float64)) error {
	s := n.store.Load()
	if s == nil {
		return fmt.Errorf("%w: %s", door.ErrUnavailable, starting)
	}
	figures, err := n.metrics(s)
	if err != nil {
		return err
	}
	for m := range figures {
		label, of := m.Label, m.Of
		if m.SubLabel != "" {
			label, of = label+","+m.SubLabel, of+","+m.SubOf
		}
		f(m.Name, label, of, m.Value)
	}
	return nil
}

// here is what the disk of this node contains of a set.
type here struct {
	Live       uint64   `json:"live"`
	Unresolved int64    `json:"open_keys"`
	HeapBytes  int64    `json:"heap_bytes"` // of the clock and the tombstone in memory
	Keys       uint64   `json:"keys"`       // in tables
	Dead       uint64   `json:"keys_dead"`  // a lower bound, of Keys
	ByLevel    []uint64 `json:"keys_by_level"`
	Bytes      uint64   `json:"table_bytes"`
}

func setHere(ctx context.Context, s *engine.Store, set []byte) (*here, error) {
	st, err := s.SetStats(ctx, set)
	if err != nil {
		return nil, err
	}
	return &here{st.Live, st.Unresolved, st.BytesHeap, st.Keys, st.KeysDead, st.KeysByLevel, st.BytesTables}, nil
}

// httpMetrics are the figures of HTTP.
func httpMetrics(m rest.Metrics) []engine.Metric {
	list := []engine.Metric{
		counter("http_errors", "answers by HTTP that were errors", m.Errors),
		counter("http_failures", "of these, the errors that say that the node failed, or that the outcome is unknown", m.Failures),
	}
	names := slices.Sorted(maps.Keys(m.Requests))
	for _, name := range names {
		if l := m.Requests[name]; l.Count > 0 {
			c := counter("http_requests", "requests by HTTP, by what they ask for", l.Count)
			c.Label, c.Of = "request", name
			list = append(list, c)
		}
	}
	for _, name := range names {
		if l := m.Requests[name]; l.Count > 0 {
			c := counter("http_request_seconds", "seconds that requests by HTTP took, by what they ask for", uint64(0))
			c.Label, c.Of, c.Value = "request", name, l.Seconds
			list = append(list, c)
		}
	}
	return list
}
