package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"bigset/server/wire"
)

// Verbs by which members agree on records. They are on the wire. Bodies are JSON: they are small and rare, and people read them.
const (
	verbState    wire.Verb = 240 // State of a member
	verbPropose  wire.Verb = 241 // a record: agree to it durably
	verbWithdraw wire.Verb = 242 // the ID of the sender: forget its proposal
	verbCommit   wire.Verb = 243 // a record that is committed
)

// Control reports whether members agree on records by a verb.
func Control(v wire.Verb) bool { return v >= verbState && v <= verbCommit }

// Proposes reports whether a verb asks a member to agree to a record.
func Proposes(v wire.Verb) bool { return v == verbPropose }

// State is what a member reports about itself.
type State struct {
	ID        string  `json:"id"`
	Identity  Hex     `json:"identity"` // of its disk
	Boot      uint64  `json:"boot"`     // drawn at each start
	Committed *Record `json:"committed,omitempty"`
	Prepared  *Record `json:"prepared,omitempty"`
	Restoring bool    `json:"restoring,omitempty"` // its folder is to join the next generation
	HasData   bool    `json:"has_data"`            // sets or filters from before the cluster was born
	Born      uint64  `json:"born"`                // the member's clock when it answered, in microseconds
	// Sets and Filters say whether the member answers reads of them.
	Sets    bool   `json:"sets"`
	Filters bool   `json:"filters"`
	Waits   string `json:"waits,omitempty"`  // what it waits for; empty if it serves
	Failed  bool   `json:"failed,omitempty"` // whether its store takes no writes until the node restarts; then it waits for the restart
	// Copied is how far the member is filled; nil if it is not being filled now.
	Copied *Copied `json:"copied,omitempty"`
	// Listed says whether the member knows all filters whose creation was acknowledged. Filtered is the sum of its catalogue.
	Listed   bool   `json:"listed"`
	Filtered uint64 `json:"filtered,string"`
	// Tokens is the sum of its list of tokens; empty if it keeps none.
	Tokens string `json:"tokens,omitempty"`
	Seal   Hex    `json:"seal,omitempty"` // the keys for tokens of contexts, until the cluster is born
	Domain Hex    `json:"domain,omitempty"`
}

// ask sends a control request to a member and decodes its answer into answer, which may be nil.
func ask(ctx context.Context, to wire.Caller, verb wire.Verb, request, answer any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	got, err := to.Do(ctx, wire.Call{Verb: verb, Body: b})
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}

// Control answers a request by which members agree on records. Only nodes may send one; the sender is known by its certificate.
func (m *Membership) Control(ctx context.Context, r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || m.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is not a member", ErrForeign, r.From.Role, r.From.Name)
	}
	switch r.Verb {
	case verbState:
		s, err := m.State(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(s)
	case verbPropose, verbCommit:
		record, err := decodeRecord(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Verb == verbCommit {
			return nil, m.commit(ctx, record)
		}
		if record.Proposer != r.From.Name {
			return nil, fmt.Errorf("%w: %q sends what %q proposes", ErrRecord, r.From.Name, record.Proposer)
		}
		return nil, m.agree(ctx, record)
	case verbWithdraw:
		return nil, m.forget(ctx, r.From.Name)
	}
	return nil, fmt.Errorf("%w: verb %d", ErrRecord, r.Verb)
}
