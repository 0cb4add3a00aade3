package ring_test

import (
	"fmt"
	"testing"

	"bigset/internal/ring"
)

// seats are members a, b, c and so on.
func seats(names string) (list []ring.Member) {
	for _, r := range names {
		list = append(list, member(string(r), "1"))
	}
	return list
}

// subset returns the tally's answer when exactly some members of a list have answered.
func subset(tally ring.Tally, list []ring.Member, who int) bool {
	for i, m := range list {
		if who&(1<<i) != 0 {
			tally.Ack(m)
		}
	}
	return tally.Done()
}

// TestQuorumsMeet: whatever the settings and the move, each acknowledged write and each answered read have a member in common:
// under one assignment, and under neighbouring ones, in both orders, if the joiners are whole for a read under the later one.
func TestQuorumsMeet(t *testing.T) {
	everyone := seats("abcdefgh")
	for _, move := range [][2]string{{"a", "ab"}, {"ab", "abc"}, {"abc", "abd"}, {"abc", "ade"}, {"abc", "dbc"}, {"abcde", "abcdf"}, {"ab", "ac"}} {
		owners, next := seats(move[0]), seats(move[1])
		n := max(len(owners), len(next), 3)
		for r := 1; r <= n; r++ {
			for w := n - r + 1; w <= n; w++ {
				s := ring.Settings{N: n, R: r, W: w, Buckets: 1, Slices: 1}
				checkMeet(t, fmt.Sprintf("%v with r=%d, w=%d", move, r, w), s, owners, next, everyone)
			}
		}
	}
}

func checkMeet(t *testing.T, what string, s ring.Settings, owners, next, everyone []ring.Member) {
	stable := ring.Assignment{Epoch: 1, Since: 1, Owners: owners, Next: owners}
	copying, err := stable.Begin(next)
	if err != nil {
		t.Fatal(err)
	}
	settling, err := copying.CutOver()
	if err != nil {
		t.Fatal(err)
	}
	done, err := settling.Finish()
	if err != nil {
		t.Fatal(err)
	}
	path := []*ring.Assignment{&stable, &copying, &settling, &done}
	if !copying.Whole(s, wholeCopies{}) {
		t.Fatalf("%s: joiners that have everything are not whole", what)
	}
	for i, write := range path {
		for j, read := range path {
			// A write under one assignment and a read under the next one, or the one before: neighbours exist at the same time.
			if j < i-1 || j > i+1 || i == 0 && j == 2 {
				continue
			}
			for ws := range 1 << 6 {
				if !subset(ring.NewWrite(write, s.W), everyone[:6], ws) {
					continue
				}
				for rs := range 1 << 6 {
					if subset(ring.NewRead(read, s.R), everyone[:6], rs) && ws&rs == 0 {
						t.Fatalf("%s: a write by %v %v at %06b and a read by %v at %06b", what, write.State, write.Epoch, ws, read.State, rs)
					}
				}
			}
		}
	}
	// A write before the move: the joiners have it.
	for ws := range 1 << 6 {
		if !subset(ring.NewWrite(&stable, s.W), everyone[:6], ws) {
			continue
		}
		have := ws
		for i, m := range everyone[:6] {
			if copying.Has(m) && !stable.Has(m) {
				have |= 1 << i
			}
		}
		for rs := range 1 << 6 {
			if subset(ring.NewRead(&settling, s.R), everyone[:6], rs) && have&rs == 0 {
				t.Fatalf("%s: a write before the move at %06b, a read after it at %06b", what, ws, rs)
			}
		}
	}
}

// wholeCopies says that all joiners have copied everything.
type wholeCopies struct{}

func (wholeCopies) Copied(ring.Bucket, ring.Member) ring.Copies {
	got := ring.Copies{}
	for _, m := range seats("abcdefgh") {
		got[m] = 1 << 60
	}
	return got
}
func (wholeCopies) Seen(ring.Bucket, ring.Member) uint64 { return 0 }
func (wholeCopies) Buried(ring.Member) bool              { return false }

// TestSourcesMeet: R3. As many owners as a joiner needs, or the one that it replaces with those that stay, together have every
// acknowledged write.
func TestSourcesMeet(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for r := 1; r <= n; r++ {
			for w := n - r + 1; w <= n; w++ {
				for l := 1; l <= n; l++ {
					s := ring.Settings{N: n, R: r, W: w, Buckets: 1, Slices: 1}
					list := seats("abcde"[:l])
					stable := ring.Assignment{Epoch: 1, Since: 1, Owners: list, Next: list}
					copying, err := stable.Begin(append(seats("abcde"[:l-1]), member("z", "1")))
					if err != nil {
						t.Fatal(err)
					}
					need := copying.Sources(member("z", "1"), s).Need
					for ws := range 1 << l {
						for from := range 1 << l {
							if subset(ring.NewWrite(&stable, w), list, ws) && len(chosen(list, from)) >= need && ws&from == 0 {
								t.Fatalf("n=%d r=%d w=%d: a write at %b, copies from %b", n, r, w, ws, from)
							}
						}
					}
					if need > 1 && w == len(list) {
						t.Errorf("n=%d w=%d: %d sources, each has everything", n, w, need)
					}
				}
			}
		}
	}
}

func chosen(list []ring.Member, who int) (out []ring.Member) {
	for i, m := range list {
		if who&(1<<i) != 0 {
			out = append(out, m)
		}
	}
	return out
}

// TestTally: answers count once, those of strangers and of other incarnations never, and a request is hopeless as soon as too few
// members are left.
func TestTally(t *testing.T) {
	abc, abd := seats("abc"), seats("abd")
	moving := &ring.Assignment{Epoch: 2, Since: 2, State: ring.Copying, Owners: abc, Next: abd}
	w := ring.NewWrite(moving, 2)
	for _, m := range []ring.Member{member("a", "1"), member("a", "1"), member("x", "1"), member("b", "2"), member("c", "1")} {
		if w.Ack(m) {
			t.Fatalf("done after %v", m)
		}
	}
	if a, b := w.Short(); a != 0 || b != 1 {
		t.Errorf("short of %d and %d", a, b)
	}
	if w.Fail(member("b", "1")) {
		t.Error("hopeless, though d can answer")
	}
	if late := w; !late.Fail(member("d", "1")) || late.Done() || !late.Ack(member("d", "1")) || late.Hopeless() {
		t.Error("d failed, and answered late: that counts")
	}
	if !w.Ack(member("d", "1")) {
		t.Error("not done with a, c and d")
	}
	r := ring.NewRead(moving, 2)
	if r.Ack(member("d", "1")) || r.Ack(member("a", "1")) || !r.Ack(member("c", "1")) {
		t.Error("a read counts a joiner")
	}
	r = ring.NewRead(moving, 2)
	for range 2 {
		if r.Ack(member("a", "1")) {
			t.Error("one answer counts twice")
		}
	}
	moving.State = ring.Settling
	r = ring.NewRead(moving, 2)
	if r.Ack(member("c", "1")) || r.Ack(member("a", "1")) || !r.Ack(member("d", "1")) {
		t.Error("a read counts one that leaves")
	}
	short := &ring.Assignment{Epoch: 1, Since: 1, Owners: abc[:1], Next: abc[:1]}
	if w := ring.NewWrite(short, 2); w.Done() || !w.Ack(abc[0]) {
		t.Error("a list of one needs one")
	}
	if w := ring.NewWrite(short, 2); !w.Fail(abc[0]) {
		t.Error("not hopeless without its only member")
	}
}
