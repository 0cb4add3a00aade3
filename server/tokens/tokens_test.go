package tokens

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// memory is a Disk.
type memory struct {
	b    []byte
	fail error
}

func (m *memory) Load() ([]byte, error) { return m.b, nil }

func (m *memory) Save(_ context.Context, b []byte) error {
	if m.fail == nil {
		m.b = b
	}
	return m.fail
}

func open(t *testing.T, d Disk, learned bool) *List {
	t.Helper()
	l, err := Open(d, learned)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var at = time.Unix(1_700_000_000, 0)

// made returns a token and its secret.
func made(t testing.TB, label string, verbs Verbs, prefix string) (Entry, string) {
	t.Helper()
	e, secret, err := New(label, verbs, []byte(prefix), at)
	if err != nil {
		t.Fatal(err)
	}
	return e, secret
}

func is(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestGuard goes through the life of a list: nobody needs a token, then everybody does, for good.
func TestGuard(t *testing.T) {
	ctx := context.Background()
	disk := &memory{}
	l := open(t, disk, true)
	g := &Guard{List: l}
	before, always := g.Anonymous(), (&Guard{List: l, Always: true}).Anonymous()
	is(t, "without tokens", before.Check(Write, []byte("x")), nil)
	is(t, "without tokens, where one is needed", always.Check(Read, []byte("x")), ErrNoToken)
	if !before.Free() || always.Free() || (Grant{}).Free() || !(*Guard)(nil).Anonymous().Free() {
		t.Error("who is free without tokens")
	}
	is(t, "without a guard", (*Guard)(nil).Anonymous().Check(Admin, nil), nil)
	is(t, "the zero grant", Grant{}.Check(Read, nil), ErrNoToken)
	_, err := g.Authenticate([]byte("x"))
	is(t, "a secret without tokens", err, ErrNone)

	e, secret := made(t, "app", Read|Write, "users/")
	only, onlySecret := made(t, "view", Read, "")
	admin, adminSecret := made(t, "ops", Admin, "")
	for _, e := range []Entry{e, only, admin} {
		is(t, "add", l.Add(ctx, e), nil)
		is(t, "add again", l.Add(ctx, e), nil)
	}
	is(t, "a connection of before", before.Check(Read, []byte("x")), ErrNoToken)
	if before.Label() != "" || before.Free() {
		t.Error("a connection without a token is free")
	}
	for _, row := range []struct {
		secret string
		verb   Verbs
		name   string
		want   error
	}{
		{secret, Read, "users/1", nil}, {secret, Write, "users/", nil}, {secret, Write, "users", ErrDenied}, {secret, Read, "", ErrDenied}, {secret, Read, "Users/1", ErrDenied},
		{secret, Read, "x users/1", ErrDenied}, {secret, Admin, "", ErrDenied}, {secret, Read | Write, "users/1", nil}, {secret, 0, "users/1", ErrDenied},
		{onlySecret, Read, "users/1", nil}, {onlySecret, Read, "", nil}, {onlySecret, Write, "users/1", ErrDenied}, {onlySecret, Read | Write, "x", ErrDenied},
		{adminSecret, Admin, "", nil}, {adminSecret, Read, "x", ErrDenied},
	} {
		grant, err := g.Authenticate([]byte(row.secret))
		is(t, "authenticate", err, nil)
		is(t, row.verb.String()+" of "+row.name, grant.Check(row.verb, []byte(row.name)), row.want)
		if grant.May(row.verb, []byte(row.name)) != (row.want == nil) {
			t.Error("May differs from Check")
		}
		if grant.Free() || grant.Label() == "" {
			t.Error("a token is free, or has no label")
		}
	}
	for _, bad := range []string{"", "x", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), secret[:len(secret)-4] + "AAAA", onlySecret[:30] + secret[30:], e.ID.String()} {
		_, err := g.Authenticate([]byte(bad))
		is(t, bad, err, ErrSecret)
	}

	grant, _ := g.Authenticate([]byte(secret))
	is(t, "remove", l.Remove(ctx, e.ID), nil)
	is(t, "a removed token on an open connection", grant.Check(Read, []byte("users/1")), ErrNoToken)
	_, err = g.Authenticate([]byte(secret))
	is(t, "a removed token", err, ErrSecret)
	is(t, "remove again", l.Remove(ctx, e.ID), nil)
	is(t, "add what was removed", l.Add(ctx, e), ErrEntry)
	is(t, "remove another", l.Remove(ctx, ID{1}), ErrNotFound)
	is(t, "remove", errors.Join(l.Remove(ctx, only.ID), l.Remove(ctx, admin.ID)), nil)
	if len(l.Active()) != 0 || bytes.Contains(disk.b, e.Hash[:]) || bytes.Contains(disk.b, []byte("users/")) {
		t.Error("more than the IDs of removed tokens is left")
	}
	again := &Guard{List: open(t, disk, true)}
	is(t, "after the last token was removed", again.Anonymous().Check(Read, []byte("x")), ErrNoToken)
	if again.List.Sum() != l.Sum() {
		t.Error("the list is another one after it was opened again")
	}
}

// TestUnlearned: a node that may lack tokens and removals permits nothing.
func TestUnlearned(t *testing.T) {
	l := open(t, &memory{}, false)
	g := &Guard{List: l}
	e, secret := made(t, "app", Read, "")
	is(t, "add", l.Add(context.Background(), e), nil)
	grant := g.Anonymous()
	is(t, "without a token", grant.Check(Read, nil), ErrUnlearned)
	_, err := g.Authenticate([]byte(secret))
	is(t, "with one", err, ErrUnlearned)
	l.Learned()
	is(t, "without a token", grant.Check(Read, nil), ErrNoToken)
	grant, err = g.Authenticate([]byte(secret))
	is(t, "with one", errors.Join(err, grant.Check(Read, nil)), nil)
}

// TestUnsaved: what is not on disk does not count.
func TestUnsaved(t *testing.T) {
	ctx, full := context.Background(), errors.New("full")
	disk := &memory{}
	l := open(t, disk, true)
	e, secret := made(t, "app", Read, "")
	disk.fail = full
	is(t, "add", l.Add(ctx, e), full)
	is(t, "without tokens", (&Guard{List: l}).Anonymous().Valid(), nil)
	disk.fail = nil
	is(t, "add", l.Add(ctx, e), nil)
	disk.fail = full
	is(t, "remove", l.Remove(ctx, e.ID), full)
	_, err := (&Guard{List: l}).Authenticate([]byte(secret))
	is(t, "a token whose removal failed", err, nil)
}

// TestListsConverge merges what some lists have, in any order and some twice: all come to the same, and a removal is never undone.
func TestListsConverge(t *testing.T) {
	ctx := context.Background()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		lists := []*List{open(t, &memory{}, true), open(t, &memory{}, true), open(t, &memory{}, true)}
		removed := map[ID]bool{}
		for range 30 {
			l := lists[r.IntN(len(lists))]
			switch active := l.Active(); {
			case r.IntN(3) == 0 && len(active) > 0:
				id := active[r.IntN(len(active))].ID
				removed[id] = true
				is(t, "remove", l.Remove(ctx, id), nil)
			case r.IntN(2) == 0:
				e, _ := made(t, "x", Read, "p")
				is(t, "add", l.Add(ctx, e), nil)
			default:
				_, err := l.Merge(ctx, lists[r.IntN(len(lists))].Entries())
				is(t, "merge", err, nil)
			}
		}
		for _, i := range []int{0, 1, 2, 1, 0, 2, 1} {
			for _, l := range lists {
				_, err := l.Merge(ctx, lists[i].Entries())
				is(t, "merge", err, nil)
			}
		}
		want := Append(nil, lists[0].Entries())
		for _, l := range lists {
			if got := Append(nil, l.Entries()); !bytes.Equal(got, want) || l.Sum() != lists[0].Sum() {
				t.Fatalf("seed %d: lists differ: %x, %x", seed, got, want)
			}
			for _, e := range l.Active() {
				if removed[e.ID] {
					t.Fatalf("seed %d: %v is back", seed, e.ID)
				}
			}
		}
	}
}

