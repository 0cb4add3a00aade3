package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/engine"
)

// README.md shows this one.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bigset-example-")
	check(err)
	defer os.RemoveAll(dir)

	store := try(engine.Open(dir, nil)) // nil: the defaults, every write is synced
	defer store.Close()

	friends := store.Set("friends")
	try(friends.Add(ctx, "paul", "ringo"))
	paul := try(friends.Look(ctx, "paul"))             // paul.Context is what we have seen of him
	try(friends.RemoveSeen(ctx, "paul", paul.Context)) // an add that came after the look stays
	for name, err := range friends.Elements(ctx) {
		fmt.Println(try(name, err))
	}
	// Output: ringo
}

func try[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// exampleStore opens an empty store in memory.
func exampleStore() *engine.Store {
	store, err := engine.Open("data", &engine.Options{FS: vfs.NewMem()})
	check(err)
	return store
}

// A remove kills what its author had seen, and nothing newer: here paul was added again after the look.
func ExampleStore_Write() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()
	set, paul := []byte("friends"), []byte("paul")

	_, err := store.Add(ctx, set, [][]byte{paul}, bigset.WriteOptions{})
	check(err)
	seen, err := store.Look(ctx, set, paul)
	check(err)
	_, err = store.Add(ctx, set, [][]byte{paul}, bigset.WriteOptions{})
	check(err)

	result, err := store.Write(ctx, set, []bigset.Op{bigset.Remove(paul, seen.Context)}, bigset.WriteOptions{})
	check(err)
	now, err := store.Look(ctx, set, paul)
	check(err)
	fmt.Println("removed", result.Removed, "present", now.Present)
	// Output: removed 0 present true
}

// A server gives its clients tokens. What comes back is opened before it counts: a token of another element, set or store is refused.
func ExampleStore_Tokens() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()
	set, paul := []byte("friends"), []byte("paul")
	_, err := store.Add(ctx, set, [][]byte{paul}, bigset.WriteOptions{})
	check(err)

	seen, err := store.Look(ctx, set, paul)
	check(err)
	token, err := store.Tokens(set).Narrow(paul, seen.Context.Dots)
	check(err)
	sent := token.Text() // to the client, and back

	token, err = bigset.ParseToken(sent)
	check(err)
	opened, err := store.Tokens(set).Context(token, paul)
	check(err)
	result, err := store.Write(ctx, set, []bigset.Op{bigset.Remove(paul, opened)}, bigset.WriteOptions{})
	check(err)
	_, err = store.Tokens(set).Context(token, []byte("ringo"))
	fmt.Println("removed", result.Removed)
	fmt.Println(err)
	// Output:
	// removed 1
	// keyscheme: token: issued for another element
}

// Bloom filters live in the same store: a key that was marked is never denied.
func ExampleStore_Filters() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()

	seen, err := store.Filters().Create(ctx, []byte("seen"), bigset.FilterOptions{Durability: bigset.FilterSync})
	check(err)
	added, err := seen.Mark(ctx, []byte("paul"))
	check(err)
	again, err := seen.Mark(ctx, []byte("paul"))
	check(err)
	present, err := seen.Check([]byte("yoko"))
	check(err)
	fmt.Println(added, again, present)
	// Output: true false false
}

// Removing what is absent is no event.
func ExampleStore_Remove() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()

	_, err := store.Add(ctx, []byte("friends"), [][]byte{[]byte("paul")}, bigset.WriteOptions{})
	check(err)
	result, err := store.Remove(ctx, []byte("friends"), [][]byte{[]byte("paul"), []byte("yoko")}, bigset.WriteOptions{})
	check(err)
	fmt.Println("removed", result.Removed, "events", len(result.Delta.Items))
	// Output: removed 1 events 1
}

// Two replicas that have exchanged their deltas hold the same set, in whatever order they came and how often. An add that
// is concurrent with a remove wins.
func ExampleReplica_ApplyDelta() {
	ctx := context.Background()
	here, there := exampleStore(), exampleStore()
	defer here.Close()
	defer there.Close()
	set, paul := []byte("friends"), [][]byte{[]byte("paul")}

	added, err := here.Add(ctx, set, paul, bigset.WriteOptions{})
	check(err)
	check(there.Replica().ApplyDelta(ctx, added.Delta, bigset.ApplyOptions{}))

	removed, err := here.Remove(ctx, set, paul, bigset.WriteOptions{})
	check(err)
	again, err := there.Add(ctx, set, paul, bigset.WriteOptions{})
	check(err)

	check(there.Replica().ApplyDelta(ctx, removed.Delta, bigset.ApplyOptions{}))
	check(there.Replica().ApplyDelta(ctx, removed.Delta, bigset.ApplyOptions{}))
	check(here.Replica().ApplyDelta(ctx, again.Delta, bigset.ApplyOptions{}))
	for _, store := range []*engine.Store{here, there} {
		found, err := store.Look(ctx, set, []byte("paul"))
		check(err)
		fmt.Println(found.Present, len(found.Context.Dots))
	}
	// Output:
	// true 1
	// true 1
}

