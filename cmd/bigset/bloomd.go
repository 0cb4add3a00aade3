package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bigset/server"
)

// calledBloomd reports whether the program was started as bloomd, by a link of that name.
func calledBloomd(name string) bool {
	return strings.TrimSuffix(filepath.Base(name), ".exe") == "bloomd"
}

const bloomdUsage = `usage: bloomd [-h] [-f filename] [-w num]

    -h : Displays this help info
    -f : Reads the bloomd configuration from this file
    -w : Sets the number of event loops, where it is above 1

This is bigset; bigset serve --help has more.
`

// errBloomdUsage is returned for -h and for a flag that bloomd does not have: the message has already been printed.
var errBloomdUsage = errors.New("usage")

// runBloomd does what bloomd does with the same arguments, and returns its exit status: 0 after a signal to stop, 1 after any error. Errors
// go to standard error, where bloomd prints nothing.
func (a *app) runBloomd(ctx context.Context, args []string) int {
	err := a.bloomd(ctx, args)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errBloomdUsage):
	default:
		a.report(err)
	}
	return 1
}

func (a *app) bloomd(ctx context.Context, args []string) error {
	path, workers, err := a.bloomdFlags(args)
	if err != nil {
		return err
	}
	c := server.BloomdDefaults()
	ignored, err := c.Load(path, os.Getenv)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(workers); err == nil && n != 0 { // bloomd ignores a value that is not a number
		if err := c.Set("workers", workers); err != nil {
			return err
		}
	}
	if c.Store, err = a.options(making); err != nil {
		return err
	}
	return a.serveNode(ctx, c, path, "bloomd", ignored)
}

// bloomdFlags parses arguments as getopt does: flags may be combined, with their values in the same word or the next; other words are
// skipped.
func (a *app) bloomdFlags(args []string) (path, workers string, err error) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		word := args[i]
		if len(word) < 2 || word[0] != '-' {
			continue
		}
		for at := 1; at < len(word); at++ {
			switch word[at] {
			case 'f', 'w':
				value := word[at+1:]
				if value == "" {
					if i++; i == len(args) {
						fmt.Fprintf(a.errs, "Option -%c requires an argument.\n", word[at])
						return "", "", errBloomdUsage
					}
					value = args[i]
				}
				if word[at] == 'f' {
					path = value
				} else {
					workers = value
				}
				at = len(word)
			case 'h':
				fmt.Fprint(a.errs, bloomdUsage)
				return "", "", errBloomdUsage
			default:
				fmt.Fprintf(a.errs, "Unknown option `-%c'.\n", word[at])
				return "", "", errBloomdUsage
			}
		}
	}
	return path, workers, nil
}
