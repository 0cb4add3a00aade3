package bloomd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// node is a Memory in which calls can be held up, watched and made to fail.
type node struct {
	*bloomdtest.Memory
	mu      sync.Mutex
	calls   []string                                     // of Check and Set, with their numbers of keys
	instead func(ctx context.Context, call string) error // what a call does first
	waits   bool                                         // sets wait for a disk
	asks    bool                                         // checks wait for other nodes
	looksUp bool                                         // finds do
	atOnces int                                          // calls of CheckNow and SetNow
	now     int                                          // the most keys that SetNow and CheckNow do; 0 is all
}

type nodeFilter struct {
	door.Filter
	n *node
}

func (n *node) Find(ctx context.Context, name []byte) (door.Filter, error) {
	if n.looksUp {
		if err := n.call(ctx, "find", [][]byte{name}); err != nil {
			return nil, err
		}
	}
	f, err := n.Memory.Find(ctx, name)
	return nodeFilter{f, n}, err
}

func (n *node) FindsWait() bool { return n.looksUp }

func (n *node) call(ctx context.Context, verb string, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	n.mu.Lock()
	call := fmt.Sprint(verb, " ", len(keys))
	n.calls = append(n.calls, call)
	instead := n.instead
	n.mu.Unlock()
	if instead == nil {
		return nil
	}
	return instead(ctx, call)
}

func (f nodeFilter) Check(ctx context.Context, keys [][]byte, present []bool) error {
	if err := f.n.call(ctx, "check", keys); err != nil {
		return err
	}
	return f.Filter.Check(ctx, keys, present)
}

// CheckNow leaves what is to be held up or to fail to Check.
func (f nodeFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	n := f.n.atOnce(len(keys))
	return n, f.Check(context.Background(), keys[:n], present)
}

func (f nodeFilter) SetNow(keys [][]byte, added []bool) (int, error) {
	n := f.n.atOnce(len(keys))
	return n, f.Set(context.Background(), keys[:n], added)
}

func (f nodeFilter) SetsWait() bool { return f.n.waits }

func (f nodeFilter) ChecksWait() bool { return f.n.asks }

// atOnce returns how many keys, of the given number, are done without waiting.
func (n *node) atOnce(keys int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.atOnces++
	if n.now > 0 {
		keys = min(keys, n.now)
	}
	if n.instead != nil {
		return 0
	}
	return keys
}

func (f nodeFilter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	if err := f.n.call(ctx, "set", keys); err != nil {
		return err
	}
	return f.Filter.Set(ctx, keys, added)
}

// ask sends bytes, and wants these to come back.
func ask(t *testing.T, nc net.Conn, send, want string) {
	t.Helper()
	if send != "" { // which a pipe would wait with
		if _, err := io.WriteString(nc, send); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(nc, got); err != nil || string(got) != want {
		t.Fatalf("%.80q: got %.80q, %v, want %.80q", send, got[:n], err, want)
	}
}

// wantEnd wants the connection to be closed with nothing more to read.
func wantEnd(t *testing.T, nc net.Conn) {
	t.Helper()
	if rest, err := io.ReadAll(nc); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %.80q, %v", rest, err)
	}
}

func TestNeighboursAreOneCall(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	nc := start(t, n, door.Options{}).dial()
	ask(t, nc, "create f\ncreate g\n", "Done\nDone\n")
	ask(t, nc, "set f a\ns f b\r\nset f a\nc f a\ncheck f x\nset g a\nset f\nset g b\nset h a\nset h b\nmulti f a b x\nset f c\nset f d\n",
		"Yes\nYes\nNo\nYes\nNo\nYes\nClient Error: Must provide filter name and key\nYes\nFilter does not exist\nFilter does not exist\nYes Yes No\nYes\nYes\n")
	want := "set 3, check 2, set 1, set 1, check 3, set 2"
	if got := strings.Join(n.calls, ", "); got != want {
		t.Errorf("got calls %s, want %s", got, want)
	}
}

