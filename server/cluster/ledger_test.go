package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/internal/ring"
)

func recordOf(n int) *Record {
	r := &Record{Cluster: make([]byte, 16), Name: "test", Generation: 1, Epoch: 1, Born: 1, Seal: make([]byte, 16), Domain: make([]byte, 8)}
	for i := range n {
		r.Members = append(r.Members, Entry{ID: fmt.Sprintf("n%d", i), Incarnation: []byte{byte(i), 1}})
	}
	r.Proposer = "n0"
	r.Settings, _ = Settings(ring.Settings{}, n)
	return r
}

// actors are members that wipe their disks, propose and crash at any step.
type actors struct {
	t       *rapid.T
	ledgers []ledger
	inc     []byte            // of each member's disk
	asking  []*asking         // of each member, nil if it proposes nothing
	commits map[uint64]string // by epoch: what was ever committed by its proposer
}

type asking struct {
	record *Record
	agreed map[int]bool
}

func (a *actors) id(i int) string { return fmt.Sprintf("n%d", i) }

// newest returns the newest record that a member and all others hold, as one that has asked all of them.
func (a *actors) newest() *Record {
	var best *Record
	for _, l := range a.ledgers {
		if l.Committed != nil && (best == nil || l.Committed.Epoch > best.Epoch) {
			best = l.Committed
		}
	}
	return best
}

func (a *actors) commit(i int, r *Record) {
	l, err := a.ledgers[i].commit(r)
	if err != nil {
		a.t.Fatalf("%s takes epoch %d: %v", a.id(i), r.Epoch, err)
	}
	a.ledgers[i] = l
}

// One epoch has one record, whatever members crash, lose their disks, propose at the same time, or miss.
func TestOneRecordOfEachEpoch(t *testing.T) {
	t.Parallel()
	births, changes, yields := 0, 0, 0
	for range 30 {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 4).Draw(t, "members")
			a := &actors{t: t, ledgers: make([]ledger, n), inc: make([]byte, n), asking: make([]*asking, n), commits: map[uint64]string{}}
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				i := rapid.IntRange(0, n-1).Draw(t, "member")
				switch rapid.IntRange(0, 9).Draw(t, "step") {
				case 0: // a crash: what is durable stays
					a.asking[i] = nil
				case 1: // a lost disk, while another one holds the record
					others := 0
					for j, l := range a.ledgers {
						if j != i && l.epoch() == a.newest0() {
							others++
						}
					}
					if others > 0 {
						a.ledgers[i], a.asking[i] = ledger{}, nil
						a.inc[i]++
					}
				case 2, 3: // begins to propose: it has asked all, and takes the newest first
					if a.asking[i] != nil {
						continue
					}
					best := a.newest()
					if best != nil {
						a.commit(i, best)
					}
					for j := range a.ledgers { // its own of before are taken back
						a.ledgers[j] = a.ledgers[j].withdraw(a.id(i))
					}
					var r *Record
					if best == nil {
						if i != 0 {
							continue
						}
						r = recordOf(n)
						r.Born = uint64(rapid.IntRange(1, 9).Draw(t, "born"))
					} else {
						r = best.rejoined(a.id(i), []byte{byte(i), a.inc[i], byte(rapid.IntRange(0, 9).Draw(t, "other"))}, true, false, false)
					}
					l, err := a.ledgers[i].propose(r)
					if err != nil {
						continue
					}
					a.ledgers[i], a.asking[i] = l, &asking{r, map[int]bool{i: true}}
				case 9: // learns what another one holds as committed
					if j := rapid.IntRange(0, n-1).Draw(t, "by"); a.ledgers[j].Committed != nil {
						a.commit(i, a.ledgers[j].Committed)
					}
				default: // asks one, and commits when all have agreed
					ask := a.asking[i]
					if ask == nil {
						continue
					}
					if a.ledgers[i].Prepared == nil || !a.ledgers[i].Prepared.same(ask.record) { // it has learned of another one
						a.asking[i] = nil
						continue
					}
					j := rapid.IntRange(0, n-1).Draw(t, "asked")
					if !ask.agreed[j] {
						if theirs := a.asking[j]; theirs != nil && i < j { // the other one yields
							a.ledgers[j], a.asking[j] = a.ledgers[j].withdraw(a.id(j)), nil
							yields++
						}
						l, err := a.ledgers[j].propose(ask.record)
						if err != nil {
							a.ledgers[i], a.asking[i] = a.ledgers[i].withdraw(a.id(i)), nil
							continue
						}
						a.ledgers[j], ask.agreed[j] = l, true
					}
					if len(ask.agreed) == n {
						e, text := ask.record.Epoch, string(ask.record.encode())
						if was := a.commits[e]; was != "" && was != text {
							t.Fatalf("epoch %d was committed as\n%s\nand as\n%s", e, was, text)
						}
						a.commits[e] = text
						a.commit(i, ask.record)
						a.asking[i] = nil
						if changes++; e == 1 {
							births++
						}
					}
				}
			}
		})
	}
	if births == 0 || changes == births || yields == 0 {
		t.Errorf("%d births, %d changes, %d yields", births, changes, yields)
	}
}

