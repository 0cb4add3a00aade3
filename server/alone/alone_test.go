package alone

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/door"
)

func open(t *testing.T, o *engine.Options) (*Backend, *engine.Store) {
	t.Helper()
	s, err := engine.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return New(s), s
}

func adds(set string, elements ...string) door.Write {
	w := door.Write{Set: []byte(set), Contexts: true}
	for _, e := range elements {
		w.Ops = append(w.Ops, door.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	return w
}

func removes(set, element string, c door.Token) door.Write {
	return door.Write{Set: []byte(set), Ops: []door.Op{{Kind: keyscheme.OpRemove, Element: []byte(element), Context: c}}}
}

func write(t *testing.T, b *Backend, w door.Write) door.Result {
	t.Helper()
	r, err := b.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns what a read shows, and where the next page begins.
func read(t *testing.T, b *Backend, r door.Read) (names string, seen, after door.Token) {
	t.Helper()
	var all []string
	done, first := false, true
	for p, err := range b.Read(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if done {
			t.Fatal("a part after the last")
		}
		if first != (len(p.Context) > 0) {
			t.Fatalf("the context of the set is in the first part alone: first %v, %d bytes", first, len(p.Context))
		}
		if first {
			seen = p.Context
		}
		for _, e := range p.Elements {
			all = append(all, string(e.Name))
			if r.Contexts != (len(e.Context) > 0) {
				t.Fatalf("contexts wanted: %v; %q has one of %d bytes", r.Contexts, e.Name, len(e.Context))
			}
		}
		done, first, after = p.Done, false, p.After
	}
	if !done {
		t.Fatal("the read ended without a part that is Done")
	}
	return strings.Join(all, " "), seen, after
}

func TestPages(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	write(t, b, adds("s", "a", "b", "c", "d", "e"))
	for _, tt := range []struct {
		name string
		read door.Read
		want []string // pages
	}{
		{"all", door.Read{}, []string{"a b c d e"}},
		{"small parts", door.Read{Batch: 2, Contexts: true}, []string{"a b c d e"}},
		{"pages", door.Read{Limit: 2}, []string{"a b", "c d", "e"}},
		{"pages that end with the set", door.Read{Limit: 5}, []string{"a b c d e"}},
		{"parts that end with a page", door.Read{Limit: 2, Batch: 2}, []string{"a b", "c d", "e"}},
		{"parts of one element", door.Read{Limit: 2, Batch: 1}, []string{"a b", "c d", "e"}},
		{"reverse", door.Read{Limit: 3, Reverse: true}, []string{"e d c", "b a"}},
		{"range", door.Read{From: []byte("b"), To: []byte("d")}, []string{"b c"}},
		{"prefix", door.Read{Prefix: []byte("c")}, []string{"c"}},
		{"nothing", door.Read{Prefix: []byte("x")}, []string{""}},
	} {
		var got []string
		r := tt.read
		r.Set = []byte("s")
		for {
			names, _, after := read(t, b, r)
			got = append(got, names)
			if len(after) == 0 {
				break
			}
			r.After = after
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: pages %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	first := write(t, b, adds("s", "a")).Contexts[0]
	_, seen, _ := read(t, b, door.Read{Set: []byte("s")})
	write(t, b, adds("s", "a", "b"))
	if r := write(t, b, removes("s", "a", first)); r.Removed != 0 {
		t.Fatalf("a context of an earlier add removed %d", r.Removed)
	}
	dropped, err := b.Drop(t.Context(), door.Drop{Set: []byte("s"), Context: seen})
	if err != nil || dropped.Left != 2 {
		t.Fatalf("a drop of what was seen leaves %d, %v; want 2", dropped.Left, err)
	}
	found, err := b.Subset(t.Context(), door.Subset{Set: []byte("s"), Elements: [][]byte{[]byte("a"), []byte("x")}})
	if err != nil || !found[0].Present || found[1].Present {
		t.Fatalf("subset: %v, %v", found, err)
	}
	if r := write(t, b, removes("s", "a", found[0].Context)); r.Removed != 1 {
		t.Fatalf("the current context removed %d", r.Removed)
	}
	c, err := b.Count(t.Context(), door.Read{Set: []byte("s")})
	if err != nil || c.Elements != 1 {
		t.Fatalf("%d elements are left, %v", c.Elements, err)
	}
}

// whileLive is a context that ends when nothing in a set is live any more but so much.
type whileLive struct {
	context.Context
	store *engine.Store
	most  uint64
}

func (c whileLive) Err() error {
	if n, err := c.store.Live(c.Context, []byte("s")); err == nil && n <= c.most {
		return context.Canceled
	}
	return nil
}

// TestDropIsReported: nobody waits any more when a drop has been done; it has been done all the same.
func TestDropIsReported(t *testing.T) {
	t.Parallel()
	b, s := open(t, nil)
	write(t, b, adds("s", "a", "b"))
	_, seen, _ := read(t, b, door.Read{Set: []byte("s")})
	write(t, b, adds("s", "c"))
	if dropped, err := b.Drop(whileLive{t.Context(), s, 1}, door.Drop{Set: []byte("s"), Context: seen}); err != nil || dropped.Left != 1 {
		t.Errorf("it leaves %d, %v", dropped.Left, err)
	}
	if dropped, err := b.Drop(whileLive{t.Context(), s, 0}, door.Drop{Set: []byte("s")}); err != nil || dropped.Left != 0 {
		t.Errorf("it leaves %d, %v", dropped.Left, err)
	}
	if dropped, err := b.Drop(t.Context(), door.Drop{Set: []byte("new"), Context: door.Token{}}); !errors.Is(err, bigset.ErrNotFound) || dropped.Left != 0 {
		t.Errorf("a drop of nothing: %d, %v", dropped.Left, err)
	}
	if dropped, err := b.Drop(whileLive{t.Context(), s, 9}, door.Drop{Set: []byte("s"), Context: seen}); !errors.Is(err, context.Canceled) || errors.Is(err, door.ErrUnknown) || dropped.Left != 0 {
		t.Errorf("a drop for nobody: %d, %v", dropped.Left, err)
	}
}

// TestStrangeTokens gives tokens where they do not belong: each is refused, and nothing changes.
func TestStrangeTokens(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	other, _ := open(t, nil)
	narrow := write(t, b, adds("s", "a")).Contexts[0]
	foreign := write(t, other, adds("s", "a")).Contexts[0]
	_, wide, _ := read(t, b, door.Read{Set: []byte("s")})
	_, _, after := read(t, b, door.Read{Set: []byte("s"), Limit: 1})
	if len(after) != 0 {
		t.Fatal("a page of one element from a set of one has no next")
	}
	write(t, b, adds("s", "b"))
	_, _, after = read(t, b, door.Read{Set: []byte("s"), Limit: 1})
	forged := slices.Clone(narrow)
	forged[len(forged)-1] ^= 1
	for _, tt := range []struct {
		name string
		do   func() error
		want error
	}{
		{"of another element", func() error { _, err := b.Write(t.Context(), removes("s", "b", narrow)); return err }, keyscheme.ErrTokenElement},
		{"of another set", func() error { _, err := b.Write(t.Context(), removes("t", "a", narrow)); return err }, keyscheme.ErrTokenSet},
		{"of another store", func() error { _, err := b.Write(t.Context(), removes("s", "a", foreign)); return err }, keyscheme.ErrTokenDomain},
		{"forged", func() error { _, err := b.Write(t.Context(), removes("s", "a", forged)); return err }, keyscheme.ErrTokenSeal},
		{"wide for an element", func() error { _, err := b.Write(t.Context(), removes("s", "a", wide)); return err }, keyscheme.ErrTokenForm},
		{"narrow for a set", func() error {
			_, err := b.Drop(t.Context(), door.Drop{Set: []byte("s"), Context: narrow})
			return err
		}, keyscheme.ErrTokenForm},
		{"a page the other way", func() error {
			_, err := b.Count(t.Context(), door.Read{Set: []byte("s"), After: after, Reverse: true})
			return err
		}, bigset.ErrCursor},
	} {
		if err := tt.do(); !errors.Is(err, tt.want) || errors.Is(err, door.ErrUnknown) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if names, _, _ := read(t, b, door.Read{Set: []byte("s")}); names != "a b" {
		t.Errorf("refused requests left %q", names)
	}
}

func TestQuorums(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	for _, tt := range []struct {
		q       door.Quorum
		durable int
		want    error
	}{
		{door.Quorum{}, 1, nil},
		{door.Quorum{W: 1, DW: 1}, 1, nil},
		{door.Quorum{W: 1, DW: door.NotDurable}, 0, nil},
		{door.Quorum{W: 2}, 0, door.ErrQuorum},
		{door.Quorum{W: 1, DW: 2}, 0, door.ErrQuorum},
		{door.Quorum{W: -1}, 0, bigset.ErrRequest},
	} {
		w := adds("s", "a")
		w.Quorum = tt.q
		r, err := b.Write(t.Context(), w)
		if !errors.Is(err, tt.want) || r.Durable != tt.durable {
			t.Errorf("%+v: durable at %d, %v; want %d, %v", tt.q, r.Durable, err, tt.durable, tt.want)
		}
	}
	if _, err := b.Count(t.Context(), door.Read{Set: []byte("s"), R: 2}); !errors.Is(err, door.ErrQuorum) {
		t.Errorf("R 2: %v", err)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	b, s := open(t, nil)
	w := adds("s", "a")
	w.Request = []byte("once")
	write(t, b, w)
	write(t, b, removes("s", "a", nil))
	w.Retry = true
	write(t, b, w)
	if n, err := s.Live(t.Context(), w.Set); n != 0 || err != nil {
		t.Errorf("an add that was sent again brought back what was removed: %d dots, %v", n, err)
	}
	w.Request = nil
	if _, err := b.Write(t.Context(), w); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("a retry without an id: %v", err)
	}
	b, s = open(t, &engine.Options{KeepContexts: true})
	w.Request, w.Retry = []byte("once"), false
	write(t, b, w)
	w.Retry = true
	if _, err := b.Write(t.Context(), w); !errors.Is(err, door.ErrUnknown) {
		t.Errorf("a retry at a store that keeps no ids: %v", err)
	}
	if n, _ := s.Live(t.Context(), w.Set); n != 1 {
		t.Errorf("%d dots", n)
	}
}

// TestChanges: what each operation changed, and the list of sets from any place on.
func TestChanges(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	w := adds("s", "a", "b", "a")
	w.Ops = append(w.Ops, removes("s", "b", nil).Ops[0], removes("s", "x", nil).Ops[0], adds("s", "b").Ops[0])
	w.Changes = true
	want := []bool{true, true, false, true, false, true}
	if r := write(t, b, w); !slices.Equal(r.Changed, want) {
		t.Errorf("changed %v, want %v", r.Changed, want)
	}
	w.Changes = false
	if r := write(t, b, w); r.Changed != nil {
		t.Errorf("nobody asked for %v", r.Changed)
	}
	found, err := b.Subset(t.Context(), door.Subset{Set: []byte("s"), Elements: [][]byte{[]byte("a"), []byte("x")}, Bare: true})
	if err != nil || !found[0].Present || found[1].Present || found[0].Context != nil {
		t.Errorf("%+v, %v", found, err)
	}
	for i := range 50 {
		write(t, b, adds(strings.Repeat("s", i+2), "a"))
	}
	all := names(t, b, nil)
	if len(all) != 51 {
		t.Fatalf("%d sets", len(all))
	}
	for i, name := range all {
		if got := names(t, b, []byte(name)); !slices.Equal(got, all[i+1:]) {
			t.Errorf("%d sets after number %d of 51", len(got), i)
		}
	}
	if got := len(names(t, b, []byte("never heard of"))); got == 0 || got == 51 {
		t.Errorf("%d sets after a name that is none", got)
	}
}

// names lists sets.
func names(t *testing.T, b *Backend, after []byte) (list []string) {
	t.Helper()
	for n, err := range b.Names(t.Context(), false, after) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(n.Name))
	}
	return list
}

func TestClosed(t *testing.T) {
	t.Parallel()
	b, s := open(t, nil)
	write(t, b, adds("s", "a"))
	for n, err := range b.Names(t.Context(), false, nil) {
		if err != nil || string(n.Name) != "s" || n.Live != 1 || n.Seen != 1 {
			t.Errorf("name %+v, %v", n, err)
		}
	}
	s.Close()
	if _, err := b.Write(t.Context(), adds("s", "b")); !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("a write to a closed store: %v", err)
	}
}

// TestBatchMemory: the memory for a batch is taken during its write.
func TestBatchMemory(t *testing.T) {
	b, _ := open(t, nil)
	const most = 128 << 10
	l := door.NewLimits(door.LimitsOptions{LongBytes: most})
	b.Bound(l)
	name := strings.Repeat("n", 60_000)
	write(t, b, adds(name, "a", "b"))
	if !l.TakeLong(most) {
		t.Error("the memory is not returned")
	}
	if _, err := b.Write(t.Context(), adds(name, "c", "d")); !errors.Is(err, door.ErrNoRoom) {
		t.Errorf("without memory: %v", err)
	}
	write(t, b, adds("short", "c", "d"))
	l.GiveLong(most)
	if names, _, _ := read(t, b, door.Read{Set: []byte(name)}); names != "a b" {
		t.Errorf("the set has %s", names)
	}
}
