package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bigset/engine"
	"bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/tokens"
)

// Kept is what a data folder keeps for its node, beside sets and filters.
type Kept struct {
	cluster.Kept
	Tokens   int            // access tokens
	Hints    map[string]int // changes that other members missed, by member
	Problems []string       // what can't be read
	Later    []string       // what only a later version of this program can read
}

// VerifyKept reads what the data folder of a stopped node keeps beside sets and filters: the record of its cluster, the list of the
// cluster's filters, access tokens, and hints. It changes nothing.
func VerifyKept(dir string, s *engine.Store) (k Kept, err error) {
	of, problems := cluster.Verify(&clusterDisk{s})
	k.Kept = of
	for _, p := range problems {
		k.Problems = append(k.Problems, p.Error())
	}
	if list, err := tokens.Open(TokenDisk(s), true); err != nil {
		k.Problems = append(k.Problems, "the access tokens: "+err.Error())
	} else {
		k.Tokens = len(list.Entries())
	}
	path := hintsFolder(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	folder, err := coord.OSFolder(path)
	if err != nil {
		return k, err
	}
	rep, err := coord.VerifyHints(folder)
	if err != nil {
		return k, err
	}
	k.Hints = rep.Nodes
	for _, l := range rep.Later {
		k.Later = append(k.Later, "hints: "+l)
	}
	for _, p := range rep.Problems {
		k.Problems = append(k.Problems, fmt.Sprintf("hints: %s", p))
	}
	return k, nil
}

// hintsFolder returns the folder of the hints of a node.
func hintsFolder(dir string) string { return filepath.Join(dir, "hints") }
