package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"bigset"
	"bigset/engine"
	"bigset/internal/ring"
	"bigset/server/api"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/wire"
)

// Peers configures the port for nodes and clients, and the cluster. Without Peers the node is alone.
type Peers struct {
	Listen   string // address of the port; default the address of Node in Peers; on a node alone, empty means no port
	Node     string // the ID of this node
	Peers    string // all nodes of the cluster including this one: ID=HOST:PORT, separated by commas; the same order on every node
	Cluster  string // the cluster's name; default the name in the certificates, or "bigset" without certificates
	TLS      string // folder of the certificates; empty means none
	Insecure bool   // whether the port may be served without TLS; on loopback only
	Bloomd   bool   // whether a node of a cluster also serves bloomd's protocol, at Config.Address; a node alone always does
	Settings ring.Settings
	// CopyBytesPerSecond bounds the rate of copies from other nodes into this one while it is filled; 0 means no bound.
	CopyBytesPerSecond int64
}

// has reports whether the node has such a port.
func (p *Peers) has() bool { return p.Listen != "" || p.Peers != "" }

// list parses Peers.
func (p *Peers) list() (peers []cluster.Peer, err error) {
	for _, text := range strings.Split(p.Peers, ",") {
		id, address, ok := strings.Cut(strings.TrimSpace(text), "=")
		if host, port, err := net.SplitHostPort(address); !ok || id == "" || err != nil || host == "" || port == "" { // others dial it
			return nil, fmt.Errorf("%w: --peers: %q is not ID=HOST:PORT, for instance a=10.0.0.1:8690", ErrConfig, text)
		}
		peers = append(peers, cluster.Peer{ID: id, Address: address})
	}
	return peers, nil
}

// clusterNameBytesMax bounds the name of a cluster without certificates; those have a bound of their own, which is lower.
const clusterNameBytesMax = 255

// check returns an error if the fields do not fit together, and sets the fields that follow from others.
func (p *Peers) check() error {
	if p.Peers == "" && p.Settings != (ring.Settings{}) {
		return fmt.Errorf("%w: --n, --r, --w, --dw, --buckets and --slices are chosen when a cluster is created: give its --peers too", ErrConfig)
	}
	if !p.has() {
		if p.Node != "" || p.TLS != "" || p.Insecure {
			return fmt.Errorf("%w: --node, --tls and --insecure are for the port of --listen or --peers: give one of these", ErrConfig)
		}
		return nil
	}
	if len(p.Cluster) > clusterNameBytesMax {
		return fmt.Errorf("%w: --cluster has %d bytes, at most %d, which fit into what nodes say when they connect", ErrConfig, len(p.Cluster), clusterNameBytesMax)
	}
	addresses := []string{}
	if p.Peers != "" {
		peers, err := p.list()
		if err != nil {
			return err
		}
		if p.Node == "" && p.TLS != "" {
			folder, err := certs.Load(p.TLS, certs.RoleNode, certs.FolderOptions{})
			if err != nil {
				return fmt.Errorf("%w: --tls: %w", ErrConfig, err)
			}
			p.Node = folder.Identity().Name
		}
		if p.Node == "" {
			return fmt.Errorf("%w: --peers without --node: which of them is this one?", ErrConfig)
		}
		c := cluster.MembershipConfig{Node: p.Node, Peers: peers, Settings: p.Settings}
		if err := c.Check(); err != nil {
			return clusterConfigError{err}
		}
		for _, peer := range peers {
			if addresses = append(addresses, peer.Address); peer.ID == p.Node {
				p.Listen = cmp.Or(p.Listen, peer.Address)
			}
		}
	}
	if p.TLS != "" {
		if p.Insecure {
			return fmt.Errorf("%w: --tls and --insecure contradict each other", ErrConfig)
		}
		return nil
	}
	if !p.Insecure {
		return fmt.Errorf("%w: the port %s needs certificates: --tls DIR, which `bigset cert` makes; --insecure goes without, on this machine alone", ErrConfig, p.Listen)
	}
	for _, a := range append(addresses, p.Listen) {
		if !isLoopback(a) {
			return fmt.Errorf("%w: --insecure, and %s can be reached from elsewhere: give 127.0.0.1 or --tls DIR", ErrConfig, a)
		}
	}
	return nil
}

// clusterConfigError is a cluster.ErrConfig, whose text says already that the configuration is bad, as an ErrConfig.
type clusterConfigError struct{ error }

func (clusterConfigError) Is(target error) bool { return target == ErrConfig }
func (e clusterConfigError) Unwrap() error      { return e.error }

