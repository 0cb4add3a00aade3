//go:build !linux

package timerslack

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Get returns an error: the system has no timer slack.
func Get() (time.Duration, error) {
	return 0, fmt.Errorf("timerslack: %w", errors.ErrUnsupported)
}

// Start starts a command as cmd.Start does.
func Start(cmd *exec.Cmd, _ time.Duration) error { return cmd.Start() }

// Restart returns an error: the system has no timer slack.
func Restart(time.Duration, func() bool) error {
	_, err := Get()
	return err
}
