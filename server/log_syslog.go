//go:build !windows && !plan9

package server

import (
	"bytes"
	"context"
	"log/slog"
	"log/syslog"
	"sync"
)

// syslogHandler writes records as lines of text without time and level, which syslog adds.
type syslogHandler struct {
	slog.Handler // writes to out
	out          *syslogLine
}

// syslogLine is the line being written.
type syslogLine struct {
	mu   sync.Mutex
	text bytes.Buffer
	w    *syslog.Writer
}

// newSyslog connects to the syslog of this machine, as bloomd does: facility local0, tag and process.
func newSyslog(tag string, level slog.Level) (slog.Handler, error) {
	w, err := syslog.New(syslog.LOG_LOCAL0|syslog.LOG_INFO, tag)
	if err != nil {
		return nil, err
	}
	return newSyslogHandler(w, level), nil
}

func newSyslogHandler(w *syslog.Writer, level slog.Level) slog.Handler {
	out := &syslogLine{w: w}
	return &syslogHandler{slog.NewTextHandler(&out.text, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}), out}
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// Handle implements slog.Handler.
func (h *syslogHandler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.text.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	line, w := h.out.text.String(), h.out.w
	switch {
	case r.Level >= levelCritical:
		return w.Crit(line)
	case r.Level >= slog.LevelError:
		return w.Err(line)
	case r.Level >= slog.LevelWarn:
		return w.Warning(line)
	case r.Level >= slog.LevelInfo:
		return w.Info(line)
	}
	return w.Debug(line)
}

// WithAttrs implements slog.Handler.
func (h *syslogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &syslogHandler{h.Handler.WithAttrs(attrs), h.out}
}

// WithGroup implements slog.Handler.
func (h *syslogHandler) WithGroup(name string) slog.Handler {
	return &syslogHandler{h.Handler.WithGroup(name), h.out}
}
