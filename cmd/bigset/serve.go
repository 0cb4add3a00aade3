package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"bigset/internal/timerslack"
	"bigset/server"
)

// serveFlags are the flags of serve that are keys of the configuration.
var serveFlags = []struct{ flag, key, help string }{
	{"admin", "admin", "`HOST:PORT` for metrics, health, backups, and with --pprof profiles; it asks for no password (default: none)"},
	{"admin-hosts", "admin_hosts", "further `names` of this node for the admin port, the health port and HTTP, separated by spaces; IP addresses, localhost\nand the name of the machine are always accepted"},
	{"backup-dir", "backup_dir", "existing `folder` in which the admin port makes backups (default: none, it makes no backups)"},
	{"bloomd-durability", "durability", "when a set is answered: interval, at once, and a crash loses what was not flushed;\nlog, when it survives the process; sync, when it is on disk (default interval)"},
	{"durability", "set_durability", "when a change of a set is answered: always, when it is on disk; everysec, at once, and the disk has it a second later;\nno, at once (default always)"},
	{"present-adds", "present_adds", "what an add of a present element does: write, a change like any other; skip, nothing, on a\nnode without a cluster (default write)"},
	{"filter-cache", "filter_cache", "`bytes` of memory for the bits of filters; filters that are only in memory take more (default 256 MiB)"},
	{"max-capacity", "max_capacity", "most `keys` that one filter may be made for; 0 is no limit (default 2^30)"},
	{"max-filters", "max_filters", "most filters; 0 is no limit (default 100000)"},
	{"max-filter-bytes", "max_filter_bytes", "most `bytes` of the bits of one filter; 0 is no limit (default 8 GiB)"},
	{"max-total-bytes", "max_total_bytes", "most `bytes` of the bits of all filters; 0 is no limit (default 128 GiB)"},
	{"max-in-memory-bytes", "max_in_memory_bytes", "most `bytes` of memory of all filters that are only in memory; 0 is no limit (default 1 GiB)"},
	{"resp", "resp", "`HOST:PORT` for clients of redis, which work on sets and filters (default: none)"},
	{"http", "http", "`HOST:PORT` for sets and filters by HTTP, and the console at /console (default: none)"},
	{"riak", "riak", "`HOST:PORT` for clients of Riak's sets, by protocol buffers (default: none)"},
	{"client-tls", "client_tls", "`folder` of certificates of a node, which bigset cert makes: --resp, --http and --riak speak TLS with them (default: no TLS)"},
	{"listen", "listen", "`HOST:PORT` for nodes and clients of sets (default: that of --node among --peers; without --peers none)"},
	{"node", "node", "`ID` of this node (default: that of its certificate)"},
	{"peers", "peers", "all nodes of the cluster including this one, in the same order everywhere: `ID=HOST:PORT,...` (default: none, the node is alone)"},
	{"cluster", "cluster", "`name` of the cluster (default: that of the certificate, or bigset)"},
	{"tls", "tls", "`folder` of the certificates of this node, which bigset cert makes"},
	{"n", "cluster_n", "replicas of each range, chosen when the cluster is created (default 3, or the number of nodes if that is less)"},
	{"r", "cluster_r", "replicas that answer a read; R + W is more than N (default N - W + 1)"},
	{"w", "cluster_w", "replicas that have a write when it is acknowledged (default a majority of N)"},
	{"dw", "cluster_dw", "replicas that have the write on disk when it is acknowledged (default W)"},
	{"buckets", "cluster_buckets", "ranges that are placed on nodes, a power of two, chosen when the cluster is created (default 256)"},
	{"slices", "cluster_slices", "most slices of a filter, a power of two, chosen when the cluster is created (default 256)"},
	{"timer-slack", "timer_slack", "how late timers may be, at least, on Linux: a larger slack costs less CPU; 0 leaves it as the system has it (default 1ms with --peers, otherwise 0)"},
	{"copy-bytes-per-second", "cluster_copy_bytes_per_second", "most `bytes` a second of copies from other nodes into this one, while it is filled; 0 is no limit (default 0)"},
	{"log", "log", "text or json on standard error, or syslog (default text)"},
	{"log-level", "log_level", "DEBUG, INFO, WARN, ERROR or CRITICAL (default INFO)"},
	{"max-connections", "max_connections", "most clients at one time (default 10000)"},
	{"max-line", "max_line", "most `bytes` of one request (default 64 MiB)"},
	{"health", "health", "`HOST:PORT` for health checks, which answers only /healthz and /readyz (default: none)"},
	{"idle", "idle", "close connections that ask nothing for this time, for instance 5m (default: never)"},
}

