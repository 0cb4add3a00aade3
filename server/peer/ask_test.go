package peer_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// wireSamples has messages that only go over a wire.
func wireSamples() []sample {
	seen := clock.Of(dot("A1", 1), dot("A1", 2), dot("B1", 7))
	other := clock.Of(dot("C1", 9))
	delta := samples()[0].m.(peer.Delta)
	first, second := bloomslice.Hash{1, 2, 3, 1 << 63}, bloomslice.Hash{0xFFFFFFFFFFFFFFFF}
	spec, layers := slice("filter", 0, 300, slicedFilter), sliceLayers()
	groups := []peer.SliceKeys{{Slice: 0, Hashes: []bloomslice.Hash{first}}, {Slice: 5}, {Slice: 7, Hashes: []bloomslice.Hash{second, first}}}
	marks := []peer.SliceMarks{
		{Slice: 1, Layers: layers[1:], Marks: []bigset.Mark{{Layer: 1, Hash: first}, {Hash: second}}}, {Slice: 2}, {Slice: 7, Layers: layers[:1], Marks: []bigset.Mark{{Hash: first}}},
	}
	gone := peer.Errors{}.Decode(peer.Errors{}.Append(nil, bigset.ErrNoFilter))
	return []sample{
		{"write", peer.Write{Set: []byte("set"), Ops: []bigset.Op{
			{Kind: keyscheme.OpAdd, Element: []byte("x")},
			{Kind: keyscheme.OpRemove, Element: []byte{}, Context: bigset.Saw(dot("A1", 1), dot("B1", 7))},
			{Kind: keyscheme.OpAdd, Element: []byte("y"), Context: bigset.SawAll(seen)},
			{Kind: keyscheme.OpAdd, Element: []byte("z"), Context: bigset.SawAll(seen)},
			{Kind: keyscheme.OpRemove, Element: []byte("z"), Context: bigset.SawAll(other)},
			{Kind: keyscheme.OpAdd, Element: []byte("w"), Context: bigset.Saw()},
		}, Options: bigset.WriteOptions{Policy: bigset.PolicyRequired, Durability: bigset.NoSync, Request: []byte("req-1")}}},
		{"write-nothing", peer.Write{Set: []byte("set"), Options: bigset.WriteOptions{Request: []byte{}}}},
		{"written", peer.Written{Delta: bigset.Delta(delta), Dots: []clock.Dot{dot("A1", 300), {}, dot("A1", 301)}, Removed: 1}},
		{"written-nothing", peer.Written{Dots: []clock.Dot{{}}}},
		{"knows", peer.Knows{Set: []byte("set"), Request: []byte("req-1")}},
		{"known", peer.Known(true)},
		{"known-not", peer.Known(false)},
		{"facts-result", peer.FactsResult{Keys: 300, Dead: 2}},
		{"ask-lost", peer.AskLost{Set: []byte("set")}},
		{"ask-state", peer.AskState{Set: []byte("set")}},
		{"read", peer.Read{Set: []byte("set"), Options: bigset.ReadOptions{From: []byte("a"), To: []byte{}, Prefix: []byte("p"), After: []byte("b"), Reverse: true, Limit: 300, BatchSize: 7}}},
		{"read-all", peer.Read{Set: []byte("set")}},
		{"lookup", peer.Lookup{Set: []byte("set"), Elements: [][]byte{[]byte("x"), {}, []byte("y")}}},
		{"lookup-nothing", peer.Lookup{Set: []byte("set")}},
		{"contexts", peer.Contexts{bigset.Saw(dot("A1", 1), dot("B1", 7)), bigset.Saw(), {}}},
		{"contexts-none", peer.Contexts(nil)},
		{"ask-digests", peer.AskDigests{First: 2, Last: 0xFFFFFFFF}},
		{"ask-range-digests", peer.AskRangeDigests{First: 2, Last: 12, Parts: 3}},
		{"ask-slice-digests", peer.AskSliceDigests{First: 2, Last: 12}},
		{"done", peer.Done{}},
		{"ask-requests", peer.AskRequests{First: 2, Last: 0xFFFFFFFF}},
		{"requests", peer.Requests{
			{Set: []byte("set"), ID: []byte("req-1"), Age: 299_999 * time.Millisecond, Actor: "A1", First: 300, Events: []keyscheme.RequestItem{
				{Op: keyscheme.OpAdd, Sum: 1<<63 + 2, Context: clock.Of(dot("A1", 2), dot("B1", 7))}, {Op: keyscheme.OpRemove, Sum: 3, Context: clock.Of()}}},
			{Set: []byte("other"), ID: []byte{0}, Actor: "B1", First: 1, Events: []keyscheme.RequestItem{{Op: keyscheme.OpAdd, Context: clock.Of()}}}}},
		{"requests-none", peer.Requests(nil)},
		{"ask-count", peer.AskCount{Set: []byte("set"), Range: bigset.CountRange{From: []byte("a"), To: []byte{}, Prefix: []byte("p"), After: []byte("b"), Mean: 300, Clock: true}}},
		{"ask-count-all", peer.AskCount{Set: []byte("set"), Range: bigset.CountRange{Mean: 1}}},
		{"part-counts", peer.PartCounts{ElementDigests: bigset.ElementDigests{Parts: []bigset.ElementDigest{
			{Bound: []byte{}, Elements: 1, Sum: [16]byte{1, 15: 2}}, {Bound: []byte("y"), Elements: 300}, {Bound: []byte("z")}}}, Clock: seen}},
		{"part-counts-none", peer.PartCounts{ElementDigests: bigset.ElementDigests{Done: true}}},
		{"mark-many", peer.MarkMany{Spec: spec, Groups: groups}},
		{"check-many", peer.CheckMany{Spec: spec, Groups: groups[:1]}},
		{"check-many-nothing", peer.CheckMany{Spec: spec}},
		{"marks-many", peer.MarksMany{Spec: spec, Groups: marks}},
		{"marked-many", peer.MarkedMany{{SliceMarks: marks[0], Added: []bool{true, false}}, {Err: gone}, {SliceMarks: marks[2], Added: []bool{true}}}},
		{"answers-many", peer.AnswersMany{{Answers: []bool{true, false, true}}, {Err: gone}, {}}},
		{"ask-stamp", peer.AskStamp{Spec: spec}},
		{"ask-stamp-digest", peer.AskStamp{Spec: spec, Digest: true}},
		{"stamp", peer.Stamp{Number: 1<<63 + 5}},
		{"stamp-digest", peer.Stamp{Number: 7, Digest: [16]byte{1, 15: 2}}},
	}
}

