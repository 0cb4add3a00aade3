package cluster

import (
	"bytes"
	"context"
	"fmt"
	mrand "math/rand/v2"
)

// restore returns the record of the cluster's next generation, or what this member waits for.
func (m *Membership) restore(ctx context.Context, states map[string]State) (next *Record, waits string, err error) {
	own, err := m.State(ctx)
	if err != nil {
		return nil, "", err
	}
	states[m.conf.Node] = own
	disks, bring := map[string]Hex{}, map[string]bool{}
	newest, first := own.Committed, ""
	for _, p := range m.conf.Peers {
		s := states[p.ID]
		disks[p.ID] = s.Identity
		switch {
		case s.Restoring && (!bytes.Equal(s.Committed.Cluster, own.Committed.Cluster) || s.Committed.Generation != own.Committed.Generation):
			return nil, "", fmt.Errorf("%w: node %s restores generation %d of cluster %x, and node %s generation %d of cluster %x", ErrConfig, p.ID,
				s.Committed.Generation, []byte(s.Committed.Cluster), m.conf.Node, own.Committed.Generation, []byte(own.Committed.Cluster))
		case s.Restoring:
			bring[p.ID] = true
			if first == "" {
				first = p.ID
			}
			if s.Committed.Epoch > newest.Epoch {
				newest = s.Committed
			}
		case s.HasData || s.Committed != nil && s.Committed.names(p.ID, s.Identity):
			return nil, "", fmt.Errorf("%w: node %s holds data and was not restored: run `bigset cluster restore` on its folder too, or start it with an empty one", ErrConfig, p.ID)
		}
	}
	if first != m.conf.Node {
		return nil, "the restore of the cluster, by " + first, nil
	}
	return newest.restored(m.conf.Node, newest.Epoch+restoreGap+uint64(mrand.Uint32()), disks, bring), "", nil
}

// PrepareRestore marks the folder of a stopped member for a restore at its next start. All folders that are restored together are the
// cluster's next generation. It returns the record that the folder holds.
func PrepareRestore(ctx context.Context, d Disk) (*Record, error) {
	value, err := d.Load(keyLedger)
	if err != nil {
		return nil, err
	}
	l, err := decodeLedger(value)
	if err != nil {
		return nil, err
	}
	if l.Committed == nil {
		return nil, fmt.Errorf("%w: this folder is of no cluster: a node that is started with --peers and this folder brings its data into a new one", ErrConfig)
	}
	l.Prepared, l.Restore = nil, true
	return l.Committed, d.Save(ctx, keyLedger, l.encode())
}
