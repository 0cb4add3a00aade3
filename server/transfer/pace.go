package transfer

import (
	"context"
	"sync"
	"time"
)

// pace bounds a rate: each call of take delays the next one.
type pace struct {
	rate int64 // bytes a second; 0 means no bound
	now  func() time.Time
	wait func(context.Context, time.Duration) error

	mu   sync.Mutex
	next time.Time // when the next caller may go
}

// take waits until n bytes may go.
func (p *pace) take(ctx context.Context, n int) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := p.now()
	if p.next.Before(now) {
		p.next = now
	}
	d := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if d <= 0 {
		return ctx.Err()
	}
	return p.wait(ctx, d)
}
