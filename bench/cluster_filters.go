package bench

import (
	"fmt"
	"strconv"
	"time"
)

// clusterPoints are the loads on filters: pipelined check, and multi and bulk of 1,000 keys; those of bulk are new.
var clusterPoints = []bloomdPoint{
	{bloomdMode{"check", 1, false}, 64, 16, false},
	{bloomdMode{"multi", 1000, false}, 4, 2, false},
	{bloomdMode{"bulk", 1000, true}, 4, 2, true},
}

// filters measures bloomd's protocol on a node of each cluster and on a node without one. The CPU time is that of the nodes. Filters that are
// checked are at rest: no marks or repairs of them are under way, and the cluster has compared them.
func (l *lab) filters() error {
	if l.bloomd == nil {
		if err := l.connectFilters(); err != nil {
			return err
		}
	}
	for i, p := range clusterPoints {
		if err := l.bloomd.measure(p, l.round, i); err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
	}
	return nil
}

// connectFilters connects to all.
func (l *lab) connectFilters() error {
	c := BloomdConfig{Passes: l.c.Rounds, Span: l.c.Span, Keys: l.c.Keys, Progress: l.c.Progress}.withDefaults()
	l.bloomd = &bloomdRunner{ctx: l.ctx, cfg: c, run: strconv.FormatInt(time.Now().UnixNano(), 36), began: time.Now(), repeated: map[string]int{}}
	for _, name := range []string{systemAlone, systemCluster, systemTLS} {
		ps, err := l.started(name)
		if err != nil {
			return err
		}
		t, err := l.bloomd.connect(name, BloomdServer{Addr: ps.all[0].bloomd})
		if err != nil {
			return err
		}
		t.cpu = ps.cpu
		if !l.c.Short {
			t.rest = ps.rest
		}
		t.profile = func(workload string) func() error { return l.profile(workload, name, ps) }
		l.bloomd.targets = append(l.bloomd.targets, t)
	}
	return nil
}
