package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/client"
	"bigset/keyscheme"
	"bigset/server/certs"
)

// node is where the commands on sets find running nodes, in place of a folder.
type node struct {
	addrs        []string
	certificates string
	w, r, dw     int
	request      string
}

func (n *node) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringSliceVar(&n.addrs, "addr", nil, "`HOST:PORT` of a running node, or of several, commas between; in place of --dir")
	f.StringVar(&n.certificates, "tls", "", "with --addr: `folder` of a client's certificate, which bigset cert makes")
	f.IntVar(&n.w, "w", 0, "with --addr: replicas that have a write when it is acknowledged (default: the cluster's)")
	f.IntVar(&n.r, "r", 0, "with --addr: replicas that answer a read (default: the cluster's)")
	f.IntVar(&n.dw, "dw", 0, "with --addr: replicas that have a write on disk when it is acknowledged (default: the cluster's)")
	f.StringVar(&n.request, "request", "", "with --addr: `id` of the change; what is sent again with it is done once")
	_ = cmd.MarkPersistentFlagDirname("tls")
}

// away reports whether a command asks a running node, and refuses flags that don't go together.
func (a *app) away(cmd *cobra.Command) (bool, error) {
	n := &a.node
	if len(n.addrs) == 0 {
		for _, flag := range []string{"tls", "w", "r", "dw", "request"} {
			if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
				return false, usage(cmd, "--%s is for a running node: give its --addr too", flag)
			}
		}
		return false, nil
	}
	for _, flag := range []string{"dir", "open-contexts", "record", "strategy"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return false, usage(cmd, "--%s is for a folder, and --addr asks a running node: give one of them", flag)
		}
	}
	return true, nil
}

// ask runs f with a client of the running nodes.
func (a *app) ask(f func(*client.Client) error) (err error) {
	o := client.Options{Addrs: a.node.addrs, Name: "bigset"}
	if a.node.certificates != "" {
		var config *tls.Config
		if config, err = certs.ClientConfig(a.node.certificates); err != nil {
			return err
		}
		o.TLS = config
	}
	c, err := client.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return f(c)
}

// tokenOf reads one that a command was given as text.
func tokenOf(text string) (client.Token, error) {
	if text == "" {
		return nil, nil
	}
	return keyscheme.DecodeText(text)
}

// shown is a token as text.
func shown(t client.Token) string { return keyscheme.EncodeText(t) }

// change returns what add and rm ask a node for.
func (n *node) change(c *change) (w client.Write, err error) {
	w = client.Write{Set: c.set, Policy: c.options.Policy, Quorum: client.Quorum{W: n.w, DW: n.dw}, Request: []byte(n.request), Contexts: true}
	if c.options.Durability == bigset.NoSync && n.dw == 0 {
		w.Quorum.DW = -1
	}
	for i, e := range c.elements {
		op := client.Op{Kind: c.kind, Element: e}
		if len(c.tokens) == len(c.elements) && (len(c.tokens) > 1 || !isWide(c.tokens[0])) {
			if op.Context, err = tokenOf(c.tokens[i]); err != nil {
				return w, err
			}
		}
		w.Ops = append(w.Ops, op)
	}
	if len(c.tokens) == 1 && isWide(c.tokens[0]) {
		w.Context, err = tokenOf(c.tokens[0])
	}
	return w, err
}

// isWide reports whether a token looks like one of a whole set; which it is says its node.
func isWide(text string) bool {
	t, err := tokenOf(text)
	if err != nil {
		return false
	}
	form, err := keyscheme.TokenForm(t)
	return err == nil && form == keyscheme.Wide
}

// unknown says how a change whose outcome nobody knows is sent again.
func unknown(err error) error {
	var u *client.UnknownError
	if !errors.As(err, &u) {
		return err
	}
	id := string(u.Request)
	for _, c := range u.Request {
		if c < 0x21 || c > 0x7e {
			id = hex.EncodeToString(u.Request)
			break
		}
	}
	return fmt.Errorf("%w: send it again with --request %s", err, id)
}

