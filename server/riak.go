package server

import (
	"fmt"

	"bigset/engine"
	"bigset/server/door"
	"bigset/server/riakpb"
)

// newRiak makes the door for Riak's protocol buffers. Its connections begin without TLS, as Riak's do, and switch to TLS if the client
// asks.
func (n *Node) newRiak(s *engine.Store, limits *door.Limits) (protocol, func() []engine.Metric, error) {
	c := &n.config
	o := riakpb.Options{Version: c.Version, Node: c.Peers.Node, Tokens: n.guard(c.Riak), Replicas: n.replicas,
		Options: door.Options{Limits: limits, RequestBytesMax: max(c.MaxLine, riakpb.RequestBytesLeast), IdleTime: c.Idle, Loops: c.loops(), Log: n.log}}
	var secure door.Options
	n.clientTLS(&secure)
	o.Upgrade = secure.TLS
	o.SecureOnly = secure.TLS != nil && !c.InsecureClients && !isLoopback(c.Riak)
	srv, err := riakpb.New(n.servedSets(s), n.servedFilters(s), o)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return srv, func() []engine.Metric { return riakMetrics(srv.Metrics()) }, nil
}

// riakMetrics are the figures of Riak's protocol.
func riakMetrics(m riakpb.Metrics) []engine.Metric {
	list := []engine.Metric{
		counter("riak_errors", "answers of Riak's protocol that were errors", m.Errors),
		counter("riak_failures", "of these, the errors that say that the node failed, or that the outcome is unknown", m.Failures),
		counter("riak_elements", "elements that Riak's protocol was asked to add or remove", m.Elements),
	}
	for _, r := range []struct {
		name string
		n    uint64
	}{{"delete", m.Deletes}, {"fetch", m.Fetches}, {"other", m.Others}, {"ping", m.Pings}, {"update", m.Updates}} {
		c := counter("riak_requests", "requests by Riak's protocol, by what they ask for", r.n)
		c.Label, c.Of = "request", r.name
		list = append(list, c)
	}
	list = append(list, latency("riak_fetch_seconds", "seconds that requests to fetch a set took by Riak's protocol", m.FetchTime)...)
	return append(list, latency("riak_change_seconds", "seconds that requests to update or delete a set took by Riak's protocol", m.ChangeTime)...)
}
