package certs

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// IssueOptions describe the certificate that [Issue] makes.
type IssueOptions struct {
	CA    string // the CA's folder
	Role  Role   // RoleNode or RoleClient
	Name  string // 1 to 63 letters, digits, hyphens, dots and underscores; a letter or digit first
	Hosts []string
	Valid time.Duration // default ValidOther; a certificate never outlives its CA
	Force bool          // replace an existing pair, and the CAs of the folder whatever they are
	Now   func() time.Time
}

// Issue makes a key and a certificate in a folder and copies the CA's ca.crt there. It creates the folder if needed.
func Issue(dir string, o IssueOptions) (Info, error) {
	if o.Role != RoleNode && o.Role != RoleClient {
		return Info{}, fmt.Errorf("%w: %q gets no certificate", ErrRole, o.Role)
	}
	if err := errors.Join(checkName(o.Name), checkHosts(o.Hosts)); err != nil {
		return Info{}, err
	}
	a, err := openAuthority(o.CA)
	if err != nil {
		return Info{}, err
	}
	if err := makeFolder(dir); err != nil {
		return Info{}, err
	}
	if err := a.mayTrust(dir, o.Force); err != nil {
		return Info{}, err
	}
	key, err := keyFor(dir, o.Role, o.Force)
	if err != nil {
		return Info{}, err
	}
	c, err := a.sign(Identity{a.cluster, o.Role, o.Name}, o.Hosts, key.Public(), o.Valid, now(o.Now))
	if err != nil {
		return Info{}, err
	}
	if err := a.bringTrusted(dir); err != nil {
		return Info{}, err
	}
	old, err := readKeys(dir, o.Role)
	if err != nil { // they are missing, or are replaced because they can't be read
		old = nil
	}
	if err := writePair(dir, o.Role, []*x509.Certificate{c}, key, others(old, key), nil); err != nil {
		return Info{}, err
	}
	return infoOf(certFile(o.Role), c)
}

// others returns keys without the given one.
func others(keys []crypto.Signer, but crypto.Signer) (left []crypto.Signer) {
	for _, k := range keys {
		if !samePublic(k.Public(), but.Public()) {
			left = append(left, k)
		}
	}
	return left
}

// checkHosts returns an error for a host that no certificate can have.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		ok := h != "" && len(h) <= 253
		for i := 0; ok && i < len(h); i++ {
			ok = h[i] > ' ' && h[i] < 0x7f && !strings.ContainsRune("/@[]:", rune(h[i]))
		}
		if !ok && net.ParseIP(h) == nil {
			return fmt.Errorf("%w: host %q is neither a DNS name nor an IP address (without a port)", ErrName, short(h))
		}
	}
	return nil
}