// TestPipeline has more requests than any buffer holds; the client reads while it sends.
func TestPipeline(t *testing.T) {
	t.Parallel()
	r := start(t, bloomdtest.NewMemory(), door.Options{})
	send, want := []byte("create f\n"), []byte("Done\n")
	const n = 40_000
	for i := range n {
		send = fmt.Appendf(send, "set f key%d\ncheck f key%d\n", i, i)
		want = append(want, "Yes\nYes\n"...)
	}
	for range 1000 {
		send, want = append(send, "create\n"...), append(want, "Client Error: Must provide filter name\n"...)
	}
	if got := exchange(t, r.dial(), send, 1<<20); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of answers, want %d, equal up to %d", len(got), len(want), commonPrefix(got, want))
	}
	m := r.Metrics()
	if m.Commands["set"] != n || m.Commands["check"] != n || m.Commands["create"] != 1001 || m.KeysSet != n || m.KeysChecked != n ||
		m.ClientErrors != 1000 || m.BytesRead != uint64(len(send)) || m.BytesWritten != uint64(len(want)) {
		t.Errorf("got metrics %+v", m)
	}
}

func commonPrefix(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestManyKeys has the largest line that a client of bloomd's is known to send.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	c := start(t, n, door.Options{}).client()
	capacity := uint64(500_000)
	if _, err := c.Create([]byte("f"), door.FilterCreate{Capacity: &capacity}); err != nil {
		t.Fatal(err)
	}
	keys := make([][]byte, tier.Pick(60_000, 60_000, 235_886))
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "word%06d", i)
	}
	missed := 0
	added, err := c.Bulk([]byte("f"), keys)
	for _, yes := range added {
		if !yes {
			missed++
		}
	}
	if err != nil || len(added) != len(keys) || missed > len(keys)/10_000 {
		t.Fatalf("bulk: %d words, %d No, %v", len(added), missed, err)
	}
	there, err := c.Multi([]byte("f"), keys)
	if err != nil || len(there) != len(keys) {
		t.Fatalf("multi: %d words, %v", len(there), err)
	}
	for i, yes := range there {
		if !yes {
			t.Fatalf("%s is not there", keys[i])
		}
	}
	info, err := c.Info([]byte("f"))
	if err != nil || info.Size != uint64(len(keys)-missed) || info.CheckHits != uint64(len(keys)) {
		t.Errorf("info: %+v, %v", info, err)
	}
	// A filter that goes while the keys are half done gives one error.
	calls := 0
	n.instead = func(ctx context.Context, _ string) error {
		if calls++; calls == 3 {
			return n.Drop(ctx, []byte("f"))
		}
		return nil
	}
	if words, err := c.Multi([]byte("f"), keys); !errors.Is(err, bloomd.ErrNoFilter) {
		t.Errorf("of a filter that was dropped since: %d words, %v", len(words), err)
	}
	if _, err := c.Info([]byte("f")); !errors.Is(err, bloomd.ErrNoFilter) {
		t.Errorf("the connection is out of step: %v", err)
	}
}

func TestLineLimit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	r := start(t, bloomdtest.NewMemory(), door.Options{RequestBytesMax: limit})
	for _, end := range []string{"\n", "\r\n"} {
		nc := r.dial()
		ask(t, nc, "create f\n", map[string]string{"\n": "Done\n", "\r\n": "Exists\n"}[end])
		long := "check f " + strings.Repeat("k", limit-len("check f ")-len(end)) + end
		ask(t, nc, long+"list x\n", "No\nSTART\nEND\n") // as long as may be, and another after it
		ask(t, nc, "list x\n"+long, "START\nEND\nNo\n")
		if _, err := io.WriteString(nc, "list x\nx"+long+"list x\n"+strings.Repeat(long, 20)); err != nil {
			t.Fatal(err)
		}
		ask(t, nc, "", "START\nEND\nClient Error: Line too long\n")
		wantEnd(t, nc)
	}
	before := r.Metrics().BytesRead
	nc := r.dial()
	if _, err := io.WriteString(nc, "check f "+strings.Repeat("k", limit-len("check f \n"))); err != nil {
		t.Fatal(err)
	}
	for r.Metrics().BytesRead < before+limit-1 {
		time.Sleep(time.Millisecond)
	}
	ask(t, nc, "\n", "No\n") // the end of a line that is as long as may be comes later
	ask(t, r.dial(), "list x\n", "START\nEND\n")
}

