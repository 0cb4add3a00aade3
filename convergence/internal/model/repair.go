package model

// Ask implements convergence.Repairer: it sends Seen, without the dots whose keys were lost.
func (r *replica) Ask() ([]byte, error) {
	seen := r.seen
	if r.o.Scrub {
		have := r.dead
		for _, k := range r.keys {
			have.add(k.dot)
		}
		seen.intersect(&have)
	}
	return seen.append(nil), nil
}

// Answer implements convergence.Repairer: the keys that are missing at the other replica, and all deaths. It does not mention a dot
// that has neither a key nor a death here.
func (r *replica) Answer(ask []byte) ([][]byte, error) {
	d := decoder{b: ask}
	theirs := d.dots()
	if err := d.end(); err != nil {
		return nil, err
	}
	f := facts{asked: r.seen}
	f.asked.minus(&theirs)
	if r.bug == "ae-seen-only" && f.asked.empty() {
		return nil, nil
	}
	for _, k := range r.keys {
		if !theirs.has(k.dot) && !r.dead.has(k.dot) {
			f.keys = append(f.keys, k)
		}
	}
	if r.bug == "ae-clock-first" {
		return [][]byte{r.seen.append([]byte{msgClock}), f.append(nil)}, nil
	}
	deaths := facts{dead: r.dead, unresolved: r.unresolved}
	if r.bug == "ae-missing-is-dead" || r.o.KeepContexts || r.env.Rand.IntN(2) == 0 {
		f.dead, f.unresolved = deaths.dead, deaths.unresolved
		return [][]byte{f.append(nil)}, nil
	}
	return [][]byte{f.append(nil), deaths.append(nil)}, nil
}
