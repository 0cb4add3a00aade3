package certs

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// The default validity of certificates.
const (
	ValidCA    = 10 * 365 * 24 * time.Hour
	ValidOther = 365 * 24 * time.Hour
)

// skew is how far the start of a certificate lies in the past, for machines whose clocks are slow.
const skew = time.Hour

// CAOptions describe the CA that [MakeCA] makes.
type CAOptions struct {
	Cluster string        // 1 to 63 lower-case letters, digits, hyphens and dots, like a host name
	Valid   time.Duration // default ValidCA
	Force   bool          // replace an existing CA; all certificates that it signed become useless
	Now     func() time.Time
}

// MakeCA makes the CA of a new cluster in a folder. It creates the folder if needed.
func MakeCA(dir string, o CAOptions) error {
	if err := checkCluster(o.Cluster); err != nil {
		return err
	}
	if err := makeFolder(dir); err != nil {
		return err
	}
	key, err := keyFor(dir, RoleCA, o.Force)
	if err != nil {
		return err
	}
	c, err := selfSigned(o.Cluster, key, o.Valid, now(o.Now))
	if err != nil {
		return err
	}
	old, err := readKeys(dir, RoleCA)
	if err != nil { // no keys exist, or they are replaced because they can't be read
		old = nil
	}
	return writePair(dir, RoleCA, []*x509.Certificate{c}, key, others(old, key), nil)
}

// RotateCA adds a CA to those of a folder and returns its certificate. The new CA signs from now on. The others stay trusted until
// [RetireCA]. Every folder of the cluster needs the new ca.crt before the first certificate is signed by the new CA.
func RotateCA(dir string, valid time.Duration, clock func() time.Time) (Info, error) {
	a, err := openAuthority(dir)
	if err != nil {
		return Info{}, err
	}
	key, err := newKey()
	if err != nil {
		return Info{}, err
	}
	c, err := selfSigned(a.cluster, key, valid, now(clock))
	if err != nil {
		return Info{}, err
	}
	if err := writePair(dir, RoleCA, append([]*x509.Certificate{c}, a.trusted...), key, a.keys, a.keys); err != nil {
		return Info{}, err
	}
	return infoOf(caCert, c)
}

// RetireCA removes all CAs of a folder except the one that signs, and returns what it removed. Certificates signed by the removed CAs are
// refused wherever the new ca.crt arrives.
func RetireCA(dir string) (removed []Info, err error) {
	a, err := openAuthority(dir)
	if err != nil {
		return nil, err
	}
	for _, c := range a.trusted {
		if c.Equal(a.cert) {
			continue
		}
		info, err := infoOf(caCert, c)
		if err != nil {
			return nil, err
		}
		removed = append(removed, info)
	}
	return removed, writePair(dir, RoleCA, []*x509.Certificate{a.cert}, a.key, others(a.keys, a.key), nil)
}

// authority is the folder of a CA.
type authority struct {
	cluster string
	trusted []*x509.Certificate // as in ca.crt
	keys    []crypto.Signer     // as in ca.key
	cert    *x509.Certificate   // the one that signs: the first of trusted whose key is in the folder
	key     crypto.Signer
}

func openAuthority(dir string) (*authority, error) {
	a := &authority{}
	var err error
	if a.trusted, a.cluster, err = readTrusted(dir); err != nil {
		return nil, err
	}
	if a.keys, err = readKeys(dir, RoleCA); err != nil {
		return nil, err
	}
	for _, c := range a.trusted {
		if a.key = fitting(a.keys, c); a.key != nil {
			a.cert = c
			return a, nil
		}
	}
	return nil, fmt.Errorf("%w: %s and %s", ErrKey, filepath.Join(dir, caKey), filepath.Join(dir, caCert))
}

// readTrusted returns the CAs of a folder and the cluster that they name.
func readTrusted(dir string) (all []*x509.Certificate, cluster string, err error) {
	text, err := readFile(dir, caCert)
	if err != nil {
		return nil, "", err
	}
	return parseTrusted(filepath.Join(dir, caCert), text)
}

func parseTrusted(path string, text []byte) (all []*x509.Certificate, cluster string, err error) {
	if all, err = parseCerts(path, text); err != nil {
		return nil, "", err
	}
	for _, c := range all {
		id, err := identityOf(c)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s: %w", path, err)
		case id.Role != RoleCA || !c.IsCA:
			return nil, "", fmt.Errorf("%w: %s has the certificate of %s, which is not a CA", ErrRole, path, id)
		case cluster != "" && id.Cluster != cluster:
			return nil, "", fmt.Errorf("%w: %s has CAs of %q and of %q", ErrCluster, path, cluster, id.Cluster)
		}
		cluster = id.Cluster
	}
	return all, cluster, nil
}

func readKeys(dir string, role Role) ([]crypto.Signer, error) {
	if err := checkPrivate(dir, keyFile(role)); err != nil {
		return nil, err
	}
	text, err := readFile(dir, keyFile(role))
	if err != nil {
		return nil, err
	}
	return parseKeys(filepath.Join(dir, keyFile(role)), text)
}

// keyFor returns a key for a new pair. If the folder has a key but no certificate, which a crash may leave, the key is kept.
func keyFor(dir string, role Role, force bool) (crypto.Signer, error) {
	if force {
		return newKey()
	}
	if has, err := exists(dir, certFile(role)); err != nil || has {
		if err == nil {
			err = fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, certFile(role)))
		}
		return nil, err
	}
	if has, err := exists(dir, keyFile(role)); err != nil || !has {
		if err != nil {
			return nil, err
		}
		return newKey()
	}
	keys, err := readKeys(dir, role)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	return nil
}

func now(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}

// sign makes a certificate of an identity.
func (a *authority) sign(id Identity, hosts []string, public crypto.PublicKey, valid time.Duration, now time.Time) (*x509.Certificate, error) {
	if now.After(a.cert.NotAfter) {
		return nil, fmt.Errorf("%w: the CA of %q ended on %s: run `bigset cert ca --rotate`", ErrExpired, a.cluster, day(a.cert.NotAfter))
	}
	t, err := template(id, valid, ValidOther, now)
	if err != nil {
		return nil, err
	}
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter // it would end with its CA anyway
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if id.Role == RoleNode {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return create(t, a.cert, public, a.key)
}

func selfSigned(cluster string, key crypto.Signer, valid time.Duration, now time.Time) (*x509.Certificate, error) {
	t, err := template(Identity{Cluster: cluster, Role: RoleCA}, valid, ValidCA, now)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign
	return create(t, t, key.Public(), key)
}

func template(id Identity, valid, byDefault time.Duration, now time.Time) (*x509.Certificate, error) {
	if valid == 0 {
		valid = byDefault
	}
	if valid < time.Minute {
		return nil, fmt.Errorf("%w: a certificate is valid for a minute at least, not %v", ErrForm, valid)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	uri, err := url.Parse(id.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	common := id.Name // for people only; no program reads it
	if id.Role == RoleCA {
		common = id.Cluster + " CA"
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{Organization: []string{"bigset " + id.Cluster}, CommonName: common},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(valid),
		URIs:         []*url.URL{uri},
	}, nil
}

func create(t, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return c, nil
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
