package server

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/engine"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/tokens"
)

// TokenDisk returns a store as the disk of a list of tokens.
func TokenDisk(s *engine.Store) tokens.Disk { return tokenDisk{s} }

type tokenDisk struct{ store *engine.Store }

func (d tokenDisk) Load() ([]byte, error) { return d.store.Replica().Meta(engine.MetaTokens) }

// Save implements tokens.Disk. Its errors say whether another node may be asked, and whether the list may be on disk.
func (d tokenDisk) Save(ctx context.Context, list []byte) error {
	if err := d.store.Failed(); err != nil {
		return fmt.Errorf("%w: %w", door.ErrUnavailable, err)
	}
	err := d.store.Replica().SetMeta(ctx, engine.MetaTokens, list)
	switch {
	case errors.Is(err, bigset.ErrFailed):
		return &door.UnknownError{Err: err}
	case errors.Is(err, bigset.ErrDiskFull): // nothing was written
		return fmt.Errorf("%w: %w", door.ErrUnavailable, err)
	}
	return err
}

// tokenKeeper returns what changes the list: the member of the cluster, or the node alone.
func (n *Node) tokenKeeper() api.AccessTokens {
	if n.member != nil {
		return n.member
	}
	return aloneTokens{n.tokens}
}

// aloneTokens is the list of a node without a cluster.
type aloneTokens struct{ list *tokens.List }

func (t aloneTokens) AccessTokens() []tokens.Entry { return t.list.Active() }

func (t aloneTokens) ChangeAccessToken(ctx context.Context, e tokens.Entry) ([]string, error) {
	return nil, t.list.Change(ctx, e)
}

// guard returns what checks the clients of a door. A door that other machines can reach is closed until tokens exist.
func (n *Node) guard(address string) *tokens.Guard {
	return &tokens.Guard{List: n.tokens, Always: !n.config.InsecureClients && !isLoopback(address)}
}

// warnInsecure logs that tokens protect little if the port for nodes and clients asks for no certificates.
func (n *Node) warnInsecure() {
	if !n.config.Peers.Insecure {
		return
	}
	needed := len(n.tokens.Entries()) > 0
	for _, address := range []string{n.config.Resp, n.config.HTTP, n.config.Riak} {
		needed = needed || address != "" && n.guard(address).Always
	}
	if needed {
		n.log.Warn("bigset: clients need access tokens, but any program on this machine reaches the sets and changes the tokens by the port for nodes and clients, which asks for no certificates: use --tls in place of --insecure",
			"listen", n.config.Peers.Listen)
	}
}

// clientTLS makes a door use TLS if certificates for it are configured.
func (n *Node) clientTLS(o *door.Options) {
	if folder := n.certs.clients; folder != nil {
		o.TLS = folder.Anyone()
	}
}

// checkDoor returns an ErrConfig if others could overhear the clients of a door and the configuration does not allow that.
func (c *Config) checkDoor(flag, address string) error {
	if address == "" || c.InsecureClients || c.ClientTLS != "" || isLoopback(address) {
		return nil
	}
	return fmt.Errorf("%w: %s %s can be reached from elsewhere, without TLS: give 127.0.0.1, or --client-tls DIR, with which clients need tokens (bigset token), or --insecure-clients in a network where all may read and change everything",
		ErrConfig, flag, address)
}
