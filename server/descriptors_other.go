//go:build !unix

package server

// descriptorLimit returns 0: how many file descriptors the process may have is not known.
func descriptorLimit() uint64 { return 0 }
