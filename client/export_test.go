package client

import (
	"context"
	"time"
)

// Hasty has no pause between rounds, and calls f in its place.
func (c *Client) Hasty(f func()) *Client {
	c.sleep = func(ctx context.Context, _ time.Time, _ time.Duration) bool {
		f()
		return ctx.Err() == nil
	}
	return c
}

// OnAgain sets Options.Again.
func (c *Client) OnAgain(f func(began time.Time, err error)) { c.again = f }

// NewRequestID returns an id as Write draws it at that time.
func NewRequestID(now time.Time) []byte { return newRequestID(now) }
