package main

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/client"
	"bigset/compaction"
	"bigset/engine"
)

// complete adds shell completion to the commands below cmd: names of sets if the first argument is SET, strategies, folders. Other
// arguments are not files, except that of import.
func (a *app) complete(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.complete(c)
		_, arguments, _ := strings.Cut(c.Use, " ")
		if c.ValidArgsFunction == nil && strings.HasPrefix(strings.TrimPrefix(arguments, "["), "SET") {
			c.ValidArgsFunction = a.completeSet
		}
	}
}

// namesMax is the maximum number of names that are offered.
const namesMax = 100

// completeSet offers the names of sets. It offers none if the store can't be opened or is open elsewhere.
func (a *app) completeSet(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		if cmd.Name() == "import" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(a.node.addrs) > 0 {
		return a.completeAway(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
	opt, err := a.options(atRest)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	opt.Logger = slog.New(slog.DiscardHandler)
	s, err := engine.Open(a.dir, opt)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	offer := offered(cmd)
	for info, err := range s.Sets(cmd.Context(), bigset.SetsOptions{}) {
		if err != nil || len(names) == namesMax {
			break
		}
		if name, ok := offer(info.Name); ok && completes(begun, name) {
			names = append(names, name)
		}
	}
	_ = s.Close() // nothing was written
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completes reports whether a name is offered.
func completes(begun, name string) bool {
	return strings.HasPrefix(name, begun) && !strings.ContainsFunc(name, unicode.IsControl)
}

// completeTime is how long a running node may take to list its sets for a shell.
const completeTime = 2 * time.Second

// completeAway offers the names of the sets of running nodes.
func (a *app) completeAway(cmd *cobra.Command, begun string) (names []string) {
	c, err := a.node.open(nil)
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	offer := offered(cmd)
	for s, err := range c.Sets(ctx, client.SetsOptions{}) {
		if err != nil || len(names) == namesMax {
			break
		}
		if name, ok := offer(s.Name); ok && completes(begun, name) {
			names = append(names, name)
		}
	}
	return names
}

func completeFolder(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeStrategy(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, s := range compaction.Strategies() {
		names = append(names, s.Name())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
