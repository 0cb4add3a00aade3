package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/server/certs"
)

func (a *app) cert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make and renew the certificates of a cluster",
		Long: `Make what mutual TLS between the nodes and clients of a cluster needs: a certificate authority (CA) of the cluster's own, and
a folder with a certificate for each node and each client. A folder has ca.crt, the trusted CAs, and node.crt with
node.key, or client.crt with client.key. Keep ca.key on a machine where no node runs: anyone who has it can make any certificate.`,
		Example: `  bigset cert ca certs/ca --cluster prod
  bigset cert node a certs/a --ca certs/ca --host a.example
  bigset cert client paul certs/paul --ca certs/ca
  bigset cert renew certs/a certs/paul --ca certs/ca --within 30d
  bigset cert show certs/a`,
	}
	cmd.AddCommand(a.certCA(), a.certIssue(certs.RoleNode), a.certIssue(certs.RoleClient), a.certRenew(), a.certShow())
	return chooser(cmd)
}

func (a *app) certCA() *cobra.Command {
	var cluster string
	var rotate, retire, force bool
	var valid span
	cmd := &cobra.Command{
		Use:   "ca DIR",
		Short: "Make the CA of a cluster, or change it",
		Long: `Make the certificate authority of a new cluster: ca.crt and ca.key in DIR.

--rotate adds a CA, which signs from now on; the old one stays trusted. Copy ca.crt to every node and client, then run "bigset
cert renew" for every folder. Then remove the old CA with --retire, and copy ca.crt once more. Certificates that were not renewed
are refused from then on: that is how a certificate is revoked.`,
		Example: `  bigset cert ca certs/ca --cluster prod
  bigset cert ca certs/ca --rotate
  bigset cert ca certs/ca --retire`,
		Args:              takes(1, 1),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case rotate && retire, (rotate || retire) && (force || cluster != ""), retire && cmd.Flags().Changed("for"):
				return usage(cmd, "--rotate and --retire stand alone; --rotate takes --for")
			case rotate:
				return a.rotateCA(args[0], time.Duration(valid))
			case retire:
				return a.retireCA(args[0])
			case cluster == "":
				return usage(cmd, "--cluster is missing: the name of the cluster")
			}
			if err := certs.MakeCA(args[0], certs.CAOptions{Cluster: cluster, Valid: time.Duration(valid), Force: force}); err != nil {
				return err
			}
			return a.madeCert(args[0], "made")
		},
	}
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster", "", "`name` of the cluster: lower-case letters, digits, hyphens and dots")
	f.Var(&valid, "for", "`time` for which it is valid, for instance 30d or 10y (default 10y)")
	f.BoolVar(&rotate, "rotate", false, "add a CA, which signs from now on")
	f.BoolVar(&retire, "retire", false, "remove all CAs but the one that signs")
	f.BoolVar(&force, "force", false, "replace the CA that is in DIR; all its certificates become worthless")
	return cmd
}

func (a *app) rotateCA(dir string, valid time.Duration) error {
	info, err := certs.RotateCA(dir, valid, nil)
	if err != nil {
		return err
	}
	if err := a.printCert(dir, info, "added", ""); err != nil {
		return err
	}
	return a.note("copy %s/ca.crt to every node and client, then renew every certificate, then run `bigset cert ca %s --retire`", dir, dir)
}

func (a *app) retireCA(dir string) error {
	removed, err := certs.RetireCA(dir)
	if err != nil {
		return err
	}
	for _, info := range removed {
		if err := a.printCert(dir, info, "removed", ""); err != nil {
			return err
		}
	}
	if len(removed) == 0 {
		return a.note("%s has one CA; there is nothing to remove", dir)
	}
	return a.note("copy %s/ca.crt to every node and client", dir)
}

func (a *app) certIssue(role certs.Role) *cobra.Command {
	o := certs.IssueOptions{Role: role}
	var valid span
	cmd := &cobra.Command{
		Use:   "node ID DIR",
		Short: "Make the certificate of a node",
		Long: `Make the certificate of the node ID: node.crt, node.key and ca.crt in DIR, the folder that "bigset serve --tls" takes on that
node's machine. Nodes are known by their ID and dialed at any address; --host is for other programs that check names.`,
		Example: `  bigset cert node a certs/a --ca certs/ca
  bigset cert node b certs/b --ca certs/ca --host b.example --host 10.0.0.2`,
		Args: takes(2, 2),
	}
	if role == certs.RoleClient {
		cmd.Use, cmd.Short = "client NAME DIR", "Make the certificate of a client"
		cmd.Long = `Make the certificate of the client NAME: client.crt, client.key and ca.crt in DIR, the folder that --tls takes beside --addr. A
client may ask everything of users, and nothing that only nodes ask each other.`
		cmd.Example = `  bigset cert client paul certs/paul --ca certs/ca`
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFolder(cmd, nil, begun)
	}
	f := cmd.Flags()
	f.StringVar(&o.CA, "ca", "", "`folder` of the CA")
	f.Var(&valid, "for", "`time` for which it is valid, for instance 30d (default 1y, and no longer than its CA)")
	f.BoolVar(&o.Force, "force", false, "replace the certificate that is in DIR, and its ca.crt")
	if role == certs.RoleNode {
		f.StringArrayVar(&o.Hosts, "host", nil, "DNS `name` or IP address to write into it; may be given several times")
	}
	_ = cmd.MarkFlagDirname("ca")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.CA == "" {
			return usage(cmd, "--ca is missing: the folder of the CA")
		}
		o.Name, o.Valid = args[0], time.Duration(valid)
		info, err := certs.Issue(args[1], o)
		if err != nil {
			return err
		}
		return a.printCert(args[1], info, "made", "")
	}
	return cmd
}

