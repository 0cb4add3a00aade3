package bench

import (
	"encoding/binary"
	"errors"
	"os"

	"bigset/bench/system"

	"bigset"
)

// bloomRecordBytes is the least that a mark has to write: the layer and the hashes of the key.
const bloomRecordBytes = 40

// bloomDurable: new keys, each durable before its mark is answered, by 64 goroutines. Raw Pebble commits as many records of the same size,
// each synced. A store that loses a mark in a crash, simulated by a copy of its folder while it is open, gets no row.
func bloomDurable(e *env) error {
	each := max(1, e.elements/writers)
	row := Row{Workload: "bloom-durable", Elements: each * writers}
	return e.turns([]contender{{system: system.NameBigset}, {system: system.NamePebble}}, func(c contender) error {
		return e.with(c, system.Options{Sync: true, Warm: true}, func(sys system.System) error {
			if raw, is := sys.(*system.Raw); is {
				return e.measure(raw, row, func(p *phase) error { return rawRecords(p, raw, each) })
			}
			return e.durableMarks(sys.(*system.Bigset), row, each)
		})
	})
}

func (e *env) durableMarks(sys *system.Bigset, row Row, each int) error {
	o := bloomOptions(row.Elements, bloomProbability)
	o.Durability = bigset.FilterSync
	filter, err := sys.Store().Filters().Create(e.ctx, bloomName, o)
	if err != nil {
		return err
	}
	keys := newBloomKeys(0, row.Elements)
	f, hist, err := e.figures(sys, func(p *phase) error {
		return together(p, each, func(w int) func(i int) error {
			return func(i int) error {
				_, err := filter.Mark(e.ctx, keys.at(w*each+i))
				return err
			}
		})
	})
	if err != nil {
		return err
	}
	err = e.afterCrash(sys, row.Elements)
	if errors.Is(err, system.ErrWrong) {
		e.say("bloom-durable: no figures: this store does not keep marks through a crash: %v", err)
		return nil
	}
	label(sys, &row)
	e.rows.Add(row, f, hist)
	return err
}

// afterCrash checks that the state after a crash at this moment would contain the marked keys.
func (e *env) afterCrash(sys *system.Bigset, n int) error {
	dir := e.folder()
	return e.inFolder(dir, func() error {
		if err := os.CopyFS(dir, os.DirFS(sys.Dir())); err != nil {
			return err
		}
		return e.opened(contender{system: system.NameBigset}, dir, system.Options{}, func(copied system.System) error {
			f, err := copied.(*system.Bigset).Store().Filters().Get(bloomName)
			if err != nil {
				return err
			}
			return holds(f, 0, n)
		})
	})
}

// rawRecords makes all writers commit records.
func rawRecords(p *phase, raw *system.Raw, each int) error {
	return together(p, each, func(w int) func(i int) error {
		key, value := make([]byte, 8), make([]byte, bloomRecordBytes-8)
		return func(i int) error {
			binary.BigEndian.PutUint64(key, uint64(w*each+i))
			binary.BigEndian.PutUint64(value, system.Mix(uint64(w*each+i)))
			return raw.DB().Set(key, value, raw.WriteOptions())
		}
	})
}