// isLoopback reports whether only this machine can reach an address. It believes localhost; elsewhere looks at what that has led to.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// elsewhere reports whether an address that isLoopback believes has led to one that is not: the hosts file decides what localhost is.
func elsewhere(address string, led net.Addr) bool {
	to, ok := led.(*net.TCPAddr)
	return isLoopback(address) && !(ok && to.IP.IsLoopback())
}

// plain returns a connection that has no TLS, and was dialed to an address of another node, unless others could overhear it.
func plain(nc net.Conn, address string) (net.Conn, error) {
	if elsewhere(address, nc.RemoteAddr()) {
		return nil, errors.Join(fmt.Errorf("server: --insecure, and %s leads to %v, which is not on this machine: give 127.0.0.1 or --tls DIR", address, nc.RemoteAddr()), nc.Close())
	}
	return nc, nil
}

// peersDoor is the port for nodes and clients.
type peersDoor struct {
	*door.Server
	member *cluster.Member // nil on a node alone
}

// NotReady returns why clients should not be sent here.
func (d *peersDoor) NotReady() []string {
	if d.member == nil {
		return nil
	}
	return d.member.NotReady()
}

// newPeers makes the door for nodes and clients.
func (n *Node) newPeers(s *engine.Store, limits *door.Limits) (protocol, func() []engine.Metric, error) {
	p := &n.config.Peers
	o := wire.ServerOptions{Options: wire.Options{Errors: cluster.Errors}, ClientErrors: api.Errors{}, Name: p.Node, Log: n.log}
	d := door.Options{Name: "peers", Limits: limits, Log: n.log}
	out := &peersDoor{}
	folder := n.certs.peers
	if folder != nil {
		d.TLS, o.Identify = folder.Server(), out.identify
	}
	p.Cluster = cmp.Or(p.Cluster, "bigset")
	if p.Peers == "" {
		o.Free = map[wire.Verb]bool{api.VerbWrite: true, api.VerbDrop: true, api.VerbMark: true} // they share syncs, and no node's request suffers
		o.Handler = clientsOnly(api.AccessTokenHandler(n.tokenKeeper(), api.FilterHandler(n.servedFilters(s), api.Handler(n.aloneSets(s)))))
	} else {
		var err error
		if out.member, err = n.newMember(s, folder); err != nil {
			return nil, nil, err
		}
		n.member = out.member
		clients, nodes := out.member.Clients(api.AccessTokenHandler(out.member, api.FilterHandler(out.member.Filters(), api.Handler(out.member.Backend())))), out.member.Handler()
		o.Hello = out.member.Hello
		o.Together = map[wire.Verb]func([]*wire.Task){api.VerbWrite: api.Writes(out.member.Backend())}
		o.Handler = func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if r.Verb.Peers() {
				return nodes(ctx, r, send)
			}
			return clients(ctx, r, send)
		}
		d.Kept = 6 * strings.Count(p.Peers, "=")
	}
	var err error
	if out.Server, err = door.NewLink(wire.NewServer(o), d); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: %w", ErrConfig, err), n.closeMember(context.Background()))
	}
	if out.member != nil {
		out.member.Start()
		return out, func() []engine.Metric { return clusterMetrics(out.member.Status()) }, nil
	}
	return out, nil, nil
}

// clientsOnly refuses verbs of nodes: a node alone has no peers.
func clientsOnly(h wire.Handler) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb.Peers() {
			return nil, fmt.Errorf("%w: this node is alone, it has no peers", peer.ErrUnavailable)
		}
		return h(ctx, r, send)
	}
}

// identify returns the role and the name of the other end, from its certificate.
func (d *peersDoor) identify(ctx context.Context, nc net.Conn) (wire.Role, string, error) {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return 0, "", errors.New("server: a connection without TLS")
	}
	if err := c.HandshakeContext(ctx); err != nil {
		d.HandshakeFailed()
		return 0, "", err
	}
	_, role, name, err := certs.RoleOf(c.ConnectionState())
	if err != nil {
		return 0, "", err
	}
	if role == certs.RoleNode {
		return wire.RoleNode, name, nil
	}
	return wire.RoleClient, name, nil
}