// TestLinesLimit lets clients begin more long lines than the server holds in memory at a time: one that comes too late is refused, until one of
// the others has ended its line, or gone.
func TestLinesLimit(t *testing.T) {
	t.Parallel()
	r := start(t, bloomdtest.NewMemory(), door.Options{RequestBytesMax: 256 << 10, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 600 << 10})})
	ask(t, r.dial(), "create f\n", "Done\n")
	begun := "check f " + strings.Repeat("k", 200<<10)
	a, b := r.dial(), r.dial()
	for _, nc := range []net.Conn{a, b} {
		if _, err := io.WriteString(nc, begun); err != nil {
			t.Fatal(err)
		}
	}
	for r.Metrics().BytesRead < uint64(2*len(begun)) {
		time.Sleep(time.Millisecond)
	}
	var refused []net.Conn
	for range 3 { // a client that was refused holds nothing
		late := r.dial()
		ask(t, late, begun, "Client Error: Line too long\n")
		wantEnd(t, late)
		refused = append(refused, late)
	}
	ask(t, r.dial(), "check f "+strings.Repeat("k", 50<<10)+"\n", "No\n") // short lines are not concerned
	ask(t, a, "\n", "No\n")
	ask(t, a, "list x\n", "START\nEND\n") // then its buffer is small again
	c := r.dial()
	ask(t, c, begun+"\n", "No\n")
	for _, nc := range append(refused, b, c) { // the server waits a while for those that it refused to go
		nc.Close()
	}
	for r.Metrics().Connections > 3 { // a, and the two with short lines
		time.Sleep(time.Millisecond)
	}
	d, e := r.dial(), r.dial()
	before := r.Metrics().BytesRead
	for _, nc := range []net.Conn{d, e} {
		if _, err := io.WriteString(nc, begun); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); r.Metrics().BytesRead < before+uint64(2*len(begun)) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	ask(t, d, "\n", "No\n")
	ask(t, e, "\n", "No\n")
}

// TestSlowReader has a client that sends and never reads: it is stopped, others are not, and in the end it is cut off.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r := start(t, bloomdtest.NewMemory(), door.Options{WriteTime: 300 * time.Millisecond})
	other := r.dial()
	ask(t, other, "create f\n", "Done\n")
	slow := r.dial()
	if err := slow.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	requests := bytes.Repeat([]byte("info f\n"), 10_000)
	sent := make(chan error, 1)
	go func() {
		for {
			if _, err := slow.Write(requests); err != nil {
				sent <- err
				return
			}
		}
	}()
	for range 1000 {
		ask(t, other, "check f k\n", "No\n")
	}
	if err := <-sent; errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
		t.Errorf("not cut off: %v", err)
	}
	ask(t, other, "check f k\n", "No\n")
	if m := r.Metrics(); m.BytesWritten > 64<<20 {
		t.Errorf("%d bytes of answers for who reads none", m.BytesWritten)
	}
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	r := start(t, bloomdtest.NewMemory(), door.Options{Limits: door.NewLimits(door.LimitsOptions{Connections: 2})})
	a, b := r.dial(), r.dial()
	ask(t, a, "list\n", "START\nEND\n")
	ask(t, b, "list\n", "START\nEND\n")
	wantEnd(t, r.dial())
	if m := r.Metrics(); m.Connections != 2 || m.Accepted != 2 || m.Refused != 1 {
		t.Errorf("got %+v", m)
	}
	a.Close()
	for r.Metrics().Connections == 2 { // until the server has seen it
		time.Sleep(time.Millisecond)
	}
	ask(t, r.dial(), "list\n", "START\nEND\n")
	ask(t, b, "list\n", "START\nEND\n")
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	const idleTime = 200 * time.Millisecond
	r := start(t, bloomdtest.NewMemory(), door.Options{IdleTime: idleTime})
	r.wantIdle(idleTime, func(int) string { return "list\n" }, "START\nEND\n")
}

// wantIdle asks for longer than the idle time, all along, and wants the connection to be closed some time after the last request. It begins
// again if this machine is so busy that the client was idle in between.
func (r *running) wantIdle(idleTime time.Duration, request func(i int) string, answer string) {
	r.t.Helper()
	nc := r.dial()
	began, last := time.Now(), time.Now()
	got := make([]byte, len(answer))
	for i := 0; time.Since(began) < 5*idleTime/2; i++ {
		now := time.Now() // before the request is sent: the server does not count from before
		_, err := io.WriteString(nc, request(i))
		if err == nil {
			_, err = io.ReadFull(nc, got)
		}
		switch idle := time.Since(last); {
		case err != nil && idle < idleTime:
			r.t.Fatalf("a client that was idle for %v: %v", idle, err)
		case err != nil:
			nc = r.dial()
			now = time.Now()
			began = now
		case string(got) != answer:
			r.t.Fatalf("got %q, want %q", got, answer)
		}
		last = now
		time.Sleep(10 * time.Millisecond)
	}
	wantEnd(r.t, nc)
	if idle := time.Since(last); idle < idleTime || idle > time.Minute {
		r.t.Errorf("closed after %v", idle)
	}
}

