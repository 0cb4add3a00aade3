package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"bigset/internal/timerslack"
)

// signalTime is how long a repeated signal counts as the same one: timeout and terminals send it to the process and to its group.
const signalTime = time.Second

// stops are the signals that end the program. The first one ends a context; one that comes signalTime later or more ends the process at once.
type stops struct {
	first chan os.Signal // for the goroutine that ends the context
	seen  chan os.Signal // has the same signal, for suspend
}

// watchStops returns the context that the first signal ends.
func watchStops() (context.Context, *stops) {
	s := &stops{make(chan os.Signal, 1), make(chan os.Signal, 1)}
	ctx, end := context.WithCancel(context.Background())
	s.resume()
	go func() {
		<-s.first
		end()
		time.Sleep(signalTime)
		s.leave()
	}()
	return ctx, s
}

// resume takes the signals. What is in first is in seen as well, also if it comes between the two calls: the first call takes long.
func (s *stops) resume() {
	signal.Notify(s.seen, os.Interrupt, syscall.SIGTERM)
	signal.Notify(s.first, os.Interrupt, syscall.SIGTERM)
	if len(s.seen) > 0 {
		select {
		case s.first <- os.Interrupt:
		default: // first has a signal already
		}
	}
}

// leave leaves the signals to the system, which ends the process by them.
func (s *stops) leave() {
	signal.Stop(s.first)
	signal.Stop(s.seen) // it returns when each signal so far is in the channel, so none is lost
}

// suspend leaves the signals to the system, because the program is about to be executed again. If one has come, it changes nothing and reports false.
func (s *stops) suspend() bool {
	if len(s.seen) > 0 {
		return false
	}
	s.leave()
	if len(s.seen) > 0 {
		s.resume()
		return false
	}
	return true
}

// restart is timerslack.Restart for a program whose context no signal has ended.
func (s *stops) restart(slack time.Duration) error {
	suspended := false
	err := timerslack.Restart(slack, func() bool {
		suspended = s.suspend()
		return suspended
	})
	if suspended {
		s.resume()
	}
	return err
}