// mayTrust returns an error unless ca.crt of a folder may be replaced by the authority's: it does not exist, or both have a CA in common.
func (a *authority) mayTrust(dir string, force bool) error {
	if has, err := exists(dir, caCert); err != nil || !has || force {
		return err
	}
	there, cluster, err := readTrusted(dir)
	if err != nil {
		return err
	}
	if cluster != a.cluster {
		return fmt.Errorf("%w: %s is of %q, the CA of %q", ErrCluster, filepath.Join(dir, caCert), cluster, a.cluster)
	}
	for _, c := range there {
		for _, own := range a.trusted {
			if c.Equal(own) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %s has another CA of %q", ErrExists, filepath.Join(dir, caCert), cluster)
}

// bringTrusted copies the authority's ca.crt to a folder.
func (a *authority) bringTrusted(dir string) error {
	text := encodeCerts(a.trusted...)
	if has, err := readFile(dir, caCert); err == nil && bytes.Equal(has, text) {
		return nil
	}
	return replace(dir, caCert, 0o644, text)
}

// RenewOptions say which certificates [Renew] renews.
type RenewOptions struct {
	CA     string        // the CA's folder
	Within time.Duration // renew certificates that end within this time
	Valid  time.Duration // default: the validity of the old certificate, or ValidOther if that ended with its CA
	NewKey bool          // also make a new key
	Now    func() time.Time
}

// Renewed is what [Renew] did with one certificate.
type Renewed struct {
	Info           // the certificate that is now in the folder
	Reason  string // why it was renewed, as "it …"; "" if it was not
	OldEnds time.Time
	WithCA  bool // its time was cut to end with its CA
}

// Renew renews the certificates of a folder that end soon or were signed by a CA other than the one that signs now. It also copies the CA's
// ca.crt there. Names and hosts stay. Renew refuses a certificate that no CA of the authority has signed, but not an expired one.
func Renew(dir string, o RenewOptions) (done []Renewed, err error) {
	a, err := openAuthority(o.CA)
	if err != nil {
		return nil, err
	}
	var found []pair
	for _, role := range []Role{RoleNode, RoleClient} {
		if has, err := exists(dir, certFile(role)); err != nil {
			return nil, err
		} else if !has {
			continue
		}
		p, err := a.readPair(dir, role)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s has neither %s nor %s", ErrMissing, dir, certFile(RoleNode), certFile(RoleClient))
	}
	if err := a.mayTrust(dir, false); err != nil {
		return nil, err
	}
	if err := a.bringTrusted(dir); err != nil {
		return nil, err
	}
	for _, p := range found {
		r, err := a.renew(dir, p, o)
		if err != nil {
			return done, err
		}
		done = append(done, r)
	}
	return done, nil
}

// pair is a certificate and its keys, as read.
type pair struct {
	id   Identity
	cert *x509.Certificate
	key  crypto.Signer
	keys []crypto.Signer
}

// readPair reads a pair signed by the authority or one before it.
func (a *authority) readPair(dir string, role Role) (p pair, err error) {
	path := filepath.Join(dir, certFile(role))
	text, err := readFile(dir, certFile(role))
	if err != nil {
		return p, err
	}
	all, err := parseCerts(path, text)
	if err != nil {
		return p, err
	}
	p.cert = all[0]
	if p.id, err = identityOf(p.cert); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	if p.id.Cluster != a.cluster {
		return p, fmt.Errorf("%w: %s is of %q, the CA of %q", ErrCluster, path, p.id.Cluster, a.cluster)
	}
	if p.id.Role != role {
		return p, fmt.Errorf("%w: %s is the certificate of %s", ErrRole, path, p.id)
	}
	if p.keys, err = readKeys(dir, role); err != nil {
		return p, err
	}
	if p.key = fitting(p.keys, p.cert); p.key == nil {
		return p, fmt.Errorf("%w: %s and %s", ErrKey, filepath.Join(dir, keyFile(role)), path)
	}
	for _, c := range a.trusted {
		if p.cert.CheckSignatureFrom(c) == nil {
			return p, nil
		}
	}
	return p, fmt.Errorf("%w: %s; make it again with `bigset cert %s --force`", ErrAuthority, path, role)
}

// cut reports whether a certificate ends with the CA that signed it.
func (a *authority) cut(c *x509.Certificate) bool {
	for _, ca := range a.trusted {
		if c.NotAfter.Equal(ca.NotAfter) && c.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

func (a *authority) renew(dir string, p pair, o RenewOptions) (Renewed, error) {
	at := now(o.Now)
	r := Renewed{OldEnds: p.cert.NotAfter}
	switch {
	case !p.cert.NotAfter.After(at):
		r.Reason = "had expired"
	case !p.cert.NotAfter.After(at.Add(o.Within)):
		r.Reason = "was to end soon"
	case p.cert.CheckSignatureFrom(a.cert) != nil:
		r.Reason = "was signed by another CA"
	case o.NewKey:
		r.Reason = "got a new key"
	}
	var err error
	if r.Reason == "" {
		r.Info, err = infoOf(certFile(p.id.Role), p.cert)
		return r, err
	}
	key, valid := p.key, o.Valid
	if o.NewKey {
		if key, err = newKey(); err != nil {
			return r, err
		}
	}
	if valid == 0 && !a.cut(p.cert) { // otherwise the default, which sign cuts again if it must
		valid = p.cert.NotAfter.Sub(p.cert.NotBefore) - skew
	}
	hosts := append([]string(nil), p.cert.DNSNames...)
	for _, ip := range p.cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	c, err := a.sign(p.id, hosts, key.Public(), valid, at)
	if err != nil {
		return r, err
	}
	if o.NewKey || len(p.keys) > 1 {
		err = writePair(dir, p.id.Role, []*x509.Certificate{c}, key, others(p.keys, key), nil)
	} else {
		err = replace(dir, certFile(p.id.Role), 0o644, encodeCerts(c))
	}
	if err != nil {
		return r, err
	}
	r.WithCA = c.NotAfter.Equal(a.cert.NotAfter)
	r.Info, err = infoOf(certFile(p.id.Role), c)
	return r, err
}