// TestLimits: what can't be kept is refused, with what is wrong.
func TestLimits(t *testing.T) {
	for _, row := range []struct {
		label, prefix, says string
		verbs               Verbs
	}{
		{"", "", "label", Read}, {strings.Repeat("x", LabelBytesMax+1), "", "label", Read}, {"a b", "", "label", Read}, {"a\n", "", "label", Read}, {"ä", "", "label", Read},
		{"x", strings.Repeat("x", PrefixBytesMax+1), "prefix is 513 bytes", Read}, {"x", "p", "admin", Read | Admin}, {"x", "", "verbs", 0}, {"x", "", "verbs", 8},
	} {
		if _, _, err := New(row.label, row.verbs, []byte(row.prefix), at); !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q, %q, %v: %v", row.label, row.prefix, row.verbs, err)
		}
	}
	for text, want := range map[string]Verbs{"read": Read, "write,READ": Read | Write, "read, write ,admin": verbsAll, "": 0, "read,read": 0, "root": 0, "read,": 0} {
		if got, err := ParseVerbs(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	var many []Entry
	for i := range ActiveMax {
		many = append(many, Entry{ID: ID{1, byte(i >> 8), byte(i)}, Verbs: Read, Label: "x"})
	}
	l := open(t, &memory{b: Append(nil, many)}, true)
	e, _ := made(t, "x", Read, "")
	err := l.Add(context.Background(), e)
	is(t, "too many", err, ErrFull)
	if !strings.Contains(err.Error(), "remove unused ones") {
		t.Error(err)
	}
	is(t, "remove", l.Remove(context.Background(), many[0].ID), nil)
	is(t, "add", l.Add(context.Background(), e), nil)
	many = many[:1]
	for i := range EntriesMax {
		many = append(many, Entry{ID: ID{2, byte(i >> 8), byte(i)}, Removed: true})
	}
	l = open(t, &memory{b: Append(nil, many)}, true)
	err = l.Add(context.Background(), e)
	is(t, "too many", err, ErrFull)
	if !strings.Contains(err.Error(), "give clients a token that exists, or export the sets and import them into a new store") {
		t.Error(err)
	}
}

// TestEncoding has the bytes of docs/format.md.
func TestEncoding(t *testing.T) {
	list := []Entry{{ID: ID{2}, Removed: true}, {ID: ID{1}, Hash: [32]byte{9}, Verbs: Read | Write, Prefix: []byte("u/"), Label: "app", Created: 300}}
	want := "\x01\x02" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x01" + "\x09" + strings.Repeat("\x00", 31) + "\x03" + "\xac\x02" + "\x02u/" + "\x03app" +
		"\x02\x00\x00\x00\x00\x00\x00\x00" + "\x02"
	if got := Append(nil, list); string(got) != want {
		t.Fatalf("%q", got)
	}
	back, err := Decode([]byte(want))
	if err != nil || len(back) != 2 || back[0].compare(&list[1]) != 0 || back[1].compare(&list[0]) != 0 {
		t.Fatal(back, err)
	}
	for i := range len(want) {
		if _, err := Decode([]byte(want[:i])); !errors.Is(err, ErrEntry) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	for what, b := range map[string]string{"a later version": "\x02" + want[1:], "more": want + "\x00", "twice": "\x01\x02" + strings.Repeat("\x02\x00\x00\x00\x00\x00\x00\x00\x02", 2),
		"a long number": "\x01\x80\x00", "many": "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "no state": "\x01\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03"} {
		if _, err := Decode([]byte(b)); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecode: what is taken is what Append makes of it.
func FuzzDecode(f *testing.F) {
	e, _ := made(f, "app", Read|Write, "users/")
	f.Add(Append(nil, []Entry{e, {ID: ID{7}, Removed: true}}))
	f.Add(Append(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrEntry) {
				t.Fatal(err)
			}
			return
		}
		slices.Reverse(entries)
		if !bytes.Equal(Append(nil, entries), b) {
			t.Fatal("it does not come back")
		}
		l, err := Open(&memory{b: b}, true)
		if err != nil || len(l.Entries()) != len(entries) {
			t.Fatal(err)
		}
	})
}

// TestTogether has a token removed while others are asked about: the answers change once.
func TestTogether(t *testing.T) {
	ctx := context.Background()
	l := open(t, &memory{}, true)
	g := &Guard{List: l}
	e, secret := made(t, "app", Read, "")
	is(t, "add", l.Add(ctx, e), nil)
	begun, ended := make(chan struct{}), make(chan error)
	for range 4 {
		go func() {
			grant, err := g.Authenticate([]byte(secret))
			begun <- struct{}{}
			for err == nil && grant.May(Read, []byte("x")) {
			}
			_, now := g.Authenticate([]byte(secret))
			if err == nil && !errors.Is(now, ErrSecret) {
				err = now
			}
			ended <- err
		}()
	}
	for range 4 {
		<-begun
	}
	is(t, "remove", l.Remove(ctx, e.ID), nil)
	for range 4 {
		is(t, "a client", <-ended, nil)
	}
}

// TestListMax: a list that is longer than lists get costs no memory, and none is kept that could not be read again.
func TestListMax(t *testing.T) {
	entries := make([]Entry, listMax+1)
	for i := range entries {
		entries[i] = Entry{ID: ID{0: byte(i >> 16), 1: byte(i >> 8), 2: byte(i)}, Removed: true}
	}
	_, err := Decode(Append(nil, entries))
	is(t, "a longer list", err, ErrEntry)
	disk := &memory{}
	_, err = open(t, disk, true).Merge(context.Background(), entries)
	is(t, "a longer list to take", err, ErrFull)
	_, err = open(t, disk, true).Merge(context.Background(), entries[1:])
	is(t, "the longest list", err, nil)
	if got := len(open(t, disk, true).Entries()); got != listMax {
		t.Errorf("%d entries, want %d", got, listMax)
	}
}
