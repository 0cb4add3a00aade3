package api

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/server/door"
	"bigset/server/wire"
)

// namesMax is how many sets one part of a list contains.
const namesMax = 256

// Handler serves the verbs of this package from a backend. It returns ErrBody for another verb, and for a request that names an epoch.
func Handler(b door.Backend) wire.Handler {
	s := &service{b}
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Epoch != 0 {
			return nil, refusedEpoch(r)
		}
		answer, err := s.serve(ctx, r, send)
		if err == nil && len(answer) > wire.BodyBytesMax {
			return nil, tooLarge(r.Verb, len(answer))
		}
		return answer, err
	}
}

// Writes answers the requests of VerbWrite that have arrived together, as Handler does each of them.
func Writes(b door.ManyWriter) func([]*wire.Task) {
	return func(tasks []*wire.Task) {
		calls := make([]door.WriteCall, 0, len(tasks))
		for _, t := range tasks {
			w, err := decodeWrite(t.Request)
			if err != nil {
				t.Done(nil, err)
				continue
			}
			calls = append(calls, door.WriteCall{Context: t.Context, Write: w, Done: func(w door.Result, err error) { t.Done(written(&w, err)) }})
		}
		b.WriteMany(calls)
	}
}

func decodeWrite(r *wire.Request) (w door.Write, err error) {
	if r.Epoch != 0 {
		return w, refusedEpoch(r)
	}
	return DecodeWrite(r.Body)
}

// written returns the answer to a write.
func written(w *door.Result, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	answer := AppendResult(nil, w)
	if len(answer) > wire.BodyBytesMax {
		return nil, tooLarge(VerbWrite, len(answer))
	}
	return answer, nil
}

func refusedEpoch(r *wire.Request) error {
	return fmt.Errorf("%w: a client's request names epoch %d", ErrBody, r.Epoch)
}

// tooLarge is the error of an answer that does not fit. A write has been done nevertheless.
func tooLarge(v wire.Verb, n int) error {
	err := error(&bigset.LimitError{What: "bytes of an answer", Got: n, Max: wire.BodyBytesMax})
	if v == VerbWrite {
		return &door.UnknownError{Err: err}
	}
	return err
}

type service struct{ backend door.Backend }

func (s *service) serve(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
	switch r.Verb {
	case VerbWrite:
		return answer(ctx, r.Body, DecodeWrite, s.backend.Write, func(w door.Result) []byte { return AppendResult(nil, &w) })
	case VerbSubset:
		return answer(ctx, r.Body, DecodeSubset, s.backend.Subset, func(p []door.Presence) []byte { return AppendPresences(nil, p) })
	case VerbCount:
		return answer(ctx, r.Body, DecodeRead, s.backend.Count, func(c door.Count) []byte { return AppendCount(nil, &c) })
	case VerbContext:
		return answer(ctx, r.Body, DecodeSubset, ofSet(s.backend.Context), func(t door.Token) []byte { return t })
	case VerbStats:
		return answer(ctx, r.Body, DecodeSubset, ofSet(s.backend.Stats), func(st door.Stats) []byte { return AppendStats(nil, &st) })
	case VerbDrop:
		return answer(ctx, r.Body, DecodeDrop, s.backend.Drop, func(d door.Dropped) []byte { return AppendLeft(nil, d.Left) })
	case VerbRead:
		return s.read(ctx, r.Body, send)
	case VerbNames:
		return s.names(ctx, r.Body, send)
	case VerbChanges:
		return s.changes(ctx, r, send)
	case VerbCountSets:
		n, err := s.backend.CountSets(ctx)
		return AppendSetCount(nil, n), err
	}
	return nil, fmt.Errorf("%w: no verb %d", ErrBody, r.Verb)
}

// answer handles a request with one answer.
func answer[Q, A any](ctx context.Context, body []byte, decode func([]byte) (Q, error), do func(context.Context, Q) (A, error),
	encode func(A) []byte) ([]byte, error) {
	q, err := decode(body)
	if err != nil {
		return nil, err
	}
	a, err := do(ctx, q)
	if err != nil {
		return nil, err
	}
	return encode(a), nil
}

// ofSet wraps a request about a whole set: a Subset without elements.
func ofSet[A any](do func(ctx context.Context, set []byte, r int) (A, error)) func(context.Context, door.Subset) (A, error) {
	return func(ctx context.Context, q door.Subset) (a A, err error) {
		if len(q.Elements) > 0 {
			return a, fmt.Errorf("%w: a question about a whole set has %d elements", ErrBody, len(q.Elements))
		}
		return do(ctx, q.Set, q.R)
	}
}

func (s *service) read(ctx context.Context, body []byte, send func([]byte) error) ([]byte, error) {
	r, err := DecodeRead(body)
	if err != nil {
		return nil, err
	}
	w := &partWriter{send: send, join: r.Batch == 0}
	for part, err := range s.backend.Read(ctx, r) {
		if err != nil {
			return nil, errors.Join(err, w.flush())
		}
		if part.Done {
			return AppendPart(nil, &part), w.flush()
		}
		if err := w.put(&part); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("api: a read of %.64q ended without its last part", r.Set)
}

func (s *service) names(ctx context.Context, body []byte, send func([]byte) error) ([]byte, error) {
	all, after, err := DecodeAll(body)
	if err != nil {
		return nil, err
	}
	var buf, sent []byte // sent may still be on its way
	names := make([]bigset.SetInfo, 0, namesMax)
	for n, err := range s.backend.Names(ctx, all, after) {
		if err != nil {
			return nil, err
		}
		if names = append(names, n); len(names) < namesMax {
			continue
		}
		buf, sent = AppendNames(sent[:0], names), buf
		if err := send(buf); err != nil {
			return nil, err
		}
		names = names[:0]
	}
	return AppendNames(sent[:0], names), nil
}