func (a *app) serve() *cobra.Command {
	var path, address string
	var check bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve bloom filters and sets to clients of bloomd, redis, Riak and HTTP",
		Long: `Serve the bloom filters of the data folder by bloomd's protocol, until SIGTERM or SIGINT. Then the server answers the requests that
have arrived, flushes filters and closes the store. The status is 0. SIGHUP does nothing.

With --resp it also serves sets and filters to clients of redis, such as redis-cli; with --riak sets to clients of Riak; with --http
sets and filters to programs such as curl, by Riak's paths, and a console to browsers, at /console.

--config takes bloomd's INI file with all its keys. The defaults are bloomd's, except for the folder (./bigset-data), the address
(127.0.0.1:8673) and the log level (INFO). Flags take precedence over the environment, and the environment over the file. A variable is
BIGSET_ and the key, for instance BIGSET_FLUSH_INTERVAL; BIGSET_BLOOMD is the address and BIGSET_CONFIG the file. A program that is
called bloomd, by a link, takes bloomd's own flags and defaults.`,
		Example: `  bigset serve --bloomd 127.0.0.1:8673 --admin 127.0.0.1:8680 --health 127.0.0.1:8681 --backup-dir /backup
  bigset serve --resp 127.0.0.1:6379 --http 127.0.0.1:8682
  bigset serve --config /etc/bloomd.conf --check-config
  curl -X POST 'http://127.0.0.1:8680/backup?name=monday'`,
		Args: takes(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&address, "bloomd", "", "`HOST:PORT` for clients of bloomd (default 127.0.0.1:8673; with --peers: none)")
	f.StringVar(&path, "config", "", "bloomd's configuration `file`")
	f.BoolVar(&check, "check-config", false, "print the configuration that counts, and do nothing")
	for _, s := range serveFlags {
		f.String(s.flag, "", s.help)
		_ = cmd.RegisterFlagCompletionFunc(s.flag, cobra.NoFileCompletions)
	}
	f.Bool("insecure", false, "serve nodes and clients without TLS, on addresses of this machine only")
	f.Bool("insecure-clients", false, "serve clients of redis, HTTP and Riak on other machines without TLS, and without a token until the first one is made")
	f.Bool("pprof", false, "let the admin port make profiles at /debug/pprof/")
	f.StringVar(&a.record, "record", "", "kind of record of a new store: merge or set (default merge)")
	_ = cmd.MarkFlagFilename("config")
	_ = cmd.MarkFlagDirname("backup-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if path == "" {
			path = os.Getenv("BIGSET_CONFIG")
		}
		c := server.Defaults()
		c.Version = readBuild().Version
		ignored, err := c.Load(path, os.Getenv)
		if err != nil {
			return err
		}
		if err := serveFlagsTo(&c, cmd, address); err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return err
		}
		if c.Store, err = a.options(making); err != nil {
			return err
		}
		if check {
			for _, text := range ignored {
				if err := a.note("ignored: %s", text); err != nil {
					return err
				}
			}
			return c.Print(a.out)
		}
		return a.serveNode(cmd.Context(), c, path, "bigset", ignored)
	}
	return cmd
}

// serveFlagsTo applies the given flags to a configuration.
func serveFlagsTo(c *server.Config, cmd *cobra.Command, address string) error {
	f := cmd.Flags()
	var errs []error
	if f.Changed("dir") {
		errs = append(errs, c.Set("data_dir", f.Lookup("dir").Value.String()))
	}
	if address != "" {
		errs = append(errs, c.Listen(address))
	}
	for _, s := range serveFlags {
		if f.Changed(s.flag) {
			errs = append(errs, c.Set(s.key, f.Lookup(s.flag).Value.String()))
		}
	}
	if f.Changed("insecure") {
		c.Peers.Insecure = f.Lookup("insecure").Value.String() == "true"
	}
	if f.Changed("insecure-clients") {
		c.InsecureClients = f.Lookup("insecure-clients").Value.String() == "true"
	}
	if f.Changed("pprof") {
		c.Pprof = f.Lookup("pprof").Value.String() == "true"
	}
	return errors.Join(errs...)
}

// drainTime is how long a stopping node waits for clients.
const drainTime = 10 * time.Second

// serveNode runs a node until ctx ends. path is the file of the configuration, and ignored lists the parts of it that have no effect.
func (a *app) serveNode(ctx context.Context, c server.Config, path, tag string, ignored []string) error {
	signal.Ignore(syscall.SIGHUP) // as bloomd does
	log := c.Logger(tag, a.errs, a.toTerminal)
	a.slacken(c.Slack(), path, log)
	for _, text := range ignored {
		log.Warn("bigset: configuration", "ignored", text)
	}
	n, err := server.Start(c, log)
	if err != nil {
		return err
	}
	err = n.Wait(ctx)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return errors.Join(err, n.Stop(stopping))
}

// slacken gives the process a timer slack. For that the program may be executed again, and then slacken does not return: nothing must have been opened that
// would be lost, and the file of the configuration must be one that can be read again. Without the slack a node takes more CPU, but serves as well.
func (a *app) slacken(least time.Duration, path string, log *slog.Logger) {
	switch {
	case least == 0 || a.restart == nil:
	case !readsAgain(path):
		log.Debug("bigset: timer slack", "unchanged", path+" can be read only once")
	default:
		if err := a.restart(least); err != nil {
			log.Debug("bigset: timer slack", "unchanged", err)
		}
	}
	if slack, err := timerslack.Get(); err == nil {
		log.Debug("bigset: timer slack", "slack", slack)
	}
}

// readsAgain reports whether a file that was read, if any, can be read a second time. A pipe can't.
func readsAgain(path string) bool {
	if path == "" {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
