//go:build windows || plan9

package server

import (
	"errors"
	"log/slog"
)

func newSyslog(string, slog.Level) (slog.Handler, error) {
	return nil, errors.New("server: this system has no syslog")
}
