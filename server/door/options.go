package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// ErrClosed is the error of Serve after Shutdown.
var ErrClosed = errors.New("door: server is shut down")

// Options are the options of a server. Zero means the default.
type Options struct {
	Name            string        // of the protocol, in errors and the log; default "door"
	TLS             *tls.Config   // connections begin with a handshake; nil means no TLS. Its answers may change at any time
	Limits          *Limits       // shared with the other doors of a node; default: limits of its own, with their defaults
	Full            string        // sent to a connection above the Limits before it is closed, if there is no TLS; default nothing
	Kept            int           // connections of Limits reserved for this server; default 0
	RequestBytesMax int           // longest request; default 64 MiB. Handler.TooLong answers a longer one, and its connection is closed
	OutputBytesMax  int           // answers are written when this many bytes wait, or no request is left; default 64 KiB
	IdleTime        time.Duration // a connection that sends nothing for this long, or up to an eighth longer, is closed; 0 means never
	HandshakeTime   time.Duration // a connection whose TLS handshake takes longer is closed; default 10 seconds
	RequestTime     time.Duration // a request above 64 KiB must be complete after this time, plus a second for each 256 KiB of its buffer, or its connection ends; default 1 minute
	WriteTime       time.Duration // a connection that takes nothing for this long, or up to an eighth longer, is closed, and one that has not taken an answer above 64 KiB after this time, plus a second for each 32 KiB of its memory; default 5 minutes
	Loops           int           // event loops of a listener without TLS, on Linux; default half of the processors. -1 means none: each connection has a goroutine of its own
	Together        Together      // does the work that Handlers defer by Conn.Defer; nil means that they defer nothing
	Log             *slog.Logger  // for failures at the listener; default slog.Default()
}

// withDefaults replaces zeros by defaults, unless a zero has a meaning of its own.
func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "door"
	}
	if o.RequestBytesMax == 0 {
		o.RequestBytesMax = 64 << 20
	}
	if o.Limits == nil {
		o.Limits = NewLimits(LimitsOptions{LongBytes: max(longBytes, int64(o.RequestBytesMax))})
	}
	if o.OutputBytesMax == 0 {
		o.OutputBytesMax = 64 << 10
	}
	if o.HandshakeTime == 0 {
		o.HandshakeTime = 10 * time.Second
	}
	if o.RequestTime == 0 {
		o.RequestTime = time.Minute
	}
	if o.WriteTime == 0 {
		o.WriteTime = 5 * time.Minute
	}
	if o.Loops == 0 {
		o.Loops = (runtime.GOMAXPROCS(0) + 1) / 2
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// validate checks options that have their defaults.
func (o *Options) validate() error {
	switch {
	case o.RequestBytesMax < 1:
		return fmt.Errorf("%s: longest request of %d bytes", o.Name, o.RequestBytesMax)
	case o.Limits.longMost < int64(o.RequestBytesMax):
		return fmt.Errorf("%s: %d bytes for all long requests, at least the %d of one are needed", o.Name, o.Limits.longMost, o.RequestBytesMax)
	case o.Kept < 0:
		return fmt.Errorf("%s: %d connections are kept", o.Name, o.Kept)
	case o.OutputBytesMax < 1:
		return fmt.Errorf("%s: output of %d bytes", o.Name, o.OutputBytesMax)
	}
	for _, t := range []struct {
		what string
		d    time.Duration
	}{{"idle time", o.IdleTime}, {"handshake time", o.HandshakeTime}, {"request time", o.RequestTime}, {"write time", o.WriteTime}} {
		if t.d < 0 {
			return fmt.Errorf("%s: %s of %v", o.Name, t.what, t.d)
		}
	}
	return nil
}