// TestShutdownDrains has requests at the node, in the server's buffer and in its socket when it is shut down.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	r := start(t, n, door.Options{IdleTime: time.Hour})
	busy, idle := r.dial(), r.dial()
	ask(t, busy, "create f\n", "Done\n")
	ask(t, idle, "list x\n", "START\nEND\n")
	inside, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	n.instead = func(context.Context, string) error {
		once.Do(func() { inside <- true; <-goOn })
		return nil
	}
	for _, part := range []string{"set f a\ncheck f b\n", "set f b\ncheck f b\nset f unfinished"} {
		if _, err := io.WriteString(busy, part); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(part, "set f a") {
			<-inside
		}
	}
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(context.Background()) }()
	wantEnd(t, idle)
	if _, err := net.Dial("tcp", r.ln.Addr().String()); err == nil {
		t.Error("it still accepts")
	}
	close(goOn)
	ask(t, busy, "", "Yes\nNo\nYes\nYes\n")
	wantEnd(t, busy)
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := r.Serve(context.Background(), r.ln); !errors.Is(err, door.ErrClosed) {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

// TestShutdownGivesUp has a node that does not answer before its context ends.
func TestShutdownGivesUp(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	r := start(t, n, door.Options{})
	nc := r.dial()
	ask(t, nc, "create f\n", "Done\n")
	inside := make(chan bool)
	n.instead = func(ctx context.Context, _ string) error {
		inside <- true
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := io.WriteString(nc, "set f a\n"); err != nil {
		t.Fatal(err)
	}
	<-inside
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
}

// slowLog is a log that is written only when it may be.
type slowLog struct {
	mayWrite chan bool
	lines    chan string
}

func (l slowLog) Write(line []byte) (int, error) {
	<-l.mayWrite
	l.lines <- string(line)
	return len(line), nil
}

// TestFailures has a node that fails, and a log that nobody takes lines from for a while: requests do not wait for it.
func TestFailures(t *testing.T) {
	t.Parallel()
	log := slowLog{make(chan bool), make(chan string, 10)}
	n := &node{Memory: bloomdtest.NewMemory()}
	r := start(t, n, door.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	const pause = 50 * time.Millisecond
	r.SetLogPause(pause)
	nc := r.dial()
	ask(t, nc, "create f\n", "Done\n")
	n.instead = func(context.Context, string) error { return errors.New("a page is damaged") }
	ask(t, nc, "set f a\nset f b\ncheck f a\nmulti f a b\nbulk f a b\n", strings.Repeat("Internal Error\n", 5))
	time.Sleep(pause) // the next line of the log is due, but the first is not written
	ask(t, r.dial(), "set f a\n", "Internal Error\n")
	n.instead = func(context.Context, string) error { return fmt.Errorf("wrapped: %w", bigset.ErrNoFilter) }
	ask(t, nc, "set f a\nbulk f a b\n", strings.Repeat("Filter does not exist\n", 2))
	if m := r.Metrics(); m.InternalErrors != 6 {
		t.Errorf("%d internal errors are counted", m.InternalErrors)
	}
	log.mayWrite <- true
	if s := <-log.lines; !strings.Contains(s, "a page is damaged") || !strings.Contains(s, "command=set filter=f") {
		t.Errorf("log: %s", s)
	}
	n.instead = func(context.Context, string) error { return errors.New("again") }
	go func() { log.mayWrite <- true }()
	for { // until the server has seen that the line is written
		ask(t, nc, "set f a\n", "Internal Error\n")
		select {
		case s := <-log.lines:
			if !strings.Contains(s, "again") || !strings.Contains(s, "skipped=") || strings.Contains(s, "skipped=0") {
				t.Errorf("log: %s", s)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []door.Options{{RequestBytesMax: 10}, {RequestBytesMax: -1}, {OutputBytesMax: -1}, {IdleTime: -1}} {
		if _, err := bloomd.New(bloomdtest.NewMemory(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// exactNode is a Memory that says what it was asked for.
type exactNode struct {
	*bloomdtest.Memory
	asked *[]string
}

type exactFilter struct {
	door.Filter
	n exactNode
}

func (n exactNode) List(ctx context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	*n.asked = append(*n.asked, fmt.Sprintf("list %q %v", l.Prefix, l.Absolute))
	return n.Memory.List(ctx, l)
}

func (n exactNode) Find(ctx context.Context, name []byte) (door.Filter, error) {
	f, err := n.Memory.Find(ctx, name)
	return exactFilter{f, n}, err
}

func (f exactFilter) Info(ctx context.Context, absolute bool) (door.FilterInfo, error) {
	*f.n.asked = append(*f.n.asked, fmt.Sprintf("info %v", absolute))
	return f.Filter.Info(ctx, absolute)
}

// TestAbsolute has clients that want exact figures; to any other argument the answer is bloomd's.
func TestAbsolute(t *testing.T) {
	t.Parallel()
	n := exactNode{bloomdtest.NewMemory(), new([]string)}
	c := start(t, n, door.Options{}).client()
	if _, err := c.Create([]byte("f"), door.FilterCreate{}); err != nil {
		t.Fatal(err)
	}
	answer := func(line string) string {
		b, err := c.Do([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	row, info := answer("list"), answer("info f")
	const unexpected, none, missing = "Client Error: Unexpected arguments\n", "START\nEND\n", "Filter does not exist\n"
	for _, want := range []struct{ line, asked, answer string }{
		{"list", `list "" false`, row}, {"list f", `list "f" false`, row}, {"list f ", `list "f " false`, none},
		{"list +absolute", `list "" true`, row}, {"list f +absolute", `list "f" true`, row}, {"list  +absolute", `list "" true`, row},
		{"list +absolut", `list "+absolut" false`, none}, {"list +absolute ", `list "+absolute " false`, none}, {"list f+absolute", `list "f+absolute" false`, none},
		{"info f", "info false", info}, {"info f +absolute", "info true", info}, {"info g +absolute", "", missing}, {"info +absolute", "", missing},
		{"info f +absolut", "", unexpected}, {"info f +absolute ", "", unexpected}, {"info f  +absolute", "", unexpected},
		{"info  +absolute", "", unexpected}, {"info f g +absolute", "", unexpected}, {"info f +absolute +absolute", "", unexpected},
		{"flush f +absolute", "", unexpected}, {"close f +absolute", "", unexpected}, {"clear f +absolute", "", unexpected}, {"drop f +absolute", "", unexpected},
	} {
		*n.asked = nil
		if got := answer(want.line); got != want.answer || strings.Join(*n.asked, ", ") != want.asked {
			t.Errorf("%q: got %q, asked %q, want %q and %q", want.line, got, *n.asked, want.answer, want.asked)
		}
	}
}

// oneListener accepts one connection.
type oneListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{} }

// yesFilter has every key; it allocates nothing.
type yesFilter struct{ door.Filter }

func (yesFilter) Check(_ context.Context, keys [][]byte, present []bool) error {
	for i := range keys {
		present[i] = true
	}
	return nil
}

func (f yesFilter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	return f.Check(ctx, keys, added)
}

func (f yesFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	return len(keys), f.Check(context.Background(), keys, present)
}

func (f yesFilter) SetNow(keys [][]byte, added []bool) (int, error) { return f.CheckNow(keys, added) }

func (yesFilter) SetsWait() bool { return false }

func (yesFilter) Pieces() int { return 1 }

func (yesFilter) ChecksWait() bool { return false }

type yesNode struct {
	door.Filters
	f door.Filter
}

func (n yesNode) Find(context.Context, []byte) (door.Filter, error) { return n.f, nil }

func (yesNode) FindsWait() bool { return false }

func TestNoAllocations(t *testing.T) {
	s, err := bloomd.New(yesNode{f: yesFilter{}}, door.Options{IdleTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ln := &oneListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan error)
	go func() { done <- s.Serve(context.Background(), ln) }()
	nc, theirs := net.Pipe()
	ln.conns <- theirs
	hundred := strings.Repeat(" key", 100) + "\n"
	for _, lines := range []string{
		"check f key\n", "set f key\n", "s f key\nc f key\ncheck g key\n", strings.Repeat("set f key\n", 64), "multi f" + hundred, "bulk f" + hundred,
	} {
		request, answer := []byte(lines), make([]byte, 4096)
		exchangeOnce := func() {
			if _, err := nc.Write(request); err != nil {
				t.Fatal(err)
			}
			want := 4 * strings.Count(lines, "key")
			if _, err := io.ReadFull(nc, answer[:want]); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			exchangeOnce() // buffers grow
		}
		if n := testing.AllocsPerRun(200, exchangeOnce); n != 0 {
			t.Errorf("%.40q: %v allocations", lines, n)
		}
	}
	if err := errors.Join(nc.Close(), s.Shutdown(context.Background()), <-done); err != nil {
		t.Error(err)
	}
}
