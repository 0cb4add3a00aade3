package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"bigset"
	"bigset/server/door"
	"bigset/server/wire"
)

// refusing are filters that can't be created.
type refusing struct {
	door.Filters
	err error
}

func (r refusing) Create(context.Context, []byte, door.FilterCreate) (bool, error) {
	return false, r.err
}

// TestCreateRefused: a filter that a full disk refuses was not created. If the disk failed while it was created, that is unknown.
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("engine: create: %w", bigset.ErrDiskFull)
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{full, false},
		{fmt.Errorf("%w: %w", bigset.ErrFailed, full), true},
		{&door.UnknownError{Err: full}, true},
		{errors.New("what nobody knows"), true},
	} {
		h := FilterHandler(refusing{err: c.err}, nil)
		_, err := h(t.Context(), &wire.Request{Verb: VerbCreateFilter, Body: AppendFilterCreate(nil, &FilterCreate{Name: []byte("f")})}, nil)
		if errors.Is(err, door.ErrUnknown) != c.unknown || !errors.Is(err, c.err) {
			t.Errorf("%v of %v", err, c.err)
		}
	}
}