// newest0 is the epoch of the newest record, 0 for none.
func (a *actors) newest0() uint64 {
	if r := a.newest(); r != nil {
		return r.Epoch
	}
	return 0
}

func TestLedgerRefuses(t *testing.T) {
	t.Parallel()
	birth := recordOf(3)
	held, err := ledger{}.propose(birth)
	if err == nil {
		held, err = held.commit(birth)
	}
	if err != nil || held.Prepared != nil || held.epoch() != 1 {
		t.Fatalf("birth: %+v, %v", held, err)
	}
	if l, err := decodeLedger(held.encode()); err != nil || !l.Committed.same(birth) {
		t.Errorf("a ledger that was written down: %+v, %v", l, err)
	}
	next := birth.rejoined("n1", []byte{1, 9}, true, true, false)
	if m := next.Members[1]; next.Epoch != 2 || m.Sets != 2 || m.Filters != 2 || m.Incarnation[1] != 9 {
		t.Errorf("rejoined: %+v", next)
	}
	agreed, err := held.propose(next)
	if err != nil || agreed.Prepared == nil || agreed.epoch() != 1 {
		t.Fatalf("proposal: %v", err)
	}
	other := birth.rejoined("n2", []byte{2, 9}, true, false, false)
	more := next.clone()
	more.Members[0].Incarnation = []byte{7}
	shape := next.clone()
	shape.Settings.W = 3
	stranger := next.clone()
	stranger.Proposer = "n9"
	two := next.clone()
	two.Epoch = 3
	foreign := next.clone()
	foreign.Cluster = []byte("another cluster!")
	for name, c := range map[string]struct {
		l ledger
		r *Record
	}{"another's after one is agreed": {agreed, other}, "another member's entry": {held, more}, "another shape": {held, shape}, "of a stranger": {held, stranger},
		"an epoch too far": {held, two}, "the epoch that is held": {held, birth}, "birth by the second": {ledger{}, func() *Record { r := recordOf(2); r.Proposer = "n1"; return r }()}} {
		if l, err := c.l.propose(c.r); !errors.Is(err, ErrRecord) || !sameLedger(l, c.l) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := held.commit(foreign); !errors.Is(err, ErrForeign) {
		t.Errorf("a record of another cluster: %v", err)
	}
	twin := birth.clone()
	twin.Born++
	if _, err := held.commit(twin); !errors.Is(err, ErrRecord) {
		t.Errorf("another record of the same epoch: %v", err)
	}
	restoring := held
	restoring.Restore = true
	disks := map[string]Hex{"n0": {0, 1}, "n1": {1, 1}, "n2": {2, 1}}
	for name, c := range map[string]struct {
		l    ledger
		r    *Record
		most uint64
	}{
		"an epoch":  {held, next.clone(), 1 + ring.EpochsAhead},
		"a restore": {restoring, birth.restored("n0", 1+restoreGap, disks, map[string]bool{"n0": true}), 1 + restoreMost},
	} {
		set := func(epoch uint64) {
			c.r.Epoch = epoch
			if c.r.Restored > 0 {
				c.r = birth.restored("n0", epoch, disks, map[string]bool{"n0": true})
				if _, err := c.l.propose(c.r); (err != nil) != (epoch > c.most) {
					t.Errorf("%s %d, proposed: %v", name, epoch, err)
				}
			}
		}
		set(c.most)
		if l, err := c.l.commit(c.r); err != nil || l.epoch() != c.most {
			t.Errorf("%s %d: %v, epoch %d", name, c.most, err, l.epoch())
		}
		for _, epoch := range []uint64{c.most + 1, epochMax} { // nothing could follow the last one
			set(epoch)
			if l, err := c.l.commit(c.r); !errors.Is(err, ErrRecord) || !strings.Contains(fmt.Sprint(err), "start the node that holds epoch") || !sameLedger(l, c.l) {
				t.Errorf("%s %d: %v, epoch %d", name, epoch, err, l.epoch())
			}
		}
	}
	if l := agreed.withdraw("n2"); l.Prepared == nil {
		t.Error("n2 has taken back what n1 proposed")
	}
	if l := agreed.withdraw("n1"); l.Prepared != nil {
		t.Error("n1 could not take back")
	}
}

func sameLedger(a, b ledger) bool { return string(a.encode()) == string(b.encode()) }

func FuzzDecodeRecord(f *testing.F) {
	f.Add(recordOf(3).encode())
	f.Add(recordOf(1).rejoined("n0", []byte{3}, true, false, false).encode())
	f.Add([]byte(`{"epoch":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := decodeRecord(r.encode())
		if err != nil || !again.same(r) {
			t.Errorf("again: %v", err)
		}
	})
}
