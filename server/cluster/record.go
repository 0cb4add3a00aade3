package cluster

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"bigset/internal/ring"
)

// Settings returns the settings of a cluster with the given number of members. Zero fields get their defaults.
func Settings(s ring.Settings, members int) (ring.Settings, error) {
	s.N = cmp.Or(s.N, min(3, members))
	s.W = cmp.Or(s.W, s.N/2+1)
	s.R = cmp.Or(s.R, s.N-s.W+1)
	s.DW = cmp.Or(s.DW, s.W)
	s.Buckets = cmp.Or(s.Buckets, 256)
	s.Slices = cmp.Or(s.Slices, 256)
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s.N > members {
		return s, fmt.Errorf("%w: n is %d, and there are %d members", ErrConfig, s.N, members)
	}
	return s, nil
}

// settingsText returns settings as flags call them.
func settingsText(s ring.Settings) string {
	return fmt.Sprintf("n %d, r %d, w %d, dw %d, %d buckets, %d slices", s.N, s.R, s.W, s.DW, s.Buckets, s.Slices)
}

// Hex is bytes printed as hexadecimal digits.
type Hex []byte

// MarshalText implements encoding.TextMarshaler.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(b []byte) error {
	d, err := hex.DecodeString(string(b))
	*h = d
	return err
}

// Entry is one member in a record.
type Entry struct {
	ID string `json:"id"`
	// Incarnation is the identity of the disk that is this member: engine.Replica.Identity.
	Incarnation Hex `json:"incarnation"`
	// Sets and Filters are the epochs under which the member joined for sets and for filters: writes that it has acknowledged before may be
	// lost. It answers reads again after it has been filled under this epoch or a later one, which it records by itself. 0 means a member
	// since birth.
	Sets    uint64 `json:"sets,omitempty"`
	Filters uint64 `json:"filters,omitempty"`
	// Disk is the epoch under which this disk joined, without anything that the member had acknowledged before.
	Disk uint64 `json:"disk,omitempty"`
}

// Record is what all members of a cluster agree on. Each epoch has one record; a later record replaces an earlier one.
type Record struct {
	Cluster    Hex    `json:"cluster"` // 16 bytes, drawn at birth
	Name       string `json:"name"`
	Generation uint64 `json:"generation"` // rises when the cluster is restored from backups
	Epoch      uint64 `json:"epoch"`
	// Proposer is the member that proposed the record. An epoch has one record because only the proposer may commit its proposal.
	Proposer string        `json:"proposer"`
	Settings ring.Settings `json:"settings"`
	Members  []Entry       `json:"members"` // in the order of the peer list
	// Born is the microsecond of birth; generations of the cluster's filters are larger.
	Born uint64 `json:"born"`
	// Restored is the epoch under which the cluster was last restored: the earlier contents of disks that joined under it are given up.
	Restored uint64 `json:"restored,omitempty"`
	// Origin is the member that held data at birth. Until the others have copied a range from it, only it answers reads, and every write
	// needs it.
	Origin string `json:"origin,omitempty"`
	// Seal is the key for tokens of contexts, and Domain their domain: both are those of the origin, so that its tokens stay valid.
	Seal   Hex `json:"seal"`
	Domain Hex `json:"domain"`
}

// recordBytesMax is the size of the largest record that is read.
const recordBytesMax = 1 << 20

// encode returns the encoding of a record. Equal records have equal encodings.
func (r *Record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cluster: a record that can't be encoded: %v", err)) // the record has no types that fail
	}
	return b
}

// decodeRecord decodes a record and checks it.
func decodeRecord(b []byte) (*Record, error) {
	if len(b) > recordBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrRecord, len(b), recordBytesMax)
	}
	r := &Record{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return r, r.check()
}

