package convergence

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// reading is a streaming read in progress.
type reading struct {
	step   int // that opened it
	reader Reader
	ids    []int  // the replica of each stream
	broken []bool // its replica has crashed or left
	done   bool

	acked bitset // acknowledged by a quorum before it began
	sure  bitset // applied at one of its first replicas before it began
	moved bool   // a replica was replaced: sure no longer means anything
	may   bitset
	loose map[string]bool
	mixed bool
}

// end closes a read.
func (r *reading) end() *Violation {
	if r.done {
		return nil
	}
	r.done = true
	if err := r.reader.Close(); err != nil {
		return bad(Failed, "the read of step %d does not close: %v", r.step, err)
	}
	return nil
}

// lost records that a replica crashed.
func (r *reading) lost(id int) {
	for i := range r.ids {
		r.broken[i] = r.broken[i] || r.ids[i] == id
	}
}

// openRead opens a read of several replicas. For a "quorum" step it reads to the end at once.
func (w *world) openRead(s *Step) (*Violation, error) {
	if w.sys.Merge == nil || s.Set == 0 {
		return nil, fmt.Errorf("%w: no reads of several replicas", errSkip)
	}
	r := &reading{step: s.N, loose: map[string]bool{}}
	var from []Replica
	for set := s.Set; set != 0; set &= set - 1 {
		n := w.nodes[bits.TrailingZeros32(set)]
		from = append(from, n.rep)
		r.ids = append(r.ids, n.id)
		r.sure.union(&n.sure)
	}
	// W is a majority of N, and R+W > N.
	if n := len(w.nodes); len(r.ids)+n/2+1 > n {
		r.acked = w.h.ackedBy(n/2 + 1)
	}
	r.broken = make([]bool, len(r.ids))
	var err error
	if r.reader, err = w.sys.Merge(from, w.rand); err != nil {
		w.stats.Sometimes["read refused"]++
		return nil, fmt.Errorf("%w: %w", errSkip, err)
	}
	w.reads = append(w.reads, r)
	r.grow(w)
	if s.Kind == "quorum" {
		return w.finishRead(r)
	}
	return nil, nil
}

// grow records what the read's replicas can have returned by now.
func (r *reading) grow(w *world) {
	for _, id := range r.ids {
		r.may.union(&w.nodes[id].maybe)
		maps.Copy(r.loose, w.nodes[id].loose)
		r.mixed = r.mixed || w.nodes[id].mixed
	}
}

func (w *world) findRead(step int) *reading {
	for _, r := range w.reads {
		if r.step == step && !r.done {
			return r
		}
	}
	return nil
}

func (w *world) readStep(s *Step) (*Violation, error) {
	r := w.findRead(s.Ref)
	if r == nil {
		return nil, fmt.Errorf("%w: no such read", errSkip)
	}
	i := s.Arg
	if i < 0 || i >= len(r.ids) {
		if s.Kind != "finish" {
			return nil, fmt.Errorf("%w: no such stream", errSkip)
		}
	}
	switch s.Kind {
	case "finish":
		return w.finishRead(r)
	case "replace":
		return nil, w.replace(r, i, w.nodes[s.B])
	}
	return nil, w.chunk(r, i)
}

// chunk takes the next chunk of a stream. If its replica has crashed or left, another one takes its place first.
func (w *world) chunk(r *reading, i int) error {
	if r.broken[i] {
		if err := w.replaceLost(r, i); err != nil {
			r.end()
			return err
		}
	}
	r.grow(w)
	w.call(w.nodes...)
	if err := r.reader.Chunk(i); err != nil {
		r.end()
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	w.repairs(r)
	return nil
}

func (w *world) replaceLost(r *reading, i int) error {
	for _, n := range w.nodes {
		if !n.gone && !slices.Contains(r.ids, n.id) && w.replace(r, i, n) == nil {
			return nil
		}
	}
	return w.replace(r, i, w.nodes[r.ids[i]])
}

func (w *world) replace(r *reading, i int, by *node) error {
	if r.reader.Done() {
		return fmt.Errorf("%w: it is at its end", errSkip)
	}
	for j, id := range r.ids {
		if id == by.id && j != i {
			return fmt.Errorf("%w: it is read already", errSkip)
		}
	}
	if err := r.reader.Replace(i, by.rep); err != nil {
		if errors.Is(err, ErrNotReady) {
			w.stats.Sometimes["read refused"]++
		}
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	r.ids[i], r.broken[i], r.moved = by.id, false, true
	w.stats.Faults["stream-failover"]++
	if len(r.reader.View().Items) > 0 {
		w.stats.Sometimes["replica replaced in the middle of a read"]++
	}
	r.grow(w)
	return nil
}

// repairs sends what read repair found.
func (w *world) repairs(r *reading) {
	for _, m := range r.reader.Repairs() {
		if m.To < 0 || m.To >= len(w.nodes) {
			continue
		}
		w.stats.Sometimes["read repair"]++
		w.send(&message{to: m.To, from: m.To, data: m.Msg, maybe: r.may.clone(), repair: true})
	}
}

// finishRead takes the remaining chunks, one stream after the other, and judges what was shown.
func (w *world) finishRead(r *reading) (*Violation, error) {
	for n := 0; !r.reader.Done(); n++ {
		if n > 10000 {
			return bad(Failed, "a read does not end"), nil
		}
		if err := w.chunk(r, n%len(r.ids)); err != nil {
			return nil, err
		}
	}
	r.grow(w)
	must := r.acked.clone()
	if !r.moved {
		must.union(&r.sure)
	}
	view := r.reader.View()
	if m := &w.made[w.pos]; m.wanted {
		m.view = &seenView{View: view, sure: must, maybe: r.may.clone(), loose: r.loose}
	}
	w.stats.Sometimes["read of several replicas"]++
	v := w.judge(Reading{View: view, h: w.h, must: must, may: r.may, loose: r.loose, mixed: r.mixed})
	if w.trace {
		w.say("shows %s", view)
	}
	if end := r.end(); v == nil {
		v = end
	}
	return v, nil
}
