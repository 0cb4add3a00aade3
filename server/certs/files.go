package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// The names of files in a folder.
const (
	caCert = "ca.crt"
	caKey  = "ca.key"
)

func certFile(r Role) string { return string(r) + ".crt" }
func keyFile(r Role) string  { return string(r) + ".key" }

// fileBytesMax bounds how much of one file is read; a bundle of 16 CAs takes about 12 KiB.
const fileBytesMax = 1 << 20

// The types of PEM blocks.
const (
	pemCert = "CERTIFICATE"
	pemKey  = "PRIVATE KEY" // PKCS #8
)

// readFile returns a file of a folder.
func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrMissing, path)
	}
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	if len(b) > fileBytesMax {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrForm, path, fileBytesMax)
	}
	return b, nil
}

// checkPrivate returns an error if others than the owner may read a key file.
func checkPrivate(dir, name string) error {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrMissing, path)
	}
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%w: %s has %#o: chmod 600 %s", ErrTooOpen, path, mode, path)
	}
	return nil
}

// blocks splits PEM text into the contents of its blocks, which must all be of one type.
func blocks(path, kind string, text []byte) (all [][]byte, err error) {
	for {
		b, rest := pem.Decode(text)
		if b == nil {
			break
		}
		if b.Type != kind {
			return nil, fmt.Errorf("%w: %s has a block %q, want %q", ErrForm, path, short(b.Type), kind)
		}
		all, text = append(all, b.Bytes), rest
	}
	if len(bytes.TrimSpace(text)) > 0 || len(all) == 0 {
		return nil, fmt.Errorf("%w: %s is not PEM blocks %q, from its beginning to its end", ErrForm, path, kind)
	}
	return all, nil
}

// parseCerts reads the certificates of a file, at least one.
func parseCerts(path string, text []byte) (all []*x509.Certificate, err error) {
	ders, err := blocks(path, pemCert, text)
	if err != nil {
		return nil, err
	}
	for _, der := range ders {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrForm, path, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// parseKeys reads the keys of a file, at least one.
func parseKeys(path string, text []byte) (all []crypto.Signer, err error) {
	ders, err := blocks(path, pemKey, text)
	if err != nil {
		return nil, err
	}
	for _, der := range ders {
		k, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrForm, path, err)
		}
		s, ok := k.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("%w: %s has a key that can't sign", ErrForm, path)
		}
		all = append(all, s)
	}
	return all, nil
}

// fitting returns the key that belongs to a certificate, or nil.
func fitting(keys []crypto.Signer, c *x509.Certificate) crypto.Signer {
	for _, k := range keys {
		if samePublic(k.Public(), c.PublicKey) {
			return k
		}
	}
	return nil
}

func samePublic(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// newKey makes a key. P-256 has assembly in Go on amd64 and arm64, and every other program supports it.
func newKey() (crypto.Signer, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return k, nil
}

func encodeKeys(keys ...crypto.Signer) (text []byte, err error) {
	for _, k := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			return nil, fmt.Errorf("certs: %w", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})...)
	}
	return text, nil
}

func encodeCerts(certs ...*x509.Certificate) (text []byte) {
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Raw})...)
	}
	return text
}

// exists reports whether a folder contains a file, of any kind.
func exists(dir, name string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("certs: %w", err)
	}
	return true, nil
}

// replace replaces a file in one step: a crash leaves the old file or the new one. The file is on disk when replace returns.
func replace(dir, name string, mode fs.FileMode, text []byte) error {
	path := filepath.Join(dir, name)
	beside := path + ".new"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a crash
		return fmt.Errorf("certs: %w", err)
	}
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("certs: write %s: %w", path, err)
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows can't sync a folder
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writePair replaces a certificate and its key. old are the keys of the certificates now in the file, keep are those that stay. It first
// writes the new key beside the old ones, then the certificates, and then removes the old keys: at each moment a key fits.
func writePair(dir string, role Role, certs []*x509.Certificate, key crypto.Signer, old, keep []crypto.Signer) error {
	both, err := encodeKeys(append([]crypto.Signer{key}, old...)...)
	if err != nil {
		return err
	}
	last, err := encodeKeys(append([]crypto.Signer{key}, keep...)...)
	if err != nil {
		return err
	}
	if err := replace(dir, keyFile(role), 0o600, both); err != nil {
		return err
	}
	if err := replace(dir, certFile(role), 0o644, encodeCerts(certs...)); err != nil {
		return err
	}
	if bytes.Equal(both, last) {
		return nil
	}
	return replace(dir, keyFile(role), 0o600, last)
}
