package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// ErrMember is returned for the folder of a member of a cluster, where it would be changed or served without the cluster.
var ErrMember = errors.New("server: a folder of a cluster")

// CheckAlone returns an error unless a store may be changed and served without a cluster: ErrMember if it is a member's. The other members
// would not learn of the changes. When the member is back with them, it would answer reads at once, without what they have acknowledged
// since, and filters that were dropped or made without them could displace theirs.
func CheckAlone(s *engine.Store) error {
	d := &clusterDisk{s}
	switch r, err := cluster.Held(d); {
	case err != nil:
		return fmt.Errorf("server: whether the folder is of a cluster: %w", err)
	case r != nil:
		var nodes []string
		for _, m := range r.Members {
			nodes = append(nodes, m.ID)
		}
		return fmt.Errorf("%w: it belongs to cluster %s of the nodes %s, which would not know what is changed here", ErrMember, r.Name, strings.Join(nodes, ", "))
	}
	return nil
}

// hintsFolder returns the folder of the hints of a node.
func hintsFolder(dir string) string { return filepath.Join(dir, "hints") }
