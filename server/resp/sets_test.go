package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/server/alone"
	"bigset/server/door"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// fill adds elements that a format gives numbers.
func fill(t *testing.T, p *peer, key, format string, n int) {
	t.Helper()
	for at := 0; at < n; {
		args := []string{"SADD", key}
		for ; at < n && len(args) < 1000; at++ {
			args = append(args, fmt.Sprintf(format, at))
		}
		if got, want := p.do(t, args...), fmt.Sprint(":", len(args)-2); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// words returns what is in an array that reply shows.
func words(reply string) (list []string) {
	for _, w := range strings.Fields(strings.Trim(reply, "*~[]")) {
		if s, err := strconv.Unquote(strings.TrimLeft(w, "$*[")); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// step returns the cursor and the elements of a step of a scan.
func step(t *testing.T, reply string) (cursor string, list []string) {
	t.Helper()
	cursor, rest, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(reply, "*["), "]"), " ")
	if !ok {
		t.Fatalf("no step: %.200s", reply)
	}
	cursor, _ = strconv.Unquote(strings.TrimPrefix(cursor, "$"))
	return cursor, words(rest)
}

// TestScan goes through a set while it changes: what is in it all the time comes once, whatever the steps, and on any connection.
func TestScan(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p, other := dial(), dial()
	fill(t, p, "k", "e%04d", 2000)
	p.do(t, "SADD", "k", "") // the empty element is the first
	for _, count := range []string{"1000", "7", "100000"} {
		got := map[string]int{}
		cursor, steps := "0", 0
		for done := false; !done; done = cursor == "0" {
			args := []string{"SSCAN", "k", cursor, "COUNT", count}
			next, list := step(t, p.do(t, args...))
			if steps%50 == 3 && cursor != "0" { // an answer that was lost, and another connection
				again, same := step(t, other.do(t, args...))
				if !slices.Equal(list, same) || again == "" {
					t.Fatalf("the step again: %v, %v", list, same)
				}
				next = again
			}
			for _, e := range list {
				got[e]++
			}
			p.do(t, "SADD", "k", fmt.Sprint("new", steps))
			p.do(t, "SREM", "k", fmt.Sprint("new", steps-3))
			cursor = next
			steps++
		}
		for i := range 2000 {
			if e := fmt.Sprintf("e%04d", i); got[e] != 1 {
				t.Fatalf("steps of %s: %s came %d times", count, e, got[e])
			}
		}
		if got[""] != 1 {
			t.Errorf("steps of %s: the empty element came %d times", count, got[""])
		}
		for e, n := range got {
			if n != 1 {
				t.Errorf("steps of %s: %s came %d times", count, e, n)
			}
		}
	}
	if n := s.Metrics().Cursors; n > 40 {
		t.Errorf("%d cursors are kept of three scans", n)
	}
	next, list := step(t, p.do(t, "SSCAN", "k", "0", "MATCH", "e19?0", "COUNT", "5000"))
	if len(list) != 10 || next != "0" {
		t.Errorf("%v, cursor %s", list, next)
	}
	next, _ = step(t, p.do(t, "SSCAN", "k", "0", "COUNT", "5"))
	for _, args := range [][]string{{"SSCAN", "k2", next}, {"SCAN", next}, {"SSCAN", "k", next + "1"}} {
		p.do(t, "SADD", "k2", "x")
		if got := p.do(t, args...); !strings.HasPrefix(got, "-ERR cursor is not known here") {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// TestScanKeys goes through sets and filters in small steps.
func TestScanKeys(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	want := map[string]int{"": 1, "\x00": 1}
	for i := range 30 {
		want[fmt.Sprint("s", i)] = 1
		if i < 10 {
			want[fmt.Sprint("f", i)] = 1
			p.do(t, "BF.ADD", fmt.Sprint("f", i), "x")
		}
	}
	for key := range want {
		if !strings.HasPrefix(key, "f") {
			p.do(t, "SADD", key, "x")
		}
	}
	p.do(t, "SADD", "gone", "x")
	p.do(t, "DEL", "gone")
	for _, count := range []string{"1", "3", "1000"} {
		got := map[string]int{}
		for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
			var list []string
			cursor, list = step(t, p.do(t, "SCAN", cursor, "COUNT", count))
			for _, key := range list {
				got[key]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("steps of %s: %v", count, got)
		}
	}
	if got := p.do(t, "DBSIZE"); got != ":42" {
		t.Errorf("%s keys", got)
	}
	for _, args := range [][]string{{"INFO", "keyspace"}, {"INFO"}, {"INFO", "server", "KEYSPACE"}, {"INFO", "all"}} {
		if got := p.do(t, args...); !strings.Contains(got, "keys=42") {
			t.Errorf("%v: %s", args, got)
		}
	}
	if got := p.do(t, "INFO", "server"); strings.Contains(got, "keys=") {
		t.Error(got)
	}
}

// TestScanBetweenOthers goes through a few keys among many sets of another bucket: no step passes more than a number of these, and KEYS passes all.
func TestScanBetweenOthers(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	dial, _ := serve(t, alone.New(store), Options{})
	p := dial()
	const others = 3*scanOthers + 10
	for i := range others {
		name := setname.Name{Type: []byte("maps"), Bucket: []byte("b"), Key: strconv.AppendInt(nil, int64(i), 10)}
		if _, err := store.Add(context.Background(), name.Set(), [][]byte{{'x'}}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	p.do(t, "SADD", "one", "x")
	p.do(t, "BF.ADD", "two", "x")
	for _, c := range []struct {
		count string
		steps int
	}{{"10", 4}, {fmt.Sprint(2 * scanOthers), 2}, {fmt.Sprint(2 * others), 1}} {
		var got []string
		steps := 0
		for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
			var list []string
			cursor, list = step(t, p.do(t, "SCAN", cursor, "COUNT", c.count))
			got = append(got, list...)
			steps++
		}
		if slices.Sort(got); !slices.Equal(got, []string{"one", "two"}) || steps != c.steps {
			t.Errorf("steps of %s: %d, %q", c.count, steps, got)
		}
	}
	if got := p.do(t, "KEYS", "*"); got != "*[$\"one\" $\"two\"]" {
		t.Error(got)
	}
}

// TestCursorsOfAnotherProcess: a cursor that the node gave before it was started again is an error, and not the cursor of something else.
func TestCursorsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var cursors []string
	for range 2 {
		dial, _ := serve(t, alone.New(store), Options{})
		p := dial()
		if len(cursors) == 0 {
			fill(t, p, "k", "%03d", 20)
			fill(t, p, "l", "%03d", 1)
		}
		for _, cursor := range cursors {
			for _, cmd := range [][]string{{"SSCAN", "k", cursor}, {"SCAN", cursor}} {
				if got := p.do(t, cmd...); got != "-"+errCursorGone {
					t.Errorf("%q of a former process: %s", cmd, got)
				}
			}
		}
		cursors = append(cursors, words(p.do(t, "SSCAN", "k", "0", "COUNT", "5"))[0], words(p.do(t, "SCAN", "0", "COUNT", "1"))[0])
	}
}

// TestCursorsAreBounded: those not used for longest go, by number and by bytes, but not the one that was just given.
func TestCursorsAreBounded(t *testing.T) {
	t.Parallel()
	var c cursors
	var of scanner
	first := c.keep(position{key: []byte("k")}, 0, &of)
	var second uint64
	for i := range cursorsMax {
		if n := c.keep(position{key: []byte("k")}, 0, &of); i == 0 {
			second = n
		}
		c.use(first)
	}
	if _, ok := c.use(first); !ok || c.len() != cursorsMax {
		t.Errorf("%d are kept, the one in use: %v", c.len(), ok)
	}
	if _, ok := c.use(second); ok {
		t.Error("the one used least is kept")
	}
	for range 1000 {
		c.keep(position{after: make([]byte, 60_000)}, 0, &of)
	}
	if c.bytes > cursorBytesMax || c.len() < 200 || c.len() > 300 {
		t.Errorf("%d with %d bytes are kept", c.len(), c.bytes)
	}
	var ofMany cursors
	for range 300 {
		ofMany.keep(position{after: make([]byte, 60_000)}, 0, &scanner{})
	}
	if _, ok := ofMany.use(ofMany.keep(position{after: make([]byte, 65_000)}, 0, &scanner{})); !ok || ofMany.bytes > cursorBytesMax {
		t.Errorf("with %d bytes, the only one of a connection is kept: %v", ofMany.bytes, ok)
	}
}

// TestCursorsOfEach: a connection that needs many cursors ends no scans of others, also after it has ended. A cursor is valid when it was given.
func TestCursorsOfEach(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p := dial()
	long := strings.Repeat("k", 60_000)
	fill(t, p, "few", "%03d", 20)
	fill(t, p, long, strings.Repeat("e", 60_000)+"%03d", 2)
	cursor, _ := step(t, p.do(t, "SSCAN", "few", "0", "COUNT", "10"))
	end := func(other *peer) {
		t.Helper()
		other.Close()
		for s.Counts().Connections > 1 {
			time.Sleep(time.Millisecond)
		}
	}
	for range 2 { // the second finds the cursors of the first
		other := dial()
		for range cursorBytesMax/120_000 + 10 {
			last, _ := step(t, other.do(t, "SSCAN", long, "0", "COUNT", "1"))
			if rest, list := step(t, other.do(t, "SSCAN", long, last, "COUNT", "1")); rest != "0" || len(list) != 1 {
				t.Fatalf("a step after %s: %s %d", last, rest, len(list))
			}
		}
		end(other)
	}
	other := dial()
	left, _ := step(t, other.do(t, "SSCAN", "few", "0", "COUNT", "10"))
	end(other)
	for _, c := range []string{cursor, left} {
		if rest, list := step(t, p.do(t, "SSCAN", "few", c)); rest != "0" || len(list) != 10 {
			t.Errorf("a scan of a few elements goes on with %s %q", rest, list)
		}
	}
	s.cursors.mu.Lock()
	defer s.cursors.mu.Unlock()
	sum := 0
	for i, scans := range s.cursors.all {
		if sum += scans.bytes; scans.at != i || scans.order.Len() == 0 || scans.bytes > s.cursors.all[0].bytes {
			t.Errorf("the connection at %d of %d: %d bytes of %d cursors at %d", i, len(s.cursors.all), scans.bytes, scans.order.Len(), scans.at)
		}
	}
	if sum != s.cursors.bytes || sum > cursorBytesMax || len(s.cursors.all) != 2 {
		t.Errorf("%d bytes of %d, of %d connections", sum, s.cursors.bytes, len(s.cursors.all))
	}
}

// TestLongAnswers: what is too long is refused before its first byte, the connection goes on, and the memory is given back.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	limits := door.NewLimits(door.LimitsOptions{LongBytes: 3 << 20})
	dial, _ := start(t, Options{AnswerBytesMax: 1 << 20, Options: door.Options{Limits: limits, RequestBytesMax: RequestBytesLeast}})
	p := dial()
	for i := range 30 {
		p.do(t, "SADD", "k", fmt.Sprint(i)+strings.Repeat("x", 50_000))
		p.do(t, "SADD", "s", fmt.Sprint(i))
		if i < 18 {
			p.do(t, "SADD", "fits", fmt.Sprint(i)+strings.Repeat("x", 50_000))
		}
	}
	for _, args := range [][]string{{"SMEMBERS", "k"}, {"SUNION", "k", "s"}, {"SINTER", "k", "k"}, {"SDIFF", "k", "s"}, {"BS.RANGE", "k"}, {"SRANDMEMBER", "k", "100"}, {"SRANDMEMBER", "k", "-100"}} {
		if got := p.do(t, args...); !strings.HasPrefix(got, "-ERR the answer to "+args[0]+" has more than 1048576 bytes") || !strings.Contains(got, "SSCAN") || !strings.Contains(got, "SINTERCARD") {
			t.Errorf("%q: %.100s", args, got)
		}
		if got := p.do(t, "SMEMBERS", "fits"); len(got) < 900_000 { // with the memory that was given back
			t.Errorf("after %q: %.100s", args, got)
		}
	}
	if got := p.do(t, "SINTERCARD", "2", "k", "k"); got != ":30" {
		t.Error(got)
	}
	for cursor, n := "0", 0; ; n++ {
		next, list := step(t, p.do(t, "SSCAN", "k", cursor, "COUNT", "15"))
		if cursor = next; next == "0" {
			break
		}
		if len(list) != 15 || n > 3 {
			t.Fatalf("a step of %d", len(list))
		}
	}
	if got := p.do(t, "SMEMBERS", "s"); len(words(got)) != 30 {
		t.Error(got)
	}
	for try := 0; !strings.HasPrefix(p.do(t, "SMEMBERS", "fits"), "-TRYAGAIN"); try++ {
		if try == 300 {
			t.Fatal("what long requests take does not count")
		}
		// The beginning of a long request takes from the rest, unless it is refused itself because an answer is being gathered.
		dial().Write([]byte("*2\r\n$4\r\nECHO\r\n$200000\r\n" + strings.Repeat("x", 140_000)))
		time.Sleep(time.Millisecond)
	}
}

// TestRandom draws each element now and then, of small sets, of large ones, and of those whose elements begin each other.
func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and much work for the race detector")
	}
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	fill(t, p, "small", "%d", 5)
	fill(t, p, "large", "user:%05d", 3000)
	for i := range 400 {
		p.do(t, "SADD", "nested", strings.Repeat("a", i))
	}
	drawn := map[string]int{}
	for range tier.Pick(80, 80, 200) {
		drawn[p.do(t, "SRANDMEMBER", "small")]++
		if got := p.do(t, "SISMEMBER", "large", words(p.do(t, "SRANDMEMBER", "large"))[0]); got != ":1" {
			t.Fatal("not an element")
		}
	}
	if len(drawn) != 5 {
		t.Errorf("of five elements %v were drawn", drawn)
	}
	tens := map[string]int{}
	draws := tier.Pick(240, 240, 1200)
	for range draws {
		tens[words(p.do(t, "SRANDMEMBER", "large"))[0][:7]]++
	}
	if len(tens) != 3 || slices.Min(slices.Collect(maps.Values(tens))) < draws/6 {
		t.Errorf("thousands are not drawn alike: %v", tens)
	}
	lengths := map[int]bool{}
	for range tier.Pick(80, 80, 300) {
		lengths[len(p.do(t, "SRANDMEMBER", "nested"))] = true
	}
	if len(lengths) < 25 {
		t.Errorf("%d of 400 were drawn", len(lengths))
	}
	many := words(p.do(t, "SRANDMEMBER", "large", "1000"))
	slices.Sort(many)
	if len(many) != 1000 || len(slices.Compact(many)) != 1000 {
		t.Errorf("%d without repetition", len(many))
	}
	if many := words(p.do(t, "SRANDMEMBER", "large", "-5000")); len(many) != 5000 {
		t.Errorf("%d with repetition", len(many))
	}
}

// TestStoreIsOneBatch: what is too much changes nothing.
func TestStoreIsOneBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and much work for the race detector")
	}
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	fill(t, p, "a", "a%06d", 60_000)
	fill(t, p, "b", "b%06d", 60_000)
	p.do(t, "SADD", "c", "x")
	for _, args := range [][]string{{"SUNIONSTORE", "c", "a", "b"}, {"SUNIONSTORE", "a", "b"}} { // too many adds; adds and removes together
		if got := p.do(t, args...); !strings.HasPrefix(got, "-ERR SUNIONSTORE would change more than 100000 elements") {
			t.Errorf("%q: %s", args, got)
		}
	}
	if got := p.do(t, "SMEMBERS", "c"); got != `*[$"x"]` {
		t.Error(got)
	}
	if got := p.do(t, "SDIFFSTORE", "c", "a", "b"); got != ":60000" {
		t.Error(got)
	}
	if got := p.do(t, "SISMEMBER", "c", "x"); got != ":0" {
		t.Error(got)
	}
	if got := p.do(t, "SINTERSTORE", "a", "a", "b"); got != ":0" || p.do(t, "EXISTS", "a") != ":0" { // dropped, whatever its size
		t.Error(got)
	}
}

