package bloomd_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// TestClientKeys has the client send all keys that the protocol can carry, and only those.
func TestClientKeys(t *testing.T) {
	t.Parallel()
	c := start(t, bloomdtest.NewMemory(), door.Options{}).client()
	f := []byte("f")
	if created, err := c.Create(f, door.FilterCreate{}); err != nil || !created {
		t.Fatal(created, err)
	}
	for _, key := range []string{"a", " ", "a b", " a ", "\r", "a\r", "a\r\r", "\x00", "a\x00b", "\xff", "START", "a\t"} {
		if yes, err := c.Check(f, []byte(key)); err != nil || yes {
			t.Errorf("check %q before: %v, %v", key, yes, err)
		}
		for _, want := range []bool{true, false} {
			if yes, err := c.Set(f, []byte(key)); err != nil || yes != want {
				t.Errorf("set %q: %v, %v", key, yes, err)
			}
		}
		if yes, err := c.Check(f, []byte(key)); err != nil || !yes {
			t.Errorf("check %q: %v, %v", key, yes, err)
		}
	}
	for _, keys := range [][]string{{"p"}, {""}, {"p", "q", "\r"}, {"q\r", "r\r"}, {"", "s", ""}, {"", "", "t"}, {"\x00", "u", "\x00"}} {
		g, all := []byte("g"), [][]byte{}
		for _, k := range keys {
			all = append(all, []byte(k))
		}
		if err := c.Drop(g); err != nil && !errors.Is(err, bloomd.ErrNoFilter) {
			t.Fatal(err)
		}
		if _, err := c.Create(g, door.FilterCreate{}); err != nil {
			t.Fatal(err)
		}
		added, err := c.Bulk(g, all)
		if err != nil {
			t.Errorf("bulk %q: %v", keys, err)
		}
		for i, yes := range added {
			if want := slices.Index(keys, keys[i]) == i; yes != want {
				t.Errorf("bulk %q: %v", keys, added)
			}
		}
		if there, err := c.Multi(g, all); err != nil || slices.Contains(there, false) {
			t.Errorf("multi %q: %v, %v", keys, there, err)
		}
		if there, err := c.Multi(g, [][]byte{[]byte("x"), []byte(keys[0]), []byte("y\r")}); err != nil || !slices.Equal(there, []bool{false, true, false}) {
			t.Errorf("multi of others than %q: %v, %v", keys, there, err)
		}
	}
	wantUnsendable := func(err error) {
		t.Helper()
		if !errors.Is(err, bloomd.ErrUnsendable) {
			t.Error(err)
		}
	}
	_, err := c.Set(f, nil)
	wantUnsendable(err)
	_, err = c.Check(f, []byte("a\nb"))
	wantUnsendable(err)
	_, err = c.Check([]byte("f g"), []byte("a"))
	wantUnsendable(err)
	_, err = c.Bulk(f, [][]byte{[]byte("a b")})
	wantUnsendable(err)
	wantUnsendable(c.Drop([]byte("f\ndrop")))
	_, err = c.List([]byte("\n"))
	wantUnsendable(err)
}

func TestClientCommands(t *testing.T) {
	t.Parallel()
	c := start(t, bloomdtest.NewMemory(), door.Options{}).client()
	name, capacity, prob, yes := []byte("f"), uint64(20_000), 1e-9, false
	o := door.FilterCreate{Capacity: &capacity, Probability: &prob, InMemory: &yes}
	for _, want := range []bool{true, false} {
		if created, err := c.Create(name, o); err != nil || created != want {
			t.Errorf("create: %v, %v", created, err)
		}
	}
	capacity = 5
	var refusal bloomd.Refusal
	for _, err := range []error{c.Clear(name), c.Drop([]byte("x")), c.Flush([]byte("x")), c.CloseFilter(nil)} {
		if err == nil || errors.As(err, &refusal) {
			t.Error(err)
		}
	}
	if _, err := c.Create(name, o); !errors.Is(err, bloomd.ErrOptions) {
		t.Error(err)
	}
	if _, err := c.Create([]byte("a\tb"), door.FilterCreate{}); !errors.As(err, &refusal) || refusal != "Client Error: Bad filter name" {
		t.Error(err)
	}
	if _, err := c.Set(name, []byte("k")); err != nil {
		t.Error(err)
	}
	if _, err := c.Check(name, []byte("l")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Flush(name), c.FlushAll(), c.CloseFilter(name)); err != nil {
		t.Error(err)
	}
	want := door.FilterInfo{Name: "f", SetHits: 1, CheckMisses: 1, PageOuts: 1}
	want.Capacity, want.Size = 20_000, 1
	info, err := c.Info(name)
	want.Storage = info.Storage
	if err != nil || info != want || info.Storage < 20_000 {
		t.Errorf("info: %+v, %v; want %+v", info, err, want)
	}
	list, err := c.List([]byte("f"))
	if err != nil || len(list) != 1 || list[0].Name != "f" || list[0].Figures != want.Figures || math.Abs(list[0].Probability) > 1e-6 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if list, err = c.List([]byte("g")); err != nil || len(list) != 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := errors.Join(c.Clear(name), c.Close()); err != nil {
		t.Error(err)
	}
	if err := c.FlushAll(); err == nil {
		t.Error("a closed client has an answer")
	}
}
