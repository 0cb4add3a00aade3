package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"bigset/compaction"
	"bigset/engine"
	"bigset/server"
)

// access is how a command uses the store.
type access byte

const (
	atRest    access = iota // no set and no filter is changed; the store must exist, and does no work of its own
	forTokens               // like atRest, but the store is created if it does not exist
	changing                // the store must exist, and be of no cluster
	making                  // the store is created if it does not exist, and must be of no cluster
)

// withStore runs f with the store, and then closes it.
func (a *app) withStore(how access, f func(*engine.Store) error) (err error) {
	opt, err := a.options(how)
	if err != nil {
		return err
	}
	s, err := engine.Open(a.dir, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if how == changing || how == making {
		if err := server.CheckAlone(s); err != nil {
			return err
		}
	}
	return f(s)
}

func (a *app) options(how access) (*engine.Options, error) {
	opt := &engine.Options{
		MustExist:    how == atRest || how == changing,
		KeepContexts: a.keepContexts,
		Logger:       slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if how == atRest || how == forTokens {
		opt.BackgroundInterval = -1
	}
	if a.adjust != nil {
		a.adjust(opt)
	}
	var err error
	if a.strategy != "" {
		if opt.Strategy, err = compaction.ByName(a.strategy); err != nil {
			return nil, err
		}
	}
	if a.record != "" {
		if opt.Record, err = compaction.ParseRecord(a.record); err != nil {
			return nil, fmt.Errorf("%w: --record: %w", engine.ErrFormat, err)
		}
	}
	return opt, nil
}

// recordFlag adds the flag for the kind of record to a command that may create a store.
func (a *app) recordFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.record, "record", "", "kind of record of a new store: merge or set (default merge)")
}

func strategyNames() string {
	var names []string
	for _, s := range compaction.Strategies() {
		names = append(names, s.Name())
	}
	return strings.Join(names, ", ")
}
