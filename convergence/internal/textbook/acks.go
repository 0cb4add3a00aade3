package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// stable is an observed-remove set whose log of operations is cut off: what every replica has acknowledged on its disk is not kept for
// anti-entropy. Acknowledgements are messages of its own, sent when it has received something and when it has synced.
type stable struct {
	*orset
	acks map[int]clock // by replica: what it has on its disk
	disk savedStable
	mail
}

func openStable(env convergence.Env, o setOptions) *stable {
	s := &stable{orset: openSet(env, o), acks: map[int]clock{}}
	if d, ok := env.Disk.(savedStable); ok {
		s.restore(d.saved)
		s.acks = maps.Clone(d.acks)
	}
	s.save()
	return s
}

// savedStable is what is on a disk.
type savedStable struct {
	saved
	acks map[int]clock
}

func (s *stable) save() {
	s.acks[s.env.ID] = maps.Clone(s.seen)
	s.disk = savedStable{s.snapshot(), maps.Clone(s.acks)}
}

// saved is a set on a disk.
type saved struct {
	live map[string][]dot
	dead map[dot]bool
	seen clock
	ops  []change
	have map[dot]bool
}

func (s *orset) snapshot() saved {
	return saved{maps.Clone(s.live), maps.Clone(s.dead), maps.Clone(s.seen), slices.Clone(s.ops), maps.Clone(s.have)}
}

func (s *orset) restore(d saved) {
	s.live, s.dead, s.seen, s.ops, s.have = maps.Clone(d.live), maps.Clone(d.dead), maps.Clone(d.seen), slices.Clone(d.ops), maps.Clone(d.have)
}

// acknowledge sends the other replicas what this one has.
func (s *stable) acknowledge() {
	has := s.disk.seen
	if s.o.bug == "acknowledged-before-durable" {
		has = s.seen
	}
	b := buffer{'k'}
	b.num(uint64(s.env.ID))
	b.clock(has)
	s.out = append(s.out, b)
}

// Do implements convergence.Replica.
func (s *stable) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.orset.Do(op)
	for i := range e.Out {
		e.Out[i] = append([]byte{'o'}, e.Out[i]...)
	}
	return e, err
}

// Receive implements convergence.Replica.
func (s *stable) Receive(msg []byte) (durable bool, err error) {
	if len(msg) == 0 {
		return false, errMalformed
	}
	if msg[0] == 'o' {
		if _, err := s.orset.Receive(msg[1:]); err != nil {
			return false, err
		}
		s.acknowledge()
		return false, nil
	}
	src := source{b: msg[1:]}
	id, has := int(src.num()), src.clock()
	if err := src.end(); err != nil {
		return false, err
	}
	known := maps.Clone(s.acks[id])
	if known == nil {
		known = clock{}
	}
	known.join(has)
	s.acks[id] = known
	s.cut()
	return false, nil
}

// cut forgets the operations that all replicas have acknowledged.
func (s *stable) cut() {
	need := s.env.Replicas
	if s.o.bug == "cut-off-by-majority" {
		need = need/2 + 1
	}
	s.ops = slices.DeleteFunc(s.ops, func(c change) bool {
		count := 0
		for _, has := range s.acks {
			if has.has(dot{c.author, c.seq}) {
				count++
			}
		}
		if count >= need {
			s.env.Sometimes("operation cut off")
		}
		return count >= need
	})
}

// Sync implements convergence.Durable.
func (s *stable) Sync() error {
	s.save()
	s.acknowledge()
	return nil
}

// Crash implements convergence.Durable.
func (s *stable) Crash(int) (any, error) { return s.disk, nil }

// Stop implements convergence.Durable.
func (s *stable) Stop() (any, error) {
	s.save()
	return s.disk, nil
}

// Ask implements convergence.Repairer.
func (s *stable) Ask() ([]byte, error) { return gossips{s.orset}.Ask() }

// Answer implements convergence.Repairer.
func (s *stable) Answer(ask []byte) ([][]byte, error) {
	out, err := gossips{s.orset}.Answer(ask)
	for i := range out {
		out[i] = append([]byte{'o'}, out[i]...)
	}
	return out, err
}
