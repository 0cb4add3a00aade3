package api

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
)

// after is what AppendAll is given.
type after struct {
	all  bool
	name []byte
}

func decodeAfter(b []byte) (any, error) {
	all, name, err := DecodeAll(b)
	return &after{all, name}, err
}

// oneDead are the dead dots of a body.
var oneDead = clock.Of(clock.Dot{Actor: "b", Counter: 7})

// bodies are one body of each shape, with the value it is of and the bytes that other versions of this program wrote.
var bodies = []struct {
	name   string
	value  any
	golden string
	append func(any) []byte
	decode func([]byte) (any, error)
}{
	{"write", &door.Write{Set: []byte("s"), Policy: bigset.PolicyEmpty, Context: []byte("W"), Quorum: door.Quorum{W: 2, DW: 1}, Request: []byte("id"),
		Retry: true, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}, {Kind: keyscheme.OpRemove, Element: []byte("b"), Context: []byte("N")}}},
		"010173010157020202696401000201016100020162014e",
		func(v any) []byte { return AppendWrite(nil, v.(*door.Write)) },
		func(b []byte) (any, error) { v, err := DecodeWrite(b); return &v, err }},
	{"written", &door.Result{Contexts: []door.Token{[]byte("N"), nil}, Removed: 3, Acked: 2, Durable: 1}, "0103020102014e00",
		func(v any) []byte { return AppendResult(nil, v.(*door.Result)) },
		func(b []byte) (any, error) { v, err := DecodeResult(b); return &v, err }},
	{"write for changes", &door.Write{Set: []byte("s"), Quorum: door.Quorum{W: 2, DW: 1}, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}, Changes: true},
		"02017300000202000000010101610001",
		func(v any) []byte { return AppendWrite(nil, v.(*door.Write)) },
		func(b []byte) (any, error) { v, err := DecodeWrite(b); return &v, err }},
	{"written with changes", &door.Result{Changed: []bool{true, false}, Removed: 3, Acked: 2, Durable: 1}, "0203020100020100",
		func(v any) []byte { return AppendResult(nil, v.(*door.Result)) },
		func(b []byte) (any, error) { v, err := DecodeResult(b); return &v, err }},
	{"subset", &door.Subset{Set: []byte("s"), Elements: [][]byte{[]byte("a"), []byte("bc")}, R: 2}, "010173020201610262" + "63",
		func(v any) []byte { return AppendSubset(nil, v.(*door.Subset)) },
		func(b []byte) (any, error) { v, err := DecodeSubset(b); return &v, err }},
	{"presences", []door.Presence{{Present: true, Context: []byte("N")}, {}}, "010201014e0000",
		func(v any) []byte { return AppendPresences(nil, v.([]door.Presence)) },
		func(b []byte) (any, error) { return DecodePresences(b) }},
	{"read", &door.Read{Set: []byte("s"), From: []byte("a"), To: []byte("z"), Prefix: []byte("p"), After: []byte("C"), Reverse: true, Limit: 300, Batch: 5, R: 1},
		"0101730161017a017001430100ac020501",
		func(v any) []byte { return AppendRead(nil, v.(*door.Read)) },
		func(b []byte) (any, error) { v, err := DecodeRead(b); return &v, err }},
	{"part", &door.Part{Elements: []door.Element{{Name: []byte("a"), Context: []byte("N")}}, Context: []byte("W"), After: []byte("C"), Done: true},
		"0101015701430101" + "61014e",
		func(v any) []byte { return AppendPart(nil, v.(*door.Part)) },
		func(b []byte) (any, error) { var v door.Part; err := DecodePart(&v, b); return &v, err }},
	{"count", &door.Count{Elements: 1 << 40, Context: []byte("W")}, "01808080808020" + "0157",
		func(v any) []byte { return AppendCount(nil, v.(*door.Count)) },
		func(b []byte) (any, error) { v, err := DecodeCount(b); return &v, err }},
	{"stats", &door.Stats{Live: 1, Seen: 300, Dead: 299, Actors: 4, Gaps: 5, ClockBytes: 1 << 40, TombstoneBytes: 7}, "0101ac02ab020405808080808020" + "07",
		func(v any) []byte { return AppendStats(nil, v.(*door.Stats)) },
		func(b []byte) (any, error) { v, err := DecodeStats(b); return &v, err }},
	{"drop", &door.Drop{Set: []byte("s"), Context: []byte("W"), Quorum: door.Quorum{W: 1, DW: door.NotDurable}}, "01017301570100",
		func(v any) []byte { return AppendDrop(nil, v.(*door.Drop)) },
		func(b []byte) (any, error) { v, err := DecodeDrop(b); return &v, err }},
	{"filter keys", &FilterKeys{Name: []byte("f"), Keys: [][]byte{[]byte("a"), nil}}, "01016602" + "016100",
		func(v any) []byte { return AppendFilterKeys(nil, v.(*FilterKeys)) },
		func(b []byte) (any, error) { v, err := DecodeFilterKeys(b); return &v, err }},
	{"answers", []bool{true, false}, "01020100",
		func(v any) []byte { return AppendAnswers(nil, v.([]bool)) },
		func(b []byte) (any, error) { return DecodeAnswers(b) }},
	{"filter create", &FilterCreate{Name: []byte("f"), FilterCreate: door.FilterCreate{Capacity: new(uint64(300)), Probability: new(0.5), InMemory: new(true)}},
		"0101660fac0280808080808080f03f",
		func(v any) []byte { return AppendFilterCreate(nil, v.(*FilterCreate)) },
		func(b []byte) (any, error) { v, err := DecodeFilterCreate(b); return &v, err }},
	{"filter change", &FilterChange{Do: FlushFilter, Name: []byte("f")}, "01040166",
		func(v any) []byte { return AppendFilterChange(nil, v.(*FilterChange)) },
		func(b []byte) (any, error) { v, err := DecodeFilterChange(b); return &v, err }},
	{"filter listing", &door.FilterListing{Prefix: []byte("p"), After: "q", Most: 256, Absolute: true}, "01017001718002" + "01",
		func(v any) []byte { return AppendFilterListing(nil, v.(*door.FilterListing)) },
		func(b []byte) (any, error) { v, err := DecodeFilterListing(b); return &v, err }},
	{"filter infos", []door.FilterInfo{{Name: "f", Probability: 0.5, InMemory: true, CheckHits: 1, CheckMisses: 2, SetHits: 3, SetMisses: 4, PageIns: 5, PageOuts: 6,
		Figures: bloomslice.Figures{Capacity: 7, Size: 8, Storage: 9}}}, "0101016680808080808080f03f01010203040506070809",
		func(v any) []byte { return AppendFilterInfos(nil, v.([]door.FilterInfo)) },
		func(b []byte) (any, error) { return DecodeFilterInfos(b) }},
	{"all", &after{true, nil}, "0101",
		func(v any) []byte { return AppendAll(nil, v.(*after).all, v.(*after).name) }, decodeAfter},
	{"all after a name", &after{false, []byte("s")}, "02000173",
		func(v any) []byte { return AppendAll(nil, v.(*after).all, v.(*after).name) }, decodeAfter},
	{"names", []bigset.SetInfo{{Name: []byte("s"), Live: 1, Seen: 2}}, "01010173" + "0102",
		func(v any) []byte { return AppendNames(nil, v.([]bigset.SetInfo)) },
		func(b []byte) (any, error) { return DecodeNames(b) }},
	{"sets counted", bigset.SetCount{Sets: 300, Apart: 2}, "01ac0202",
		func(v any) []byte { return AppendSetCount(nil, v.(bigset.SetCount)) },
		func(b []byte) (any, error) { return DecodeSetCount(b) }},
	{"changes", &door.Changes{Set: []byte("s"), Since: []byte("T"), Limit: 300, R: 2, Wait: time.Second}, "0101730154ac0202e807",
		func(v any) []byte { return AppendChanges(nil, v.(*door.Changes)) },
		func(b []byte) (any, error) { v, err := DecodeChanges(b); return &v, err }},
	{"changed", &door.Changed{Reset: "lost", Added: []door.Dotted{{Name: []byte("e"), Dots: []clock.Dot{{Actor: "a", Counter: 300}, {Actor: "b", Counter: 1}}}}},
		"01046c6f7374" + "010165020161ac02016201" + "00" + "00" + "00",
		func(v any) []byte { return AppendChanged(nil, v.(*door.Changed)) },
		func(b []byte) (any, error) { v, err := DecodeChanged(b); return &v, err }},
	{"changed, the last", &door.Changed{Removed: []door.Dotted{{Name: []byte("e"), Dots: []clock.Dot{{Actor: "a", Counter: 1}}}}, Dead: oneDead, Done: true, Next: []byte("T"), Expires: 10 * time.Minute,
		More: true, Unconfirmed: 5}, "0100" + "00" + "0101650101" + "6101" + "03" + "030762" + "01" + "0154" + "d804" + "01" + "05",
		func(v any) []byte { return AppendChanged(nil, v.(*door.Changed)) },
		func(b []byte) (any, error) {
			v, err := DecodeChanged(b)
			if v.Dead.Equal(oneDead) { // equal clocks may look different inside
				v.Dead = oneDead
			}
			return &v, err
		}},
	{"away", []string{"b", "c2"}, "01020162026332",
		func(v any) []byte { return AppendAway(nil, v.([]string)) },
		func(b []byte) (any, error) { return DecodeAway(b) }},
	{"token", tokens.Entry{ID: tokens.ID{1}, Verbs: tokens.Read, Prefix: []byte("p"), Label: "a", Created: 300}, "0101" + "010000000000000001" + strings.Repeat("00", 32) + "01ac0201700161",
		func(v any) []byte { return AppendAccessToken(nil, v.(tokens.Entry)) },
		func(b []byte) (any, error) { return DecodeAccessToken(b) }},
}