// check returns an ErrRecord if a record is invalid.
func (r *Record) check() error {
	if len(r.Cluster) != 16 || len(r.Seal) != 16 || len(r.Domain) != 8 || r.Epoch == 0 || r.Epoch > epochMax || r.Born == 0 || len(r.Members) == 0 || len(r.Members) > membersMax {
		return fmt.Errorf("%w: cluster %x, epoch %d, %d members", ErrRecord, []byte(r.Cluster), r.Epoch, len(r.Members))
	}
	if err := r.Settings.Check(); err != nil || r.Settings.N > len(r.Members) {
		return fmt.Errorf("%w: settings %+v of %d members: %w", ErrRecord, r.Settings, len(r.Members), err)
	}
	seen := map[string]bool{}
	for _, m := range r.Members {
		if seen[m.ID] || checkID(m.ID) != nil || len(m.Incarnation) == 0 || len(m.Incarnation) > 255 || max(m.Sets, m.Filters, m.Disk, r.Restored) > r.Epoch || r.Generation == 0 {
			return fmt.Errorf("%w: member %q", ErrRecord, m.ID)
		}
		seen[m.ID] = true
	}
	if !seen[r.Proposer] || r.Origin != "" && !seen[r.Origin] {
		return fmt.Errorf("%w: proposed by %q, born from %q", ErrRecord, r.Proposer, r.Origin)
	}
	return nil
}

const (
	membersMax = 1000
	// namesBytesMax bounds the IDs of all members with what separates them: a greeting has them all, in 16 KiB.
	namesBytesMax = 15 << 10
	epochMax      = 1 << 53
	idBytesMax    = 64
)

// entry returns a member's place in the record, or -1.
func (r *Record) entry(id string) int {
	return slices.IndexFunc(r.Members, func(m Entry) bool { return m.ID == id })
}

// same reports whether two records are equal.
func (r *Record) same(o *Record) bool { return bytes.Equal(r.encode(), o.encode()) }

// clone returns a copy that may be changed.
func (r *Record) clone() *Record {
	c := *r
	c.Members = slices.Clone(r.Members)
	return &c
}

// rejoined returns the record of the next epoch, in which a member may lack acknowledged writes: of sets, of filters or, with another disk,
// of both. A disk that was not filled since it joined as a new one joins as a new one again.
func (r *Record) rejoined(id string, incarnation []byte, sets, filters, unfilled bool) *Record {
	next := r.clone()
	next.Epoch++
	next.Proposer = id
	m := &next.Members[next.entry(id)]
	if isNew := !bytes.Equal(m.Incarnation, incarnation); isNew || unfilled && r.lost(next.entry(id)) {
		m.Incarnation, m.Disk, sets, filters = incarnation, next.Epoch, true, true
	}
	if sets {
		m.Sets = next.Epoch
	}
	if filters {
		m.Filters = next.Epoch
	}
	return next
}

// restored returns the record of the cluster's next generation. All members join with the disks that they have, and the members in bring
// contribute their contents. Its epoch is far above any that the former generation can have reached, and differs from that of any other
// restore.
func (r *Record) restored(proposer string, epoch uint64, disks map[string]Hex, bring map[string]bool) *Record {
	next := r.clone()
	next.Generation, next.Epoch, next.Restored, next.Proposer, next.Origin = r.Generation+1, epoch, epoch, proposer, ""
	for i := range next.Members {
		m := &next.Members[i]
		*m = Entry{ID: m.ID, Incarnation: disks[m.ID], Sets: epoch, Filters: epoch, Disk: epoch}
		if bring[m.ID] {
			m.Disk = 0
		}
	}
	return next
}

// restores returns an error unless a record is valid as the first of the generation after before.
func (r *Record) restores(before *Record) error {
	if err := r.near(before, restoreMost); err != nil {
		return err
	}
	same := r.Generation == before.Generation+1 && r.Epoch > before.Epoch+restoreGap/2 && r.Restored == r.Epoch && r.Origin == "" && bytes.Equal(r.Cluster, before.Cluster) &&
		r.Name == before.Name && r.Settings == before.Settings && len(r.Members) == len(before.Members)
	for i := range r.Members {
		same = same && r.Members[i].ID == before.Members[i].ID && r.Members[i].Sets == r.Epoch && r.Members[i].Filters == r.Epoch
	}
	if !same {
		return fmt.Errorf("%w: generation %d, epoch %d is no restore of generation %d, epoch %d", ErrRecord, r.Generation, r.Epoch, before.Generation, before.Epoch)
	}
	return nil
}