// TestMerge has sets of sizes that are read in pages, looked up in each other, and skipped through.
func TestMerge(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and much work for the race detector")
	}
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	sets := map[string]map[string]bool{"empty": {}}
	add := func(key string, from, to, step int, format string) {
		list := []string{"SADD", key}
		sets[key] = map[string]bool{}
		for i := from; i < to; i += step {
			e := fmt.Sprintf(format, i)
			sets[key][e] = true
			list = append(list, e)
		}
		p.do(t, list...)
	}
	add("large", 0, 14_000, 1, "%05d")
	add("odd", 1, 14_000, 2, "%05d")
	add("late", 11_000, 26_000, 1, "%05d") // the others leap to its first element
	add("small", 0, 30_000, 1700, "%05d")
	add("page", 0, 4000, 1, "%05d") // exactly one page
	add("twice", 0, 8000, 1, "%05d")
	add("long", 0, 14_000, 400, "%05d"+strings.Repeat("x", 20_000))
	keys := slices.Sorted(maps.Keys(sets))
	share, place := tier.ShareOf(t, 3, 3), 0
	for _, op := range []string{"SINTER", "SUNION", "SDIFF"} {
		for _, a := range keys {
			for _, b := range keys {
				if place++; !share.Has(place) {
					continue
				}
				c := keys[(len(a)+len(b))%len(keys)]
				want := map[string]bool{}
				for _, key := range []string{a, b, c} {
					for e := range sets[key] {
						switch in := sets[a][e]; op {
						case "SUNION":
							want[e] = true
						case "SINTER":
							if in && sets[b][e] && sets[c][e] {
								want[e] = true
							}
						default:
							if in && !sets[b][e] && !sets[c][e] {
								want[e] = true
							}
						}
					}
				}
				got := words(p.do(t, op, a, b, c))
				if len(got) != len(want) || !slices.IsSorted(got) {
					t.Errorf("%s %s %s %s: %d elements, want %d", op, a, b, c, len(got), len(want))
				}
				for _, e := range got {
					if !want[e] {
						t.Fatalf("%s %s %s %s: %.10q", op, a, b, c, e)
					}
				}
				if op != "SINTER" {
					continue
				}
				if n := p.do(t, "SINTERCARD", "3", a, b, c); n != fmt.Sprint(":", len(want)) {
					t.Errorf("SINTERCARD %s %s %s: %s, want %d", a, b, c, n, len(want))
				}
			}
		}
	}
}

