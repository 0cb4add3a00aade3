package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"bigset/compaction"
	"bigset/engine"
)

// access is how a command uses the store.
type access byte

const (
	atRest   access = iota // it must exist, and does no work of its own
	changing               // it must exist
	making                 // it is created if it does not exist
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
	return f(s)
}

func (a *app) options(how access) (*engine.Options, error) {
	opt := &engine.Options{
		MustExist:    how != making,
		KeepContexts: a.keepContexts,
		Logger:       slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if how == atRest {
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
