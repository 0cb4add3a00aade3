package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/client"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/certs"
	"bigset/server/setname"
)

// node is how commands on sets reach running nodes, instead of a folder.
type node struct {
	addrs        []string
	certificates string
	w, r, dw     int
	request      string
	retry        bool
}

func (n *node) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringSliceVar(&n.addrs, "addr", nil, "`HOST:PORT` of a running node, or of several, commas between; in place of --dir")
	f.StringVar(&n.certificates, "tls", "", "with --addr: `folder` of a client's certificate, which bigset cert makes")
	f.IntVar(&n.w, "w", 0, "with --addr: replicas that have a change when it is acknowledged (default: the cluster's)")
	f.IntVar(&n.r, "r", 0, "with --addr: replicas that answer a read (default: the cluster's)")
	f.IntVar(&n.dw, "dw", 0, "with --addr: replicas that have a change on disk when it is acknowledged (default: the cluster's)")
	f.StringVar(&n.request, "request", "", "with --addr: `id` of what add or rm changes; what is sent again with it and --retry is done once")
	f.BoolVar(&n.retry, "retry", false, "with --request: it may have been done before, so all replicas are asked for the id first")
	_ = cmd.MarkPersistentFlagDirname("tls")
}

// nodeFlags are the flags for quorums and ids, with the commands that have them.
var nodeFlags = []struct {
	name     string
	commands []string
}{
	{"w", []string{"add", "rm", "drop", "import"}},
	{"dw", []string{"add", "rm", "drop", "import"}},
	{"r", []string{"has", "ls", "count", "context", "stats", "watch", "export"}},
	{"request", []string{"add", "rm"}},
	{"retry", []string{"add", "rm"}},
}

// given reports whether a command has a flag, and it was given.
func given(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f != nil && f.Changed
}

// addressed reports whether --addr names a running node. It refuses the given flags of nodes without it, and with it those of folders.
func addressed(cmd *cobra.Command, ofNodes ...string) (bool, error) {
	if !given(cmd, "addr") {
		for _, flag := range ofNodes {
			if given(cmd, flag) {
				return false, usage(cmd, "--%s is for a running node: give its --addr too", flag)
			}
		}
		return false, nil
	}
	for _, flag := range []string{"dir", "open-contexts", "record", "strategy"} {
		if given(cmd, flag) {
			return false, usage(cmd, "--%s is for a folder, and --addr asks a running node: give one of them", flag)
		}
	}
	return true, nil
}

// errNoAddress is the error for an --addr without a value: a variable in a script may be unset.
func errNoAddress(cmd *cobra.Command) error {
	return usage(cmd, "--addr is empty: give HOST:PORT of a running node")
}

// away reports whether a command goes to a running node, and refuses flags that do not go together.
func (a *app) away(cmd *cobra.Command) (bool, error) {
	n := &a.node
	if yes, err := addressed(cmd, "tls", "w", "r", "dw", "request", "retry"); !yes || err != nil {
		return false, err
	}
	for _, f := range nodeFlags {
		if given(cmd, f.name) && !slices.Contains(f.commands, cmd.Name()) {
			return false, usage(cmd, "--%s is not for %s: it is for %s", f.name, cmd.Name(), strings.Join(f.commands, ", "))
		}
	}
	switch {
	case len(n.addrs) == 0:
		return false, errNoAddress(cmd)
	case n.w < 0 || n.r < 0 || n.dw < 0:
		return false, usage(cmd, "--w, --r and --dw are numbers of replicas: 0 or more")
	case given(cmd, "request") && n.request == "":
		return false, usage(cmd, "--request is empty: without the flag an id is drawn")
	case len(n.request) > keyscheme.RequestIDBytesMax:
		return false, usage(cmd, "--request has %d bytes: an id has at most %d", len(n.request), keyscheme.RequestIDBytesMax)
	case n.retry && n.request == "":
		return false, usage(cmd, "--retry is for a change that was sent before: give its --request too")
	case given(cmd, "no-sync") && given(cmd, "dw"):
		return false, usage(cmd, "--no-sync and --dw contradict each other: --dw 0 waits for no disk")
	}
	return true, nil
}

// either runs a command at a running node, or on the folder with the given access if no node is named.
func (a *app) either(cmd *cobra.Command, how access, away func() error, here func(*engine.Store) error) error {
	yes, err := a.away(cmd)
	switch {
	case err != nil:
		return err
	case yes:
		return away()
	}
	return a.withStore(how, here)
}

