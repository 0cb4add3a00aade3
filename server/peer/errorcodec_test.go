package peer_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// named are all errors that are looked for by name, as the packages export them.
var named = map[string]error{
	"bigset.ErrClosed": bigset.ErrClosed, "bigset.ErrFailed": bigset.ErrFailed, "bigset.ErrNotFound": bigset.ErrNotFound, "bigset.ErrLimit": bigset.ErrLimit,
	"bigset.ErrContext": bigset.ErrContext, "bigset.ErrBehind": bigset.ErrBehind, "bigset.ErrContextRequired": bigset.ErrContextRequired,
	"bigset.ErrDelta": bigset.ErrDelta, "bigset.ErrFacts": bigset.ErrFacts, "bigset.ErrUnresolved": bigset.ErrUnresolved, "bigset.ErrRequest": bigset.ErrRequest,
	"bigset.ErrCorrupt": bigset.ErrCorrupt, "bigset.ErrDiskFull": bigset.ErrDiskFull, "bigset.ErrNoFilter": bigset.ErrNoFilter,
	"bigset.ErrFilterExists": bigset.ErrFilterExists, "bigset.ErrFilterOpen": bigset.ErrFilterOpen, "bigset.ErrSliceAway": bigset.ErrSliceAway, "bigset.ErrCursor": bigset.ErrCursor,
	"peer.ErrFrame": peer.ErrFrame, "peer.ErrFrameVersion": peer.ErrFrameVersion, "peer.ErrFrameKind": peer.ErrFrameKind,
	"peer.ErrFrameTooLarge": peer.ErrFrameTooLarge, "peer.ErrFrameSum": peer.ErrFrameSum, "peer.ErrSender": peer.ErrSender, "peer.ErrSetSlice": peer.ErrSetSlice,
	"peer.ErrUnavailable": peer.ErrUnavailable, "peer.ErrJoining": peer.ErrJoining, "peer.ErrNotMine": peer.ErrNotMine, "peer.ErrAnswer": peer.ErrAnswer,
	"peer.ErrUnresolvedContexts": peer.ErrUnresolvedContexts, "peer.ErrMember": peer.ErrMember, "peer.ErrOvertaken": peer.ErrOvertaken,
	"bloomslice.ErrOptions": bloomslice.ErrOptions, "bloomslice.ErrCorruptPage": bloomslice.ErrCorruptPage, "clock.ErrCorrupt": clock.ErrCorrupt,
	"fold.ErrCorrupt": fold.ErrCorrupt, "keyscheme.ErrMalformedKey": keyscheme.ErrMalformedKey, "keyscheme.ErrNameTooLong": keyscheme.ErrNameTooLong,
	"keyscheme.ErrCorruptValue": keyscheme.ErrCorruptValue, "keyscheme.ErrToken": keyscheme.ErrToken,
	"context.Canceled": context.Canceled, "context.DeadlineExceeded": context.DeadlineExceeded,
}

// over sends an error over the wire.
func over(err error) error { return peer.Errors{}.Decode(peer.Errors{}.Append(nil, err)) }

// happened says what an error of a change says.
func happened(err error) string {
	switch {
	case errors.Is(err, peer.ErrUnavailable), errors.Is(err, bigset.ErrBehind), peer.Refused(err):
		return "nothing"
	}
	return "nobody knows"
}

// TestErrorsKeepTheirMeaning: what errors.Is finds, what is said of a change, and the text are the same on both sides, of each error alone and
// of each two together.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	check := func(what string, err error) {
		far := over(err)
		if far.Error() != err.Error() {
			t.Errorf("%s: %q became %q", what, err, far)
		}
		if got, want := happened(far), happened(err); got != want {
			t.Errorf("%s: %v says what has happened: %s, and it was %s", what, far, got, want)
		}
		for name, e := range named {
			if got, want := errors.Is(far, e), errors.Is(err, e); got != want {
				t.Errorf("%s: is it %s: %v, and it was %v", what, name, got, want)
			}
		}
	}
	check("an error of no name", errors.New("of no name"))
	for name, err := range named {
		check(name, err)
		check(name+", wrapped", fmt.Errorf("on its way: %w", err))
		check(name+", flattened", fmt.Errorf("on its way: %v", err))
		for other, also := range named {
			check(name+" and "+other, fmt.Errorf("%w: %w", err, also))
		}
	}
}

// TestErrorsHaveCodes reads which errors the packages export, so that none is forgotten.
func TestErrorsHaveCodes(t *testing.T) {
	for path, pkg := range map[string]string{"../../errors.go": "bigset", "errors.go": "peer"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if found++; named[pkg+"."+n.Name] == nil {
						t.Errorf("%s: %s.%s is not among the errors that cross the wire", path, pkg, n.Name)
					}
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: %d errors", path, found)
		}
	}
}

// typed has an error of each type that crosses with its fields.
func typed() error {
	return fmt.Errorf("write: %w, %w, %w", &bigset.LimitError{What: "bytes of an element", Got: 70_000, Max: 65_536},
		&peer.FrameError{Offset: 7, Reason: "bad number", Err: clock.ErrCorrupt}, &peer.EpochError{Epoch: 1 << 40, Map: []byte("map")})
}

