package crashfs

import (
	"fmt"
	"math/rand/v2"

	"bigset/convergence"
)

// Disk is the file system of one life of a replica. Embedded in a replica it implements convergence.Backuper,
// convergence.DiskFaulter, and the Crash method of convergence.Durable.
type Disk struct {
	*FS
	rand *rand.Rand
}

// Open returns the disk that a replica finds: empty at its first start and after its disk was lost, otherwise what its last life
// left. A backup may be opened more than once; each life gets its own copy.
func Open(env convergence.Env) (*Disk, error) {
	if env.Disk == nil {
		return &Disk{New(0), env.Rand}, nil
	}
	f, ok := env.Disk.(*FS)
	switch {
	case !ok:
		return nil, fmt.Errorf("crashfs: the disk is a %T", env.Disk)
	case env.Moved:
		f = f.Clone()
	}
	return &Disk{f, env.Rand}, nil
}

// Crash cuts the power.
func (d *Disk) Crash(keep int) (disk any, err error) { return d.Cut(d.rand, keep), nil }

// Backup returns a copy of the disk.
func (d *Disk) Backup() (disk any, err error) { return d.Clone(), nil }

// DiskFault makes the disk fail as the kit says.
func (d *Disk) DiskFault(kind string) error {
	switch kind {
	case "":
		d.Fail(nil)
	case "io-error":
		d.Fail(ErrIO)
	case "disk-full":
		d.Fail(ErrFull)
	default:
		return fmt.Errorf("crashfs: unknown fault %q", kind)
	}
	return nil
}