// quorum returns the quorum at which a change is acknowledged.
func (n *node) quorum(cmd *cobra.Command) client.Quorum {
	q := client.Quorum{W: n.w, DW: n.dw}
	if f := cmd.Flags(); n.dw == 0 && (f.Changed("dw") || f.Changed("no-sync")) {
		q.DW = client.NotDurable
	}
	return q
}

// ask runs f with a client of the running nodes. If f's error leaves the outcome of a change unknown, ask adds the command that settles it.
func (a *app) ask(f func(*client.Client) error) (err error) {
	c, err := a.node.open(a.asksAgain())
	if err != nil {
		return err
	}
	defer func() { err = a.repeatable(errors.Join(err, c.Close())) }()
	return f(c)
}

// asksAgain returns a function that says why a call that began at a time has not ended, if it takes longer than a second: once, and again for a
// call that began later.
func (a *app) asksAgain() func(began time.Time, err error) {
	var mu sync.Mutex
	var said time.Time
	return func(began time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(began) < time.Second || !began.After(said) {
			return
		}
		said = time.Now()
		a.progress.clear()
		fmt.Fprintf(a.errs, "asking again for some seconds: %s\n", plain(err))
	}
}

func (n *node) open(again func(began time.Time, err error)) (*client.Client, error) {
	o := client.Options{Addrs: n.addrs, Name: "bigset", Again: again}
	if n.certificates != "" {
		var err error
		if o.TLS, err = certs.ClientConfig(n.certificates); err != nil {
			return nil, err
		}
	}
	return client.Open(o)
}

// repeatError is the error for a change whose outcome is unknown.
type repeatError struct {
	err  error
	hint string // how to settle it
}

func (e *repeatError) Error() string { return e.err.Error() }
func (e *repeatError) Unwrap() error { return e.err }

// repeatable adds the command that settles the outcome to an error that leaves it unknown.
func (a *app) repeatable(err error) error {
	var u *client.UnknownError
	if !errors.As(err, &u) {
		return err
	}
	var importing *importError
	switch {
	case errors.As(err, &importing):
		return &repeatError{err, fmt.Sprintf("import again what comes after the first %s; what was under way is not added twice, but with --policy empty",
			tally(importing.durable))}
	case len(u.Context) > 0:
		return &repeatError{err, "the same drop again removes nothing else: " + a.again("--context "+u.Context.Text())}
	case len(u.Request) > 0:
		return &repeatError{err, "the same command with that id settles it, and does nothing twice: " + a.again("--request "+u.RequestText(), "--retry")}
	}
	return err
}

// againBytes is the maximum length of a command that is shown for repetition.
const againBytes = 2000

// again returns the command line with flags, such as "--request r1", that it does not have already.
func (a *app) again(flags ...string) string {
	args := a.args
	for _, flag := range flags {
		words := strings.Split(flag, " ")
		at := slices.Index(args, "--")
		if at < 0 {
			at = len(args)
		}
		if !slices.ContainsFunc(args[:at], func(arg string) bool {
			return arg == words[0] || len(words) > 1 && strings.HasPrefix(arg, words[0]+"=") // --retry=false is not --retry
		}) {
			args = slices.Insert(slices.Clone(args), at, words...)
		}
	}
	text := strings.Join(append([]string{"bigset"}, shellWords(args)...), " ")
	if len(text) > againBytes || strings.ContainsAny(text, "\r\n") {
		return "give it " + strings.Join(flags, " ")
	}
	return "`" + text + "`"
}

