package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/keyscheme"
)

// damaged is the small store that the tests of Verify damage: the set s holds a, b and c; x, y and a's first dot are dead.
// The sets around it are never touched.
type damaged struct {
	*pebble.DB
	prefix     keyscheme.Prefix
	seen, dead *clock.Clock
	actor      clock.Actor
	keys       map[clock.Dot]string // the elements of s by their dots, dead ones too
}

var damagedSets = []string{"q", "r", "s", "s\x00", "t"}

// damage makes such a store, and has plant change its records as no engine would.
func damage(t *testing.T, record compaction.Record, plant func(d *damaged)) *engine.Options {
	t.Helper()
	o := &engine.Options{FS: vfs.NewMem(), Record: record, Strategy: compaction.None(), Logger: silent, BackgroundInterval: -1}
	s, err := engine.Open("store", o)
	must(t, err, "open")
	for _, set := range damagedSets {
		for _, elements := range []string{"a", "a b c x y"} {
			_, err := s.Add(bg, []byte(set), bytes.Fields([]byte(elements)), bigset.WriteOptions{})
			must(t, err, "add")
		}
		_, err = s.Remove(bg, []byte(set), bytes.Fields([]byte("x y")), bigset.WriteOptions{})
		must(t, err, "remove")
	}
	d := &damaged{prefix: keyscheme.NewPrefix([]byte("s")), actor: s.Replica().Actor()}
	d.seen, d.dead, err = s.SeenAndDead([]byte("s"))
	must(t, err, "clocks")
	d.seen, d.dead = d.seen.Clone(), d.dead.Clone()
	d.keys, err = s.StoredKeys([]byte("s"))
	must(t, err, "keys")
	must(t, s.Close(), "close")

	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = o.FS, pebbleSilent{}
	d.DB, err = pebble.Open("store", po)
	must(t, err, "open with Pebble")
	plant(d)
	must(t, d.Close(), "close Pebble")
	return o
}

type pebbleSilent struct{}

