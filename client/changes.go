package client

import (
	"context"
	"fmt"
	"iter"
	"math"

	"bigset"
	"bigset/server/api"
)

// Changes says what has happened to a set since the last answer to a follower: see Changed. The last part, and only that, is Done. Another
// node takes the place of one that fails before it has answered; an answer that breaks off later is an error, and what was taken of it is
// void. Leaving the loop ends the answer at the node, too.
//
//	var followed client.Followed
//	for part, err := range c.Changes(ctx, client.Changes{Set: name, Since: followed.Since(), Wait: 30 * time.Second}) {
//		if err != nil {
//			break // ask again with the same Followed: the next answer brings what is missing
//		}
//		followed.Apply(&part, func(element string, present bool) { ... })
//	}
func (c *Client) Changes(ctx context.Context, q Changes) iter.Seq2[Changed, error] {
	return func(yield func(Changed, error) bool) {
		done, stopped := false, false
		err := checkChanges(&q)
		if err == nil {
			err = c.stream(ctx, api.VerbChanges, api.AppendChanges(nil, &q), func(b []byte) (bool, error) {
				if done {
					return false, fmt.Errorf("%w: a part after the last", ErrAnswer)
				}
				part, err := api.DecodeChanged(b)
				if err != nil {
					return false, err
				}
				done = part.Done
				stopped = !yield(part, nil)
				return !stopped, nil
			})
		}
		if err == nil && !done && !stopped {
			err = fmt.Errorf("%w: changes without their last part", ErrAnswer)
		}
		if err != nil && !stopped {
			yield(Changed{}, err)
		}
	}
}

func checkChanges(q *Changes) error {
	if q.Limit < 0 || q.Limit > math.MaxInt32 || q.R < 0 || q.R > math.MaxInt32 || q.Wait < 0 {
		return fmt.Errorf("%w: limit %d, R %d, wait %v", bigset.ErrRequest, q.Limit, q.R, q.Wait)
	}
	return checkBody(q.Since)
}
