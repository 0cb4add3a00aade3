package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bigset"
	"bigset/server/origin"
)

const (
	// adminHeaderTime bounds how long a client of the admin port may take for the header of a request. adminIdleTime bounds the wait for
	// the next request.
	adminHeaderTime = 10 * time.Second
	adminIdleTime   = 2 * time.Minute
	// adminHeaderBytes is about how many bytes a header may have.
	adminHeaderBytes = 16 << 10
	// adminConnectionsMax connections may be open at one time. One more closes the connection that has waited longest for its client. Their
	// file descriptors come from the store's reserve.
	adminConnectionsMax = 64
)

// adminServer answers operators. It has no passwords: only operators may reach its address.
func (n *Node) adminServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", n.serveMetrics)
	n.handleHealth(mux)
	mux.HandleFunc("POST /backup", n.serveBackup)
	n.handleProfiles(mux)
	srv := &http.Server{
		Handler:           n.ownHosts(ownPages(mux)), // otherwise a page in an operator's browser could ask for backups
		ReadHeaderTimeout: adminHeaderTime,
		IdleTimeout:       adminIdleTime,
		MaxHeaderBytes:    adminHeaderBytes,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	bind(srv, adminConnectionsMax, requestTimeMin)
	return srv
}

// handleProfiles serves profiles if the configuration allows them: each may use a core for as long as its client says.
func (n *Node) handleProfiles(mux *http.ServeMux) {
	if !n.config.Pprof {
		mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "profiles are off: start with --pprof", http.StatusNotFound)
		})
		return
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// ownPages refuses requests that a browser sends on behalf of a page from elsewhere.
func ownPages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !origin.IsOwnPage(r) {
			http.Error(w, "a request from a page of another site: enter the address in the browser itself", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hosts are the names by which the node is asked over HTTP.
func (n *Node) hosts() *origin.Hosts {
	return origin.NewHosts([]string{n.config.Admin, n.config.Health, n.config.HTTP}, n.config.AdminHosts...)
}

// ownHosts refuses requests whose host is not a name of the node.
func (n *Node) ownHosts(h http.Handler) http.Handler {
	own := n.hosts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := own.Has(r); !ok {
			text := fmt.Sprintf("%q is not a name of this node: ask by an IP address, or start with --admin-hosts %s", name, name)
			http.Error(w, text, http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (n *Node) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	s := n.store.Load()
	if s == nil {
		http.Error(w, starting, http.StatusServiceUnavailable)
		return
	}
	figures, err := n.metrics(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = WriteMetrics(w, figures) // it fails only if the client has gone
}

// serveReady reports whether clients should be sent to this node and, if not, the reasons, one a line.
func (n *Node) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reasons := n.NotReady(true); len(reasons) > 0 {
		http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, strings.Join(append([]string{"ready"}, n.Warnings(true)...), "\n"))
}

// starting and stopping are reasons for a node not to be ready.
const (
	starting = "starting: the store is being opened"
	stopping = "stopping"
)

// NotReady returns the reasons why clients should not be sent to this node; none means that it is ready. A node that is not ready may still
// answer checks. Without names it names no filter: their names are for those who may read them.
func (n *Node) NotReady(names bool) (reasons []string) {
	s := n.store.Load()
	switch {
	case n.stopping.Load():
		return []string{stopping}
	case s == nil:
		return []string{starting}
	}
	reasons = n.doors.notReady()
	if _, err := s.DiskSpace(); err != nil {
		reasons = append(reasons, "disk full: adds are refused: "+err.Error())
	}
	if err := s.Failed(); err != nil {
		reasons = append(reasons, diskFull(err)+"store failed, it takes no writes until the node starts again: "+err.Error())
	}
	if err := n.flushFailed.Load(); err != nil {
		why := "the log says which, and why"
		if names {
			why = (*err).Error()
		}
		reasons = append(reasons, diskFull(*err)+"the last flush of filters failed: "+why)
	}
	return reasons
}

// Warnings returns what an operator should act on although the node is ready. Without names it only counts damaged sets and filters: their names
// are for those who may read them.
func (n *Node) Warnings(names bool) (warnings []string) {
	s := n.store.Load()
	if s == nil {
		return nil
	}
	if space, full := s.DiskSpace(); space.Level > 0 && full == nil {
		warnings = append(warnings, fmt.Sprintf("warning: the disk fills up: %d bytes are free, adds are refused at %d", space.Free, space.Reserve))
	}
	if known, err := s.Damage(); err == nil {
		warnings = append(warnings, damaged("filters", known.Filters, names)...)
		warnings = append(warnings, damaged("sets", known.Sets, names)...)
	}
	return warnings
}

// damagedShown is how many damaged filters, or sets, a warning names.
const damagedShown = 20

func damaged(what string, names [][]byte, show bool) []string {
	if len(names) == 0 {
		return nil
	}
	list := strconv.Itoa(len(names))
	if show {
		list = fmt.Sprintf("%.64q", names[:min(len(names), damagedShown)])
		if more := len(names) - damagedShown; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
	}
	return []string{"warning: damaged " + what + ": " + list + ": run `bigset verify` on the stopped store or a copy, restore the folder from a backup"}
}

func diskFull(err error) string {
	if errors.Is(err, bigset.ErrDiskFull) {
		return "disk full: "
	}
	return ""
}

// backupName matches the names of backups: plain words for every shell and file system.
var backupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// errNoBackup says why a backup was refused.
type errNoBackup struct {
	status int
	text   string
}

func (e *errNoBackup) Error() string { return e.text }

// serveBackup copies the store into a new folder below the folder for backups, and answers when the copy is complete.
func (n *Node) serveBackup(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	dir, err := n.backup(r.Context(), r.URL.Query().Get("name"))
	var refused *errNoBackup
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.text, refused.status)
	case err != nil:
		n.log.Error("backup failed", "dir", dir, "cause", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		n.log.Info("backup made", "dir", dir, "took", time.Since(began))
		fmt.Fprintf(w, "backup of %s in %s\n", n.config.DataDir, dir)
	}
}

// backup copies the store and returns the folder of the copy.
func (n *Node) backup(ctx context.Context, name string) (dir string, err error) {
	s, root := n.store.Load(), n.config.BackupDir
	switch {
	case s == nil:
		return "", &errNoBackup{http.StatusServiceUnavailable, starting}
	case root == "":
		return "", &errNoBackup{http.StatusForbidden, "no folder for backups is configured: start with --backup-dir /a/folder"}
	case name == "":
		return "", &errNoBackup{http.StatusBadRequest, "give the backup a name: POST /backup?name=monday"}
	case !backupName.MatchString(name):
		return "", &errNoBackup{http.StatusBadRequest, fmt.Sprintf(
			"%.150q can't be the name of a backup: a name is 1 to 128 letters, digits, '.', '_' and '-', and begins with a letter or a digit", name)}
	case !n.backingUp.TryLock():
		return "", &errNoBackup{http.StatusConflict, "another backup is under way"}
	}
	defer n.backingUp.Unlock()
	dir = filepath.Join(root, name)
	if err := n.config.checkBackupDir(); err != nil { // a link may lead elsewhere by now
		return dir, &errNoBackup{http.StatusForbidden, err.Error()}
	}
	if _, err := os.Stat(root); err != nil { // root is not created: it may be a disk that is not mounted
		return dir, err
	}
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return dir, &errNoBackup{http.StatusConflict, dir + " exists: choose another name, or remove it"}
	case !errors.Is(err, fs.ErrNotExist):
		return dir, err
	}
	return dir, s.Checkpoint(ctx, dir) // Checkpoint flushes filters: the copy contains every acknowledged mark, whatever the durability
}