// addAway is add at a running node.
func (a *app) addAway(ctx context.Context, c *change) error {
	return a.ask(func(to *client.Client) error {
		w, err := a.node.change(c)
		if err != nil {
			return err
		}
		w.Contexts = a.json
		r, err := to.Write(ctx, a.node.named(w))
		if err != nil {
			return unknown(err)
		}
		for i, e := range c.elements {
			if !a.json {
				break
			}
			if err := a.object(struct {
				jsonElement
				Context string `json:"context"`
			}{c.jsonElement(e), shown(r.Contexts[i])}); err != nil {
				return err
			}
		}
		return a.answer(struct {
			Added int `json:"added"`
		}{len(c.elements)}, "added %s", tally(uint64(len(c.elements))))
	})
}

// named gives a change an id that can be typed, where the user gives none.
func (n *node) named(w client.Write) client.Write {
	if len(w.Request) == 0 {
		w.Request = []byte(rand.Text())
	}
	return w
}

// removeAway is rm at a running node.
func (a *app) removeAway(ctx context.Context, c *change) error {
	return a.ask(func(to *client.Client) error {
		w, err := a.node.change(c)
		if err != nil {
			return err
		}
		w.Contexts = false
		r, err := to.Write(ctx, a.node.named(w))
		if err != nil {
			return unknown(err)
		}
		return a.removed(r.Removed)
	})
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
	}{n.jsonElement(element), p.Present, shown(p.Context)})
}

// listAway is ls at a running node.
func (a *app) listAway(ctx context.Context, l *listing, o bigset.ReadOptions) error {
	return a.ask(func(to *client.Client) error {
		r := client.Read{Set: l.set, From: o.From, To: o.To, Prefix: o.Prefix, Reverse: l.reverse, Limit: l.limit, R: a.node.r, Contexts: a.json}
		var err error
		if r.After, err = tokenOf(l.after); err != nil {
			return err
		}
		var whole, after client.Token
		some := false
		for p, err := range to.Read(ctx, r) {
			if err != nil {
				return err
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
			}{shown(after)})
		case len(after) > 0:
			return a.note("more: --after %s", shown(after))
		case !some && a.json:
			return a.object(struct {
				Context string `json:"context"`
			}{shown(whole)})
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
	}{l.jsonElement(e.Name), shown(e.Context)})
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
		}{c.Elements, shown(c.Context)}, "%d", c.Elements)
	})
}

// namesAway is names at a running node.
func (a *app) namesAway(ctx context.Context, n notation, all bool) error {
	return a.ask(func(to *client.Client) error {
		for s, err := range to.Names(ctx, all) {
			if err != nil {
				return err
			}
			if !a.json {
				err = a.line("", s.Set, n)
			} else {
				err = a.object(struct {
					jsonSet
					Live uint64 `json:"live"`
					Seen uint64 `json:"seen"`
				}{n.jsonSet(s.Set), s.Live, s.Seen})
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
			t, err := to.Context(ctx, set, a.node.r)
			if err != nil {
				return err
			}
			return a.answer(struct {
				jsonSet
				Context string `json:"context"`
			}{notation{}.jsonSet(set), shown(t)}, "%s", shown(t))
		}
		found, err := to.Subset(ctx, client.Subset{Set: set, Elements: elements[:1], R: a.node.r})
		if err != nil {
			return err
		}
		if a.json {
			return a.presentAway(n, elements[0], found[0])
		}
		return a.answer(nil, "%s", shown(found[0].Context))
	})
}

// dropAway is drop at a running node.
func (a *app) dropAway(ctx context.Context, set []byte, text string, d bigset.Durability) error {
	return a.ask(func(to *client.Client) error {
		seen, err := tokenOf(text)
		if err != nil {
			return err
		}
		q := client.Quorum{W: a.node.w, DW: a.node.dw}
		if d == bigset.NoSync && q.DW == 0 {
			q.DW = -1
		}
		left, err := to.Drop(ctx, client.Drop{Set: set, Context: seen, Quorum: q})
		if err != nil {
			return err
		}
		return a.answer(struct {
			jsonSet
			Left uint64 `json:"left"`
		}{notation{}.jsonSet(set), left}, "dropped %q, %s left", set, tally(left))
	})
}

// onlyHere refuses a command that needs a folder.
func (a *app) onlyHere(cmd *cobra.Command) error {
	away, err := a.away(cmd)
	if err == nil && away {
		err = usage(cmd, "%s needs a folder: it can't ask a running node; stop the node, or use `set add` and `set ls` with --addr", cmd.Name())
	}
	return err
}
