package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/client"
	"bigset/engine"
	"bigset/server"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// token returns the commands for clients' tokens.
func (a *app) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Manage the access tokens of clients",
		Long: `Manage the access tokens of clients. A token permits verbs (read, write, admin) on all names that begin with its prefix. A client of redis's
protocol gives its secret by AUTH. As long as no token was ever made, clients need none.

Without --addr the commands work on the folder of a server that is not running. With it they ask running nodes: a single one, or any of a
cluster. All other nodes of a cluster know an added or removed token at once, or when they are back.`,
		Example: `  bigset token add app --verbs read,write --prefix users/
  bigset token ls
  bigset token rm app --addr 127.0.0.1:8691`,
	}
	cmd.AddCommand(a.tokenAdd(), a.tokenList(), a.tokenRemove())
	f := cmd.PersistentFlags()
	f.StringSliceVar(&a.node.addrs, "addr", nil, "`HOST:PORT` of a running node, or of several, commas between; in place of --dir")
	f.StringVar(&a.node.certificates, "tls", "", "with --addr: `folder` of a client's certificate, which bigset cert makes")
	_ = cmd.MarkPersistentFlagDirname("tls")
	return chooser(cmd)
}

// withTokens runs f with the keeper of the tokens: running nodes, or a folder. In the folder of a member of a cluster they may be changed too,
// because members merge their lists, whenever these were changed.
func (a *app) withTokens(cmd *cobra.Command, how access, f func(tokenKeeper) error) error {
	return a.either(cmd, how,
		func() error { return a.ask(func(c *client.Client) error { return f(c) }) },
		func(s *engine.Store) error {
			list, err := tokens.Open(server.TokenDisk(s), true)
			if err != nil {
				return err
			}
			return f(folderTokens{list})
		})
}

// tokenKeeper keeps tokens.
type tokenKeeper interface {
	AccessTokens(ctx context.Context) ([]tokens.Entry, error)
	ChangeAccessToken(ctx context.Context, e tokens.Entry) (away []string, err error)
}

// folderTokens are the tokens of a folder.
type folderTokens struct{ list *tokens.List }

func (t folderTokens) AccessTokens(context.Context) ([]tokens.Entry, error) {
	return t.list.Active(), nil
}

func (t folderTokens) ChangeAccessToken(ctx context.Context, e tokens.Entry) ([]string, error) {
	return nil, t.list.Change(ctx, e)
}

func (a *app) tokenAdd() *cobra.Command {
	var n notation
	var verbs, prefix string
	cmd := &cobra.Command{
		Use:   "add LABEL",
		Short: "Make a token, and print its secret",
		Long: `Make a token, and print its secret, once: the server keeps a hash of it. LABEL says what the token is for.

read permits to read what a name has, write to change, create and remove it, admin to see what concerns the whole node. End a prefix
at the end of a word: users is also a prefix of users2, users/ is not. With --type and --bucket the token is for the sets of a bucket of
Riak's and HTTP's clients, and the prefix is one of their keys.`,
		Example: `  bigset token add app --verbs read,write --prefix users/
  bigset token add dashboard --verbs read
  bigset token add fans --bucket fans`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := tokens.ParseVerbs(verbs)
			if err != nil {
				return err
			}
			p, err := n.decode([]byte(prefix))
			if err != nil {
				return fmt.Errorf("--prefix: %w", err)
			}
			if p, err = namesBeginning(cmd, p); err != nil {
				return err
			}
			e, secret, err := tokens.New(args[0], v, p, time.Now())
			if err != nil {
				return err
			}
			return a.withTokens(cmd, forTokens, func(k tokenKeeper) error {
				away, err := k.ChangeAccessToken(cmd.Context(), e)
				if err != nil {
					return err
				}
				if err := a.answer(struct {
					ID     string `json:"id"`
					Secret string `json:"secret"`
				}{e.ID.String(), secret}, "%s", secret); err != nil {
					return err
				}
				return a.tokensAway(away)
			})
		},
	}
	cmd.Flags().StringVar(&verbs, "verbs", "read,write", "what it permits: `read, write, admin`, commas between")
	cmd.Flags().StringVar(&prefix, "prefix", "", "of the `names` of sets and filters that it permits (default: all)")
	cmd.Flags().BoolVar(&n.base64, "base64", false, "the prefix is written as standard base64, for arbitrary bytes")
	cmd.Flags().String("type", setname.PlainType, "bucket type of the sets that it is good for")
	cmd.Flags().String("bucket", setname.PlainBucket, "bucket of the sets that it is good for")
	return cmd
}

