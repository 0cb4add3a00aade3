package server

import (
	"cmp"
	"fmt"

	"bigset/server/certs"
)

// certificates are the folders of certificates of a node; nil means none.
type certificates struct {
	peers   *certs.Folder // of the port for nodes and clients
	clients *certs.Folder // of the ports for clients of redis, HTTP and Riak
}

// loadCertificates reads the certificates, and takes from them the names that the configuration does not have. It comes before everything that is opened:
// a node with wrong certificates makes no store, and reaches no other member.
func (n *Node) loadCertificates() (err error) {
	if dir := n.config.ClientTLS; dir != "" {
		if n.certs.clients, err = n.loadFolder(dir, "the certificates for clients"); err != nil {
			return fmt.Errorf("%w: --client-tls: %w", ErrConfig, err)
		}
	}
	p := &n.config.Peers
	if p.TLS == "" {
		return nil
	}
	if n.certs.peers, err = n.loadFolder(p.TLS, "the certificates"); err != nil {
		return fmt.Errorf("%w: --tls: %w", ErrConfig, err)
	}
	id := n.certs.peers.Identity()
	if p.Node == "" {
		p.Node = id.Name
	}
	if id.Name != p.Node || p.Cluster != "" && p.Cluster != id.Cluster {
		return fmt.Errorf("%w: the certificate in %s is of node %s of cluster %s, and this is node %s of cluster %s", ErrConfig, p.TLS, id.Name, id.Cluster, p.Node, cmp.Or(p.Cluster, id.Cluster))
	}
	p.Cluster = id.Cluster
	return nil
}

// loadFolder reads a folder of certificates. The log calls them what.
func (n *Node) loadFolder(dir, what string) (*certs.Folder, error) {
	return certs.Load(dir, certs.RoleNode, certs.FolderOptions{Report: func(err error) {
		n.log.Error("bigset: "+what+" can't be read again, the old ones stay in use", "cause", err)
	}})
}
