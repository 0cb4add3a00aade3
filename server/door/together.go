package door

import "context"

// Work is what a Handler leaves to its loop, to be done in one call with that of other connections.
type Work struct {
	// Set and Kind say what is done in one call: work whose set and kind are equal. Set is in the buffer of the connection.
	Set  []byte
	Kind uint8
	// Pieces are about as many microseconds, and Bytes what the work adds to a call.
	Pieces, Bytes int
	Waits         Waits
}

// Waits says what work waits for.
type Waits uint8

// What work waits for.
const (
	// WaitsRarely is work that is done from memory, nearly always. The loop does it itself; where that takes long the loop goes on without it.
	WaitsRarely Waits = iota
	// WaitsForDisk is work of which what comes during a call is done by the next one.
	WaitsForDisk
	// WaitsForNodes is work that may wait for other nodes, of which any may be slow: a call waits for none before it.
	WaitsForNodes
)

// Work above these is not deferred: it would be a call of its own. A call takes no more than callPiecesMax and callBytesMax of several connections.
const (
	workPiecesMax = 1024
	workBytesMax  = 1 << 20
	callPiecesMax = 4096
	callBytesMax  = 4 << 20
)

// Together does the work that handlers have deferred, of one set and kind, in one call. It keeps the results with the handlers, and keeps no part of list.
type Together func(ctx context.Context, list []Handler)

// Defer leaves the work that the handler has prepared to the loop, which does it together with that of other connections. Execute returns then; when the work is
// done it is called again, with the same bytes behind those that it has used, if only to answer. Until then those before them stay as they are, too.
//
// Defer reports false where the handler is to do the work itself, after a call of MayWait: in no loop, or for much work.
func (c *Conn) Defer(w Work) bool {
	if c.station == nil || c.s.opt.Together == nil || w.Pieces > workPiecesMax || w.Bytes > workBytesMax || !c.station.holds() {
		return false
	}
	c.work, c.deferred = w, true
	return true
}

// resume goes on with a turn whose deferred work is done.
func (c *Conn) resume(ctx context.Context) (more bool) {
	c.deferred, c.work = false, Work{}
	c.execute(ctx)
	return c.deferred || c.endTurn(ctx, c.readErr)
}
