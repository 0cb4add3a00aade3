package keyscheme_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

// encode is the inverse of Decode, by the Append functions.
func encode(k keyscheme.Key) []byte {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, k.Slot, k.Set))
	switch k.Kind {
	case keyscheme.KindStoreMeta:
		return k.Rest
	case keyscheme.KindClock:
		return p.AppendClock(nil)
	case keyscheme.KindClockPage:
		return p.AppendClockPage(nil, clock.Actor(k.Actor), k.Page)
	case keyscheme.KindTombstone:
		return p.AppendTombstone(nil)
	case keyscheme.KindTombstonePage:
		return p.AppendTombstonePage(nil, clock.Actor(k.Actor), k.Page)
	case keyscheme.KindElement:
		return p.AppendElement(nil, k.Element, k.Dot(), k.Op)
	case keyscheme.KindEnd:
		return p.AppendEnd(nil)
	case keyscheme.KindSlotBloom:
		return keyscheme.AppendSlotKey(nil, k.Slot, keyscheme.SlotBloom, k.Rest)
	case keyscheme.KindSlotMeta:
		return keyscheme.AppendSlotKey(nil, k.Slot, keyscheme.SlotMeta, k.Rest)
	case keyscheme.KindDirectory:
		e, _ := keyscheme.DecodeDirectoryKey(k.Rest)
		return keyscheme.AppendDirectoryKey(nil, e)
	}
	return nil
}

func names(lo, hi int) *rapid.Generator[[]byte] { return rapid.SliceOfN(rapid.Byte(), lo, hi) }

// keys draws a well-formed key of any kind, with only the fields that this kind has.
var keys = rapid.Custom(func(t *rapid.T) keyscheme.Key {
	k := keyscheme.Key{Kind: keyscheme.Kind(rapid.IntRange(1, 10).Draw(t, "kind"))}
	if k.Kind == keyscheme.KindDirectory {
		k.Slot, k.Rest = keyscheme.SlotMax, keyscheme.AppendDirectoryKey(nil, directoryEntries.Draw(t, "entry"))[9:]
		return k
	}
	if k.Kind == keyscheme.KindStoreMeta {
		k.Rest = names(1, keyscheme.StoreMetaBytesMax).Draw(t, "rest")
		return k
	}
	k.Slot = keyscheme.Slot(rapid.Uint32().Draw(t, "slot"))
	if k.Kind == keyscheme.KindSlotBloom || k.Kind == keyscheme.KindSlotMeta {
		k.Rest = names(0, 9).Draw(t, "rest")
		return k
	}
	k.Set = names(0, 9).Draw(t, "set")
	switch k.Kind {
	case keyscheme.KindClockPage, keyscheme.KindTombstonePage:
		k.Actor, k.Page = names(1, clock.ActorBytesMax).Draw(t, "actor"), rapid.Uint64().Draw(t, "page")
	case keyscheme.KindElement:
		k.Element, k.Actor = names(0, 9).Draw(t, "element"), names(1, clock.ActorBytesMax).Draw(t, "actor")
		k.Counter = rapid.Uint64Min(1).Draw(t, "counter")
		k.Op = rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "op")
	}
	return k
})

func TestKeysRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := keys.Draw(t, "key")
		key := encode(want)
		got, err := keyscheme.Decode(key)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", want) {
			t.Fatalf("%x decodes as %+v, was %+v", key, got, want)
		}
		checkHotDecoders(t, key)
	})
}

// TestDamagedKeys changes, cuts and lengthens keys: what is still accepted must encode as it was.
func TestDamagedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := encode(keys.Draw(t, "key"))
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			key = key[:rapid.IntRange(0, len(key)-1).Draw(t, "len")]
		case 1:
			key = append(key, names(1, 9).Draw(t, "tail")...)
		case 2:
			key[rapid.IntRange(0, len(key)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		checkKey(t, key)
	})
}

type failer interface{ Fatalf(string, ...any) }

// checkKey checks the rule for Decode on any bytes: it returns an error that says what is wrong, or a key that encodes as those
// bytes.
func checkKey(t failer, key []byte) {
	k, err := keyscheme.Decode(key)
	if err != nil {
		var detail *keyscheme.KeyError
		if !errors.Is(err, keyscheme.ErrMalformedKey) || !errors.As(err, &detail) || !bytes.Equal(detail.Key, key) ||
			detail.Field == "" || detail.Reason == "" || err.Error() == "" {
			t.Fatalf("Decode(%x): poor error %v", key, err)
		}
	} else if !bytes.Equal(encode(k), key) {
		t.Fatalf("Decode accepts %x, which encodes as %x", key, encode(k))
	}
	checkHotDecoders(t, key)
}

