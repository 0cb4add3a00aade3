package textbook

import (
	"slices"
	"sync"

	"bigset/convergence"
)

// locked is a replica for two clients at once.
type locked struct {
	mu sync.Mutex
	convergence.Replica
}

// Do implements convergence.Replica.
func (s *locked) Do(op convergence.Op) (convergence.Effect, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Replica.Do(op)
}

// parallel returns a system with a lock around its operations.
func parallel(sys convergence.System) convergence.System {
	open := sys.Open
	sys.Name, sys.Parallel = sys.Name+"-parallel", true
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		r, err := open(env)
		return &locked{Replica: r}, err
	}
	return sys
}

// each is a replica that does the operations of a batch one by one, and sends the messages of each.
type each struct{ convergence.Replica }

// DoBatch implements convergence.Batcher.
func (s each) DoBatch(ops []convergence.Op) (all convergence.Effect, err error) {
	for _, op := range ops {
		e, err := s.Do(op)
		if err != nil {
			return all, err
		}
		if all.Out = append(all.Out, e.Out...); len(e.Tags) == 0 {
			e.Tags = []string{e.Tag}
		}
		all.Tags = append(all.Tags, e.Tags...)
	}
	return all, nil
}

// oneByOne returns a system whose replicas take batches.
func oneByOne(sys convergence.System) convergence.System {
	open := sys.Open
	sys.Name += "-each"
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		r, err := open(env)
		return each{r}, err
	}
	return sys
}

// mail has the messages that a replica sends by itself.
type mail struct{ out [][]byte }

// Sent implements convergence.Sender.
func (m *mail) Sent() [][]byte {
	out := m.out
	m.out = nil
	return out
}

// sends is a set that sends its operations by itself.
type sends struct {
	*orset
	mail
}

// Do implements convergence.Replica.
func (s *sends) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.orset.Do(op)
	s.out, e.Out = append(s.out, e.Out...), nil
	return e, err
}

// outbox is a set that writes everything to its disk with each of its operations, and sends its operations again when it is opened again.
type outbox struct {
	*orset
	disk savedOutbox
}

// savedOutbox is what is on a disk.
type savedOutbox struct {
	saved
	sent [][]byte
}

func openOutbox(env convergence.Env, o setOptions) *outbox {
	s := &outbox{orset: openSet(env, o)}
	if d, ok := env.Disk.(savedOutbox); ok {
		s.restore(d.saved)
		s.disk.sent = d.sent
	}
	s.disk.saved = s.snapshot()
	return s
}

// Do implements convergence.Replica.
func (s *outbox) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.orset.Do(op)
	e.Durable = true
	s.disk = savedOutbox{s.snapshot(), append(slices.Clip(s.disk.sent), e.Out...)}
	return e, err
}

// Receive implements convergence.Replica. It drops a change that it has.
func (s *outbox) Receive(msg []byte) (durable bool, err error) {
	c, err := decodeChange(msg)
	if err != nil {
		return false, err
	}
	if !s.have[dot{c.author, c.seq}] {
		s.all(c)
	}
	return false, nil
}

// Sync implements convergence.Durable.
func (s *outbox) Sync() error {
	s.disk.saved = s.snapshot()
	return nil
}

// Crash implements convergence.Durable.
func (s *outbox) Crash(int) (any, error) { return s.disk, nil }

// Stop implements convergence.Durable.
func (s *outbox) Stop() (any, error) {
	err := s.Sync()
	return s.disk, err
}

// Unsent implements convergence.Resender.
func (s *outbox) Unsent() ([][]byte, error) { return slices.Clone(s.disk.sent), nil }
