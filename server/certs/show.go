package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"time"
)

// Info describes a certificate.
type Info struct {
	File     string // in its folder
	Identity Identity
	Hosts    []string // DNS names and IP addresses
	Begins   time.Time
	Ends     time.Time
	Print    string // the first 16 hex digits of the SHA-256 of the certificate
	Issuer   string // Print of the CA in the folder's ca.crt that signed it, "" if none did
	Key      bool   // the folder has the matching key
}

// Show returns the certificates of a folder, the CAs first. A missing ca.crt is an error, missing pairs are not.
func Show(dir string) (all []Info, err error) {
	trusted, _, err := readTrusted(dir)
	if err != nil {
		return nil, err
	}
	for _, role := range []Role{RoleCA, RoleNode, RoleClient} {
		if has, err := exists(dir, certFile(role)); err != nil {
			return nil, err
		} else if !has {
			continue
		}
		text, err := readFile(dir, certFile(role))
		if err != nil {
			return nil, err
		}
		list, err := parseCerts(filepath.Join(dir, certFile(role)), text)
		if err != nil {
			return nil, err
		}
		keys, err := readKeys(dir, role)
		if has, _ := exists(dir, keyFile(role)); err != nil && has {
			return nil, err
		}
		for _, c := range list {
			info, err := infoOf(certFile(role), c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(dir, certFile(role)), err)
			}
			info.Key = fitting(keys, c) != nil
			for _, ca := range trusted {
				if c.CheckSignatureFrom(ca) == nil {
					info.Issuer = fingerprint(ca)
					break
				}
			}
			all = append(all, info)
		}
	}
	return all, nil
}

func infoOf(file string, c *x509.Certificate) (Info, error) {
	id, err := identityOf(c)
	if err != nil {
		return Info{}, err
	}
	info := Info{File: file, Identity: id, Hosts: append([]string{}, c.DNSNames...), Begins: c.NotBefore, Ends: c.NotAfter, Print: fingerprint(c)}
	for _, ip := range c.IPAddresses {
		info.Hosts = append(info.Hosts, ip.String())
	}
	return info, nil
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:8])
}
