package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bench"
	"bigset/bench/compare"
	"bigset/bench/demo"
	benchrun "bigset/bench/run"
	"bigset/bench/spec/parser"
	"bigset/bloomslice"
	"bigset/client"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/torture"
	"bigset/keyscheme"
	"bigset/server"
	"bigset/server/api"
	"bigset/server/bloomd"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// The exit statuses. Scripts rely on them.
const (
	exitOK      = 0
	exitAbsent  = 1 // absent, or not verified; a bad configuration
	exitError   = 2
	exitUnknown = 3 // it is unknown whether a change at a running node was done
	exitWorse   = 4 // a figure is worse than bench compare's limit allows, or bench run missed an assertion
)

// Outcomes that are not errors of the program: the answer has been printed, and only the status remains to be set.
var (
	errAbsent      = errors.New("absent")
	errNotVerified = errors.New("not verified")
	errViolated    = errors.New("a promise was violated")
	errCutShort    = errors.New("the demonstration was interrupted")
	errWorse       = errors.New("worse than a limit allows")
	errMissed      = errors.New("missed in all rounds")
)

// Errors in the user's input or stored data.
var (
	errLineBreak = errors.New("an element or a name with a line break does not fit on a line")
	errBase64    = errors.New("not base64")
	errLine      = errors.New("bad line")
	errSetName   = errors.New("bad name of a set")
	errNoReclaim = errors.New("the set is dropped, but its space is not free yet")
	errTool      = errors.New("a command of Pebble's failed")
	errDamage    = errors.New("damaged files")
	errElsewhere = errors.New("other nodes have the key's part of the filter")
)

// advice is the exit status for an error, and what to do about it.
type advice struct {
	cause error
	code  int
	hint  string // if it is empty, nothing is printed at all
}

