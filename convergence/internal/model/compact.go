package model

import "slices"

// Maintain implements convergence.Maintainer.
func (r *replica) Maintain(n int) (string, error) {
	switch {
	case n%3 != 0 && r.span == nil:
		// The rewriter reads a span, and swaps it in at a later call.
		r.span = r.sift(r.keys, &r.durable.dead)
		return "", nil
	case r.span != nil:
		r.swap()
		return "rewrite", nil
	}
	return "compaction", r.compact()
}

// sift returns the keys that a durable Dead does not cover.
func (r *replica) sift(keys []key, dead *dots) []key {
	out := make([]key, 0, len(keys))
	for _, k := range keys {
		if !dead.has(k.dot) {
			out = append(out, k)
		}
	}
	return out
}

// everywhere changes the keys on disk, whatever part of the log a crash leaves.
func (r *replica) everywhere(change func(keys []key) []key) {
	r.keys, r.durable.keys = change(r.keys), change(r.durable.keys)
	for i := range r.log {
		r.log[i].keys = change(r.log[i].keys)
	}
}

func (r *replica) compact() error {
	dead := r.durable.dead
	if r.bug == "drop-by-undurable-dead" {
		dead = r.dead
	}
	r.everywhere(func(keys []key) []key { return r.sift(keys, &dead) })
	switch r.bug {
	case "drop-superseded-chain":
		r.unresolved = slices.DeleteFunc(slices.Clone(r.unresolved), func(o wide) bool { return o.add && (r.dead.has(o.dot) || r.covered(o.elem, o.dot)) })
	case "tombstone-forgotten":
		r.dead = dots{}
		for _, k := range r.keys {
			if r.state.dead.has(k.dot) {
				r.dead.add(k.dot)
			}
		}
	case "clock-forgotten":
		if !slices.ContainsFunc(r.keys, r.live) {
			r.seen, r.dead, r.keys = dots{}, dots{}, nil
		}
	default:
		return nil
	}
	r.commit()
	return nil
}

// swap replaces what the rewriter had read with its copy. What was written since is kept.
func (r *replica) swap() {
	span, dead := r.span, r.durable.dead
	r.span = nil
	if r.bug == "rewriter-misses-write" {
		r.everywhere(func(keys []key) []key {
			return slices.DeleteFunc(slices.Clone(keys), func(k key) bool {
				_, ok := slices.BinarySearchFunc(span, k, compare)
				return !ok
			})
		})
		return
	}
	r.everywhere(func(keys []key) []key { return r.sift(keys, &dead) })
}

// Damage implements convergence.Damager.
func (r *replica) Damage(elem string) (had bool, err error) {
	if !r.o.Scrub {
		return false, nil
	}
	r.everywhere(func(keys []key) []key {
		return slices.DeleteFunc(slices.Clone(keys), func(k key) bool {
			had = had || k.elem == elem
			return k.elem == elem
		})
	})
	r.span = nil
	return had, nil
}
