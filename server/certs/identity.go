package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

// Role is what a certificate permits its owner to do.
type Role string

// The roles. They are written in certificates.
const (
	RoleCA     Role = "ca"     // signs the others
	RoleNode   Role = "node"   // is dialed and dials peers
	RoleClient Role = "client" // dials
)

// NameBytesMax is the longest name of a cluster, a node or a client, in bytes.
const NameBytesMax = 63

const scheme = "bigset://"

// Identity is the owner of a certificate. Name is empty for a CA.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// String returns the SAN URI of the identity. parseIdentity inverts it.
func (id Identity) String() string {
	if id.Role == RoleCA {
		return scheme + id.Cluster + "/" + string(RoleCA)
	}
	return scheme + id.Cluster + "/" + string(id.Role) + "/" + id.Name
}

// parseIdentity parses a SAN URI. Each identity has one form; for any other form the error wraps [ErrName].
func parseIdentity(uri string) (Identity, error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok {
		return Identity{}, badURI(uri)
	}
	parts := strings.SplitN(rest, "/", 4)
	id := Identity{Cluster: parts[0]}
	if checkCluster(id.Cluster) != nil || len(parts) < 2 || len(parts) > 3 {
		return Identity{}, badURI(uri)
	}
	switch id.Role = Role(parts[1]); id.Role {
	case RoleCA:
		ok = len(parts) == 2
	case RoleNode, RoleClient:
		ok = len(parts) == 3 && checkName(parts[2]) == nil
	default:
		ok = false
	}
	if !ok {
		return Identity{}, badURI(uri)
	}
	if len(parts) == 3 {
		id.Name = parts[2]
	}
	return id, nil
}

// badURI returns an error that names a foreign URI, cut to a length fit for a log.
func badURI(uri string) error {
	if len(uri) > 2*NameBytesMax {
		uri = uri[:2*NameBytesMax] + "…"
	}
	return fmt.Errorf("%w: %q is none of bigset://CLUSTER/node/ID, bigset://CLUSTER/client/NAME, bigset://CLUSTER/ca", ErrName, uri)
}

// checkCluster reports what is wrong with the name of a cluster. It must have 1 to 63 lower-case letters, digits, hyphens and dots. It must
// begin and end with a letter or a digit, and so must each part between dots. (The name is the host of a URI, which is not case-sensitive.)
func checkCluster(name string) error {
	ok := len(name) <= NameBytesMax
	for label := range strings.SplitSeq(name, ".") {
		ok = ok && label != "" && label[0] != '-' && label[len(label)-1] != '-'
	}
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.'
	}
	if !ok {
		return fmt.Errorf("%w: cluster %q: it has 1 to %d lower-case letters, digits, hyphens and dots, like a host name", ErrName, short(name), NameBytesMax)
	}
	return nil
}

// checkName reports what is wrong with the name of a node or a client. It must have 1 to 63 letters, digits, hyphens, dots and underscores,
// and begin with a letter or a digit.
func checkName(name string) error {
	ok := name != "" && len(name) <= NameBytesMax
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		inner := (c == '-' || c == '.' || c == '_') && i > 0
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || inner
	}
	if !ok {
		return fmt.Errorf("%w: %q: it has 1 to %d letters, digits, hyphens, dots and underscores, and begins with a letter or a digit",
			ErrName, short(name), NameBytesMax)
	}
	return nil
}

func short(s string) string { return s[:min(len(s), 2*NameBytesMax)] }

// identityOf returns the identity in a certificate. A certificate must have exactly one of our URIs.
func identityOf(c *x509.Certificate) (id Identity, err error) {
	found := 0
	for _, u := range c.URIs {
		if u.Scheme != "bigset" {
			continue
		}
		if id, err = parseIdentity(u.String()); err != nil {
			return Identity{}, err
		}
		found++
	}
	if found != 1 {
		return Identity{}, fmt.Errorf("%w: a certificate has %d names that begin with bigset://, and must have one", ErrName, found)
	}
	return id, nil
}

// RoleOf returns the identity of the other end of a connection. The connection must have been made with a configuration of this package,
// which has verified the certificate; RoleOf only reads its name.
func RoleOf(cs tls.ConnectionState) (cluster string, role Role, name string, err error) {
	if !cs.HandshakeComplete || len(cs.PeerCertificates) == 0 {
		return "", "", "", fmt.Errorf("%w: the other side has shown no certificate", ErrName)
	}
	id, err := identityOf(cs.PeerCertificates[0])
	if err == nil && id.Role == RoleCA {
		err = fmt.Errorf("%w: a CA makes no connections", ErrRole)
	}
	if err != nil {
		return "", "", "", err
	}
	return id.Cluster, id.Role, id.Name, nil
}