func (pebbleSilent) Infof(string, ...any)  {}
func (pebbleSilent) Errorf(string, ...any) {}
func (pebbleSilent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func (d *damaged) put(key, value []byte) {
	if err := d.Set(key, value, pebble.Sync); err != nil {
		panic(err)
	}
}

func (d *damaged) remove(key []byte) {
	if err := d.Delete(key, pebble.Sync); err != nil {
		panic(err)
	}
}

// clock writes a clock that tells of the tombstone.
func (d *damaged) clock(v keyscheme.ClockValue) {
	v.Flags |= keyscheme.FlagTombstone
	d.put(d.prefix.AppendClock(nil), keyscheme.AppendClockValue(nil, v))
}

func (d *damaged) tombstone(dead *clock.Clock) {
	d.put(d.prefix.AppendTombstone(nil), keyscheme.AppendTombstoneValue(nil, dead))
}

const bothPaged = keyscheme.FlagClockPages | keyscheme.FlagTombstonePages

// page writes a page of a clock or a tombstone.
func (d *damaged) page(key func([]byte, clock.Actor, uint64) []byte, a clock.Actor, n uint64, c *clock.Clock) {
	d.put(key(nil, a, n), keyscheme.AppendTombstoneValue(nil, c))
}

// drop takes away the keys of an element, dead or not.
func (d *damaged) drop(element string) {
	for dot, name := range d.keys {
		if name == element {
			d.remove(d.prefix.AppendElement(nil, []byte(name), dot, keyscheme.OpAdd))
		}
	}
}

// element writes an element key that is not there yet.
func (d *damaged) element(name string, dot clock.Dot, value []byte) {
	d.put(d.prefix.AppendElement(nil, []byte(name), dot, keyscheme.OpAdd), value)
}

// dotOf returns the dot of an element's key, a live or a dead one.
func (d *damaged) dotOf(element string, dead bool) clock.Dot {
	for dot, name := range d.keys {
		if name == element && d.dead.Contains(dot) == dead {
			return dot
		}
	}
	panic("no such dot")
}

// next is a dot that the set has not seen.
func (d *damaged) next() clock.Dot {
	return clock.Dot{Actor: d.actor, Counter: d.seen.Max(d.actor) + 1}
}

// plus returns c and a few dots more.
func plus(c *clock.Clock, dots ...clock.Dot) *clock.Clock {
	c = c.Clone()
	for _, dot := range dots {
		c.Add(dot)
	}
	return c
}

// TestVerifyFinds: each damage is found, as what it is and as nothing else; a store without damage has none.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	const garbage = "\xA5garbage"
	for _, c := range []struct {
		what  string
		plant func(d *damaged)
		want  []string // a part of each problem, in order; of set s, where no other is named
	}{
		{"nothing", func(*damaged) {}, nil},
		{"a live dot has no key", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
		}, []string{"live dots %x:9-9 have no key"}},
		{"live dots have no keys, in two places", func(d *damaged) {
			seen := plus(d.seen, d.next(), clock.Dot{Actor: "z", Counter: 7})
			seen.AddRange(d.actor, 21, 29)
			d.clock(keyscheme.ClockValue{Seen: seen})
		}, []string{"live dots 7a:7-7 have no key", "live dots %x:9-9 have no key", "live dots %x:21-29 have no key"}},
		{"a removed element is back", func(d *damaged) {
			dead := d.dead.Clone()
			dead.Subtract(clock.Of(d.dotOf("x", true)))
			d.tombstone(dead)
		}, nil}, // it can't be told from an add: that is why tombstones never subtract
		{"a key's dot was never seen", func(d *damaged) {
			d.element("b", d.next(), keyscheme.ResolvedValue)
		}, []string{`"b": dot %x:9 has a key and is not in the clock`}},
		{"a key of an unknown actor", func(d *damaged) {
			d.element("new", clock.Dot{Actor: "z", Counter: 1}, keyscheme.ResolvedValue)
		}, []string{`"new": dot 7a:1 has a key and is not in the clock`}},
		{"a live dot has two keys", func(d *damaged) {
			d.element("d", d.dotOf("b", false), keyscheme.ResolvedValue)
		}, []string{`"d": dot %x:3 has two keys`}},
		{"a dead dot has two keys", func(d *damaged) {
			d.element("d", d.dotOf("x", true), keyscheme.ResolvedValue)
		}, []string{`"x": dot %x:5 has two keys`}},
		{"a live dot's key is no add", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
			d.put(d.prefix.AppendElement(nil, []byte("b"), d.next(), keyscheme.OpRemove), keyscheme.ResolvedValue)
		}, []string{`"b": dot %x:9 is live and its key is no add`}},
		{"the clock is garbage", func(d *damaged) {
			d.put(d.prefix.AppendClock(nil), []byte(garbage))
		}, []string{"clock: "}},
		{"the clock is empty", func(d *damaged) {
			d.put(d.prefix.AppendClock(nil), nil)
		}, []string{"clock: "}},
		{"the tombstone is garbage", func(d *damaged) {
			d.put(d.prefix.AppendTombstone(nil), []byte(garbage))
		}, []string{"tombstone: "}},
		{"clock and tombstone are garbage", func(d *damaged) {
			d.put(d.prefix.AppendClock(nil), []byte(garbage))
			d.put(d.prefix.AppendTombstone(nil), []byte(garbage))
		}, []string{"clock: ", "tombstone: "}},
		{"Dead is beyond Seen", func(d *damaged) {
			d.tombstone(plus(d.dead, d.next()))
		}, []string{"the tombstone holds dots that the clock has not seen"}},
		{"elements without a clock", func(d *damaged) {
			d.remove(d.prefix.AppendClock(nil))
			d.remove(d.prefix.AppendTombstone(nil))
		}, []string{"elements without a clock"}},
		{"a tombstone and elements without a clock", func(d *damaged) {
			d.remove(d.prefix.AppendClock(nil))
		}, []string{"a tombstone without a clock"}},
		{"a tombstone alone", func(d *damaged) {
			d.prefix = keyscheme.NewPrefix([]byte("alone"))
			d.tombstone(d.dead)
		}, []string{"of alone: a tombstone without a clock"}},
		{"an element alone", func(d *damaged) {
			d.prefix = keyscheme.NewPrefix([]byte("alone"))
			d.element("a", d.next(), keyscheme.ResolvedValue)
			d.element("b", d.next(), keyscheme.ResolvedValue)
		}, []string{"of alone: elements without a clock"}},
		{"a malformed key", func(d *damaged) {
			d.put(append(d.prefix.AppendElement(nil, []byte("b"), d.next(), keyscheme.OpAdd), 'x'), keyscheme.ResolvedValue)
		}, []string{"of : keyscheme: malformed key"}},
		{"an unknown key of a set", func(d *damaged) {
			d.put(append(slices.Clone(d.prefix), 'q'), nil)
		}, []string{"of : keyscheme: malformed key"}},
		{"a wrong slot", func(d *damaged) {
			d.prefix = keyscheme.AppendPrefix(nil, d.prefix.Slot()^1, []byte("s"))
			d.element("b", d.dotOf("b", false), keyscheme.ResolvedValue)
			d.element("c", d.dotOf("b", false), keyscheme.ResolvedValue)
		}, []string{"keys in slot "}},
		{"a wrong slot, a whole set", func(d *damaged) {
			d.prefix = keyscheme.AppendPrefix(nil, d.prefix.Slot()+1, []byte("s"))
			d.clock(keyscheme.ClockValue{Seen: d.seen})
			d.tombstone(d.dead)
		}, []string{"keys in slot "}},
		{"a stored end", func(d *damaged) {
			d.put(d.prefix.AppendEnd(nil), nil)
		}, []string{"a key of kind end is stored"}},
		{"the tombstone is gone", func(d *damaged) {
			d.remove(d.prefix.AppendTombstone(nil))
		}, []string{"the tombstone is gone", "live dots %x:7-8 have no key"}},
		{"the flag of the tombstone is gone", func(d *damaged) {
			d.put(d.prefix.AppendClock(nil), keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: d.seen}))
		}, []string{"the clock does not tell of the tombstone"}},
		{"pages that nobody looks at", func(d *damaged) {
			d.put(d.prefix.AppendTombstonePage(nil, d.actor, 1), keyscheme.AppendTombstoneValue(nil, nil))
			d.page(d.prefix.AppendTombstonePage, d.actor, 0, d.seen)
			d.page(d.prefix.AppendClockPage, "z", 0, clock.Of(clock.Dot{Actor: "z", Counter: 1}))
		}, nil},
		{"a clock and a tombstone in pages", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Flags: bothPaged})
			d.tombstone(nil)
			d.page(d.prefix.AppendClockPage, d.actor, 0, d.seen)
			d.page(d.prefix.AppendTombstonePage, d.actor, 0, d.dead)
		}, nil},
		{"a page of the tombstone is gone", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Flags: bothPaged})
			d.tombstone(nil)
			d.drop("x")
		}, []string{"live dots %x:5-5 have no key", "live dots %x:7-8 have no key"}},
		{"a page of the clock is gone", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Flags: bothPaged})
			for _, e := range []string{"a", "b", "c", "x", "y"} {
				d.drop(e)
			}
		}, []string{"the tombstone holds dots that the clock has not seen"}},
		{"the flag of pages is gone", func(d *damaged) {
			d.tombstone(nil)
			d.page(d.prefix.AppendTombstonePage, d.actor, 0, d.dead)
			d.drop("x")
		}, []string{"live dots %x:5-5 have no key", "live dots %x:7-8 have no key"}},
		{"pages are garbage", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Flags: bothPaged})
			d.put(d.prefix.AppendTombstonePage(nil, d.actor, 7), []byte(garbage))
		}, []string{"page 7 of actor %x of the tombstone: "}},
		{"a page of the clock is garbage", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Flags: bothPaged})
			d.put(d.prefix.AppendClockPage(nil, d.actor, 7), []byte(garbage))
		}, []string{"page 7 of actor %x of the clock: "}},
		{"pages of another actor and another page", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Flags: bothPaged})
			dead := clock.Of(clock.Dot{Actor: "z", Counter: 9 << 16})
			d.page(d.prefix.AppendTombstonePage, "y", 9, dead)
			d.page(d.prefix.AppendTombstonePage, "z", 8, dead)
			d.page(d.prefix.AppendTombstonePage, "z", 9, dead)
		}, []string{"page 9 of actor 79 of the tombstone holds dots of actor 7a", "page 8 of actor 7a of the tombstone holds dots of other pages",
			"the tombstone holds dots that the clock has not seen"}},
		{"pages without a clock", func(d *damaged) {
			d.remove(d.prefix.AppendClock(nil))
			d.page(d.prefix.AppendClockPage, d.actor, 0, d.seen)
		}, []string{"a page of a clock without a clock"}},
		{"an unresolved key too many is counted, as after a crash", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Unresolved: 2})
		}, nil},
		{"fewer than no unresolved keys are counted", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Unresolved: -1})
		}, []string{"the clock counts -1 unresolved keys, there are 0"}},
		{"an unresolved key that is not counted", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
			d.element("b", d.next(), keyscheme.AppendElementValue(nil, d.seen))
		}, []string{"the clock counts 0 unresolved keys, there are 1"}},
		{"a remove that is not open", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
			d.put(d.prefix.AppendElement(nil, []byte("b"), d.next(), keyscheme.OpRemove), keyscheme.ResolvedValue)
		}, []string{`"b": dot %x:9 is live and its key is no add`}},
		{"an element's value is garbage", func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
			d.element("b", d.next(), []byte(garbage))
		}, []string{`"b": value: `}},
	} {
		for _, record := range []compaction.Record{compaction.Merge, compaction.Set} {
			t.Run(fmt.Sprintf("%s/%s", c.what, record), func(t *testing.T) {
				var actor clock.Actor
				o := damage(t, record, func(d *damaged) { actor = d.actor; c.plant(d) })
				s, err := engine.Open("store", o)
				must(t, err, "open")
				defer func() { must(t, s.Close(), "close") }()
				for range 2 { // in memory and from tables it is the same
					rep, err := s.Verify(bg, engine.VerifyOptions{})
					must(t, err, "verify")
					checkProblems(t, &rep, actor, c.want)
					must(t, s.FlushTables(), "flush")
				}
				for _, set := range damagedSets {
					rep, err := s.Verify(bg, engine.VerifyOptions{Set: []byte(set)})
					must(t, err, "verify one set")
					if set != "s" && !rep.OK() {
						t.Errorf("set %q: %+v", set, rep.Problems)
					}
				}
			})
		}
	}
}

