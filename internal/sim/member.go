package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/convergence"
	"bigset/handoff"
	"bigset/internal/faultdisk"
	"bigset/keyscheme"
	"bigset/server/coord/turns"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

// member is a replica of a cluster: an engine that crashes, loses its disk, and comes back in a new incarnation.
type member struct {
	*local.Replica
	store   *engineStore
	node    string
	process *process // that copies from others
	clock   *dial
	down    bool
	lives   int      // how often it has ended
	disks   []string // the identities that its disks had, one for each life

	joining bool             // it has lost its disk: it answers after it has copied from every other member
	filled  map[*member]bool // the members that it has copied since then
	copies  int              // from it or to it, in progress

	self     *node              // set if members are those of package server/cluster
	backup   [2]*faultdisk.Disk // copies of its disk, and of that of its hints
	deaf     time.Time          // until then it hears nothing from the others about what they agree on
	deafness time.Duration      // how long it will be deaf after it agrees to an epoch

	fault  string        // of its disk
	failed *atomic.Int64 // writes that failed
}

// holds reports whether the replica is one of those that hold the set.
func (m *member) holds() bool { return m.self == nil || m.self.owner }

// dial is a clock that runs with the others, except that it jumps.
type dial struct {
	c      *cluster
	jumped bool
	by     atomic.Int64 // nanoseconds
	unread atomic.Bool  // the clock has not been read since the last jump
	looks  atomic.Int64 // first reads after a jump
}

func (c *cluster) dial() *dial {
	c.dials = append(c.dials, &dial{c: c})
	return c.dials[len(c.dials)-1]
}

// Now returns the time by this clock.
func (d *dial) Now() time.Time {
	if d.unread.CompareAndSwap(true, false) {
		d.looks.Add(1)
	}
	return d.c.turns.Now().Add(time.Duration(d.by.Load()))
}

// skewed is a coord.Runner whose clock jumps. Its waits are not affected.
type skewed struct {
	*turns.Runner
	clock *dial
}

func (s skewed) Now() time.Time { return s.clock.Now() }

// up opens a replica's store.
func (c *cluster) up(m *member, disk *faultdisk.Disk, dir string, strategy compaction.Strategy) error {
	h, err := open(disk, dir, strategy, m.clock.Now, c.random())
	if err != nil {
		return err
	}
	m.store = &engineStore{host: h, set: c.set, rand: c.script.rand(uint64(1000 + len(c.gone))), some: func(string) {}}
	c.names.met(c.indexOf(m), h.Replica().Actor())
	m.disks = append(m.disks, string(h.Replica().Identity()))
	state := peer.Normal
	if m.joining {
		state = peer.Joining
	}
	m.Replica, err = local.New(m.node, h.Store, state)
	return err
}

// crash ends a replica's process. After a while the process is back, in a new incarnation, with what its disk has kept.
func (c *cluster) crash(m *member, disk *faultdisk.Disk, percent, seconds int) {
	old := m.store.host
	old.disk.Heal()
	m.fault = ""
	c.gone = append(c.gone, old)
	if m.copies > 0 {
		c.count("copy-crash")
	}
	if m.self != nil {
		c.halt(m, percent)
	}
	if err := c.up(m, disk, old.dir, old.strategy); err != nil {
		c.facts.violated(convergence.Failed, "%s does not come back: %v", m.node, err)
		return
	}
	if m.self != nil && c.joins(m, old) {
		m.joining = true
	}
	if m.joining {
		c.losses++
	}
	m.lives++
	m.down = true
	life := m.lives
	c.turns.After(time.Duration(seconds)*time.Second, func() {
		if m.lives != life {
			return
		}
		switch m.down = false; {
		case m.self != nil:
			c.boot(m)
		case m.joining:
			c.join(m)
		}
	})
}

