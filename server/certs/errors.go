package certs

import "errors"

// Errors of a folder or its files.
var (
	// ErrMissing: a file that is needed does not exist.
	ErrMissing = errors.New("certs: file is missing")
	// ErrForm: a file does not contain what its name says.
	ErrForm = errors.New("certs: malformed file")
	// ErrTooOpen: others than the owner can read a key.
	ErrTooOpen = errors.New("certs: permissions are too open")
	// ErrKey: no key in a key file fits the certificate.
	ErrKey = errors.New("certs: key does not fit the certificate")
	// ErrExists: a file exists and would be overwritten.
	ErrExists = errors.New("certs: file exists")
)

// Errors of a certificate, our own or the other side's.
var (
	// ErrName: a certificate has none of our names, or its name has a form that none of our certificates has.
	ErrName = errors.New("certs: bad name")
	// ErrCluster: a certificate belongs to another cluster.
	ErrCluster = errors.New("certs: wrong cluster")
	// ErrRole: a certificate is for another role.
	ErrRole = errors.New("certs: wrong role")
	// ErrNode: a certificate belongs to a node other than the dialed one.
	ErrNode = errors.New("certs: wrong node")
	// ErrAuthority: no CA in ca.crt has signed the certificate.
	ErrAuthority = errors.New("certs: not signed by a CA of this cluster")
	// ErrExpired: a certificate has ended.
	ErrExpired = errors.New("certs: certificate has expired")
	// ErrNotYet: a certificate is not valid yet.
	ErrNotYet = errors.New("certs: certificate is not valid yet")
)