// TestAddIsAlwaysAnEvent: an add of an element that is in the set survives a remove that was done elsewhere before anybody there knew of it.
func TestAddIsAlwaysAnEvent(t *testing.T) {
	t.Parallel()
	var stores [2]*engine.Store
	for i := range stores {
		var err error
		if stores[i], err = engine.Open("db", &engine.Options{FS: testkit.NewDisk()}); err != nil {
			t.Fatal(err)
		}
		defer stores[i].Close()
	}
	dial, _ := serve(t, alone.New(stores[0]), Options{})
	p := dial()
	first, err := stores[1].Add(t.Context(), []byte("k"), [][]byte{[]byte("e")}, bigset.WriteOptions{})
	if err == nil {
		err = stores[0].Replica().ApplyDelta(t.Context(), first.Delta, bigset.ApplyOptions{Durability: bigset.Sync})
	}
	removed, err2 := stores[1].Remove(t.Context(), []byte("k"), [][]byte{[]byte("e")}, bigset.WriteOptions{})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if got := p.do(t, "SADD", "k", "e"); got != ":0" {
		t.Errorf("an element that is present: %s", got)
	}
	if err := stores[0].Replica().ApplyDelta(t.Context(), removed.Delta, bigset.ApplyOptions{Durability: bigset.Sync}); err != nil {
		t.Fatal(err)
	}
	if got := p.do(t, "SISMEMBER", "k", "e"); got != ":1" {
		t.Error("an add that was acknowledged is lost")
	}
}