// TestDecodedWireValues looks at values, which vectors do not show, and at whose memory they have.
func TestDecodedWireValues(t *testing.T) {
	for _, s := range wireSamples() {
		b := encode(t, alice, s.m)
		m, from, err := peer.Decode(b)
		if err != nil || from != alice {
			t.Errorf("%s: from %v: %v", s.name, from, err)
		}
		for i := range b {
			b[i] = 0xEE
		}
		switch s.m.(type) {
		case peer.Write, peer.Requests, peer.PartCounts: // clocks have more than one form in memory
			same(t, m, s.m)
		default:
			if !reflect.DeepEqual(m, s.m) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", s.name, m, s.m)
			}
		}
	}
	m, _, _ := peer.Decode(encode(t, alice, wireSamples()[0].m))
	ops, want := m.(peer.Write).Ops, wireSamples()[0].m.(peer.Write)
	if ops[2].Context.Wide != ops[3].Context.Wide || ops[3].Context.Wide == ops[4].Context.Wide || !ops[4].Context.Wide.Contains(dot("C1", 9)) {
		t.Errorf("wide contexts %+v", ops)
	}
	for i := range ops {
		if g, w := ops[i].Context, want.Ops[i].Context; g.Given != w.Given || len(g.Dots) != len(w.Dots) || (g.Wide == nil) != (w.Wide == nil) {
			t.Errorf("operation %d has the context %+v, want %+v", i, g, w)
		}
	}
	if o := m.(peer.Write).Options; !reflect.DeepEqual(o, want.Options) {
		t.Errorf("options %+v, want %+v", o, want.Options)
	}
}

// TestNamesApart: what a decoded message shares with others is never written by appending to it.
func TestNamesApart(t *testing.T) {
	m, _, err := peer.Decode(encode(t, alice, samples()[0].m))
	if err != nil {
		t.Fatal(err)
	}
	d := m.(peer.Delta)
	_ = append(d.Set, "overwrites"...)
	_ = append(d.Items[0].Element, "overwrites"...)
	_ = append(d.Items[0].Context, dot("overwrites", 1))
	same(t, m, samples()[0].m)
}

