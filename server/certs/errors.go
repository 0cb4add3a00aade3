package certs

import "errors"

// What can be wrong with a folder or its files.
var (
	// ErrMissing: a file that is needed does not exist.
	ErrMissing = errors.New("certs: file is missing")
	// ErrForm: a file is not what its name says.
	ErrForm = errors.New("certs: malformed file")
	// ErrTooOpen: a key can be read by others than its owner.
	ErrTooOpen = errors.New("certs: permissions are too open")
	// ErrKey: no key in a key file fits the certificate.
	ErrKey = errors.New("certs: key does not fit the certificate")
	// ErrExists: a file exists and would be overwritten.
	ErrExists = errors.New("certs: file exists")
)

// What can be wrong with a certificate, our own or the other side's.
var (
	// ErrName: a certificate has no name of ours, or the name has a form that no certificate of ours has.
	ErrName = errors.New("certs: bad name")
	// ErrCluster: a certificate belongs to another cluster.
	ErrCluster = errors.New("certs: wrong cluster")
	// ErrRole: a certificate is for another role.
	ErrRole = errors.New("certs: wrong role")
	// ErrNode: a certificate belongs to another node than the one that was dialed.
	ErrNode = errors.New("certs: wrong node")
	// ErrAuthority: no CA in ca.crt has signed a certificate.
	ErrAuthority = errors.New("certs: not signed by a CA of this cluster")
	// ErrExpired: a certificate has ended.
	ErrExpired = errors.New("certs: certificate has expired")
	// ErrNotYet: a certificate is not valid yet.
	ErrNotYet = errors.New("certs: certificate is not valid yet")
)