func TestErrorsKeepTheirFields(t *testing.T) {
	far := over(&peer.ReplicaError{Member: alice, Err: typed()})
	var from *peer.ReplicaError
	if !errors.As(far, &from) || from.Member != alice || from.Err.Error() != typed().Error() {
		t.Errorf("from %+v", from)
	}
	var limit *bigset.LimitError
	if !errors.As(far, &limit) || *limit != (bigset.LimitError{What: "bytes of an element", Got: 70_000, Max: 65_536}) {
		t.Errorf("limit %+v", limit)
	}
	var frame *peer.FrameError
	if !errors.As(far, &frame) || frame.Offset != 7 || frame.Reason != "bad number" {
		t.Errorf("frame %+v", frame)
	}
	var epoch *peer.EpochError
	if !errors.As(far, &epoch) || epoch.Epoch != 1<<40 || string(epoch.Map) != "map" || !errors.Is(far, peer.ErrUnavailable) {
		t.Errorf("epoch %+v", epoch)
	}
	if errors.As(over(bigset.ErrLimit), &limit) || errors.As(over(errors.New("x")), &from) {
		t.Error("fields from nowhere")
	}
	long := over(errors.New(strings.Repeat("x", 1<<20)))
	if len(long.Error()) != 4096 {
		t.Errorf("a text of %d bytes", len(long.Error()))
	}
	mine := errors.New("mine")
	more := peer.Errors{More: []peer.CodedError{{Code: 1000, Err: mine}}}
	b := more.Append(nil, fmt.Errorf("%w: %w", mine, bigset.ErrFailed))
	if err := more.Decode(b); !errors.Is(err, mine) || !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("%v", err)
	}
	if err := (peer.Errors{}).Decode(b); errors.Is(err, mine) || !errors.Is(err, bigset.ErrFailed) || err.Error() != "mine: "+bigset.ErrFailed.Error() {
		t.Errorf("without the code: %v", err)
	}
}

// TestUnknownErrors: after an error of a later version, or bytes that are none, the outcome is unknown.
func TestUnknownErrors(t *testing.T) {
	const text = "\x01\x04text\x00"
	for what, b := range map[string]string{
		"nothing": "", "another version": "\x02\x04text\x00\x00\x00", "cut": "\x01\x04tex", "cut after the text": text, "more": text + "\x00\x00\x00",
		"unknown code": text + "\x01\xFF\xFF\x7F\x00", "unknown detail": text + "\x00\x01\x63\x02ab", "detail that is cut": text + "\x00\x01\x01\x02\x05a",
		"a refusal, cut": text + "\x01\x28", "a refusal and more": text + "\x01\x28\x00\x00", "neither from somebody nor not": "\x01\x04text\x02\x00\x00",
		"from nobody": "\x01\x04text\x01\x00\x00\x01\x00\x00", "long number": text + "\x01\xA8\x00\x00", "more codes than bytes": text + "\x7F\x01\x00",
		"long": text + "\x00\x01\x63\x80\x80\x08" + strings.Repeat("x", peer.ErrorBytesMax),
	} {
		err := peer.Errors{}.Decode([]byte(b))
		if err == nil || happened(err) != "nobody knows" {
			t.Errorf("%s: %v", what, err)
		}
		if known := strings.HasPrefix(what, "unknown") || what == "detail that is cut"; known && err.Error() != "text" {
			t.Errorf("%s: the text is %q", what, err)
		}
	}
	if err := (peer.Errors{}).Decode([]byte(text + "\x02\x2F\xFF\x7F\x00")); !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("a known code beside an unknown one: %v", err)
	}
}

// TestGoldenErrors holds the bytes of errors.
func TestGoldenErrors(t *testing.T) {
	const path = "testdata/errors.txt"
	var text strings.Builder
	for _, s := range []struct {
		name string
		err  error
	}{
		{"plain", errors.New("plain")}, {"unavailable", fmt.Errorf("%w: gone", peer.ErrUnavailable)}, {"failed-from-alice", &peer.ReplicaError{Member: alice, Err: bigset.ErrFailed}},
		{"typed", &peer.ReplicaError{Member: alice, Err: typed()}}, {"time", context.DeadlineExceeded},
	} {
		fmt.Fprintf(&text, "%s %x\n", s.name, peer.Errors{}.Append(nil, s.err))
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || text.String() != string(want) {
		t.Errorf("%v, got\n%s\nwant\n%s", err, text.String(), want)
	}
	for line := range strings.Lines(string(want)) {
		_, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(digits)
		if err != nil || errors.Is(peer.Errors{}.Decode(b), peer.ErrAnswer) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// FuzzDecodeError: any bytes are an error, and what is said of a change does not become more certain on the way.
func FuzzDecodeError(f *testing.F) {
	for _, err := range named {
		f.Add(peer.Errors{}.Append(nil, err))
	}
	f.Add(peer.Errors{}.Append(nil, &peer.ReplicaError{Member: alice, Err: typed()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := peer.Errors{}.Decode(b)
		if err == nil {
			t.Fatal("no error")
		}
		again := over(err)
		if happened(again) != happened(err) || again.Error() != err.Error() && len(err.Error()) <= 4096 {
			t.Fatalf("%x: %v became %v", b, err, again)
		}
		for name, e := range named {
			if errors.Is(again, e) != errors.Is(err, e) {
				t.Fatalf("%x: is it %s: %v, and it was %v", b, name, errors.Is(again, e), errors.Is(err, e))
			}
		}
	})
}