// watched is a backend that notes writes, and can fail.
type watched struct {
	door.Backend
	writes, lookUps []int // operations of each
	err             error
	written         door.Result
}

func (w *watched) Write(ctx context.Context, r door.Write) (door.Result, error) {
	w.writes = append(w.writes, len(r.Ops))
	if w.err != nil {
		return door.Result{}, w.err
	}
	out, err := w.Backend.Write(ctx, r)
	if w.written.Acked > 0 {
		out.Acked = w.written.Acked
	}
	return out, err
}

func (w *watched) Subset(ctx context.Context, s door.Subset) ([]door.Presence, error) {
	w.lookUps = append(w.lookUps, len(s.Elements))
	return w.Backend.Subset(ctx, s)
}

// TestPipeline: neighbours of one key are one call each, and all are answered in their order.
func TestPipeline(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	b := &watched{Backend: inner.sets}
	dial, _ := serve(t, b, Options{})
	p := dial()
	commands := [][]string{{"SADD", "k", "a", "b"}, {"SADD", "k", "b", "c"}, {"SREM", "k", "a", "x"}, {"SADD", "k", "a"}, {"SISMEMBER", "k", "a"}, {"SMISMEMBER", "k", "x", "c"}, {"SISMEMBER", "j", "a"},
		{"SADD", "j", "a"}, {"PING"}, {"SADD", "j", strings.Repeat("x", 70_000)}, {"SADD", "j", "b"}, {"NOSUCH"}, {"SADD", "j"}, {"SCARD", "j"}}
	want := []string{":2", ":1", ":1", ":1", ":1", "*[:0 :1]", ":0", ":1", "+PONG", "-ERR element is 70000 bytes, the maximum is 65536", ":1", "-ERR unknown command 'NOSUCH', with args beginning with: ",
		"-ERR wrong number of arguments for 'sadd' command", ":2"}
	var all bytes.Buffer
	for _, c := range commands {
		all.Write(request(c...))
	}
	go p.Write(all.Bytes())
	for i := range want {
		if got := p.read(t); got != want[i] {
			t.Errorf("%.60q: %s, want %s", commands[i], got, want[i])
		}
	}
	if all.Len() < bufferBytesOfDoor {
		t.Fatal("it came together")
	}
	// The first bytes come as one read of 4 KiB, or less: calls may be cut, never joined beyond these.
	sum := 0
	for _, n := range b.writes {
		sum += n
	}
	if sum != 9 || len(b.writes) > 5 || len(b.lookUps) > 4 {
		t.Errorf("writes of %v, look-ups of %v", b.writes, b.lookUps)
	}
}

