package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bigset/server/peer"
)

// ask asks all replicas at once, and returns the first answers when there are enough of them.
func ask[R interface{ Member() peer.Member }, T any](ctx context.Context, c *Coordinator, name []byte, enough int, replicas []R, f func(context.Context, R) (T, error)) ([]T, error) {
	ctx, cancel := deadline(ctx, c.run, c.opt.Timeout)
	defer cancel()
	var mu sync.Mutex
	var answers []T
	var errs []error
	settled := c.run.NewSignal()
	for _, rep := range replicas {
		c.run.Go(func() {
			a, err := f(ctx, rep)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", rep.Member().Node, err))
			} else if len(answers) < enough {
				answers = append(answers, a)
			}
			if len(answers) == enough || len(answers)+len(errs) == len(replicas) {
				settled.Set()
			}
		})
	}
	if len(replicas) == 0 {
		settled.Set()
	}
	waited := settled.Wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	if len(answers) < enough {
		return nil, &QuorumError{Set: name, Answered: len(answers), Of: enough, Err: errors.Join(append(errs, waited)...)}
	}
	return answers[:enough:enough], nil
}