// newMember makes the member of the cluster.
func (n *Node) newMember(s *engine.Store, folder *certs.Folder) (*cluster.Member, error) {
	p := &n.config.Peers
	peers, err := p.list()
	if err != nil {
		return nil, err
	}
	replica, err := local.New(p.Node, s, peer.Joining)
	if err != nil {
		return nil, err
	}
	hints, err := coord.OSFolder(hintsFolder(n.config.DataDir))
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, to cluster.Peer) (net.Conn, error) {
		if folder == nil {
			nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.Address)
			if err != nil {
				return nil, err
			}
			return plain(nc, to.Address)
		}
		return (&tls.Dialer{Config: folder.Peer(to.ID)}).DialContext(ctx, "tcp", to.Address)
	}
	m, err := cluster.NewMember(cluster.Config{Node: p.Node, Name: p.Cluster, Peers: peers, Settings: p.Settings, Dial: dial, Hints: hints, Log: n.log,
		CopyBytesPerSecond: p.CopyBytesPerSecond,
		Unsynced:           n.config.SetDurability != SetsAlways, Tokens: n.tokens,
		CountApart: noKey, Limits: n.limits,
		Filters: &clusterFilters{local.NewFilters(s), n}, FilterDefaults: bigset.FilterOptions{Options: n.config.Filters, Durability: n.config.durability()}},
		replica, &clusterDisk{s})
	if err != nil {
		return nil, fmt.Errorf("server: cluster: %w", err)
	}
	return m, nil
}

// closeMember ends the member, if any. All doors must have ended before.
func (n *Node) closeMember(ctx context.Context) error {
	if n.member == nil {
		return nil
	}
	return n.member.Close(ctx)
}

// clusterDisk is a store as the disk of a member's records.
type clusterDisk struct{ store *engine.Store }

var _ cluster.Disk = (*clusterDisk)(nil)

func (d *clusterDisk) Identity() []byte { return d.store.Replica().Identity() }

func (d *clusterDisk) Failed() error { return d.store.Failed() }

// PrepareRestore prepares the store of a stopped node for being restored with its cluster at the next start: see cluster.PrepareRestore.
func PrepareRestore(ctx context.Context, s *engine.Store) (*cluster.Record, error) {
	return cluster.PrepareRestore(ctx, &clusterDisk{s})
}

// metaOf returns the place in the store of a value.
func metaOf(key string) (engine.Meta, error) {
	switch key {
	case "cluster":
		return engine.MetaCluster, nil
	case "cluster/filled":
		return engine.MetaFilled, nil
	case "cluster/filters":
		return engine.MetaFilters, nil
	}
	if page, ok := strings.CutPrefix(key, "cluster/filters/"); ok {
		if n, err := strconv.ParseUint(page, 16, 8); err == nil {
			return engine.MetaFiltersPage(byte(n)), nil
		}
	}
	return "", fmt.Errorf("server: no place for %q", key)
}

func (d *clusterDisk) Load(key string) ([]byte, error) {
	k, err := metaOf(key)
	if err != nil {
		return nil, err
	}
	return d.store.Replica().Meta(k)
}

func (d *clusterDisk) Save(ctx context.Context, key string, value []byte) error {
	k, err := metaOf(key)
	if err != nil {
		return err
	}
	return d.store.Replica().SetMeta(ctx, k, value)
}

func (d *clusterDisk) MayLack() (sets, filters bool) { return d.store.Replica().MayLack() }

func (d *clusterDisk) Certified(_ context.Context, sets, filters bool) error {
	return d.store.Replica().MadeGood(sets, filters)
}

// HasData reports whether the store contains a set, possibly empty, or a filter.
func (d *clusterDisk) HasData(ctx context.Context) (bool, error) {
	for _, err := range d.store.Sets(ctx, bigset.SetsOptions{Empty: true}) {
		return err == nil, err
	}
	list, err := d.store.Filters().List(nil)
	return err == nil && len(list) > 0, err
}

func (d *clusterDisk) Seal() (key, domain []byte) {
	k := d.store.Replica().Keyring()
	return k.Current[:], k.Domain[:]
}

// clusterFilters are the filters of this node's store with the configured limits.
type clusterFilters struct {
	*local.Filters
	n *Node
}

