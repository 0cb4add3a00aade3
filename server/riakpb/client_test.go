package riakpb

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"bigset/engine"
	"bigset/server/alone"
	"bigset/server/door"
)

// peer is a connection as a client has it.
type peer struct{ net.Conn }

// start serves a store of its own and returns a way to connect.
func start(t *testing.T, o Options) (dial func() *peer, s *Server) {
	t.Helper()
	store, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return serve(t, alone.New(store), nil, o)
}

// serve serves a backend.
func serve(t *testing.T, b door.Backend, filters door.Filters, o Options) (dial func() *peer, s *Server) {
	t.Helper()
	s, err := New(b, filters, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func() *peer {
		t.Helper()
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return &peer{nc}
	}, s
}

// answer is a message that a server has sent.
type answer struct {
	code byte
	body []byte
}

// send sends a request.
func (p *peer) send(t *testing.T, code byte, body []byte) {
	t.Helper()
	if _, err := p.Write(appendMessage(nil, code, body)); err != nil {
		t.Fatal(err)
	}
}

// receive reads an answer.
func (p *peer) receive(t *testing.T) answer {
	t.Helper()
	var head [headBytes]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p, message); err != nil {
		t.Fatal(err)
	}
	return answer{message[0], message[1:]}
}

// do sends a request and returns its answer.
func (p *peer) do(t *testing.T, code byte, body []byte) answer {
	t.Helper()
	p.send(t, code, body)
	return p.receive(t)
}

// String shows an answer as tests have it.
func (a answer) String() string {
	text := ""
	switch a.code {
	case codeError:
		var code uint32
		eachField(a.body, func(f field) error {
			switch f.number {
			case 1:
				text = string(f.bytes)
			case 2:
				code = uint32(f.value)
			}
			return nil
		})
		return fmt.Sprintf("error %d: %s", code, text)
	case codeFetchResp:
		s := shownSet(a.body)
		return fmt.Sprintf("fetched %d %v %q", s.kind, s.found, s.elements)
	case codeUpdateResp:
		s := shownUpdate(a.body)
		return fmt.Sprintf("updated %q", s.elements)
	}
	return fmt.Sprintf("%d %q", a.code, a.body)
}

// shown is a set as an answer has it.
type shown struct {
	kind     uint64
	found    bool
	context  []byte
	key      []byte
	elements []string
}

func shownSet(body []byte) (s shown) {
	eachField(body, func(f field) error {
		switch f.number {
		case 1:
			s.context = f.bytes
		case 2:
			s.kind = f.value
		case 3:
			s.found = true
			return eachField(f.bytes, func(f field) error {
				s.elements = append(s.elements, string(f.bytes))
				return nil
			})
		}
		return nil
	})
	return s
}

func shownUpdate(body []byte) (s shown) {
	eachField(body, func(f field) error {
		switch f.number {
		case 1:
			s.key = f.bytes
		case 2:
			s.context = f.bytes
		case 4:
			s.elements = append(s.elements, string(f.bytes))
		}
		return nil
	})
	return s
}

// name is the fields that name a set, by the numbers that a message has for them.
func name(typ, bucket, key string) []byte {
	b := appendBytes(nil, 1, []byte(bucket))
	b = appendBytes(b, 2, []byte(key))
	return appendBytes(b, 3, []byte(typ))
}

// change is a DtUpdateReq for a set.
func change(id, context []byte, adds, removes []string, more ...[]byte) []byte {
	var op []byte
	for _, e := range adds {
		op = appendBytes(op, 1, []byte(e))
	}
	for _, e := range removes {
		op = appendBytes(op, 2, []byte(e))
	}
	b := slices.Clone(id)
	if context != nil {
		b = appendBytes(b, 4, context)
	}
	b = appendBytes(b, 5, appendBytes(nil, 2, op))
	for _, m := range more {
		b = append(b, m...)
	}
	return b
}

// number is a field of a number.
func number(n protowire.Number, v uint64) []byte { return appendUint(nil, n, v) }
