package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// script is a connection whose other side has said all that it will say; what is written to it is forgotten.
type script struct{ r *bytes.Reader }

func (s *script) Read(b []byte) (int, error)       { return s.r.Read(b) }
func (*script) Write(b []byte) (int, error)        { return len(b), nil }
func (*script) Close() error                       { return nil }
func (*script) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*script) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*script) SetDeadline(time.Time) error        { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// written is what a side writes for some messages.
func written(t testing.TB, start []byte, messages ...*message) []byte {
	q := newQueue(1 << 30)
	for _, m := range messages {
		q.push(m, true)
	}
	w := &writer{q: q, buf: bytes.Clone(start)}
	for m := q.next(); m != nil; m = q.next() {
		if w.segment(m) {
			q.back(m)
		}
	}
	return w.buf
}

func requestOf(id uint64, e envelope, body []byte) *message {
	e.length = uint32(len(body))
	m := &message{kind: kindRequest, id: id, body: body, prefixed: envelopeBytes}
	e.append(m.prefix[:0])
	return m
}

// sumsRight has the checksums of the segments in b be right, so that what is in them is looked at.
func sumsRight(b []byte) []byte {
	b = bytes.Clone(b)
	for at := preambleBytes; len(b)-at >= headBytes+sumBytes; {
		n := int(binary.LittleEndian.Uint32(b[at:]))
		if n < 0 || n > len(b)-at-headBytes-sumBytes {
			break
		}
		end := at + headBytes + n
		binary.LittleEndian.PutUint32(b[end:], checksum(b[at:end]))
		at = end + sumBytes
	}
	return b
}

// FuzzServer has a server read any bytes: it ends, and answers no more requests than were whole.
func FuzzServer(f *testing.F) {
	o := Options{}.withDefaults()
	start := appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForRequests, name: "n1", body: []byte("x")}).append(nil))
	f.Add(written(f, start, requestOf(1, envelope{verb: 1}, []byte("abc")), requestOf(2, envelope{verb: 100, epoch: 3, credit: 2, deadline: 5}, make([]byte, 70_000))))
	f.Add(written(f, start, requestOf(1, envelope{verb: 1, address: 9}, []byte("abc")), &message{kind: kindCancel, id: 1}, &message{kind: kindCredit, id: 1, body: []byte{3}}))
	f.Add(written(f, start, &message{kind: kindPing}, &message{kind: kindAnswer, id: 1, body: []byte("abc")}))
	f.Add([]byte("create foobar\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		served := make(chan int, 1000)
		s := NewServer(ServerOptions{Log: quiet, Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
			served <- len(r.Body)
			_ = send([]byte("part"))
			return r.Body, nil
		}})
		_ = s.ServeConn(context.Background(), &script{bytes.NewReader(sumsRight(b))})
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		close(served)
		bytes := 0
		for n := range served {
			bytes += n
		}
		if bytes > len(b) {
			t.Errorf("bodies of %d bytes, of %d that came", bytes, len(b))
		}
		s.nodes.mu.Lock()
		s.clients.mu.Lock()
		defer s.nodes.mu.Unlock()
		defer s.clients.mu.Unlock()
		if s.nodes.requests+s.clients.requests != 0 || s.nodes.bytes+s.clients.bytes != 0 {
			t.Errorf("the budgets count %d requests and %d bytes", s.nodes.requests+s.clients.requests, s.nodes.bytes+s.clients.bytes)
		}
	})
}

// FuzzClient has a client with a call and a stream under way read any bytes: both end.
func FuzzClient(f *testing.F) {
	o := Options{}.withDefaults()
	start := appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForRequests, name: "n1", body: []byte("x")}).append(nil))
	answer := func(k kind, id uint64, n int) *message {
		return (&message{kind: k, id: id, body: make([]byte, n)}).withLength()
	}
	f.Add(written(f, start, answer(kindAnswer, 1, 3), answer(kindPart, 2, 70_000), answer(kindAnswer, 2, 0)))
	f.Add(written(f, start, answer(kindError, 1, 3), answer(kindPart, 2, 1), answer(kindPart, 2, 1), answer(kindPart, 2, 1), answer(kindPart, 2, 1), answer(kindPart, 2, 1)))
	f.Add(written(f, start, &message{kind: kindRefusal, id: 1, body: []byte{1, 'x'}}, &message{kind: kindRefusal, id: 2, body: []byte{99}}, &message{kind: kindDrain}))
	f.Add(appendSegment(o.preamble(), kindRefusal, []byte{6, 'n', 'o'}))
	f.Add([]byte("Client Error: no\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		nc := &script{bytes.NewReader(sumsRight(b))}
		c, err := NewClient(context.Background(), nc, ClientOptions{})
		if err != nil {
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = c.Do(ctx, Call{Verb: 1})
		for part, err := range c.Stream(ctx, Call{Verb: 1}) {
			if err == nil && len(part) > len(b) {
				t.Errorf("a part of %d bytes, of %d that came", len(part), len(b))
			}
		}
		if ctx.Err() != nil {
			t.Error("a call did not end with its connection")
		}
		<-c.Done()
	})
}

// TestBytes has what a caller writes, byte by byte: other processes read it.
func TestBytes(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	start := appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForCopies, address: 7, name: "n1", body: []byte("hi")}).append(nil))
	got := written(t, start, requestOf(5, envelope{address: 1, epoch: 2, deadline: 3, verb: 100, priority: PriorityRepair, credit: 4}, []byte("abc")),
		(&message{kind: kindPart, id: 5, body: []byte("de")}).withLength())
	want := "BIGSET\x01\x03" +
		"\x0f\x00\x00\x00\x01\x03\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\x02\x07\x00\x00\x00\x00\x00\x00\x00\x02n1hi" + "SUM1" +
		"\x23\x00\x00\x00\x02\x03\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00" + "\x03\x00\x00\x00" + "\x64\x02\x04\x00" + "\x00\x00\x00\x00" + "abc" + "SUM2" +
		"\x06\x00\x00\x00\x04\x03\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00de" + "SUM3"
	if string(sumsRight([]byte(want))) != string(got) {
		t.Errorf("got  %q\nwant %q", got, sumsRight([]byte(want)))
	}
	s := &segments{r: bufio.NewReader(bytes.NewReader(got[preambleBytes:]))}
	for range 3 {
		h, err := s.next()
		if err == nil {
			err = s.rest(h)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}