// checkProblems compares a report with a part of each problem that it should name.
func checkProblems(t *testing.T, rep *engine.VerifyReport, actor clock.Actor, want []string) {
	t.Helper()
	if rep.OK() != (len(want) == 0) || rep.ProblemCount != len(rep.Problems) || rep.ProblemCount != len(want) {
		t.Errorf("%d problems %q, want %d: %q", rep.ProblemCount, rep.Problems, len(want), want)
		return
	}
	texts := make([]string, len(want))
	for i, p := range rep.Problems {
		texts[i] = fmt.Sprintf("of %s: %q: %s", p.Set, p.Element, p.What)
	}
	for _, part := range want {
		part = strings.ReplaceAll(part, "%x", fmt.Sprintf("%x", string(actor)))
		set, text, named := strings.Cut(strings.TrimPrefix(part, "of "), ": ")
		if named = named && strings.HasPrefix(part, "of "); !named {
			set, text = "s", part
		}
		if !slices.ContainsFunc(texts, func(s string) bool {
			return strings.HasPrefix(s, "of "+set+": ") && strings.Contains(s, text)
		}) {
			t.Errorf("problems %q, want %q of set %q", texts, text, set)
		}
	}
}

// TestVerifyCounts: what the report counts of a store without damage.
func TestVerifyCounts(t *testing.T) {
	o := damage(t, compaction.Merge, func(*damaged) {})
	s, err := engine.Open("store", o)
	must(t, err, "open")
	defer func() { must(t, s.Close(), "close") }()
	n := uint64(len(damagedSets))
	for _, c := range []struct {
		set  []byte
		sets uint64
	}{{nil, n}, {[]byte("s"), 1}, {[]byte("none"), 0}} {
		got, err := s.Verify(bg, engine.VerifyOptions{Set: c.set})
		must(t, err, "verify")
		want := engine.VerifyReport{
			Sets: int(c.sets), Keys: 6 * c.sets, LiveKeys: 3 * c.sets, DeadKeys: 3 * c.sets, LiveDots: 3 * c.sets, Elements: 3 * c.sets,
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("set %q: %+v, want %+v", c.set, got, want)
		}
	}
}

