//go:build race && !amd64 && !arm64

package lockorder

// selfID returns 0: here nothing is checked.
func selfID() uintptr { return 0 }