// tokensAway prints which members have not received a change.
func (a *app) tokensAway(away []string) error {
	if len(away) == 0 {
		return nil
	}
	return a.note("not reached: %s; they learn of it from any other node when they are back", strings.Join(away, ", "))
}

func (a *app) tokenList() *cobra.Command {
	var n notation
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the tokens",
		Long:  `List the tokens: ID, label, verbs, when it was made, and the prefix.`,
		Example: `  bigset token ls
  bigset token ls --json --addr 127.0.0.1:8691`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTokens(cmd, atRest, func(k tokenKeeper) error {
				list, err := k.AccessTokens(cmd.Context())
				if err != nil {
					return err
				}
				for _, e := range list {
					if err := a.showToken(n, e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&n.base64, "base64", false, "write prefixes as standard base64, for arbitrary bytes")
	return cmd
}

func (a *app) showToken(n notation, e tokens.Entry) error {
	made := time.Unix(int64(e.Created), 0).UTC()
	if !a.json {
		return a.line(fmt.Sprintf("%v\t%s\t%v\t%s\t", e.ID, e.Label, e.Verbs, made.Format(time.DateOnly)), nameLine(e.Prefix, n), n)
	}
	text, raw := n.split(e.Prefix)
	return a.object(struct {
		ID     string    `json:"id"`
		Label  string    `json:"label"`
		Verbs  string    `json:"verbs"`
		Made   time.Time `json:"made"`
		Text   *string   `json:"prefix,omitempty"`
		Base64 []byte    `json:"prefix_base64,omitempty"`
	}{e.ID.String(), e.Label, e.Verbs.String(), made, text, raw})
}

func (a *app) tokenRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID|LABEL...",
		Short: "Remove tokens, for good",
		Long: `Remove tokens for good, by their IDs, or all that have a label. From then on they permit nothing, also on open connections. Clients need a
token even after the last one is removed.`,
		Example: `  bigset token rm 5a3f0c1b2d4e6f70
  bigset token rm app --addr 127.0.0.1:8691`,
		Args: takes(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTokens(cmd, atRest, func(k tokenKeeper) error { return a.removeTokens(cmd.Context(), k, args) })
		},
	}
}

// removeTokens removes the tokens with those IDs or labels. If any of these matches no token, it removes nothing.
func (a *app) removeTokens(ctx context.Context, k tokenKeeper, names []string) error {
	list, err := k.AccessTokens(ctx)
	if err != nil {
		return err
	}
	var gone []tokens.Entry
	unmatched := slices.Clone(names)
	for _, e := range list {
		named := func(name string) bool { return e.Label == name || e.ID.String() == name }
		if slices.ContainsFunc(names, named) { // once, also if several names are of it
			gone = append(gone, tokens.Entry{ID: e.ID, Removed: true})
		}
		unmatched = slices.DeleteFunc(unmatched, named)
	}
	if len(unmatched) > 0 {
		return fmt.Errorf("%w: %q", tokens.ErrNotFound, unmatched[0])
	}
	var away []string
	for i, e := range gone {
		missed, err := k.ChangeAccessToken(ctx, e)
		if err != nil {
			return fmt.Errorf("token %v, after %d were removed: %w", e.ID, i, err)
		}
		away = append(away, missed...)
	}
	slices.Sort(away)
	away = slices.Compact(away)
	if err := a.answer(struct {
		Removed int      `json:"removed"`
		Away    []string `json:"away,omitempty"`
	}{len(gone), away}, "removed %s", count(uint64(len(gone)), "token")); err != nil {
		return err
	}
	return a.tokensAway(away)
}