// bufferBytesOfDoor is what a connection reads at once.
const bufferBytesOfDoor = 4 << 10

// TestErrorsSayWhatIsKnown gives errors of a backend the codes by which clients ask again or not.
func TestErrorsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	b := &watched{Backend: inner.sets}
	dial, s := serve(t, b, Options{})
	p := dial()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: no quorum", door.ErrUnavailable), "-TRYAGAIN this node can't do it now: no quorum"},
		{&door.UnknownError{Acked: 1, W: 2}, "-UNKNOWN outcome unknown"},
		{errors.New("odd\r\nbroken"), "-ERR internal error, which the log of the node has: odd  broken"},
	} {
		b.err = tt.err
		if got := p.do(t, "SADD", "k", "a"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%v: %s", tt.err, got)
		}
	}
	b.err, b.written.Acked = nil, 3
	if p.do(t, "SADD", "k", "a"); p.do(t, "WAIT", "1", "0") != ":2" {
		t.Error("three replicas have it, and that is two others")
	}
	if m := s.Metrics(); m.Errors != 3 || m.Failures != 2 || m.Commands["sadd"] != 4 {
		t.Errorf("%+v", m)
	}
}

// TestErrorsNameTheKey: an error names a key as the client wrote it, not the name of its set.
func TestErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	for _, key := range []string{"k", "", "\x00k"} {
		if got := p.do(t, "BS.ADD", key, "REQUEST", "", "ELEMENTS", "a"); !strings.HasPrefix(got, "-ERR the id of REQUEST is empty") {
			t.Errorf("a request with an empty id: %s", got)
		}
		p.do(t, "BS.ADD", key, "REQUEST", "q1", "ELEMENTS", "a")
		want := fmt.Sprintf("-ERR bad request: id \"q1\" is that of another request to %q", key)
		if got := p.do(t, "BS.ADD", key, "REQUEST", "q1", "RETRY", "ELEMENTS", "b"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestContexts removes by contexts only what was seen.
func TestContexts(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	old := words(p.do(t, "BS.ADD", "k", "ELEMENTS", "a"))[0]
	whole := words(p.do(t, "BS.FETCH", "k"))[0]
	p.do(t, "SADD", "k", "a", "b")
	for _, args := range [][]string{{"CONTEXT", "", "ELEMENTS", "b"}, {"PAIRS", "a", old, "b", ""}} {
		if got := p.do(t, append([]string{"BS.REM", "k"}, args...)...); !strings.HasPrefix(got, "-ERR the context is empty") {
			t.Errorf("a remove by %q: %s", args, got)
		}
	}
	if got := p.do(t, "BS.ADD", "k", "CONTEXT", "", "PAIRS", "b", ""); !strings.HasPrefix(got, "*[$") { // an add takes nothing away
		t.Error("an add by empty contexts:", got)
	}
	for _, tt := range []struct{ args, want string }{
		{"BS.REM k PAIRS a " + old, ":0"},
		{"BS.REM k CONTEXT " + whole + " ELEMENTS a b", ":0"},
		{"SISMEMBER k a", ":1"},
		{"BS.REM k PAIRS a " + words(p.do(t, "BS.FETCH", "k", "a"))[0], ":1"},
		{"BS.REM k PAIRS b " + old, "-ERR"},
		{"SMEMBERS k", `*[$"b"]`},
		{"BS.ADD k REQUEST r1 ELEMENTS c", "*[$"},
		{"SREM k c", ":1"},
		{"BS.ADD k REQUEST r1 RETRY ELEMENTS c", "*[$"}, // it was done before
		{"SISMEMBER k c", ":0"},
		{"BS.ADD k DW 0 ELEMENTS d", "*[$"},
		{"BS.ADD k W 2 ELEMENTS d", "-ERR"},
	} {
		if got := p.do(t, strings.Fields(tt.args)...); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.40s: %.200s, want %s", tt.args, got, tt.want)
		}
	}
	fill(t, p, "pages", "%03d", 100)
	var all []string
	for after := ""; ; {
		args := []string{"BS.RANGE", "pages", "LIMIT", "30", "REV"}
		if after != "" {
			args = append(args, "AFTER", after)
		}
		var list []string
		after, list = step(t, p.do(t, args...))
		all = append(all, list...)
		if after == "" {
			break
		}
	}
	slices.Reverse(all)
	if len(all) != 100 || !slices.IsSorted(all) {
		t.Errorf("%v", all)
	}
}

// TestBrowsers: a page that has a browser send commands to this machine gets none of them executed.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	for _, in := range []string{"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSADD k a\r\n", "Host: localhost\r\n\r\nSADD k a\r\n"} {
		p := dial()
		if _, err := p.Write([]byte(in)); err != nil {
			t.Fatal(err)
		}
		if b, err := p.in.ReadByte(); err == nil {
			t.Errorf("%q is answered by %q", in, b)
		}
	}
	if got := dial().do(t, "EXISTS", "k"); got != ":0" {
		t.Error("a command of a page was executed")
	}
}

