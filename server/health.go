package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	// healthTime is how long a client of the health port may take for a whole request, and again for reading the answer.
	healthTime = 5 * time.Second
	// healthHeaderBytes and 4 KiB, which net/http adds, are the most that the head of a request may have there.
	healthHeaderBytes = 4 << 10
	// healthConnectionsMax are open at one time; one more closes the one that has waited longest for its client. Their file descriptors are the store's reserve.
	healthConnectionsMax = 128
	// requestTimeMin is how long every client of an HTTP port has for its request, however many others come.
	requestTimeMin = 20 * time.Millisecond
)

// healthServer answers /healthz and /readyz and nothing else, so that nothing which takes long holds its connections. Each connection gets
// one answer and is closed: kept ones would be the oldest when a client asks again.
func (n *Node) healthServer() *http.Server {
	mux := http.NewServeMux()
	n.handleHealth(mux)
	srv := &http.Server{
		Handler:        n.ownHosts(ownPages(mux)),
		ReadTimeout:    healthTime,
		WriteTimeout:   healthTime,
		MaxHeaderBytes: healthHeaderBytes,
		ErrorLog:       slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false)
	bind(srv, healthConnectionsMax, requestTimeMin)
	return srv
}

// handleHealth is what the health port and the admin port both answer.
func (n *Node) handleHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", n.serveReady)
}