// A read is bounded, ordered by the bytes of the elements, and can be resumed behind any element.
func ExampleStore_Read() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()
	set := []byte("friends")
	var names [][]byte
	for _, n := range []string{"paul", "pete", "george", "john", "ringo"} {
		names = append(names, []byte(n))
	}
	_, err := store.Add(ctx, set, names, bigset.WriteOptions{})
	check(err)

	page := bigset.ReadOptions{To: []byte("q"), Limit: 3}
	for range 2 {
		for chunk, err := range store.Read(ctx, set, page) {
			check(err)
			for _, e := range chunk.Elements {
				fmt.Printf("%s\n", e.Name)
				page.After = e.Name
			}
		}
		fmt.Println("--")
	}
	// Output:
	// george
	// john
	// paul
	// --
	// pete
	// --
}

// A dropped set is empty and stays known: its clock keeps counters from starting again.
func ExampleStore_Drop() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()
	set := []byte("friends")
	_, err := store.Add(ctx, set, [][]byte{[]byte("paul"), []byte("ringo")}, bigset.WriteOptions{})
	check(err)
	_, err = store.Drop(ctx, set, bigset.DropOptions{})
	check(err)
	for info, err := range store.Sets(ctx, bigset.SetsOptions{Empty: true}) {
		check(err)
		fmt.Printf("%s: %d live of %d seen\n", info.Name, info.Live, info.Seen)
	}
	// Output: friends: 0 live of 2 seen
}

// Verify proves that every live dot has exactly one key, and every key its dot in the clock.
func ExampleStore_Verify() {
	ctx, store := context.Background(), exampleStore()
	defer store.Close()
	_, err := store.Add(ctx, []byte("friends"), [][]byte{[]byte("paul"), []byte("ringo")}, bigset.WriteOptions{})
	check(err)
	report, err := store.Verify(ctx, engine.VerifyOptions{})
	check(err)
	fmt.Println(report.OK(), report.Elements, "elements", report.LiveDots, "live dots", report.LiveKeys, "live keys")
	// Output: true 2 elements 2 live dots 2 live keys
}

// Errors are sentinels for errors.Is; those of limits say by how much.
func ExampleLimitError() {
	store := exampleStore()
	defer store.Close()
	_, err := store.Look(context.Background(), []byte("friends"), make([]byte, bigset.ElementBytesMax+1))
	var limit *bigset.LimitError
	fmt.Println(errors.Is(err, bigset.ErrLimit), errors.As(err, &limit), limit.Got-limit.Max)
	// Output: true true 1
}

// An exporter is a loop: each metric has its name, kind and help. Here is one line of what Prometheus reads.
func ExampleStats_Metrics() {
	store, err := engine.Open("store", &engine.Options{FS: vfs.NewMem(), BackgroundInterval: -1})
	check(err)
	_, err = store.Add(bg, []byte("friends"), [][]byte{[]byte("paul"), []byte("ringo")}, bigset.WriteOptions{})
	check(err)
	stats, err := store.Stats()
	check(err)
	for m := range stats.Metrics() {
		if m.Name == "keys_added" {
			fmt.Printf("# HELP bigset_%s %s\n# TYPE bigset_%s %s\nbigset_%s %v\n", m.Name, m.Help, m.Name, m.Kind, m.Name, m.Value)
		}
	}
	check(store.Close())
	// Output:
	// # HELP bigset_keys_added element keys written by operations
	// # TYPE bigset_keys_added counter
	// bigset_keys_added 2
}

// A checkpoint is a copy of a store in use, and a store of its own: it never counts on under the same actor.
func ExampleStore_Checkpoint() {
	fs := vfs.NewMem()
	store, err := engine.Open("store", &engine.Options{FS: fs, BackgroundInterval: -1})
	check(err)
	friends := []byte("friends")
	_, err = store.Add(bg, friends, [][]byte{[]byte("paul")}, bigset.WriteOptions{})
	check(err)
	check(store.Checkpoint(bg, "monday"))
	_, err = store.Drop(bg, friends, bigset.DropOptions{})
	check(err)

	_, err = engine.Restore(bg, "monday", "restored", &engine.RestoreOptions{FS: fs})
	check(err)
	restored, err := engine.Open("restored", &engine.Options{FS: fs, BackgroundInterval: -1})
	check(err)
	paul, err := restored.Look(bg, friends, []byte("paul"))
	check(err)
	fmt.Println(paul.Present, restored.Replica().Actor() != store.Replica().Actor())
	check(restored.Close())
	check(store.Close())
	// Output: true true
}
