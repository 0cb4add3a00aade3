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
	"strings"
	"time"

	"bigset/engine"
)

// adminHeaderTime is how long a client of the admin port may take for the head of a request.
const adminHeaderTime = 10 * time.Second

// adminServer answers operators. It has no passwords: its address has to be one that only they reach.
func (n *Node) adminServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", n.serveMetrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", n.serveReady)
	mux.HandleFunc("POST /backup", n.serveBackup)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(mux), // or a page in an operator's browser could ask for backups
		ReadHeaderTimeout: adminHeaderTime,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
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
	_ = WriteMetrics(w, figures) // who asked has gone
}

// serveReady says whether clients should be sent here, and if not, why: a reason a line.
func (n *Node) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reasons := n.NotReady(); len(reasons) > 0 {
		http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// starting and stopping are reasons why a node is not ready.
const (
	starting = "starting: the store is being opened"
	stopping = "stopping"
)

// NotReady returns why clients should not be sent to this node, or nothing. Checks may well be answered.
func (n *Node) NotReady() (reasons []string) {
	s := n.store.Load()
	switch {
	case n.stopping.Load():
		return []string{stopping}
	case s == nil:
		return []string{starting}
	}
	if err := s.Failed(); err != nil {
		reasons = append(reasons, diskFull(err)+"store failed, it takes no writes until the node starts again: "+err.Error())
	}
	if err := n.flushFailed.Load(); err != nil {
		reasons = append(reasons, diskFull(*err)+"the last flush of filters failed: "+(*err).Error())
	}
	return reasons
}

func diskFull(err error) string {
	if errors.Is(err, engine.ErrDiskFull) {
		return "disk full: "
	}
	return ""
}

// errNoBackup is what a refused backup is.
type errNoBackup struct {
	status int
	text   string
}

func (e *errNoBackup) Error() string { return e.text }

// serveBackup makes a copy of the store in a folder on this machine, and answers when it is done.
func (n *Node) serveBackup(w http.ResponseWriter, r *http.Request) {
	dir := r.URL.Query().Get("dir")
	began := time.Now()
	err := n.backup(r.Context(), dir)
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

func (n *Node) backup(ctx context.Context, dir string) error {
	s := n.store.Load()
	switch {
	case s == nil:
		return &errNoBackup{http.StatusServiceUnavailable, starting}
	case dir == "":
		return &errNoBackup{http.StatusBadRequest, "say where to: POST /backup?dir=/a/new/folder"}
	case !filepath.IsAbs(dir):
		return &errNoBackup{http.StatusBadRequest, fmt.Sprintf("%q is no absolute path, and this node's working folder is not yours", dir)}
	case !n.backingUp.TryLock():
		return &errNoBackup{http.StatusConflict, "another backup is under way"}
	}
	defer n.backingUp.Unlock()
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return &errNoBackup{http.StatusConflict, dir + " exists: choose another folder, or remove it"}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.Checkpoint(ctx, dir) // which flushes filters: what was answered is in it, whatever the durability
}