// checkHotDecoders checks that ElementDot, DotTail and DecodeElement agree with Decode.
func checkHotDecoders(t failer, key []byte) {
	k, err := keyscheme.Decode(key)
	prefixLen, actor, counter, op, ok := keyscheme.ElementDot(key)
	if want := err == nil && k.Kind == keyscheme.KindElement; ok != want {
		t.Fatalf("ElementDot(%x) = %v, Decode says %v", key, ok, want)
	}
	tail, number, about := keyscheme.DotTail(key)
	if about && err == nil && !ok {
		t.Fatalf("DotTail(%x) = %x, %d", key, tail, number)
	}
	if !ok {
		return
	}
	if !about || tail != keyscheme.ActorTail(k.Actor) || number != k.Counter {
		t.Fatalf("DotTail(%x) = %x, %d, %v", key, tail, number, about)
	}
	if prefixLen != k.PrefixLen() || !bytes.Equal(actor, k.Actor) || counter != k.Counter || op != k.Op {
		t.Fatalf("ElementDot(%x) = %d, %x, %d, %v", key, prefixLen, actor, counter, op)
	}
	if p := keyscheme.Prefix(key[:prefixLen]); p.Slot() != k.Slot || !bytes.Equal(p.Set(), k.Set) {
		t.Fatalf("the prefix of %x is of slot %x, set %x", key, p.Slot(), p.Set())
	}
	element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, key)
	if !ok || !bytes.Equal(element, k.Element) || !bytes.Equal(actor, k.Actor) || counter != k.Counter || op != k.Op {
		t.Fatalf("DecodeElement(%x) = %x, %x, %d, %v, %v", key, element, actor, counter, op, ok)
	}
}

func TestMalformedKeys(t *testing.T) {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 7, []byte("set")))
	dot := clock.Dot{Actor: "actor", Counter: 1}
	good := p.AppendElement(nil, []byte("el"), dot, keyscheme.OpAdd)
	long := func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }
	with := func(at int, b byte) []byte {
		bad := bytes.Clone(good)
		bad[at] = b
		return bad
	}
	for _, c := range []struct {
		name, field string
		key         []byte
	}{
		{"empty", "slot", nil},
		{"slot alone", "set", p[:4]},
		{"cut name", "set", p[:10]},
		{"name too long", "set", keyscheme.NewPrefix(long(keyscheme.SetNameBytesMax + 1)).AppendClock(nil)},
		{"name too long for an element key", "set", keyscheme.NewPrefix(long(keyscheme.SetNameBytesMax+1)).AppendElement(nil, nil, dot, keyscheme.OpAdd)},
		{"set alone", "designator", p},
		{"unknown designator", "designator", append(bytes.Clone(p), 'x')},
		{"clock of an actor", "actor", append(p.AppendClock(nil), "actor"...)},
		{"clock page without actor", "actor", p.AppendClockPage(nil, "", 1)},
		{"short clock page", "page", p.AppendClockPage(nil, "a", 1)[:len(p)+13]},
		{"end with a tail", "end", append(p.AppendEnd(nil), 0)},
		{"tombstone with a tail", "actor", append(p.AppendTombstone(nil), 1)},
		{"page without actor", "actor", p.AppendTombstonePage(nil, "", 1)},
		{"page of a long actor", "actor", p.AppendTombstonePage(nil, clock.Actor(long(256)), 1)},
		{"short page", "page", p.AppendTombstonePage(nil, "a", 1)[:len(p)+13]},
		{"page with a tail", "page", append(p.AppendTombstonePage(nil, "a", 1), 0)},
		{"element bound", "actor", p.AppendElementBound(nil, []byte("el"))},
		{"element too long", "element", p.AppendElement(nil, long(keyscheme.ElementBytesMax+1), dot, keyscheme.OpAdd)},
		{"no actor", "actor", p.AppendElement(nil, nil, clock.Dot{Counter: 1}, keyscheme.OpAdd)},
		{"long actor", "actor", p.AppendElement(nil, nil, clock.Dot{Actor: clock.Actor(long(256)), Counter: 1}, keyscheme.OpAdd)},
		{"counter 0", "counter", p.AppendElement(nil, nil, clock.Dot{Actor: "a"}, keyscheme.OpAdd)},
		{"no op", "counter", good[:len(good)-1]},
		{"unknown op", "op", with(len(good)-1, 'x')},
		{"tail", "counter", append(bytes.Clone(good), 0)},
		{"length of 4 GB", "element", with(len(p)+4, 0xFF)},
		{"slot namespace alone", "designator", keyscheme.SlotSets(7).Upper},
		{"slot namespace of no kind", "designator", keyscheme.AppendSlotKey(nil, 7, 'x', nil)},
	} {
		_, err := keyscheme.Decode(c.key)
		var detail *keyscheme.KeyError
		if !errors.As(err, &detail) || detail.Field != c.field {
			t.Errorf("%s: got %v, want a complaint about %s", c.name, err, c.field)
			continue
		}
		if len(err.Error()) > 600 || !strings.HasPrefix(err.Error(), "keyscheme: ") {
			t.Errorf("%s: poor text %q", c.name, err.Error())
		}
		checkKey(t, c.key)
	}
}

