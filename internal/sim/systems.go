package sim

import (
	"fmt"

	"bigset/convergence"
)

// effect is the prefix of the state in which a fault has had its effect: the kit knows of faults of disks only that they were
// requested.
const effect = "effect of "

// spec says what replicas of a set have to show.
var spec = convergence.AddWins{Replace: true, Clear: true}

// Rules returns the system whose replicas are the rules with a store in memory.
func Rules() convergence.System {
	share := func() any { return newShared("set") }
	return convergence.System{Name: "rules", Spec: spec, Merge: merge, Share: share, Open: func(env convergence.Env) (convergence.Replica, error) {
		sh, disk := sharedOf(env)
		return newReplica(env, sh, openMemory(sh.set, env.ID, env.Start, disk.store, env.Sometimes)), nil
	}}
}

// Engines returns the system whose replicas are engines on file systems in memory. The engines are used for several schedules, each
// with its own set, until a schedule crashes them. The returned function closes those that are left.
func Engines() (convergence.System, func() error) {
	p, schedules := &pool{}, 0
	share := func() any {
		schedules++
		return newShared(fmt.Sprintf("set %d", schedules))
	}
	return convergence.System{Name: "engine", Alone: true, Spec: spec, Merge: merge, Share: share, Open: func(env convergence.Env) (convergence.Replica, error) {
		sh, disk := sharedOf(env)
		s, err := openEngine(p, sh.set, disk.store, env.Rand, env.Sometimes)
		if err != nil {
			return nil, err
		}
		return newReplica(env, sh, s), nil
	}}, p.close
}

// shared is what the replicas of a schedule share.
type shared struct {
	set   []byte // its name
	names *names
}

func newShared(set string) *shared { return &shared{[]byte(set), newNames()} }

// sharedOf returns what a replica shares, and its disk. A replica that is opened only to find out what it can do shares nothing.
func sharedOf(env convergence.Env) (*shared, replicaDisk) {
	disk, _ := env.Disk.(replicaDisk)
	if sh, ok := env.Shared.(*shared); ok {
		return sh, disk
	}
	return newShared("alone"), disk
}

func newReplica(env convergence.Env, sh *shared, s store) *replica {
	disk, found := env.Disk.(replicaDisk)
	r := &replica{env: env, store: s, set: sh.set, names: sh.names, joining: env.Start > 0 && !found || disk.joining || env.Moved}
	r.onDisk = r.joining
	return r
}
