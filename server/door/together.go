package door

import (
	"context"
	"math"
)

// Work is work that a Handler defers to its loop, to be done in one call with that of other connections.
type Work struct {
	// Work with equal Set and Kind is done in one call. Set points into the buffer of the connection.
	Set  []byte
	Kind uint8
	// Pieces is about the time of the work in microseconds. Bytes is what the work adds to a call.
	Pieces, Bytes int
	Waits         Waits
}

// kindRest is the Kind of work that is nothing but a rest. Handlers use other kinds.
const kindRest = math.MaxUint8

// Waits says what work waits for.
type Waits uint8

// What work waits for.
const (
	// WaitsRarely is work that is nearly always done from memory. The loop does it itself; if it takes long, the loop continues without it.
	WaitsRarely Waits = iota
	// WaitsForTurn is work from memory whose calls follow each other: what arrives during a call is done by the next one. The loop does a little of
	// it itself.
	WaitsForTurn
	// WaitsForDisk is work that waits for the disk, and otherwise WaitsForTurn.
	WaitsForDisk
	// WaitsForNodes is work that may wait for other nodes, any of which may be slow: its call does not wait for an earlier one.
	WaitsForNodes
)

// Larger work is not deferred: it would be a call of its own. A call takes at most callPiecesMax and callBytesMax from several connections.
const (
	workPiecesMax = 1024
	workBytesMax  = 1 << 20
	callPiecesMax = 4096
	callBytesMax  = 4 << 20
	// littlePieces is how many pieces of work a connection may defer in a turn, or in one call outside the loop, without having much.
	littlePieces = 16
	// portionPieces ends a portion of much work: all works of a portion but its last one have fewer pieces together.
	portionPieces = 256
)

// Together does the work that handlers have deferred, of one set and kind, in one call. It stores the results in the handlers and retains
// no part of list.
type Together func(ctx context.Context, list []Handler)

// Defer leaves the work that the handler has prepared to the loop, which does it together with that of other connections. Execute must then
// return. When the work is done, Execute is called again with the bytes after those that it has used, if only to answer. Until then the
// bytes before them stay unchanged, too.
//
// Defer reports false if the handler must do the work itself, after a call of MayWait: outside a loop, or if the work is large.
func (c *Conn) Defer(w Work) bool {
	if c.station == nil || c.s.opt.Together == nil || w.Pieces > workPiecesMax || w.Bytes > workBytesMax || !c.station.holds() {
		return false
	}
	c.work, c.deferred = w, true
	return true
}

// Portion returns how many pieces of work a handler should defer at most, if it can choose: few if other connections wait for it.
func (c *Conn) Portion() int {
	if c.s.crowded.lasts() {
		return portionPieces
	}
	return workPiecesMax
}

// Rest lets other connections of the loop go first, once the handler has executed a number of requests, each about a piece of work, without
// deferring any. If it reports true, Execute must return, though complete requests may follow those that it has used. It is then called again as
// after Defer. Outside a loop, Rest reports false.
func (c *Conn) Rest(pieces int) bool {
	if c.station == nil || !c.station.holds() {
		return false
	}
	c.work, c.deferred = Work{Kind: kindRest, Pieces: pieces}, true
	return true
}

// resume continues a turn whose deferred work is done.
func (c *Conn) resume(ctx context.Context) (more bool) {
	c.deferred, c.work = false, Work{}
	c.execute(ctx)
	return c.deferred || c.endTurn(ctx, c.readErr)
}