// power cuts a replica's power; the given percentage of what was not synced survives. With 100 only the process was killed: that
// also loses what was acknowledged unsynced, as long as it was in the log's buffer and not yet in its file.
func (c *cluster) power(m *member, percent, seconds int) {
	kind := "crash"
	if percent < 100 {
		kind = "crash-unsynced"
	}
	c.facts.lossy()
	c.count(kind)
	c.crash(m, c.clone(m.store.host.disk, percent), percent, seconds)
}

// outage cuts the power of all members at once. They unite what they have kept: everything that was acknowledged as on disk. What a
// crash may take back is no longer promised. It does nothing if a member has to be filled: a lost disk and an outage together are
// more than W-1 losses.
func (c *cluster) outage(percent, seconds int) bool {
	for _, m := range c.members {
		if m.down || m.joining || m.fault != "" {
			return false
		}
	}
	c.count("outage")
	c.outages++
	c.facts.outage(c.filterDurability == bigset.FilterSync)
	for _, m := range c.members {
		if c.filterDurability != bigset.FilterSync {
			m.process.marked = nil
		}
		c.power(m, percent, seconds)
	}
	return true
}

// crashIn cuts a replica's power in the middle of a call, or right after it.
func (c *cluster) crashIn(m *member, t *step, do func() error) {
	c.clones++
	left := m.store.host.disk.CrashAt(int64(t.args["writes"]), t.args["keep"], c.script.seed+c.clones)
	c.crashing, c.torn = true, nil
	_ = do()
	c.crashing = false
	disk := left()
	if disk == nil {
		disk = c.clone(m.store.host.disk, t.args["keep"])
	}
	c.count("crash-unsynced")
	c.count("crash in the middle of a call")
	c.facts.lossy()
	c.crash(m, disk, t.args["keep"], t.args["seconds"])
	for _, d := range c.torn {
		st, err := stateOf(m.store)
		if err != nil {
			c.facts.violated(convergence.Failed, "%s: %v", m.node, err)
		} else if st.Seen.Contains(dotOf(d, 0)) { // otherwise the power was cut before that
			c.facts.minted(d)
		}
	}
}

// made records the delta that a replica has made.
func (c *cluster) made(d bigset.Delta) {
	c.once(d)
	switch {
	case d.Empty():
	case c.crashing:
		c.torn = append(c.torn, d)
	default:
		c.facts.minted(d)
	}
}

// putBack brings a member back with an older copy of its disk, which is another disk.
func (c *cluster) putBack(m *member, seconds int) bool {
	if m.self == nil || m.backup[0] == nil || m.down || !c.mayJoin(m) {
		return false
	}
	disk := c.clone(m.backup[0], 100)
	if err := touch(disk, disk.PathJoin(m.store.host.dir, "IDENTITY"), c.clones); err != nil {
		c.facts.violated(convergence.Failed, "an older copy of %s: %v", m.node, err)
		return false
	}
	c.count("crash-unsynced")
	m.joining = true
	before := len(m.disks)
	c.crash(m, disk, 100, seconds)
	if slices.Contains(m.disks[:before], string(m.store.host.Replica().Identity())) {
		c.facts.violated(convergence.Failed, "%s with an older copy of its disk counts as a disk that it had before", m.node)
	}
	m.self.hints.disk = c.clone(m.backup[1], 100)
	c.count("restore")
	return true
}

// touch writes a number into the file by which a store recognizes its folder, because another folder has another file. Copies need
// different numbers: a copy of a copy must not have the file of the first folder again.
func touch(disk *faultdisk.Disk, path string, copies uint64) error {
	f, err := disk.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if copy(text, fmt.Sprintf("%016x", copies)) < 16 {
		return fmt.Errorf("%s has %d bytes", path, len(text))
	}
	w, err := disk.Create(path, "identity")
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Sync(), w.Close())
}