// MayCreate implements cluster.LocalFilters.
func (f *clusterFilters) MayCreate(name []byte, o bigset.FilterOptions, filters int) error {
	return f.n.refused(name, f.Filters.MayCreate(name, o, filters))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// clusterMetrics are the figures of a member.
func clusterMetrics(s cluster.Status) (list []engine.Metric) {
	list = append(list, gauge("cluster_epoch", "epoch of the cluster's record", s.Epoch),
		gauge("cluster_serves", "whether this member serves", bit(s.Serves)),
		gauge("cluster_sets_whole", "whether this member answers reads of sets", bit(s.Sets)),
		gauge("cluster_filters_whole", "whether this member answers reads of filters", bit(s.Filters)),
		gauge("cluster_copied_bytes", "while this member is filled: bytes that were copied so far", s.Copied),
		engine.Metric{Name: "cluster_copied_ratio", Help: "while this member is filled: how far it has come, from 0 to 1", Kind: engine.Gauge, Value: s.Portion},
		gauge("cluster_copy_limit_bytes_per_second", "bytes a second that copies into this member take at most, 0 is no bound", uint64(s.CopyLimit)))
	for _, kind := range slices.Sorted(maps.Keys(s.Events)) {
		m := counter("cluster_events", "events of the background work, by kind", s.Events[kind])
		m.Label, m.Of = "event", kind
		list = append(list, m)
	}
	return append(append(list, peerMetrics(s)...), verbMetrics(s)...)
}

// peerMetrics are the figures of each other member.
func peerMetrics(s cluster.Status) (list []engine.Metric) {
	for _, f := range []struct {
		name, help string
		kind       engine.MetricKind
		value      func(*cluster.MemberStatus) float64
	}{
		{"cluster_peer_up", "whether a member answers, by member", engine.Gauge, func(p *cluster.MemberStatus) float64 { return float64(bit(p.Up)) }},
		{"cluster_peer_hints", "hints that wait for a member", engine.Gauge, func(p *cluster.MemberStatus) float64 { return float64(p.Hints) }},
		{"cluster_peer_hint_bytes", "bytes of hints that wait for a member", engine.Gauge, func(p *cluster.MemberStatus) float64 { return float64(p.HintBytes) }},
		{"cluster_peer_hint_age_seconds", "age of the oldest hint that waits for a member", engine.Gauge, func(p *cluster.MemberStatus) float64 { return float64(p.HintSeconds) }},
		{"cluster_peer_compared_timestamp_seconds", "since when all that this member and another one hold has been compared, in seconds since 1970: 0 is never, or the other one compares",
			engine.Gauge, func(p *cluster.MemberStatus) float64 { return float64(max(0, p.Compared.Unix())) }},
		{"cluster_peer_latency_seconds", "recent average time of a call to a member", engine.Gauge, func(p *cluster.MemberStatus) float64 { return p.Milliseconds / 1000 }},
		{"cluster_peer_calls", "calls to a member", engine.Counter, func(p *cluster.MemberStatus) float64 { return float64(p.Calls) }},
		{"cluster_peer_calls_failed", "calls to a member that did not reach it, or whose answer was lost", engine.Counter, func(p *cluster.MemberStatus) float64 { return float64(p.Failed) }},
		{"cluster_peer_calls_busy", "calls to a member that it had no room for", engine.Counter, func(p *cluster.MemberStatus) float64 { return float64(p.Busy) }},
	} {
		for i := range s.Members {
			if p := &s.Members[i]; p.ID != s.Node {
				list = append(list, engine.Metric{Name: f.name, Help: f.help, Kind: f.kind, Label: "peer", Of: p.ID, Value: f.value(p)})
			}
		}
	}
	return list
}

// verbMetrics are the figures of each other member by verb.
func verbMetrics(s cluster.Status) (list []engine.Metric) {
	for _, f := range []struct {
		name, help string
		value      func(*cluster.VerbCount) float64
	}{
		{"cluster_peer_verb_calls", "calls to a member, by verb", func(v *cluster.VerbCount) float64 { return float64(v.Calls) }},
		{"cluster_peer_verb_failed", "of these, the calls that did not reach it, or whose answer was lost", func(v *cluster.VerbCount) float64 { return float64(v.Failed) }},
		{"cluster_peer_verb_busy", "of these, the calls that it had no room for", func(v *cluster.VerbCount) float64 { return float64(v.Busy) }},
		{"cluster_peer_verb_seconds", "total time of the other calls to a member, by verb", func(v *cluster.VerbCount) float64 { return v.Seconds }},
	} {
		for i := range s.Members {
			p := &s.Members[i]
			for k := range p.Verbs {
				v := &p.Verbs[k]
				list = append(list, engine.Metric{Name: f.name, Help: f.help, Kind: engine.Counter, Label: "peer", Of: p.ID, SubLabel: "verb", SubOf: v.Verb, Value: f.value(v)})
			}
		}
	}
	return list
}

// durabilityInCluster is the default durability of marks in a cluster: a crash of a member must not undo a mark it has acknowledged.
const durabilityInCluster = bigset.FilterLog