func (a *app) certRenew() *cobra.Command {
	var o certs.RenewOptions
	var valid span
	within := span(30 * day)
	cmd := &cobra.Command{
		Use:   "renew DIR…",
		Short: "Renew the certificates that end soon",
		Long: `Renew the certificates in each DIR that end within the time of --within, that have expired, or that were not signed by the current
CA, and copy the CA's ca.crt to each DIR. Names, hosts, keys and the length of time stay the same. Running nodes and clients
use the new files within seconds.`,
		Example: `  bigset cert renew certs/a certs/b certs/c --ca certs/ca
  bigset cert renew certs/a --ca certs/ca --within 90d --new-key`,
		Args: takes(1, -1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return completeFolder(nil, nil, "")
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.CA, "ca", "", "`folder` of the CA")
	f.Var(&within, "within", "renew what ends within this `time`")
	f.Var(&valid, "for", "`time` for which they are valid (default as long as before)")
	f.BoolVar(&o.NewKey, "new-key", false, "renew all, with new keys")
	_ = cmd.MarkFlagDirname("ca")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.CA == "" {
			return usage(cmd, "--ca is missing: the folder of the CA")
		}
		o.Within, o.Valid = time.Duration(within), time.Duration(valid)
		for _, dir := range args {
			done, err := certs.Renew(dir, o)
			for _, r := range done {
				if err := a.renewed(dir, r); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// renewed prints the result for one certificate. It adds a note if the certificate ends with its CA, since renewal can't extend it.
func (a *app) renewed(dir string, r certs.Renewed) error {
	if r.Reason == "" {
		return a.printCert(dir, r.Info, "kept", "")
	}
	if err := a.printCert(dir, r.Info, "renewed", r.Reason); err != nil {
		return err
	}
	if r.WithCA {
		return a.note("it ends no later than its CA, on %s: run `bigset cert ca --rotate` in time", date(r.Ends))
	}
	return nil
}

func (a *app) certShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show DIR",
		Short: "List the certificates of a folder",
		Long:  `List the certificates of a folder: their owners, when they end, and which CA of ca.crt has signed them.`,
		Example: `  bigset cert show certs/a
  bigset cert show certs/a --json`,
		Args:              takes(1, 1),
		ValidArgsFunction: completeFolder,
		RunE:              func(_ *cobra.Command, args []string) error { return a.madeCert(args[0], "") },
	}
}

// madeCert prints the certificates of a folder.
func (a *app) madeCert(dir, did string) error {
	all, err := certs.Show(dir)
	if err != nil {
		return err
	}
	for _, info := range all {
		if err := a.printCert(dir, info, did, ""); err != nil {
			return err
		}
	}
	return nil
}

// certificate is one certificate in JSON.
type certificate struct {
	Dir     string    `json:"dir"`
	File    string    `json:"file"`
	Did     string    `json:"did,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Cluster string    `json:"cluster"`
	Role    string    `json:"role"`
	Name    string    `json:"name,omitempty"`
	Hosts   []string  `json:"hosts,omitempty"`
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
	Expired bool      `json:"expired"`
	Print   string    `json:"fingerprint"`
	Issuer  string    `json:"issuer,omitempty"`
}

// printCert prints a certificate, what was done with it, and why.
func (a *app) printCert(dir string, i certs.Info, did, reason string) error {
	expired := time.Now().After(i.Ends)
	if a.json {
		return a.object(certificate{dir, i.File, did, reason, i.Identity.Cluster, string(i.Identity.Role), i.Identity.Name, i.Hosts,
			i.Begins.UTC(), i.Ends.UTC(), expired, i.Print, i.Issuer})
	}
	text := i.Identity.String()
	if did != "" {
		text = did + ": " + text
	}
	if len(i.Hosts) > 0 {
		text += " (" + strings.Join(i.Hosts, ", ") + ")"
	}
	if expired {
		text += ", EXPIRED on " + date(i.Ends)
	} else {
		text += ", until " + date(i.Ends)
	}
	switch {
	case reason != "":
		text += "; it " + reason
	case did == "" && i.Identity.Role == certs.RoleCA:
		text += ", fingerprint " + i.Print
	case did == "" && i.Issuer != "":
		text += ", signed by " + i.Issuer
	case did == "":
		text += ", signed by no CA of ca.crt"
	}
	_, err := fmt.Fprintf(a.out, "%s/%s: %s\n", dir, i.File, text)
	return err
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// span is a flag for a long duration: Go's notation, or a whole number of days or years.
type span time.Duration

const day = 24 * time.Hour

func (s *span) String() string {
	switch d := time.Duration(*s); {
	case d == 0:
		return ""
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	default:
		return d.String()
	}
}

func (s *span) Type() string { return "time" }

func (s *span) Set(text string) error {
	unit := time.Duration(0)
	switch {
	case strings.HasSuffix(text, "d"):
		unit = day
	case strings.HasSuffix(text, "y"):
		unit = 365 * day
	}
	if unit == 0 {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Minute {
			return errSpan
		}
		*s = span(d)
		return nil
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	if err != nil || n <= 0 || n > int64(math.MaxInt64/unit) {
		return errSpan
	}
	*s = span(time.Duration(n) * unit)
	return nil
}

var errSpan = errors.New("a time is a number with a unit, for instance 12h, 30d or 1y, and a minute at least")