const (
	// restoreGap is the least distance of the epoch of a restore from the epoch before it.
	restoreGap = 1 << 32
	// restoreMost is more than the distance of any epoch of a restored cluster from the epoch of a folder that it was restored from.
	restoreMost = 4 * restoreGap
)

// near returns an error if the epoch of a record is more than most after that of another one.
func (r *Record) near(before *Record, most uint64) error {
	if r.Epoch <= before.Epoch+most {
		return nil
	}
	return fmt.Errorf("%w: epoch %d is too far after epoch %d, which this folder holds: at most %d. Only damage or a program that errs raises an epoch so far: start the node that holds epoch %d "+
		"with an empty folder. If this folder is that old a copy, start this node with an empty one", ErrRecord, r.Epoch, before.Epoch, most, r.Epoch)
}

// of reports whether two records are of the same generation of a cluster. Two restores of the same backups are different generations.
func (r *Record) of(o *Record) bool { return r.Generation == o.Generation && r.Restored == o.Restored }

// lost reports whether a member joined last with a new disk: the old contents are gone, and a power cut does not explain that. If the
// cluster was restored with that disk, the loss is accepted.
func (r *Record) lost(member int) bool {
	e := &r.Members[member]
	return e.Disk > 0 && e.Disk == max(e.Sets, e.Filters) && e.Disk != r.Restored
}

// lostWith returns the error of a member that can't be filled because another one, or itself, has a new disk.
func (r *Record) lostWith(other, self int, cause error) error {
	err := &lostError{err: cause}
	for _, i := range slices.Compact([]int{min(other, self), max(other, self)}) {
		if r.lost(i) {
			err.nodes = append(err.nodes, r.Members[i].ID)
		}
	}
	return err
}

// names reports whether a disk is the member that the record names.
func (r *Record) names(id string, identity []byte) bool {
	i := r.entry(id)
	return i >= 0 && bytes.Equal(r.Members[i].Incarnation, identity)
}

// follows returns an error unless a record is valid as the successor of before: only the proposer's own entry may change.
func (r *Record) follows(before *Record) error {
	if r.Epoch != before.Epoch+1 {
		return fmt.Errorf("%w: epoch %d after %d", ErrRecord, r.Epoch, before.Epoch)
	}
	at := before.entry(r.Proposer)
	if at < 0 || r.entry(r.Proposer) != at {
		return fmt.Errorf("%w: proposed by %q, which is not a member", ErrRecord, r.Proposer)
	}
	want := before.clone()
	want.Epoch, want.Proposer, want.Members[at] = r.Epoch, r.Proposer, r.Members[at]
	if r.Proposer == before.Origin { // all others have copied the origin's data
		want.Origin = r.Origin
	}
	if !want.same(r) {
		return fmt.Errorf("%w: %q changes more than itself", ErrRecord, r.Proposer)
	}
	return nil
}

// checkID returns an error if the ID of a node is invalid.
func checkID(id string) error {
	if id == "" || len(id) > idBytesMax {
		return fmt.Errorf("%w: a node's name of %d bytes: 1 to %d", ErrConfig, len(id), idBytesMax)
	}
	for _, c := range []byte(id) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return fmt.Errorf("%w: node %q: letters, digits, hyphens, underscores and dots", ErrConfig, id)
		}
	}
	return nil
}

// Errors.
var (
	// ErrConfig is returned for an invalid configuration.
	ErrConfig = errors.New("cluster: bad configuration")
	// ErrRecord is returned for an invalid record of members, or one that may not follow the current record.
	ErrRecord = errors.New("cluster: bad record of members")
	// ErrForeign is returned for a member of another cluster, or one that was started with other settings.
	ErrForeign = errors.New("cluster: not of this cluster")
)
