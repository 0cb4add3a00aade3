//go:build !linux

package door

import "context"

// loops is empty on this system: each connection has a goroutine of its own.
type loops struct{}

func newLoops(context.Context, *Server, *part) loops { return loops{} }
func (loops) adopt(*Conn)                            {}
func (loops) end()                                   {}
