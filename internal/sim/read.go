package sim

import (
	"errors"
	"iter"
	"math/rand/v2"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/fold"
	"bigset/readcore"
	"bigset/server/peer"
)

// reading is a read of several replicas at once, merged by readcore. It implements convergence.Reader.
type reading struct {
	rand    *rand.Rand
	merge   *readcore.Merge
	streams []*stream
	view    convergence.View
	shown   *clock.Clock
	bound   []byte // merged up to here
	done    bool
	repairs []convergence.Repair
}

// stream is one replica's part of a reading. Its iterator stays open between chunks.
type stream struct {
	rep  *replica
	next func() (*fold.Chunk, error, bool)
	stop func()
}

func merge(from []convergence.Replica, r *rand.Rand) (convergence.Reader, error) {
	m := &reading{rand: r, shown: &clock.Clock{}, merge: readcore.New(readcore.Options{Streams: len(from)})}
	for _, rep := range from {
		if rep.(*replica).joining {
			return nil, convergence.ErrNotReady
		}
		m.streams = append(m.streams, m.open(rep.(*replica), nil))
	}
	return m, nil
}

func (m *reading) open(rep *replica, after []byte) *stream {
	s := &stream{rep: rep}
	s.next, s.stop = iter.Pull2(rep.store.Read(bigset.ReadOptions{After: after, BatchSize: 1 + m.rand.IntN(2)}))
	rep.streams = append(rep.streams, s)
	return s
}

// errHungUp says that a stream's replica has gone.
var errHungUp = errors.New("sim: the replica has hung up")

// Chunk implements convergence.Reader. A stream whose last chunk is not merged yet waits.
func (m *reading) Chunk(i int) error {
	wanted := false
	for _, w := range m.merge.Wants(nil) {
		wanted = wanted || w == i
	}
	if !wanted {
		return nil
	}
	s := m.streams[i]
	if s.rep.joining {
		return convergence.ErrNotReady
	}
	c, err, ok := s.next()
	switch {
	case !ok:
		return errHungUp
	case errors.Is(err, bigset.ErrNotFound):
		err = m.merge.NotFound(i)
	case err == nil:
		err = m.merge.Admit(i, c)
	}
	if err != nil {
		return err
	}
	return m.advance()
}

func (m *reading) advance() error {
	for {
		after := string(m.bound)
		r, ok := m.merge.Step()
		if !ok {
			return nil
		}
		if r.Context != nil {
			m.view.Ranges = append(m.view.Ranges, convergence.Range{After: after, Context: encode(wide, r.Context)})
		}
		for _, e := range r.Elements {
			for _, d := range e.Dots {
				m.shown.Add(d)
			}
			m.view.Items = append(m.view.Items, m.streams[0].rep.names.item(e))
		}
		m.bound = r.Bound
		m.done = r.Done
		for _, l := range r.Lacking {
			if err := m.repair(l); err != nil {
				return err
			}
		}
	}
}

// repair makes messages of what is missing at a stream's replica: keys with their dots, and, of the dots that it should not have,
// those that a witness says are dead.
func (m *reading) repair(l readcore.Lack) error {
	to := m.streams[l.Stream].rep
	if m.rand.IntN(2) == 0 {
		return nil
	}
	f := bigset.Facts{Set: to.set, Keys: l.Missing, Dead: &clock.Clock{}}
	for _, s := range l.Suspects {
		for told, err := range m.streams[s.Witness].rep.store.Locate(clock.Of(s.Element.Dots...)) {
			if err != nil {
				return err
			}
			f.Dead.Union(told.Dead)
		}
	}
	if f.Empty() {
		return nil
	}
	frame, err := to.frame(peer.Facts(f))
	m.repairs = append(m.repairs, convergence.Repair{To: to.env.ID, Msg: frame})
	return err
}

// Replace implements convergence.Reader.
func (m *reading) Replace(i int, by convergence.Replica) error {
	rep := by.(*replica)
	if rep.joining {
		return convergence.ErrNotReady
	}
	m.streams[i].stop()
	m.merge.Fail(i)
	m.streams[i] = m.open(rep, m.merge.Replace(i))
	return nil
}

// View implements convergence.Reader.
func (m *reading) View() convergence.View {
	if w := m.merge.Whole(); w != nil { // and what was shown, which may be newer than the first clocks
		w = w.Clone()
		w.Union(m.shown)
		m.view.Whole = encode(wide, w)
	}
	return m.view
}

// Done implements convergence.Reader.
func (m *reading) Done() bool { return m.done }

// Repairs implements convergence.Reader.
func (m *reading) Repairs() (list []convergence.Repair) {
	list, m.repairs = m.repairs, nil
	return list
}

// Close implements convergence.Reader.
func (m *reading) Close() error {
	for _, s := range m.streams {
		s.stop()
	}
	return nil
}
