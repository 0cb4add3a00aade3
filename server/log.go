package server

import (
	"io"
	"log/slog"
)

// Logger returns the node's log. tag names the program in syslog. If lookedOn, a log for syslog also goes to errs. If this system has no
// syslog, the log goes to errs only, and its first line says so.
func (c *Config) Logger(tag string, errs io.Writer, lookedOn bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	switch c.Log {
	case LogJSON:
		return slog.New(slog.NewJSONHandler(errs, o))
	case LogSyslog:
		h, err := newSyslog(tag, c.LogLevel)
		switch {
		case err == nil && lookedOn:
			return slog.New(slog.NewMultiHandler(h, slog.NewTextHandler(errs, o)))
		case err == nil:
			return slog.New(h)
		}
		log := slog.New(slog.NewTextHandler(errs, o))
		log.Warn("no syslog here, the log goes to standard error", "cause", err)
		return log
	}
	return slog.New(slog.NewTextHandler(errs, o))
}