// TestUnknownOfRetry: what refuses only this try of a change says nothing about the try before. What is wrong with the request does.
func TestUnknownOfRetry(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	b := &watched{Backend: inner.sets}
	dial, _ := serve(t, b, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 1 << 20})}})
	p := dial()
	for _, change := range []struct {
		args  string
		retry bool
	}{
		{"BS.ADD k ELEMENTS RETRY", false}, {"BS.ADD RETRY REQUEST RETRY ELEMENTS e", false}, {"BS.REM k REQUEST id ELEMENTS RETRY RETRY", false},
		{"BS.ADD k REQUEST id RETRY ELEMENTS e", true}, {"bs.rem k retry W 1 REQUEST id ELEMENTS e", true},
	} {
		args := strings.Fields(change.args)
		try := func(first, again string, args ...string) {
			t.Helper()
			want := first
			if change.retry {
				want = again
			}
			if got := p.do(t, args...); !strings.HasPrefix(got, want) {
				t.Errorf("%.100q: %s, want %s", args, got, want)
			}
		}
		for _, tt := range []struct {
			err          error
			first, again string
		}{
			{door.ErrUnavailable, "-TRYAGAIN", "-UNKNOWN"}, {context.DeadlineExceeded, "-TRYAGAIN", "-UNKNOWN"},
			{bigset.ErrDiskFull, "-MISCONF", "-UNKNOWN"}, {bigset.ErrClosed, "-ERR internal error", "-UNKNOWN"}, {bigset.ErrBehind, "-ERR", "-UNKNOWN"},
			{tokens.ErrDenied, "-NOPERM", "-UNKNOWN"}, {errKind, "-WRONGTYPE", "-UNKNOWN"}, {bigset.ErrLimit, "-ERR", "-ERR"},
		} {
			b.err = tt.err
			try(tt.first, tt.again, args...)
		}
		try("-TRYAGAIN", "-UNKNOWN", numbered(20_000, args...)...) // the memory of the arguments is counted, and too little is left
	}
}

