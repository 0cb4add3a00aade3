package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/coord"
)

// learn merges all entries of another member. A member that does not answer is given up after roundTime.
func (f *Filters) learn(ctx context.Context, id string) error {
	for after := (Hex)(nil); ; {
		var entries []FilterEntry
		bounded, cancel := coord.Deadline(ctx, f.m.run, roundTime)
		err := ask(bounded, f.m.links[id], verbEntries, after, &entries)
		if cancel(); err != nil {
			return fmt.Errorf("node %s, asked which filters exist: %w", id, err)
		}
		if len(entries) == 0 {
			return nil
		}
		last := after
		for i := range entries {
			if err := entries[i].check(); err != nil {
				return fmt.Errorf("node %s: %w", id, err)
			}
			if bytes.Compare(entries[i].Name, last) <= 0 {
				return fmt.Errorf("node %s: %w: filters in no order", id, ErrRecord)
			}
			last = entries[i].Name
		}
		if err := f.take(ctx, entries); err != nil {
			return err
		}
		after = entries[len(entries)-1].Name
	}
}

// heard learns what other members know that this one does not. It is called after each round and returns at once. A member that does not say which
// filters exist delays no tokens, and one that does not exchange tokens keeps no other from learning filters.
func (f *Filters) heard(states map[string]State) {
	if !f.learningTokens.CompareAndSwap(false, true) {
		return
	}
	f.m.ended.Go(func() {
		enough, err := f.m.learnTokens(f.m.life, states) // before this member counts as one that has everything acknowledged
		f.learningTokens.Store(false)
		if enough && f.learningFilters.CompareAndSwap(false, true) {
			defer f.learningFilters.Store(false)
			err = errors.Join(err, f.learnFrom(f.m.life, states))
			f.m.tokensLearned()
		}
		if err != nil && f.m.life.Err() == nil {
			f.m.conf.Log.Warn("cluster: it could not be learned which filters and tokens exist, it is tried again", "cause", err)
		}
	})
}

// learnAll merges all entries of other members, in parallel: one that does not answer delays no other. It returns whether one has answered.
func (f *Filters) learnAll(ctx context.Context, states map[string]State, ids []string) (some bool, err error) {
	all := tasks{run: f.m.run}
	errs := make([]error, len(ids))
	for i, id := range ids {
		all.Go(func() {
			if errs[i] = f.learn(ctx, id); errs[i] == nil {
				errs[i] = f.stayed(ctx, id, states[id].Boot)
			}
		})
	}
	all.Wait()
	return slices.Contains(errs, nil), errors.Join(errs...)
}

// stayed returns an error if a member was started again since it said what it knows: it may have lost its disk in between, and its entries.
func (f *Filters) stayed(ctx context.Context, id string, boot uint64) error {
	ctx, cancel := coord.Deadline(ctx, f.m.run, roundTime)
	defer cancel()
	var s State
	err := ask(ctx, f.m.links[id], verbState, struct{}{}, &s)
	if err == nil && s.Boot != boot {
		err = errors.New("it was started again")
	}
	if err != nil {
		return fmt.Errorf("node %s, after it said which filters exist: %w", id, err)
	}
	return nil
}

// learnFrom learns what the others know. A member with a new disk has everything acknowledged after it has learned from one member that has.
// A member since birth starts with the filters of its own folder.
func (f *Filters) learnFrom(ctx context.Context, states map[string]State) error {
	v := f.m.membership.View()
	if !v.Serves {
		return nil
	}
	listed, sum := f.list.state()
	same := len(states) == len(f.m.links)
	ids := slices.Sorted(maps.Keys(states))
	var from []string
	for _, id := range ids {
		s := states[id]
		if s.Committed == nil || !s.Committed.of(v.Record) {
			return nil // this member is of another generation or has not heard the current record
		}
		e := v.Record.Members[v.Record.entry(id)]
		same = same && s.Filtered == sum && s.Committed.Epoch == v.Record.Epoch && string(s.Identity) == string(e.Incarnation)
		if s.Listed && (s.Filtered != sum || !listed) {
			from = append(from, id)
		}
	}
	learned, bad := f.learnAll(ctx, states, from)
	if listed {
		if same {
			return errors.Join(bad, f.list.heardAll(ctx, alike{v.Record.Epoch, sum}))
		}
		return bad
	}
	if bad != nil && !learned {
		return bad
	}
	if !learned {
		old := func(e Entry) bool { return e.Disk == 0 && (e.Filters == 0 || e.ID == v.Record.Origin) } // the origin may have joined again before it knew
		kept := func(e Entry) bool { return e.Disk == 0 }
		self := v.Record.Members[v.Self]
		if !old(self) {
			if len(states) < len(f.m.links) || anyListed(states) || slices.ContainsFunc(v.Record.Members, old) || !kept(self) && slices.ContainsFunc(v.Record.Members, kept) {
				return nil // wait for a member that knows
			}
			if _, err := f.learnAll(ctx, states, ids); err != nil { // the members together know everything
				return err
			}
		}
		if err := f.adopt(ctx); err != nil {
			return err
		}
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	return errors.Join(f.list.whole(ctx), bad)
}

func anyListed(states map[string]State) bool {
	for _, s := range states {
		if s.Listed {
			return true
		}
	}
	return false
}

// adopt takes over the filters that this member's store had before the cluster was born.
func (f *Filters) adopt(ctx context.Context) error {
	own, err := f.local.List()
	if err != nil {
		return err
	}
	owners := uint32(f.m.membership.conf.Settings.N)
	var entries []FilterEntry
	for _, x := range own {
		err := f.local.Adopt(ctx, x.Name, owners)
		switch {
		case errors.Is(err, bloomslice.ErrOptions), errors.Is(err, bigset.ErrRequest), errors.Is(err, bigset.ErrCorrupt):
			f.m.conf.Log.Warn("cluster: a filter can't be one of the cluster: it is not served, and stays in the folder of this node", "filter", string(x.Name), "cause", err)
			continue
		case errors.Is(err, bigset.ErrNoFilter):
			continue
		case err != nil:
			return fmt.Errorf("filter %.64q: %w", x.Name, err)
		}
		x.Options.Owners = owners
		entries = append(entries, newEntry(x.Name, x.Generation, x.Options))
	}
	if len(entries) > 0 {
		f.m.conf.Log.Info("cluster: filters of this node are those of the cluster now", "filters", len(entries))
	}
	return f.take(ctx, entries)
}

// settle drops in the store what the catalogue says is dropped: a crash may have prevented it, or a restored disk may contain it again.
func (f *Filters) settle(ctx context.Context) error {
	own, err := f.local.List()
	if err != nil {
		return err
	}
	for _, x := range own {
		if e := f.list.get(x.Name); e != nil && x.Generation < e.Generation {
			old := newEntry(x.Name, x.Generation, x.Options)
			if err := f.drop(ctx, &old); err != nil {
				return err
			}
		}
	}
	for _, e := range f.list.dropped() {
		if err := f.drop(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}
