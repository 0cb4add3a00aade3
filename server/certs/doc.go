// Package certs decides who may speak in a cluster. It makes the cluster's certificates, and returns the TLS configurations that accept
// only them.
//
// A cluster has its own certificate authority (CA). Every node and every client has a certificate signed by that CA. The certificate names
// its owner in one SAN URI:
//
//	bigset://CLUSTER/node/ID        a node, which may be dialed and dials others
//	bigset://CLUSTER/client/NAME    a client, which only dials
//	bigset://CLUSTER/ca             the CA itself
//
// The identity of the other end of a connection follows from this URI alone. Host names and addresses are not checked, because the
// addresses by which nodes dial each other change. Certificates contain DNS names and IP addresses for other programs.
//
// A folder contains what one process needs:
//
//	ca.crt       the CAs that are trusted, one or several
//	ca.key       the CA's key, only in the folder where the CA lives
//	node.crt, node.key, or client.crt, client.key, or both pairs
//
// [MakeCA], [RotateCA] and [RetireCA] write the CA's folder, [Issue] and [Renew] the others; [Show] describes a folder. [ServerConfig],
// [PeerConfig] and [ClientConfig] read one. They use TLS 1.3 in both directions, and read changed files again.
//
// # Crashes
//
// Each file is written beside its place, synced, and renamed over it. A key file may contain several keys; a program that reads a pair
// takes the key that fits the certificate. So a new pair is written in three steps: the key file with the new and the old key, the
// certificate, the key file with the new key alone. A crash between two steps leaves the old pair or the new one. Renewing keeps the key
// unless a new one is asked for, and then replaces only the certificate.
//
// # Revocation
//
// There is no list of revoked certificates. A certificate is revoked by a new CA: [RotateCA] adds one, every other certificate is renewed
// under it, and [RetireCA] removes the old CA. A resumed session is verified like a new one, so it ends with its certificate.
//
// Functions that write a folder must not run concurrently on the same folder. Everything else is safe for concurrent use.
package certs