// TestVerifyMany: problems beyond the first are counted, not named.
func TestVerifyMany(t *testing.T) {
	const gaps = 3 * engine.ProblemsMax
	o := damage(t, compaction.Merge, func(d *damaged) {
		seen := d.seen.Clone()
		for i := range uint64(gaps) {
			seen.Add(clock.Dot{Actor: "z", Counter: 2*i + 2})
		}
		d.clock(keyscheme.ClockValue{Seen: seen})
	})
	s, err := engine.Open("store", o)
	must(t, err, "open")
	defer func() { must(t, s.Close(), "close") }()
	rep, err := s.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
	if rep.ProblemCount != gaps || len(rep.Problems) != engine.ProblemsMax {
		t.Errorf("%d problems, %d named, want %d and %d", rep.ProblemCount, len(rep.Problems), gaps, engine.ProblemsMax)
	}
}

// TestVerifyGarbageOperand: an operand that can't be united with a clock or a tombstone is reported; it stops neither
// flushes nor compactions, nor writes to other sets.
func TestVerifyGarbageOperand(t *testing.T) {
	for what, key := range map[string]func(d *damaged) []byte{
		"clock":     func(d *damaged) []byte { return d.prefix.AppendClock(nil) },
		"tombstone": func(d *damaged) []byte { return d.prefix.AppendTombstone(nil) },
	} {
		for _, operand := range []string{"\xA5garbage", "", "\xFF", "\xFF\xFF", "\x01", "\x01\xFF\x00"} {
			t.Run(fmt.Sprintf("%s/%x", what, operand), func(t *testing.T) {
				var actor clock.Actor
				o := damage(t, compaction.Merge, func(d *damaged) {
					actor = d.actor
					if err := d.Merge(key(d), []byte(operand), pebble.Sync); err != nil {
						t.Fatal(err)
					}
				})
				s, err := engine.Open("store", o)
				must(t, err, "open")
				verify := func() {
					t.Helper()
					rep, err := s.Verify(bg, engine.VerifyOptions{})
					must(t, err, "verify")
					checkProblems(t, &rep, actor, []string{what + ": "})
				}
				verify()
				_, err = s.Add(bg, []byte("t"), [][]byte{[]byte("new")}, bigset.WriteOptions{Durability: bigset.Sync})
				must(t, err, "add to another set")
				must(t, s.FlushTables(), "flush")
				verify()
				must(t, s.CompactTables(bg), "compact")
				verify()
				must(t, s.Close(), "close")
			})
		}
	}
}

