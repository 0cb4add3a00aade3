package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

const (
	// healthTime bounds how long a client of the health port may take for a whole request, and again for reading the answer.
	healthTime = 5 * time.Second
	// The header of a request there may have at most healthHeaderBytes and the 4 KiB that net/http adds.
	healthHeaderBytes = 4 << 10
	// healthConnectionsMax connections may be open at one time. One more closes the connection that has waited longest for its client.
	// Their file descriptors come from the store's reserve.
	healthConnectionsMax = 128
	// requestTimeMin is how long every client of an HTTP port has for its request, however many others connect.
	requestTimeMin = 20 * time.Millisecond
)

// healthServer answers /healthz and /readyz only, so that no long request holds its connections. Each connection gets one answer and is
// closed: a kept connection would be the oldest when its client asks again.
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

// handleHealth adds what both the health port and the admin port answer.
func (n *Node) handleHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", n.serveReady)
}
