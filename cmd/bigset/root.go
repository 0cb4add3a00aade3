package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// root returns the command tree.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bigset",
		Short: "Very big sets on disk",
		Long: `Bigset keeps very big sets in a data folder. A set is an observed-remove set in which adds win. An insert costs the same
in a set of ten elements and in one of ten million.

Exit status: 0; 1 if something is absent or not verified; 2 for any error; 3 if it is unknown whether a change at a running node was done.`,
		Example: `  bigset demo
  bigset set add friends paul ringo
  bigset set has friends paul
  bigset set ls friends
  bigset stats`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.dir, "dir", "./bigset-data", "the data folder")
	flags.BoolVar(&a.json, "json", false, "print JSON objects, one a line")
	flags.StringVar(&a.strategy, "strategy", "", "how dead keys leave the disk: "+strategyNames()+" (default: by the store's records)")
	cmd.SetOut(a.out)
	cmd.SetErr(a.errs)
	cmd.SetFlagErrorFunc(flagError)
	cmd.AddCommand(a.set(), a.filter(), a.serve(), a.token(), a.stats(), a.compact(), a.verify(), a.checkpoint(), a.restore(), a.db(), a.cluster(), a.cert(),
		benchCommand(a.in, a.out, a.errs), a.demo(), a.simulate(), a.torture(), a.version())
	a.complete(cmd)
	_ = cmd.MarkPersistentFlagDirname("dir")                         // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("strategy", completeStrategy) // and so does this one
	return chooser(cmd)
}

// chooser completes a command that only has subcommands: alone it prints its help; after an unknown name it suggests a similar one.
func chooser(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 1 // names are short
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("no command %q in %q", name, cmd.CommandPath())
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		text += ", did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usage(cmd, "%s", text)
}

// flagError returns the error for a flag. Under an unknown command every flag is unknown; then the command is the error.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	if strings.HasPrefix(err.Error(), "unknown") {
		return usage(cmd, "%w (an element that begins with - goes after --)", err)
	}
	for _, form := range valueForms {
		if i := strings.Index(err.Error(), form.of); i >= 0 {
			return usage(cmd, "%s: it must be %s", err.Error()[:i], form.must)
		}
	}
	return usage(cmd, "%w", err)
}

// valueForms say in place of errors of the standard library what the value of a flag must be.
var valueForms = []struct{ of, must string }{
	{": strconv.ParseInt: ", "a whole number"}, {": strconv.ParseUint: ", "a whole number, 0 or more"}, {": strconv.ParseFloat: ", "a number"},
	{": strconv.ParseBool: ", "true or false"}, {": time: ", "a time with its unit, such as 10s or 1m30s"},
}

// takes checks the number of positional arguments; a negative most allows any number.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usage(cmd, "wrong number of arguments (%d), usage: %s", len(args), cmd.UseLine())
		}
		return nil
	}
}
