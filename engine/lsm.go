package engine

import "bigset"

// LSM tunes the log-structured merge tree below a store: `go doc bigset.LSM` describes its fields.
type LSM = bigset.LSM
