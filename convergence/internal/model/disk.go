package model

import (
	"errors"

	"bigset/convergence"
)

// disk is what a replica leaves behind.
type disk struct {
	state
	clean bool // it was closed cleanly: its actor continues
}

func open(env convergence.Env, o Options) (*replica, error) {
	r := &replica{env: env, o: o, bug: o.Bug}
	old, had := env.Disk.(*disk)
	if had {
		r.state = old.state
	}
	keep := had && old.clean && !env.Moved
	switch {
	case o.Reserve && had && !env.Moved:
		r.ctr, keep = r.reserved, true
	case had && (r.bug == "counter-reused" || r.bug == "key-before-clock" || r.bug == "restored-backup-keeps-actor" && env.Moved):
		keep = true
	}
	if !keep {
		r.life, r.ctr, r.reserved = env.Start, 0, 0
	}
	if r.bug == "id-forgotten-in-crash" && had && !old.clean {
		r.done = nil
	}
	if lost := env.Start > 0 && !had; (lost || env.Moved) && r.bug != "empty-answer-counts" {
		r.join()
	}
	owner := env.ID
	if r.bug == "actor-shared" && owner == 1 {
		owner = 0
	}
	r.actor = uint8(owner*lives + min(r.life, lives-1))
	r.durable = r.state
	if owner*lives >= actors-lives+1 {
		return nil, errors.New("model: too many replicas")
	}
	return r, nil
}

// join waits for a copy of every other replica.
func (r *replica) join() {
	r.joining, r.filled = r.env.Replicas > 1, 1<<r.env.ID
	r.copies = [8]*progress{}
}

// commit ends a batch.
func (r *replica) commit() { r.log = append(r.log, r.state) }

// Sync implements convergence.Durable.
func (r *replica) Sync() error {
	if r.fault != "" {
		return errors.New("model: disk: " + r.fault)
	}
	reserved := r.durable.reserved
	r.durable, r.log = r.state, r.log[:0]
	r.durable.reserved = max(reserved, r.durable.reserved)
	return nil
}

// Crash implements convergence.Durable.
func (r *replica) Crash(keep int) (any, error) {
	left := r.durable
	if n := len(r.log) * keep / 4; n > 0 {
		left = r.log[n-1]
		left.reserved = max(left.reserved, r.durable.reserved)
	}
	return &disk{state: left}, nil
}

// Stop implements convergence.Durable.
func (r *replica) Stop() (any, error) {
	r.fault = ""
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return &disk{state: r.durable, clean: true}, nil
}

// Backup implements convergence.Backuper.
func (r *replica) Backup() (any, error) { return &disk{state: r.durable, clean: true}, nil }

// DiskFault implements convergence.DiskFaulter.
func (r *replica) DiskFault(kind string) error {
	r.fault = kind
	return nil
}

// Leave implements convergence.Leaver.
func (r *replica) Leave() error {
	if r.bug == "range-half-dropped" {
		r.keys = nil
	} else {
		// The clock is removed with the keys, and with it this actor: its counter must not start again.
		r.state = state{life: r.life, ctr: r.ctr, reserved: r.reserved}
	}
	r.span = nil
	r.join()
	r.commit()
	return r.Sync()
}