func TestGoldenBodies(t *testing.T) {
	t.Parallel()
	for _, tt := range bodies {
		b := tt.append(tt.value)
		if got := hex.EncodeToString(b); got != tt.golden {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.golden)
		}
		v, err := tt.decode(b)
		if err != nil || !reflect.DeepEqual(v, tt.value) {
			t.Errorf("%s: decoded %+v, %v; want %+v", tt.name, v, err, tt.value)
		}
		for i := range b {
			if _, err := tt.decode(b[:i]); !errors.Is(err, ErrBody) {
				t.Errorf("%s, first %d bytes: %v", tt.name, i, err)
			}
		}
		if _, err := tt.decode(append(b, 0)); !errors.Is(err, ErrBody) {
			t.Errorf("%s and a byte: %v", tt.name, err)
		}
		b[0]++
		if _, err := tt.decode(b); !errors.Is(err, ErrBody) {
			t.Errorf("%s of version %d: %v", tt.name, b[0], err)
		}
	}
}

// FuzzBodies wants that what decodes is written as it was.
func FuzzBodies(f *testing.F) {
	for i, tt := range bodies {
		f.Add(byte(i), tt.append(tt.value))
	}
	f.Add(byte(1), []byte{version, 0x80, 0, 0, 0, 0}) // a number that is not the shortest
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		tt := bodies[int(which)%len(bodies)]
		in := bytes.Clone(b)
		v, err := tt.decode(b)
		if !bytes.Equal(in, b) {
			t.Fatalf("%s: decoding changed its input", tt.name)
		}
		if err == nil && !bytes.Equal(tt.append(v), b) {
			t.Fatalf("%s: %x decodes to %+v, which is written %x", tt.name, b, v, tt.append(v))
		}
	})
}
