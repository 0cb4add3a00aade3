package bloomd

import "errors"

// Errors of Client: answers of a server.
var (
	// ErrNoFilter is "Filter does not exist".
	ErrNoFilter = errors.New("bloomd: filter does not exist")
	// ErrOpen is the answer to clear for a filter that is in memory.
	ErrOpen = errors.New("bloomd: filter is not proxied, close it first")
	// ErrOptions is "Client Error: Bad arguments".
	ErrOptions = errors.New("bloomd: bad arguments")
)