// shellWords quotes arguments for a shell.
func shellWords(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if out[i] = arg; arg == "" || !plainWord.MatchString(arg) {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return out
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// tokenOf reads the token of a flag. An empty value is refused: a command substitution may have failed.
func tokenOf(flag, text string) (client.Token, error) {
	token, err := bigset.ParseToken(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return token, nil
}

// ofFlag adds the flag to an error about its token.
func ofFlag(flag string, given bool, err error) error {
	if given && (errors.Is(err, keyscheme.ErrToken) || errors.Is(err, bigset.ErrCursor)) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return err
}

// change returns the request of add and rm to a node.
func (n *node) change(cmd *cobra.Command, c *change) (w client.Write, err error) {
	w = client.Write{Set: c.set, Policy: c.options.Policy, Quorum: n.quorum(cmd), Request: []byte(n.request), Retry: n.retry,
		Ops: make([]client.Op, len(c.elements))}
	if n.request == "" {
		w.Request = []byte(rand.Text()) // easy to type
	}
	for i, e := range c.elements {
		w.Ops[i] = client.Op{Kind: c.kind, Element: e}
	}
	for i, text := range c.tokens {
		token, err := tokenOf(fmt.Sprintf("--context for element %q", c.elements[i]), text)
		if err != nil {
			return w, err
		}
		switch form, _ := keyscheme.TokenForm(token); {
		case form == keyscheme.Wide && len(c.tokens) == 1:
			w.Context = token
		case form == keyscheme.Narrow && len(c.tokens) < len(c.elements):
			return w, fmt.Errorf("--context: %w: one for %d elements", keyscheme.ErrTokenElement, len(c.elements))
		default:
			w.Ops[i].Context = token
		}
	}
	return w, nil
}

// changeAway runs add and rm at a running node.
func (a *app) changeAway(cmd *cobra.Command, c *change, contexts bool, show func(client.Result) error) error {
	w, err := a.node.change(cmd, c)
	if err != nil {
		return err
	}
	w.Contexts = contexts
	return a.ask(func(to *client.Client) error {
		r, err := to.Write(cmd.Context(), w)
		if err != nil {
			return ofFlag("--context", len(c.tokens) > 0, err)
		}
		return show(r)
	})
}

// addAway is add at a running node.
func (a *app) addAway(cmd *cobra.Command, c *change) error {
	return a.changeAway(cmd, c, a.json, func(r client.Result) error {
		for i, e := range c.elements {
			if !a.json {
				break
			}
			if err := a.object(struct {
				jsonElement
				Context string `json:"context"`
			}{c.jsonElement(e), r.Contexts[i].Text()}); err != nil {
				return err
			}
		}
		return a.answer(struct {
			Added int `json:"added"`
		}{len(c.elements)}, "added %s", tally(uint64(len(c.elements))))
	})
}

// removeAway is rm at a running node.
func (a *app) removeAway(cmd *cobra.Command, c *change) error {
	return a.changeAway(cmd, c, false, func(r client.Result) error { return a.removed(r.Removed) })
}

// hasAway is has at a running node.
func (a *app) hasAway(ctx context.Context, n notation, set []byte, elements [][]byte) error {
	return a.ask(func(to *client.Client) error {
		found, err := to.Subset(ctx, client.Subset{Set: set, Elements: elements, R: a.node.r})
		if err != nil {
			return err
		}
		all := true
		for i, e := range elements {
			all = all && found[i].Present
			if err := a.presentAway(n, e, found[i]); err != nil {
				return err
			}
		}
		if !all {
			return errAbsent
		}
		return nil
	})
}

func (a *app) presentAway(n notation, element []byte, p client.Presence) error {
	if !a.json {
		return a.line(yesOrNo(p.Present)+"\t", element, n)
	}
	return a.object(struct {
		jsonElement
		Present bool   `json:"present"`
		Context string `json:"context"`
	}{n.jsonElement(element), p.Present, p.Context.Text()})
}

// listAway is ls at a running node.
func (a *app) listAway(cmd *cobra.Command, l *listing, o bigset.ReadOptions) (err error) {
	r := client.Read{Set: l.set, From: o.From, To: o.To, Prefix: o.Prefix, Reverse: l.reverse, Limit: l.limit, R: a.node.r, Contexts: a.json}
	given := cmd.Flags().Changed("after")
	if given {
		if r.After, err = tokenOf("--after", l.after); err != nil {
			return err
		}
	}
	return a.ask(func(to *client.Client) error {
		var whole, after client.Token
		some := false
		for p, err := range to.Read(cmd.Context(), r) {
			if err != nil {
				return ofFlag("--after", given, err)
			}
			if len(p.Context) > 0 {
				whole = append(client.Token{}, p.Context...)
			}
			for _, e := range p.Elements {
				some = true
				if err := a.elementAway(l, e); err != nil {
					return err
				}
			}
			after = append(client.Token{}, p.After...)
		}
		switch {
		case len(after) > 0 && a.json:
			return a.object(struct {
				After string `json:"after"`
			}{after.Text()})
		case len(after) > 0:
			return a.note("more: --after %s", after.Text())
		case !some && a.json:
			return a.object(struct {
				Context string `json:"context"`
			}{whole.Text()})
		}
		return nil
	})
}

func (a *app) elementAway(l *listing, e client.Element) error {
	if !a.json {
		return a.line("", e.Name, l.notation)
	}
	return a.object(struct {
		jsonElement
		Context string `json:"context"`
	}{l.jsonElement(e.Name), e.Context.Text()})
}

// countAway is count at a running node.
func (a *app) countAway(ctx context.Context, set, prefix []byte) error {
	return a.ask(func(to *client.Client) error {
		c, err := to.Count(ctx, client.Read{Set: set, Prefix: prefix, R: a.node.r})
		if err != nil {
			return err
		}
		return a.answer(struct {
			Count   uint64 `json:"count"`
			Context string `json:"context"`
		}{c.Elements, c.Context.Text()}, "%d", c.Elements)
	})
}

// namesAway is names at a running node.
func (a *app) namesAway(cmd *cobra.Command, n notation, all bool) error {
	wanted := selected(cmd)
	return a.ask(func(to *client.Client) error {
		for s, err := range to.Sets(cmd.Context(), client.SetsOptions{Empty: all}) {
			if err == nil && wanted(s.Name) {
				err = a.name(n, s)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// contextAway is context at a running node.
func (a *app) contextAway(ctx context.Context, n notation, set []byte, elements [][]byte) error {
	return a.ask(func(to *client.Client) error {
		if len(elements) == 0 {
			t, err := to.Context(ctx, client.Whole{Set: set, R: a.node.r})
			if err != nil {
				return err
			}
			return a.answer(struct {
				jsonSet
				Context string `json:"context"`
			}{notation{}.jsonSet(set), t.Text()}, "%s", t.Text())
		}
		found, err := to.Subset(ctx, client.Subset{Set: set, Elements: elements[:1], R: a.node.r})
		if err != nil {
			return err
		}
		if a.json {
			return a.presentAway(n, elements[0], found[0])
		}
		return a.answer(nil, "%s", found[0].Context.Text())
	})
}

// dropAway is drop at a running node.
func (a *app) dropAway(cmd *cobra.Command, set []byte, text string) (err error) {
	d := client.Drop{Set: set, Quorum: a.node.quorum(cmd)}
	given := cmd.Flags().Changed("context")
	if given {
		if d.Context, err = tokenOf("--context", text); err != nil {
			return err
		}
	}
	return a.ask(func(to *client.Client) error {
		left, err := to.Drop(cmd.Context(), d)
		if err != nil {
			return ofFlag("--context", given, err)
		}
		return a.answer(struct {
			jsonSet
			Left uint64 `json:"left"`
		}{notation{}.jsonSet(set), left}, "dropped %s, %s left", setname.Quoted(set), tally(left))
	})
}

// exportAway is export at a running node.
func (a *app) exportAway(ctx context.Context, set []byte, n notation) error {
	return a.ask(func(to *client.Client) error {
		done := uint64(0)
		for p, err := range to.Read(ctx, client.Read{Set: set, R: a.node.r}) {
			if err != nil {
				return err
			}
			for _, e := range p.Elements {
				if err := a.exportElement(e.Name, n); err != nil {
					return err
				}
			}
			a.exported(&done, len(p.Elements))
		}
		return nil
	})
}

// nodeTarget is a running node, as the target of an import.
type nodeTarget struct {
	c *client.Client
	w client.Write // without set and operations
}

func (t nodeTarget) add(ctx context.Context, set []byte, elements [][]byte) error {
	w := t.w
	w.Set, w.Ops = set, make([]client.Op, len(elements))
	for i, e := range elements {
		w.Ops[i] = client.Op{Kind: client.OpAdd, Element: e}
	}
	r, err := t.c.Write(ctx, w)
	if err == nil && r.Durable == 0 {
		err = errNotDurable
	}
	return err
}

// errNotDurable is the error for an import to a node that acknowledges changes before they are on disk.
var errNotDurable = errors.New("the node acknowledges changes before any disk has them, and an import reports what is on disk: import again with --dw 1, or more")

func (nodeTarget) flush(context.Context) error { return nil } // every batch is on disk