// TestManyActors: frames with more actors than are looked through one by one.
func TestManyActors(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 9, 10, 300} {
		var dots []clock.Dot
		for i := range 2 * n {
			dots = append(dots, dot(strings.Repeat("a", i%n+1)[:min(i%n+1, 200)]+string(rune('a'+i%n)), uint64(i+1)))
		}
		m, _, err := peer.Decode(encode(t, alice, peer.Ask{Set: []byte("s"), Element: []byte("x"), Dots: dots}))
		if err != nil || !reflect.DeepEqual(m.(peer.Ask).Dots, dots) {
			t.Fatalf("%d actors: %v", n, err)
		}
	}
}

func TestRefusedWireFrames(t *testing.T) {
	head := func(kind byte) []byte { return append([]byte{2, kind, 5}, "alice\x02A1\x01"...) }
	spec := string(body(encode(t, alice, peer.FlushSlice{Spec: slice("filter", 0, 300, slicedFilter)}))[len(head('f')):])
	hash, sum := strings.Repeat("h", 32), strings.Repeat("x", 8)
	for _, c := range []struct {
		name string
		kind byte
		body string
		want error // beside ErrFrame; nil is a frame that is taken: the rest differ from one by what they are refused for
	}{
		{"good write", 'W', "\x01s\x00\x00\x01\x02\x01a\x01x\x00", nil},
		{"write to a slice", 'W', "\x01s\x01\x00\x01\x02\x01a\x01x\x00", peer.ErrSetSlice},
		{"write to no set", 'W', "\x00\x00\x00\x01\x02\x01a\x01x\x00", peer.ErrFrame},
		{"policy", 'W', "\x01s\x00\x00\x03\x02\x01a\x01x\x00", peer.ErrFrame},
		{"durability", 'W', "\x01s\x00\x00\x01\x03\x01a\x01x\x00", peer.ErrFrame},
		{"operation of no kind", 'W', "\x01s\x00\x00\x01\x02\x01z\x01x\x00", peer.ErrFrame},
		{"context of no kind", 'W', "\x01s\x00\x00\x01\x02\x01a\x01x\x04", peer.ErrFrame},
		{"same context without one", 'W', "\x01s\x00\x00\x01\x02\x01a\x01x\x03", peer.ErrFrame},
		{"long request", 'W', "\x01s\x00\x41" + strings.Repeat("r", 65) + "\x01\x02\x01a\x01x\x00", peer.ErrFrameTooLarge},
		{"more operations than bytes", 'W', "\x01s\x00\x00\x01\x02\x02a\x01x\x00", peer.ErrFrame},
		{"more operations than may be", 'W', "\x01s\x00\x00\x01\x02\xA1\x8D\x06" + strings.Repeat("a\x00\x00", 100_001), peer.ErrFrameTooLarge},
		{"wide context that is none", 'W', "\x01s\x00\x00\x01\x02\x01a\x01x\x02\x01\x07", clock.ErrCorrupt},
		{"good written", 'w', "\x01\x02\x00\x01\x00\x01A\x07\x00", nil},
		{"dot that is neither there nor not", 'w', "\x01\x01\x02\x00\x01A\x07\x00", peer.ErrFrame},
		{"dot 0", 'w', "\x01\x01\x01\x00\x01A\x00\x00", peer.ErrFrame},
		{"delta of no set", 'w', "\x00\x00\x01\x00\x00\x00\x01\x00\x00", peer.ErrFrame},
		{"more removed than may be", 'w', "\xA1\x8D\x06\x00\x00", peer.ErrFrame},
		{"neither known nor not", 'q', "\x02", peer.ErrFrame},
		{"long request to know", 'Q', "\x01s\x00\x41" + strings.Repeat("r", 65), peer.ErrFrameTooLarge},
		{"state of a slice", 's', "\x01s\x01", peer.ErrSetSlice},
		{"lost of a slice", 'l', "\x01s\x81\x01", peer.ErrSetSlice},
		{"good read", 'r', "\x01s\x00\x00\x00\x00\x00\x00\x00\x00", nil},
		{"read of a slice", 'r', "\x01s\x01\x00\x00\x00\x00\x00\x00\x00", peer.ErrSetSlice},
		{"read that is neither reverse nor not", 'r', "\x01s\x00\x00\x00\x00\x00\x02\x00\x00", peer.ErrFrame},
		{"read of a limit below 0", 'r', "\x01s\x00\x00\x00\x00\x00\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00", peer.ErrFrame},
		{"read of large chunks", 'r', "\x01s\x00\x00\x00\x00\x00\x00\x00\x81\x80\x40", peer.ErrFrame},
		{"more elements than bytes", 'U', "\x01s\x00\x03\x00\x00", peer.ErrFrame},
		{"more elements than may be", 'U', "\x01s\x00\x81\x80\x40" + strings.Repeat("\x00", 1<<20+1), peer.ErrFrameTooLarge},
		{"more contexts than bytes", 'u', "\x03\x00\x00", peer.ErrFrame},
		{"range of no parts", 'b', "\x00\x00\x00\x01\x00\x00\x00\x02\x00", peer.ErrFrame},
		{"range of too many parts", 'b', "\x00\x00\x00\x01\x00\x00\x00\x02\x81\x20", peer.ErrFrame},
		{"half a slot", 'a', "\x00\x00\x00\x01\x00\x00\x00", peer.ErrFrame},
		{"done with more", 'O', "\x00", peer.ErrFrame},
		{"good request", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x01\x01a" + sum + "\x02\x00\x02\x01\x01B\x02", nil},
		{"request to a slice", 'B', "\x01\x01s\x01\x01q\x07\x00\x01A\x01\x01a" + sum + "\x00", peer.ErrSetSlice},
		{"request without an id", 'B', "\x01\x01s\x00\x00\x07\x00\x01A\x01\x01a" + sum + "\x00\x00", bigset.ErrRequest},
		{"request of a long id", 'B', "\x01\x01s\x00\x41" + strings.Repeat("q", 65) + "\x07\x00\x01A\x01\x01a" + sum + "\x00", peer.ErrFrameTooLarge},
		{"request of a great age", 'B', "\x01\x01s\x00\x01q\xFF\xFF\xFF\xFF\xFF\x01\x00\x01A\x01\x01a" + sum + "\x00", peer.ErrFrame},
		{"request from dot 0", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x00\x01a" + sum + "\x00", bigset.ErrRequest},
		{"request without events", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x01\x00" + sum + "\x00\x00", bigset.ErrRequest},
		{"request that runs over", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x02a" + sum + "\x00a" + sum + "\x00", bigset.ErrRequest},
		{"event of no kind", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x01\x01z" + sum + "\x00", bigset.ErrRequest},
		{"more events than bytes", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x01\x02a" + sum + "\x00", peer.ErrFrame},
		{"killed dots in no order", 'B', "\x01\x01s\x00\x01q\x07\x00\x01A\x01\x01a" + sum + "\x02\x00\x02\x00\x01", peer.ErrFrame},
		{"more requests than bytes", 'B', "\x02\x01s\x00\x01q\x07\x00\x01A\x01\x01a" + sum + "\x00", peer.ErrFrame},
		{"more requests than may be", 'B', "\x81\x20" + strings.Repeat("\x01s\x00\x01q\x07\x00\x01A\x01\x01a"+sum+"\x00", 4097), peer.ErrFrameTooLarge},
		{"half a slot to ask", 'J', "\x00\x00\x00\x01\x00\x00\x00", peer.ErrFrame},
		{"good groups", 'y', spec + "\x02\x01\x01" + hash + "\x02\x00", nil},
		{"slice twice", 'y', spec + "\x02\x01\x01" + hash + "\x01\x00", peer.ErrFrame},
		{"slices in no order", 'Y', spec + "\x02\x02\x01" + hash + "\x01\x00", peer.ErrFrame},
		{"slice that is not there", 'Y', spec + "\x02\x02\x01" + hash + "\x08\x00", peer.ErrFrame},
		{"more groups than bytes", 'Y', spec + "\x03\x01\x00\x02\x00", peer.ErrFrame},
		{"more keys than bytes", 'Y', spec + "\x01\x01\x02" + hash, peer.ErrFrame},
		{"more keys than may be", 'Y', spec + "\x02\x01\x91\x4E" + strings.Repeat(hash, 10_001) + "\x02\x00", peer.ErrFrameTooLarge},
		{"more keys of two slices", 'Y', spec + "\x02\x01\x90\x4E" + strings.Repeat(hash, 10_000) + "\x02\x01" + hash, peer.ErrFrameTooLarge},
		{"good marks", 'j', spec + "\x02\x01\x00\x00\x02\x00\x00", nil},
		{"mark in no layer", 'j', spec + "\x01\x01\x00\x01\x00" + hash, peer.ErrFrame},
		{"marks of a slice twice", 'j', spec + "\x02\x01\x00\x00\x01\x00\x00", peer.ErrFrame},
		{"marks of too many bytes", 'j', spec + "\x01\x01\x00\x00" + strings.Repeat("\x00", 1<<20), peer.ErrFrameTooLarge},
		{"answer neither there nor not", 'Z', "\x01\x02\x00", peer.ErrFrame},
		{"more answers than may be", 'Z', "\x02\x00\x90\x4E" + strings.Repeat("\x00", 1250) + "\x00\x01\x00", peer.ErrFrameTooLarge},
		{"good answers", 'Z', "\x02\x00\x90\x4E" + strings.Repeat("\x00", 1250) + "\x00\x00", nil},
	} {
		b := seal(append(head(c.kind), c.body...))
		m, _, err := peer.Decode(b)
		if c.want == nil {
			if err != nil || !bytes.Equal(encode(t, alice, m), b) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || !errors.Is(err, peer.ErrFrame) || m != nil {
			t.Errorf("%s: %v, error %v, want %v", c.name, m, err, c.want)
		}
		if !peer.Refused(err) {
			t.Errorf("%s: %v does not say that nothing has happened", c.name, err)
		}
	}
}

func TestUnsendableWireFrames(t *testing.T) {
	spec := slice("filter", 0, 300, slicedFilter)
	many := make([]bloomslice.Hash, peer.ManyKeysMax)
	large := []peer.SliceMarks{{Layers: []bloomslice.Layer{}, Marks: make([]bigset.Mark, 1)}}
	for i := range 4_000 {
		large[0].Layers = append(large[0].Layers, bloomslice.Layer{ID: layerOf(fmt.Sprintf("%0250d", i), uint16(i)), Shape: sliceLayers()[0].Shape})
	}
	for i := range 7 {
		large = append(large, peer.SliceMarks{Slice: uint32(i + 1), Layers: large[0].Layers, Marks: make([]bigset.Mark, 4000/4)})
	}
	op := func(f func(*bigset.Op)) peer.Write {
		o := bigset.Op{Kind: keyscheme.OpAdd}
		f(&o)
		return peer.Write{Set: []byte("s"), Ops: []bigset.Op{o}}
	}
	kept := func(f func(*bigset.KeptRequest)) peer.Requests {
		r := bigset.KeptRequest{Set: []byte("s"), ID: []byte("q"), Actor: "A", First: 1, Events: []keyscheme.RequestItem{{Op: keyscheme.OpAdd, Context: clock.Of()}}}
		f(&r)
		return peer.Requests{r}
	}
	for i, c := range []struct {
		m    peer.Message
		want error
	}{
		{op(func(o *bigset.Op) { o.Kind = 'z' }), peer.ErrFrame},
		{op(func(o *bigset.Op) { o.Context = bigset.Context{Dots: []clock.Dot{dot("a", 1)}} }), peer.ErrFrame},
		{op(func(o *bigset.Op) { o.Context = bigset.Context{Wide: &clock.Clock{}} }), peer.ErrFrame},
		{op(func(o *bigset.Op) { o.Context = bigset.Saw(clock.Dot{}) }), peer.ErrFrame},
		{op(func(o *bigset.Op) { o.Context = bigset.Saw(make([]clock.Dot, bigset.ContextDotsMax+1)...) }), peer.ErrFrameTooLarge},
		{peer.Write{Set: []byte("s"), Ops: make([]bigset.Op, bigset.BatchOpsMax+1)}, peer.ErrFrameTooLarge},
		{peer.Write{Set: []byte("s"), Options: bigset.WriteOptions{Request: make([]byte, 65)}}, peer.ErrFrameTooLarge},
		{peer.Write{Set: []byte("s"), Options: bigset.WriteOptions{Policy: 3}}, peer.ErrFrame},
		{peer.Write{Set: []byte("s"), Options: bigset.WriteOptions{Durability: 3}}, peer.ErrFrame},
		{peer.Written{Removed: -1}, peer.ErrFrameTooLarge},
		{peer.Written{Dots: make([]clock.Dot, bigset.BatchOpsMax+1)}, peer.ErrFrameTooLarge},
		{peer.Knows{Set: []byte("s"), Request: make([]byte, 65)}, peer.ErrFrameTooLarge},
		{peer.Read{Set: []byte("s"), Options: bigset.ReadOptions{Limit: -1}}, peer.ErrFrame},
		{peer.Read{Set: []byte("s"), Options: bigset.ReadOptions{BatchSize: bigset.BatchSizeMax + 1}}, peer.ErrFrame},
		{peer.Lookup{Set: []byte("s"), Elements: make([][]byte, peer.ElementsMax+1)}, peer.ErrFrameTooLarge},
		{peer.Contexts(make([]bigset.Context, peer.ElementsMax+1)), peer.ErrFrameTooLarge},
		{peer.AskRangeDigests{}, peer.ErrFrame},
		{peer.Requests(make([]bigset.KeptRequest, peer.RequestsMax+1)), peer.ErrFrameTooLarge},
		{kept(func(r *bigset.KeptRequest) { r.ID = nil }), peer.ErrFrame},
		{kept(func(r *bigset.KeptRequest) { r.Age = time.Microsecond }), peer.ErrFrame},
		{kept(func(r *bigset.KeptRequest) { r.Events = nil }), peer.ErrFrame},
		{kept(func(r *bigset.KeptRequest) { r.Events[0].Context.AddRange("A", 1, bigset.DeltaDotsMax+1) }), peer.ErrFrameTooLarge},
		{peer.AskRangeDigests{Parts: bigset.RangePartsMax + 1}, peer.ErrFrame},
		{peer.CheckMany{Spec: slice("filter", 1, 300, slicedFilter)}, peer.ErrFrame},
		{peer.AskStamp{Spec: slice("filter", 1, 300, slicedFilter)}, peer.ErrFrame},
		{peer.CheckMany{Spec: spec, Groups: []peer.SliceKeys{{Slice: 8}}}, peer.ErrFrame},
		{peer.MarkMany{Spec: spec, Groups: []peer.SliceKeys{{Slice: 1}, {Slice: 1}}}, peer.ErrFrame},
		{peer.MarkMany{Spec: spec, Groups: []peer.SliceKeys{{Slice: 1, Hashes: many}, {Slice: 2, Hashes: many[:1]}}}, peer.ErrFrameTooLarge},
		{peer.MarksMany{Spec: spec, Groups: large}, peer.ErrFrameTooLarge},
		{peer.MarksMany{Spec: spec, Groups: []peer.SliceMarks{{Slice: 2}, {Slice: 1}}}, peer.ErrFrame},
		{peer.MarksMany{Spec: spec, Groups: []peer.SliceMarks{{Marks: make([]bigset.Mark, 1)}}}, peer.ErrFrame},
		{peer.AnswersMany{{Answers: make([]bool, peer.ManyKeysMax)}, {Answers: make([]bool, 1)}}, peer.ErrFrameTooLarge},
		{peer.MarkedMany(make([]peer.SliceMarked, bloomslice.SlicesMax+1)), peer.ErrFrameTooLarge},
	} {
		if b, err := peer.Append([]byte("kept"), alice, c.m); !errors.Is(err, c.want) || !errors.Is(err, peer.ErrFrame) || string(b) != "kept" {
			t.Errorf("%d: %T: %d bytes, error %v, want %v", i, c.m, len(b), err, c.want)
		}
	}
	for _, version := range []byte{0, peer.FrameVersionMost + 1} {
		if _, err := peer.AppendVersion(nil, version, alice, peer.Done{}); !errors.Is(err, peer.ErrFrameVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	for _, s := range wireSamples() {
		if _, err := peer.AppendVersion(nil, 1, alice, s.m); !errors.Is(err, peer.ErrFrameKind) {
			t.Errorf("%s in version 1: %v", s.name, err)
		}
	}
}

// TestWriteRoundTrip draws operations at random.
func TestWriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide := []*clock.Clock{clock.Of(dot("A", 1)), clock.Of(dot("A", 1), dot("B", 9)), {}}
		m := peer.Write{Set: []byte(rapid.StringN(1, 8, 20).Draw(t, "set"))}
		m.Options = bigset.WriteOptions{Policy: bigset.Policy(rapid.IntRange(0, 2).Draw(t, "policy")), Durability: bigset.Durability(rapid.IntRange(0, 2).Draw(t, "durability")),
			Request: []byte(rapid.StringN(0, 8, 64).Draw(t, "request"))}
		m.Ops = list(t, "ops", 12, func(t *rapid.T) bigset.Op {
			op := bigset.Op{Kind: rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind"), Element: []byte(rapid.String().Draw(t, "element"))}
			switch rapid.IntRange(0, 2).Draw(t, "context") {
			case 1:
				op.Context = bigset.Saw(list(t, "dots", 4, func(t *rapid.T) clock.Dot {
					return dot(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "actor"), rapid.Uint64Min(1).Draw(t, "counter"))
				})...)
			case 2:
				op.Context = bigset.SawAll(rapid.SampledFrom(wide).Draw(t, "wide"))
			}
			return op
		})
		got, _, err := peer.Decode(encode(t, alice, m))
		if err != nil {
			t.Fatal(err)
		}
		w := got.(peer.Write)
		for i := range m.Ops {
			if a, b := m.Ops[i].Context.Wide, w.Ops[i].Context.Wide; a != nil {
				if b == nil || !a.Equal(b) {
					t.Fatalf("operation %d: wide context %v, want %v", i, b, a)
				}
				w.Ops[i].Context.Wide = a
			}
		}
		if !reflect.DeepEqual(w, m) {
			t.Fatalf("got  %+v\nwant %+v", w, m)
		}
	})
}

// TestDecodeChunkReuses: chunks in the memory of earlier ones are what they are in memory of their own, bounds outlive their chunk, and a
// chunk like the one before takes hardly any memory.
func TestDecodeChunkReuses(t *testing.T) {
	chunk := func(first, n int) []byte {
		c := peer.Chunk{Clock: clock.Of(dot("A1", 1)), Bound: fmt.Appendf(nil, "%08d", first+n)}
		for i := range n {
			e := fold.Element{Name: fmt.Appendf(nil, "%08d", first+i), Dots: []clock.Dot{dot("A1", uint64(first+i+1))}}
			if i%3 == 0 {
				e.Dots = append(e.Dots, dot("B1", uint64(i+1)))
			}
			c.Elements = append(c.Elements, e)
		}
		return encode(t, alice, c)
	}
	var scrap *fold.Chunk
	var bounds, wantBounds []string
	var kept [][]byte
	for i, n := range []int{10, 1000, 3, 0, 700, 2000, 1} {
		b := chunk(100*i, n)
		plain, _, err := peer.DecodeChunk(b, nil)
		c, from, err2 := peer.DecodeChunk(b, scrap)
		if err != nil || err2 != nil || from != alice {
			t.Fatal(err, err2, from)
		}
		for j := range b {
			b[j] = 0xEE
		}
		same(t, peer.Chunk(*c), peer.Chunk(*plain))
		if len(c.Elements) != n || c.Count != n || c.Dots != n+(n+2)/3 {
			t.Fatalf("chunk %d: %d elements, %d dots", i, c.Count, c.Dots)
		}
		kept, wantBounds = append(kept, c.Bound), append(wantBounds, fmt.Sprintf("%08d", 100*i+n))
		scrap = c
	}
	for _, b := range kept {
		bounds = append(bounds, string(b))
	}
	if !reflect.DeepEqual(bounds, wantBounds) {
		t.Errorf("bounds %v, want %v", bounds, wantBounds)
	}
	if _, _, err := peer.DecodeChunk(encode(t, alice, peer.Done{}), nil); !errors.Is(err, peer.ErrFrameKind) {
		t.Errorf("done taken for a chunk: %v", err)
	}
	b := chunk(5, 1000)
	scrap = nil
	for range 3 { // so that its room is large enough
		scrap, _, _ = peer.DecodeChunk(b, scrap)
	}
	if n := testing.AllocsPerRun(10, func() { scrap, _, _ = peer.DecodeChunk(b, scrap) }); n > 30 {
		t.Errorf("%v allocations for a chunk like the one before", n)
	}
}