// TestRefusedRequests: a connection above the limits, a request that finds no memory and one that is too long are told apart.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	limits := door.NewLimits(door.LimitsOptions{Connections: 1, LongBytes: RequestBytesLeast})
	dial, s := start(t, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: limits}})
	end := func(p *peer, want string) {
		t.Helper()
		got := p.read(t)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if b, err := p.in.ReadByte(); err != io.EOF {
			t.Errorf("after %s: %q %v", got, b, err)
		}
		p.Close()
	}
	only := func() *peer {
		for s.Counts().Connections > 0 {
			time.Sleep(time.Millisecond)
		}
		return dial()
	}
	p := only()
	if got := p.do(t, "PING"); got != "+PONG" {
		t.Fatal(got)
	}
	end(dial(), "-ERR max number of clients reached")
	p.Close()
	big := strings.Repeat("x", 100<<10)
	if !limits.TakeLong(RequestBytesLeast) {
		t.Fatal("memory is taken")
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"-TRYAGAIN " + door.NoRoom, []string{"SADD", "k", big}},
		{"-TRYAGAIN", []string{"BS.ADD", "k", "REQUEST", "id", "ELEMENTS", big}},
		{"-UNKNOWN", []string{"BS.ADD", "k", "REQUEST", "id", "RETRY", "ELEMENTS", big}},
		{"-UNKNOWN", []string{"BS.ADD", "k", "CONTEXT", big, "REQUEST", "id", "RETRY", "ELEMENTS", "x"}}, // RETRY has not come yet
	} {
		p := only()
		go p.Write(request(tt.args...))
		end(p, tt.want)
	}
	limits.GiveLong(RequestBytesLeast)
	p = only()
	go p.Write(request("SADD", "k", big, big, big))
	end(p, "-ERR Protocol error: a request of more than 262144 bytes")
}

// TestNoAllocations: what a request costs beside the backend.
func TestNoAllocations(t *testing.T) {
	p := parser{bulkMax: 1000}
	in := request("SISMEMBER", "key", "element")
	out := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		if whole, _ := p.parse(in); !whole {
			t.Fatal("not whole")
		}
		p.reset()
		out = appendBulk(appendInt(appendHeader(out[:0], 3, typeSet, 2), 7), in[:5])
		out = appendError(appendNull(appendBool(out, 3, true), 2), errSyntax)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
