package engine

import (
	"time"

	"bigset/clock"
	"bigset/engine/internal/lockorder"
)

// publisher hands tombstones to the drop filter. A Dead enters the registry when it is durable and every reader of
// its set that began before it was taken has ended. Then it is right to hide a key from readers and to leave it out
// of a table. The publisher runs one goroutine.
type publisher struct {
	s      *Store
	mu     lockorder.Mutex[lockorder.PublisherMu]
	dirty  map[*set]struct{}                          // sets whose Dead has grown since it was last taken
	rounds lockorder.Mutex[lockorder.PublisherRounds] // one round at a time
	waits  []*set                                     // sets with a candidate that is not published yet; under rounds
	quit   chan struct{}
	done   chan struct{}
}

// publishing is a set's candidate: a Dead on its way into the registry. It belongs to the publisher's round.
type publishing struct {
	candidate *clock.Clock
	need      uint64 // durable when the store is durable up to it
}

func (p *publishing) waiting() bool { return p.candidate != nil }

func (p *publisher) start(s *Store) {
	p.s, p.dirty = s, map[*set]struct{}{}
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	go p.run()
}

func (p *publisher) stop() {
	close(p.quit)
	<-p.done
}

func (p *publisher) run() {
	defer close(p.done)
	if p.s.opt.BackgroundInterval < 0 {
		<-p.quit
		return
	}
	// Tombstones are handed over often: a key that dies before its memtable is flushed never reaches a table.
	t := time.NewTicker(min(p.s.opt.BackgroundInterval, 20*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-t.C:
			_ = p.round() // a failure has failed the store
		}
	}
}

// grew records that a set's Dead has grown. The set stays pinned until its Dead is published or the set is forgotten.
func (p *publisher) grew(st *set) {
	if !p.s.strategy.Filters() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.dirty[st]; !ok {
		p.dirty[st] = struct{}{}
		p.s.sets.pin(st)
	}
}

// round takes candidates of the sets that have grown, makes them durable and publishes those that no reader delays.
func (p *publisher) round() error {
	p.rounds.Lock()
	defer p.rounds.Unlock()
	if err := p.s.db.Writable(); err != nil {
		return err
	}
	p.take()
	if len(p.waits) == 0 {
		return nil
	}
	need := uint64(0)
	for _, st := range p.waits {
		need = max(need, st.publish.need)
	}
	if p.s.db.Durable() < need {
		if err := p.s.db.SyncLog(); err != nil {
			return err
		}
	}
	p.publishReady()
	return nil
}

// take makes a candidate of each grown set that has none. Readers that begin from now on need not be waited for. If a set's candidate was
// dropped with its range, readers that the candidate waited for may still be open: the set is taken again when they have left.
func (p *publisher) take() {
	p.mu.Lock()
	var taken []*set
	for st := range p.dirty {
		if !st.publish.waiting() && st.readers.over() {
			delete(p.dirty, st)
			taken = append(taken, st)
		}
	}
	p.mu.Unlock()
	if len(taken) == 0 || !p.s.readers.over() {
		p.putBack(taken)
		return
	}
	for _, st := range taken {
		st.mu.Lock()
		st.publish.candidate = st.dead.Clone()
		st.mu.Unlock()
		st.publish.need = p.s.db.Applied()
		st.readers.turn()
	}
	p.s.readers.turn()
	p.waits = append(p.waits, taken...)
}

// putBack returns sets to those that have grown: a reader of the whole store still delays the last round.
func (p *publisher) putBack(sets []*set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range sets {
		if _, ok := p.dirty[st]; ok {
			p.s.sets.release(st) // grown again since, with a pin of its own
		}
		p.dirty[st] = struct{}{}
	}
}

// publishReady moves into the registry the candidates that are durable and older than every reader.
func (p *publisher) publishReady() {
	durable := p.s.db.Durable()
	storeReadersOver := p.s.readers.over()
	changes := map[string]*clock.Clock{}
	rest := p.waits[:0]
	var ready []*set
	for _, st := range p.waits {
		if durable >= st.publish.need && storeReadersOver && st.readers.over() {
			changes[string(st.prefix)] = st.publish.candidate
			ready = append(ready, st)
		} else {
			rest = append(rest, st)
		}
	}
	clear(p.waits[len(rest):])
	p.waits = rest
	if len(ready) == 0 {
		return
	}
	registry := p.s.registry.Load()
	p.s.registry.Store(registry.With(changes))
	p.s.counters.published.Add(uint64(len(ready)))
	for _, st := range ready {
		// A Dead that was taken before its writer reported the growth is taken again, and contains nothing new.
		if n := st.publish.candidate.Len() - registry.Dots(st.prefix); n > 0 {
			p.s.event(Event{Kind: EventPublish, Set: st.name, Dots: n})
		}
		st.publish.candidate = nil
		p.s.sets.account(st)
		p.s.sets.release(st)
	}
}

// evict unpins a set and takes it out of memory and out of the registry, unless another goroutine has pinned it. Dead
// keys that therefore stay on disk are dropped after the next load of the set. No round and no DropRange comes
// between the two steps: DropRange takes only sets that are in memory out of the registry, and an old Dead that
// stayed there would drop keys that are stored again later.
func (p *publisher) evict(st *set) {
	p.rounds.Lock()
	defer p.rounds.Unlock()
	if !p.s.sets.releaseAndForget(st) {
		return
	}
	if p.s.sets.trimmed != nil {
		p.s.sets.trimmed()
	}
	if r := p.s.registry.Load(); r.Len() > 0 {
		p.s.registry.Store(r.With(map[string]*clock.Clock{string(st.prefix): nil}))
	}
}
