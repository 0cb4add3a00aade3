//go:build race && (amd64 || arm64)

package lockorder

// selfID returns the address of the runtime's record of the calling goroutine, which no other goroutine has while this one runs.
func selfID() uintptr