// wipe destroys a replica's disk. Only one replica at a time is made whole: it gets from the others everything that two replicas
// have acknowledged.
func (c *cluster) wipe(m *member, seconds int) bool {
	for _, o := range c.members {
		if o.joining && m.self == nil {
			return false
		}
	}
	if m.self != nil && (m.down || !c.mayJoin(m)) {
		return false
	}
	c.count("crash-unsynced")
	c.facts.wiped()
	m.joining, m.filled = true, map[*member]bool{}
	for _, p := range c.procs {
		for _, d := range p.told {
			d.wiped[m] = true
		}
	}
	c.crash(m, faultdisk.New(), 0, seconds)
	if m.self != nil {
		folder, err := newHintFolder()
		if err != nil {
			c.facts.violated(convergence.Failed, "hints of %s: %v", m.node, err)
		}
		m.self.hints = folder
	}
	c.count("wipe")
	return true
}

// join copies from all other replicas, and then answers again.
func (c *cluster) join(m *member) {
	life := m.lives
	c.turns.Go(func() {
		for _, from := range c.members {
			for from != m && !m.filled[from] {
				if m.lives != life {
					return // its next life continues
				}
				if m.filled[from] = c.copy(m, from); !m.filled[from] {
					c.turns.Sleep(time.Second)
				}
			}
		}
		if m.lives == life {
			m.joining = false
			m.SetState(peer.Normal)
			c.count("made whole")
		}
	})
}

// copy copies the range of the set from one replica to another, and reports whether everything has come.
func (c *cluster) copy(m, from *member) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer c.turns.After(copyLimit, cancel)()
	defer cancel()
	mover, err := transfer.New(m.Replica, transfer.Options{ChunkBytes: 1, Now: m.clock.Now})
	if err != nil {
		c.facts.violated(convergence.Failed, "a mover: %v", err)
		return false
	}
	slot, life := keyscheme.SetSlot(c.set), m.lives
	cp, err := mover.Start(ctx, m.process.links[c.indexOf(from)], handoff.Range{First: slot, Last: slot})
	if err != nil {
		return false
	}
	m.copies++
	from.copies++
	defer func() { m.copies--; from.copies-- }()
	for steps := 0; ; steps++ {
		done, err := cp.Step(ctx)
		if m.lives != life { // what it wrote went to a process that no longer exists
			return false
		}
		if err != nil {
			c.copyFailed(m, from, err)
			return false
		}
		if steps == 0 {
			c.count("copy")
		}
		if done {
			cp.Stop()
			return true
		}
		c.turns.Sleep(copyPause)
	}
}

// copyFailed judges why a copy did not finish.
func (c *cluster) copyFailed(m, from *member, err error) {
	c.count("copy broken off")
	for _, expected := range []error{peer.ErrUnavailable, peer.ErrJoining, bigset.ErrFailed, bigset.ErrClosed, context.Canceled, context.DeadlineExceeded, handoff.ErrIncomplete} {
		if errors.Is(err, expected) {
			return
		}
	}
	c.facts.violated(convergence.Failed, "copy from %s to %s: %v", from.node, m.node, err)
}

func (c *cluster) indexOf(m *member) int {
	for i, o := range c.members {
		if o == m {
			return i
		}
	}
	return -1
}

// faultDisk makes the writes to a replica's log fail, except the next few, for some seconds.
func (c *cluster) faultDisk(m *member, t *step) {
	if m.fault != "" || m.down {
		return
	}
	cause := error(syscall.EIO)
	if t.kind == "disk-full" {
		cause = syscall.ENOSPC
	}
	m.fault = t.kind
	m.failed = m.store.host.disk.FailWrites(".log", t.args["writes"], cause)
	life := m.lives
	c.turns.After(time.Duration(t.args["seconds"])*time.Second, func() {
		if m.lives == life {
			c.healDisk(m)
		}
	})
}

// healDisk ends the fault of a replica's disk. A store that has failed because of it is opened again, by a new process; what it had
// not synced is lost.
func (c *cluster) healDisk(m *member) {
	if m.fault == "" {
		return
	}
	if m.failed.Load() > 0 {
		c.count(m.fault)
	}
	m.fault = ""
	m.store.host.disk.Heal()
	if m.store.host.Failed() == nil {
		return
	}
	c.count("store failed and was opened again")
	c.facts.lossy()
	c.crash(m, c.clone(m.store.host.disk, 100), 100, 0)
}