// advices is the table of all errors that this program knows. The first match counts.
var advices = []advice{
	{client.ErrUnknown, exitUnknown, "it may have been done; check that before you do it again"},
	{client.ErrOptions, exitError, "`bigset set --help` says how a running node is asked; --tls names the folder that `bigset cert client` made"},
	{server.ErrConfig, exitAbsent, "`bigset serve --check-config` prints what would count, without serving"},
	{server.ErrMember, exitError, "`bigset serve` needs the --peers of that cluster; other commands change it at a running node, with --addr; docs/cluster.md says how data leaves a cluster"},
	{cluster.ErrConfig, exitError, "`bigset cluster --help` has examples; docs/cluster.md says how a cluster is started, and started again from backups"},
	{client.ErrQuorum, exitError, "`bigset cluster status` with the same --addr shows how many replicas exist"},
	{client.ErrForeign, exitError, "--addr is the port that `bigset serve --listen` or `--peers` opens for nodes and clients; clients of bloomd use another"},
	{client.ErrAnswer, exitError, "the node may be of another version: compare `bigset version` on both machines"},
	{api.ErrBody, exitError, "the node may be of another version: compare `bigset version` on both machines"},
	{context.Canceled, exitError, "it was interrupted; what was acknowledged is kept; run it again for the rest"},
	{errLine, exitError, "correct that line, and import again from it on; arbitrary bytes need --base64, on every line"},
	{errLineBreak, exitError, "use --base64 or --json"},
	{errBase64, exitError, "with --base64 every element is standard base64 with padding, as base64(1) writes it"},
	{bigset.ErrCursor, exitError, "give --reverse as in the listing that printed the token"},
	{errNoCluster, exitError, "it was started with --listen, or with neither; a node of a cluster has --peers"},
	{errNodeEnded, exitError, "a folder keeps its cluster: with other --nodes give another --dir; docs/cluster.md explains what a node waits for"},
	{torture.ErrViolated, exitError, "a promise was broken: the folders and the logs in them are kept; the same --seed does the same faults"},
	{errSetName, exitError, fmt.Sprintf("a name has 1 to %d bytes; redis's empty key is --bucket default \"\"", bigset.SetNameBytesMax)},
	{errFilterName, exitError, "a filter's name has 1 to 200 bytes, without blanks and line breaks"},
	{errServer, exitError, "check --addr, which is the port of bloomd's protocol, and whether the server runs"},
	{errRunning, exitError, "stop it, so that it writes everything, or give a copy of its folder"},
	{errLeftOut, exitError, "the filters that were left out are named above, with the reasons; all others were imported"},
	{bloomd.ErrNoFilter, exitAbsent, "`bigset filter list` with the same --addr lists the filters"},
	{bloomd.ErrOpen, exitError, "close it first with `bigset filter close`"},
	{bloomd.ErrOptions, exitError, "a capacity is above 10000, a probability above 0 and below 0.1"},
	{bloomd.Refusal("Internal Error"), exitError, "the server's log says why; the port for nodes and clients gives the reason with its answer, and `bigset cluster status` says which member is away"},
	{bloomd.ErrUnsendable, exitError, "a key for a server must not have a line break"},
	{bloomslice.ErrOptions, exitError, "a capacity is above 10000, and 100 or more in each slice; a probability above 0 and below 0.1; slices are a power of two"},
	{errNoReclaim, exitError, "run `bigset compact` when the cause is removed"},
	{errDamage, exitAbsent, "`bigset verify` names the sets and filters that are damaged; restore the folder from a copy with `bigset restore`"},
	{errTool, exitError, "check the arguments; `bigset verify` says whether the store is right"},

	{server.ErrListen, exitError, "`bigset serve --help` says how to give addresses"},

	{tokens.ErrNotFound, exitAbsent, "`bigset token ls` lists the tokens"},
	{tokens.ErrFull, exitError, "several clients may have one token: `bigset token ls` lists those that exist"},
	{tokens.ErrEntry, exitError, "`bigset token add --help` has examples"},

	{certs.ErrExists, exitError, "--force replaces it; what was signed by a CA that is replaced is refused from then on"},
	{certs.ErrExpired, exitError, "`bigset cert show DIR` shows when each certificate ends"},
	{certs.ErrCluster, exitError, "each cluster has a CA of its own: check the folders"},
	{certs.ErrTooOpen, exitError, "only its owner may read a key: `chmod 600` the file"},
	{certs.ErrKey, exitError, "a certificate and its key belong together: copy both, or make them again with --force"},
	{certs.ErrMissing, exitError, "`bigset cert --help` says which command makes which file"},
	{certs.ErrName, exitError, "`bigset cert --help` has examples"},
	{certs.ErrAuthority, exitError, "check that ca.crt and the certificate are of the same CA: `bigset cert show DIR`"},
	{certs.ErrForm, exitError, "restore the file from a copy, or make it again with --force"},
	{certs.ErrRole, exitError, "a node's folder has node.crt, a client's client.crt"},
	{client.ErrMembersAway, exitError, "nothing has happened; `bigset cluster status` says why a member does not answer, and the command works when all members answer"},
	{client.ErrUnavailable, exitError, "nothing has happened; check --addr and whether the nodes run; `bigset cluster status` says what a node waits for"},
	{fs.ErrPermission, exitError, "check who owns the files, and --dir"},
	{bigset.ErrNotFound, exitAbsent, "`bigset set names --all` lists the sets"},
	{errElsewhere, exitError, "ask a node of the cluster, with --addr; `bigset cluster lookup FILTER --filter --slice` says which nodes have a slice"},
	{bigset.ErrNoFilter, exitAbsent, "`bigset filter list` lists the filters"},
	{engine.ErrNoStore, exitError, "check --dir; `bigset set add` and `bigset set import` create a store"},
	{engine.ErrReadOnly, exitError, "`bigset --dir NEW restore DIR` copies the store into a folder that can be written"},
	{engine.ErrUnfinished, exitError, "run the same checkpoint or restore again, or remove the folder"},
	{engine.ErrNotEmpty, exitError, "choose a folder that is new or empty"},
	{engine.ErrLocked, exitError, "only one process at a time may have a store open: wait for the other one, or stop it"},
	{engine.ErrFormat, exitError, "check --dir, and --record, which counts only for a new store"},
	{compaction.ErrStrategy, exitError, "choose another --strategy, or a store made with another --record"},
	{bigset.ErrDiskFull, exitError, "free some space, then run it again; what was acknowledged is kept"},
	{bigset.ErrFailed, exitError, "run it again; what was acknowledged is kept; what was under way may or may not have happened"},
	{bigset.ErrCorrupt, exitError, "run `bigset verify`; if it finds damage, `bigset --dir NEW restore COPY` makes the store again from a checkpoint or a copy"},

	{bigset.ErrContextRequired, exitError, "give --context for each element (`bigset set context SET ELEMENT` prints it), or another --policy"},
	{bigset.ErrBehind, exitError, "the token saw more than this store has: get a new one with `bigset set context`"},
	{bigset.ErrContext, exitError, "the store has lost or never had what the token saw: get a new one with `bigset set context`"},
	{keyscheme.ErrTokenForm, exitError, "add and rm take what `set context SET [ELEMENT]` prints, drop what `set context SET` prints, ls --after what ls prints"},
	{keyscheme.ErrTokenSet, exitError, "a token works only for its set: get one with `bigset set context SET …`"},
	{keyscheme.ErrTokenElement, exitError, "give each element its own --context, in the order of the elements"},
	{keyscheme.ErrTokenDomain, exitError, "another store made it: check --dir, or get a new one with `bigset set context`"},
	{keyscheme.ErrToken, exitError, "a token must be whole and unchanged: get a new one with `bigset set context` or `bigset set ls`"},
	{bigset.ErrLimit, exitError, "make it smaller: --help and docs/cli.md name the limits"},
	{keyscheme.ErrNameTooLong, exitError, fmt.Sprintf("an element has at most %d bytes", bigset.ElementBytesMax)},

	{fs.ErrNotExist, exitError, "check the path"},
	{syscall.EISDIR, exitError, "give the path of a file"},
	{syscall.ENOSPC, exitError, "free some space, then run it again"},

	{benchrun.ErrEmpty, exitError, "more --elements, or a shorter --duration: `bigset bench check` judges a file by its own"},
	{parser.ErrFile, exitAbsent, "`bigset bench show NAME` prints a file that is right; docs/workloads.md explains all keys"},
	{bench.ErrOut, exitError, "name another file with --out, or remove this one; a larger --rounds adds to a file, other flags must be the same"},
	{benchrun.ErrOptions, exitError, "`bigset bench run --help` says what can be chosen"},
	{compare.ErrReport, exitError, "give files that `bigset bench --json` or --out has written"},

	{errWorse, exitWorse, ""},
	{errMissed, exitWorse, "the figures are above; `bigset bench run --report FILE.html` draws what happened"},
	{errAbsent, exitAbsent, ""},
	{errViolated, exitAbsent, ""},
	{demo.ErrTime, exitError, "the machine is slow or busy: run it again later, or with a smaller --scale, such as --scale 0.1"},
	{errCutShort, exitError, "the verdict is about what was done until then; `bigset demo` runs all of it"},
	{errNotVerified, exitAbsent, ""},
}

