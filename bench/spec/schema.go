package spec

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema of workload files, for editors.
func Schema() []byte { return slices.Clone(schema) }