// TestVerifyHoldsUpTheFilter removes an element, and lets the drop filter have it, while Verify is about to come to its key: what it
// reads is of one moment all the same.
func TestVerifyHoldsUpTheFilter(t *testing.T) {
	p := newPair("store")
	p.opt.MemTableBytes = 16 << 20
	p.open(t)
	var names [][]byte
	for i := range 10_000 {
		names = append(names, fmt.Appendf(nil, "%05d", i))
	}
	_, err := p.store.Add(bg, []byte("s"), names, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
	must(t, err, "add")
	last, told := names[len(names)-1:], 0
	rep, err := p.store.Verify(bg, engine.VerifyOptions{Progress: func(engine.VerifyReport) {
		if told++; told > 1 {
			return
		}
		_, err := p.store.Remove(bg, []byte("s"), last, bigset.WriteOptions{})
		must(t, err, "remove")
		for i := range 4 { // each time another set has something for the drop filter, too
			must(t, p.store.PublisherRound(), "publish")
			set := fmt.Appendf(nil, "t%d", i)
			for range 2 { // the second replaces the first
				_, err = p.store.Add(bg, set, last, bigset.WriteOptions{})
				must(t, err, "add")
			}
		}
	}})
	must(t, err, "verify")
	if told == 0 || !rep.OK() {
		t.Errorf("told %d times, %+v", told, rep)
	}
	for range 3 {
		must(t, p.store.PublisherRound(), "publish")
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestTombstoneGone: a set whose tombstone is gone is not read as one in which nothing was ever removed.
func TestTombstoneGone(t *testing.T) {
	for _, flags := range []keyscheme.ClockFlags{0, bothPaged} {
		s, err := engine.Open("store", damage(t, compaction.Merge, func(d *damaged) {
			d.clock(keyscheme.ClockValue{Seen: d.seen, Flags: flags})
			d.remove(d.prefix.AppendTombstone(nil))
		}))
		must(t, err, "open")
		if _, err := s.Look(bg, []byte("s"), []byte("x")); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("flags %03b: look-up: %v", flags, err)
		}
		if _, err := s.Add(bg, []byte("s"), [][]byte{{'x'}}, bigset.WriteOptions{}); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("flags %03b: add: %v", flags, err)
		}
		for _, err = range s.Sets(bg, bigset.SetsOptions{Empty: true}) {
			if err != nil {
				break
			}
		}
		if !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("flags %03b: list of sets: %v", flags, err)
		}
		must(t, s.Close(), "close")
	}
}

// TestNoTombstone: a set tells of a tombstone from its first remove on, and not before.
func TestNoTombstone(t *testing.T) {
	s, err := engine.Open("store", &engine.Options{FS: vfs.NewMem(), Logger: silent, SetCacheBytes: 1})
	must(t, err, "open")
	defer func() { must(t, s.Close(), "close") }()
	for i, kind := range []keyscheme.Op{keyscheme.OpAdd, keyscheme.OpAdd, keyscheme.OpRemove, keyscheme.OpAdd} {
		element := []byte{"xyxz"[i]}
		_, err = s.Write(bg, []byte("s"), []bigset.Op{{Kind: kind, Element: element}}, bigset.WriteOptions{})
		must(t, err, "write")
		for range 3 { // it is loaded anew by the next write
			must(t, s.PublisherRound(), "publish")
			must(t, s.TrimSets(), "trim")
		}
		flags, err := s.ClockFlags([]byte("s"))
		must(t, err, "clock")
		if told := flags&keyscheme.FlagTombstone != 0; told != (i >= 2) {
			t.Errorf("after write %d: flags %04b", i, flags)
		}
	}
}