// usageError is an invalid call. Its advice is the help of the command.
type usageError struct {
	cmd string
	err error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage returns the error for an invalid call.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd.CommandPath(), fmt.Errorf(format, args...)}
}

// report prints an error for the user, nothing for nil, and returns the exit status.
func (a *app) report(err error) int {
	if err == nil || closedPipe(err) {
		return exitOK
	}
	ad := advise(err)
	if ad.hint == "" {
		return ad.code
	}
	fmt.Fprintf(a.errs, "bigset: %s\nhint: %s\n", setname.InError(plain(err), a.named), ad.hint)
	return ad.code
}

// closedPipe reports whether the reader of the output has gone, and expects neither more answers nor an error message. An import that can't
// acknowledge must report it.
func closedPipe(err error) bool {
	var importing *importError
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, &importing)
}

// advise finds the advice for an error.
func advise(err error) advice {
	var u *usageError
	if errors.As(err, &u) {
		return advice{err, exitError, fmt.Sprintf("`%s --help` has examples", u.cmd)}
	}
	var again *repeatError
	if errors.As(err, &again) {
		return advice{err, exitUnknown, again.hint}
	}
	var cut *runCutError
	if errors.As(err, &cut) {
		return advice{err, exitError, cut.hint}
	}
	for _, ad := range advices {
		if errors.Is(err, ad.cause) {
			return ad
		}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return advice{err, exitError, "check the path, and --dir"}
	}
	return advice{err, exitError, "`bigset verify` says whether the store is right"}
}

// packageNames finds the prefixes of our packages' errors, where an error or a cause of it begins.
var packageNames = regexp.MustCompile(`(^|: |; |\n)(?:(?:engine|keyscheme|compaction|clock|fold|bench|demo|workloads|compare|spec|run|certs|server|bloomd|bloomslice|bloomdfiles|client|door|ring|wire|lab|load|sample|cluster|coord|peer|transfer|torture): )+`)

// plain returns the text of an error for the user: without the names of packages, on one line, and each of several errors once.
func plain(err error) string { return plainText(err.Error()) }

// plainText is plain for the text of an error, such as a node reports.
func plainText(text string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(packageNames.ReplaceAllString(text, "$1")), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