// TestEveryByteOfAKey puts every value into every byte of every kind of key, and truncates it at every length.
func TestEveryByteOfAKey(t *testing.T) {
	p := keyscheme.NewPrefix([]byte("set"))
	for _, key := range [][]byte{
		p.AppendElement(nil, []byte("element"), clock.Dot{Actor: "actor", Counter: 1}, keyscheme.OpAdd),
		p.AppendElement(nil, nil, clock.Dot{Actor: "a", Counter: 1 << 40}, keyscheme.OpRemove),
		p.AppendTombstonePage(nil, "actor", 1),
		p.AppendClockPage(nil, "actor", 1),
		keyscheme.AppendSlotKey(nil, 1, keyscheme.SlotMeta, []byte("rest")),
	} {
		for at := range key {
			for b := range 256 {
				bad := bytes.Clone(key)
				bad[at] = byte(b)
				checkKey(t, bad)
			}
			checkKey(t, key[:at])
		}
	}
}

func TestLongestNames(t *testing.T) {
	set, element := make([]byte, keyscheme.SetNameBytesMax), make([]byte, keyscheme.ElementBytesMax)
	actor := clock.Actor(strings.Repeat("a", clock.ActorBytesMax))
	key := keyscheme.NewPrefix(set).AppendElement(nil, element, clock.Dot{Actor: actor, Counter: 1<<64 - 1}, keyscheme.OpRemove)
	if _, err := keyscheme.Decode(key); err != nil {
		t.Error(err)
	}
	checkKey(t, key)
	if keyscheme.CheckSetName(set) != nil || keyscheme.CheckElement(element) != nil {
		t.Error("the longest names are refused")
	}
	for _, err := range []error{keyscheme.CheckSetName(append(set, 0)), keyscheme.CheckElement(append(element, 0))} {
		if !errors.Is(err, keyscheme.ErrNameTooLong) {
			t.Errorf("a name too long: %v", err)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	key := keyscheme.NewPrefix([]byte("set")).AppendElement(nil, []byte("el"), clock.Dot{Actor: "a", Counter: 1}, keyscheme.OpAdd)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := keyscheme.Decode(key); err != nil {
			t.Fatal(err)
		}
		keyscheme.ElementDot(key)
	}); n != 0 {
		t.Errorf("decoding allocates %v times", n)
	}
}

func TestDecodeElementWithAnyPrefix(t *testing.T) {
	key := keyscheme.NewPrefix([]byte("set")).AppendElement(nil, []byte("el"), clock.Dot{Actor: "a", Counter: 1}, keyscheme.OpAdd)
	for n := -2; n < len(key)+9; n++ {
		if _, _, _, _, ok := keyscheme.DecodeElement(n, key); ok != (n == 11) {
			t.Errorf("DecodeElement with a prefix of %d bytes: %v", n, ok)
		}
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := keyscheme.KindNone; k <= keyscheme.KindDirectory+1; k++ {
		if seen[k.String()] || k.String() == "" {
			t.Errorf("kind %d has the name %q", k, k)
		}
		seen[k.String()] = true
	}
	if keyscheme.OpAdd.String() != "a" || keyscheme.OpRemove.String() != "r" {
		t.Error("names of operations")
	}
}
