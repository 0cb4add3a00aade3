//go:build !linux

package torture

import (
	"context"
	"fmt"
	"time"
)

func mountDisk(string) error {
	return fmt.Errorf("torture: the fault %q needs Linux", full)
}

func unmountDisk(string) error { return nil }

func keepFull(context.Context, string, time.Duration) error { return nil }
