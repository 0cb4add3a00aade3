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

// Options are a server's. Zero means the default.
type Options struct {
	Name            string        // of the protocol, in errors and the log; "door"
	TLS             *tls.Config   // connections begin with a handshake; nil: they speak without TLS. It may change what it answers at any time
	Limits          *Limits       // what the server shares with the other doors of a node; its own, with the defaults of Limits
	Kept            int           // connections of Limits that only this server may have; 0
	RequestBytesMax int           // longest request; 64 MiB. A longer one is answered by Handler.TooLong, and its connection closed
	OutputBytesMax  int           // answers are written when so much of them has come together, or no request is left; 64 KiB
	IdleTime        time.Duration // a connection that sends nothing for so long, to an eighth more, is closed; 0: never
	HandshakeTime   time.Duration // a connection whose TLS handshake takes longer is closed; 10 seconds
	RequestTime     time.Duration // a request above 64 KiB that is not whole after so long, and a second more for each 256 KiB of its buffer, ends its connection; 1 minute
	WriteTime       time.Duration // a connection that takes nothing for so long, to an eighth more, is closed; 5 minutes
	Loops           int           // event loops of a listener without TLS, on Linux; half of the processors. -1: none, each connection has a goroutine of its own
	Together        Together      // does what Handlers defer by Conn.Defer; nil: they defer nothing
	Log             *slog.Logger  // of what fails at the listener; slog.Default()
}

// withDefaults returns options without zeros, but for those that mean something.
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

// validate judges options that have their defaults.
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
