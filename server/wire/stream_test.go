package wire

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestStream(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	ctx := inTime(t)
	n := 0
	for part, err := range c.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 200)}) {
		if err != nil {
			t.Fatal(err)
		}
		if n < 200 && (len(part) != 100+n || part[0] != byte(n)) || n == 200 && string(part) != "last" {
			t.Fatalf("part %d: %d bytes of %d", n, len(part), part[0])
		}
		n++
	}
	if n != 201 {
		t.Errorf("%d parts", n)
	}
	for _, err := range c.Stream(ctx, Call{Verb: verbFail, Body: []byte("x")}) {
		if err == nil || err.Error() != "no: x" {
			t.Errorf("error of a stream: %v", err)
		}
	}
	// If the consumer stops, the handler learns it. It has sent no more than was asked for.
	for range c.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 200)}) {
		break
	}
	if err := <-v.gone; err == nil {
		t.Error("the handler was not told")
	}
	if got, err := c.Do(ctx, Call{Verb: verbEcho, Body: []byte("on")}); err != nil || string(got) != "on" {
		t.Errorf("after a broken stream: %q, %v", got, err)
	}
	// A stream that was not asked for is an error, and nothing else.
	if _, err := c.Do(ctx, Call{Verb: verbCount, Body: make([]byte, 2)}); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("a stream in answer to Do: %v", err)
	}
}

// TestStreamMemory: a stream takes the memory of few parts, however many it has, and a part stays as it is until the next one was asked for.
// The handler makes parts in the memory of two.
func TestStreamMemory(t *testing.T) {
	t.Parallel()
	const parts, size = 300, 100_000
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		part, sent := make([]byte, size), make([]byte, size)
		for i := range parts {
			for k := range part {
				part[k] = byte(i)
			}
			if err := send(part); err != nil {
				return nil, err
			}
			part, sent = sent, part
		}
		return nil, nil
	}})
	c := v.dial(t, ClientOptions{Credit: 3})
	memory := map[*byte]bool{}
	n := 0
	for part, err := range c.Stream(inTime(t), Call{Verb: verbCount}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == parts {
			break
		}
		if memory[&part[0]] = true; n%50 == 0 {
			time.Sleep(2 * time.Millisecond) // more parts come in between
		}
		if len(part) != size || bytes.Count(part, []byte{byte(n)}) != size {
			t.Fatalf("part %d has %d bytes, of %d", n, len(part), part[0])
		}
		n++
	}
	if n != parts || len(memory) > parts/4 {
		t.Errorf("%d parts in %d places", n, len(memory))
	}
}

// TestStreamPanics: a loop that panics gives up its call as one that breaks does.
func TestStreamPanics(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{Credit: 1})
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("another panic")
			}
		}()
		for range c.Stream(inTime(t), Call{Verb: verbCount, Body: make([]byte, 50)}) {
			panic("mine")
		}
	}()
	if n := c.Waiting(); n > 0 {
		t.Fatalf("%d calls are in progress", n)
	}
	v.free(t)
}

// A slow consumer holds up its stream and nothing else.
func TestStreamIsPaced(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == verbEcho {
			return r.Body, nil
		}
		for range 100 {
			if err := send(make([]byte, 300_000)); err != nil {
				return nil, err
			}
			sent.Add(1)
		}
		return nil, nil
	}})
	c := v.dial(t, ClientOptions{Credit: 3})
	ctx := inTime(t)
	n := 0
	for _, err := range c.Stream(ctx, Call{Verb: verbCount}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			for range 200 {
				if _, err := c.Do(ctx, Call{Verb: verbEcho}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if most := int64(n + 3); sent.Load() > most {
			t.Fatalf("%d parts were sent when %d were taken", sent.Load(), n)
		}
	}
	if n != 101 {
		t.Errorf("%d parts", n)
	}
}
