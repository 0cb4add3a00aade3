package sim

import (
	"fmt"

	"bigset/convergence"
)

// effect begins the name of the state in which a fault has had its effect: of faults of disks the kit knows only that they were asked for.
const effect = "effect of "

// engineSystem is the name of the system whose replicas are real stores.
const engineSystem = "engine"

// spec is what replicas of a set have to show.
var spec = convergence.AddWins{Replace: true, Clear: true}

// Rules returns the system whose replicas are the rules over a store in memory.
func Rules() convergence.System {
	return convergence.System{Name: "rules", Spec: spec, Merge: merge, Open: func(env convergence.Env) (convergence.Replica, error) {
		set := []byte("set")
		disk, _ := env.Disk.(replicaDisk)
		return newReplica(env, set, openMemory(set, env.ID, env.Start, disk.store, env.Sometimes)), nil
	}}
}

// Engines returns the system whose replicas are engines on file systems in memory. The engines live on from schedule to schedule,
// each of which has a set of its own, until a schedule crashes them; the function that it returns closes those that are left.
func Engines() (convergence.System, func() error) {
	p, schedules := &pool{}, 0
	return convergence.System{Name: engineSystem, Spec: spec, Merge: merge, Open: func(env convergence.Env) (convergence.Replica, error) {
		if env.ID == 0 && env.Start == 0 {
			schedules++
		}
		set := fmt.Appendf(nil, "set %d", schedules)
		disk, _ := env.Disk.(replicaDisk)
		s, err := openEngine(p, set, disk.store, env.Rand, env.Sometimes)
		if err != nil {
			return nil, err
		}
		return newReplica(env, set, s), nil
	}}, p.close
}

func newReplica(env convergence.Env, set []byte, s store) *replica {
	disk, found := env.Disk.(replicaDisk)
	r := &replica{env: env, store: s, set: set, joining: env.Start > 0 && !found || disk.joining || env.Moved}
	r.onDisk = r.joining
	return r
}
