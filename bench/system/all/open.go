// Package all decides which system a name opens: the engine and Pebble by hand of package system, and package blob.
//
//	sys, err := all.Open(ctx, system.NamePebble, "", dir, system.Options{})
package all

import (
	"context"
	"errors"
	"fmt"

	"bigset/bench/system"
	"bigset/bench/system/blob"
)

// Open opens the system with a name in a folder, which it creates. The strategy is for bigset only. ctx is the context of all operations.
func Open(ctx context.Context, name, strategy, dir string, o system.Options) (sys system.System, err error) {
	switch name {
	case system.NameBigset:
		sys, err = system.OpenBigset(ctx, dir, strategy, o)
	case system.NamePebble:
		sys, err = system.OpenRaw(dir, o)
	case system.NameBlob:
		sys, err = blob.Open(dir, o)
	default:
		err = fmt.Errorf("bench: no system %q", name)
	}
	if err != nil {
		return nil, err
	}
	if !o.Warm || name == system.NameBlob {
		return sys, nil
	}
	if err := warmUp(ctx, sys, o.MemTableBytes); err != nil {
		return nil, err
	}
	return sys, nil
}

// warmUp brings a store to the memtables of a long run, by one batch that fills nearly half of one and is then dropped. Pebble begins with
// a small memtable and doubles it at each rotation: without the warm-up, how often a young store flushes, and so what it compacts, would
// depend on chance. An error closes the store.
func warmUp(ctx context.Context, sys system.System, memTable int) error {
	err := sys.Fill(system.WarmElements(memTable))
	if err == nil {
		_, err = sys.Settle(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("bench: warm up: %w", err), sys.Close())
	}
	return nil
}
