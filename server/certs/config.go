package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ServerConfig returns the configuration of a node that is dialed, from the folder of a node. It accepts nodes and clients of its cluster;
// [RoleOf] returns which one is connected. A program that wants reports about broken files uses [Load] and [Folder.Server].
func ServerConfig(dir string) (*tls.Config, error) {
	f, err := Load(dir, RoleNode, FolderOptions{})
	if err != nil {
		return nil, err
	}
	return f.Server(), nil
}

// ClientConfig returns the configuration of a client, from the folder of a client. The server must be a node of the client's cluster.
func ClientConfig(dir string) (*tls.Config, error) {
	f, err := Load(dir, RoleClient, FolderOptions{})
	if err != nil {
		return nil, err
	}
	return f.Client(), nil
}

// PeerConfig returns the configuration of a node that dials the node wantNode, from the folder of a node.
func PeerConfig(dir, wantNode string) (*tls.Config, error) {
	f, err := Load(dir, RoleNode, FolderOptions{})
	if err != nil {
		return nil, err
	}
	return f.Peer(wantNode), nil
}

// Server returns the configuration of a server. All servers of a process may share it. Only its GetConfigForClient has an effect in a
// handshake: changes to other fields of a copy are ignored.
func (f *Folder) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ClientAuth:         tls.RequireAnyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current().server, nil },
		VerifyConnection: func(tls.ConnectionState) error {
			return errors.New("certs: a handshake went past the folder's configuration")
		},
	}
}

// Anyone returns the configuration of a server that asks its clients for no certificate.
func (f *Folder) Anyone() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current().anyone, nil },
	}
}

// Client returns the configuration of a program that dials any node of its cluster.
func (f *Folder) Client() *tls.Config { return f.dialing("") }

// Peer returns the configuration of a program that dials one node. Any address may lead there.
func (f *Folder) Peer(wantNode string) *tls.Config { return f.dialing(wantNode) }

// dialing returns a configuration that verifies the server in VerifyConnection, because the identity of a node is not the host that was
// dialed. Sessions are kept until the folder changes.
func (f *Folder) dialing(want string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(cs tls.ConnectionState) error {
			return f.now.Load().accept(cs, x509.ExtKeyUsageServerAuth, want, now(f.o.Now))
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &f.current().own, nil },
		ClientSessionCache:   sessions{f},
		Time:                 f.o.Now,
	}
}

// use makes l what connections use from now on. Tickets of earlier sessions become useless: they contain the earlier certificates.
func (f *Folder) use(l *loaded, at time.Time) {
	l.cache = tls.NewLRUClientSessionCache(sessionsMax)
	l.server = &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{l.own},
		ClientAuth:   tls.RequireAnyClientCert, // VerifyConnection verifies, resumed sessions too
		VerifyConnection: func(cs tls.ConnectionState) error {
			return l.accept(cs, x509.ExtKeyUsageClientAuth, "", now(f.o.Now))
		},
		Time: f.o.Now,
	}
	l.anyone = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{l.own}, Time: f.o.Now}
	f.keys = nil
	f.now.Store(l)
	f.drawKeys(at)
}

// keysFor is how long a key of session tickets encrypts new tickets. It decrypts existing ones for the same time again.
const keysFor = 24 * time.Hour

// freshKeys draws a new ticket key when the current one is a day old.
func (f *Folder) freshKeys(at time.Time) {
	if at.Sub(f.keysAt) >= keysFor {
		f.drawKeys(at)
	}
}

func (f *Folder) drawKeys(at time.Time) {
	var k [32]byte
	_, _ = rand.Read(k[:]) // never fails
	f.keysAt, f.keys = at, append([][32]byte{k}, f.keys[:min(1, len(f.keys))]...)
	f.now.Load().server.SetSessionTicketKeys(f.keys)
	f.now.Load().anyone.SetSessionTicketKeys(f.keys)
}

// sessionsMax is the number of servers whose sessions a dialing program remembers.
const sessionsMax = 256

// sessions is the session cache of the current files.
type sessions struct{ f *Folder }

func (s sessions) Get(key string) (*tls.ClientSessionState, bool) {
	return s.f.current().cache.Get(key)
}
func (s sessions) Put(key string, cs *tls.ClientSessionState) { s.f.now.Load().cache.Put(key, cs) }

// accept reports what is wrong with the other side of a connection. A server must be a node; want names that node, or is empty for any.
func (l *loaded) accept(cs tls.ConnectionState, usage x509.ExtKeyUsage, want string, at time.Time) error {
	if len(cs.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the other side has shown no certificate", ErrName)
	}
	id, err := verify(cs.PeerCertificates[0], l.roots, l.id.Cluster, usage, at)
	switch {
	case err != nil:
		return err
	case want != "" && id.Name != want:
		return fmt.Errorf("%w: %s answers where node %q was dialed", ErrNode, id, want)
	}
	return nil
}

// verify returns the identity of a certificate if it is valid: of the cluster, within its time, signed by one of the roots.
func verify(c *x509.Certificate, roots *x509.CertPool, cluster string, usage x509.ExtKeyUsage, at time.Time) (Identity, error) {
	id, err := identityOf(c)
	switch {
	case err != nil:
		return id, err
	case id.Cluster != cluster:
		return id, fmt.Errorf("%w: %s is not of cluster %q", ErrCluster, id, cluster)
	case id.Role == RoleCA, usage == x509.ExtKeyUsageServerAuth && id.Role != RoleNode:
		return id, fmt.Errorf("%w: %s is the name of a %s", ErrRole, id, id.Role)
	case at.After(c.NotAfter):
		return id, fmt.Errorf("%w: %s ended on %s: run `bigset cert renew`", ErrExpired, id, day(c.NotAfter))
	case at.Before(c.NotBefore):
		return id, fmt.Errorf("%w: %s begins on %s: check the clocks", ErrNotYet, id, day(c.NotBefore))
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired { // of the CA, since the certificate itself is valid
		return id, fmt.Errorf("%w: the CA that signed %s is not valid now: run `bigset cert ca --rotate`, then `bigset cert renew`", ErrExpired, id)
	}
	if err != nil {
		return id, fmt.Errorf("%w: %s: %w", ErrAuthority, id, err)
	}
	return id, nil
}
