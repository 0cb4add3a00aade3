package riakpb

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"bigset/server/door"
)

// protowireNumber returns the number of a field.
func protowireNumber(n int) protowire.Number { return protowire.Number(n) }

// TestGolden has bodies as Riak's client for Node.js 2.4.0 sends them, byte for byte.
func TestGolden(t *testing.T) {
	body := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	friends := id{typ: []byte("sets"), bucket: []byte("people"), key: []byte("friends")}
	q := func(n uint32) quorum { return quorum{n, true} }
	fetch, err := decodeFetch(body("0a0670656f706c651207667269656e64731a04736574732002280140d00f"))
	if want := (fetchReq{id: friends, r: q(2), pr: q(1), timeout: 2000}); err != nil || !reflect.DeepEqual(fetch, want) {
		t.Errorf("%+v, %v, want %+v", fetch, err, want)
	}
	update, err := decodeUpdate(body("0a0670656f706c651207667269656e64731a047365747322036374782a1312110a047061756c0a0200ff120572696e676f300238014001480150dc0b"))
	if want := (updateReq{id: friends, hasKey: true, context: []byte("ctx"), adds: [][]byte{[]byte("paul"), {0, 0xff}}, removes: [][]byte{[]byte("ringo")}, hasOp: true,
		w: q(2), dw: q(1), pw: q(1), body: true, timeout: 1500}); err != nil || !reflect.DeepEqual(update, want) {
		t.Errorf("%+v, %v, want %+v", update, err, want)
	}
	del, err := decodeDel(body("0a0670656f706c651207667269656e647322036374786a0473657473"))
	if want := (delReq{id: friends, context: []byte("ctx")}); err != nil || !reflect.DeepEqual(del, want) {
		t.Errorf("%+v, %v, want %+v", del, err, want)
	}
}

// TestQuorums has the words of clients for numbers of replicas.
func TestQuorums(t *testing.T) {
	given := func(n uint32) quorum { return quorum{n, true} }
	for _, c := range []struct {
		q        quorum
		replicas int
		want     int
	}{
		{quorum{}, 3, 0}, {given(quorumDefault), 3, 0}, {given(quorumOne), 3, 1}, {given(quorumMost), 3, 2}, {given(quorumMost), 4, 3}, {given(quorumMost), 1, 1},
		{given(quorumAll), 5, 5}, {given(2), 3, 2}, {given(3), 3, 3}, {given(4), 3, -1}, {given(1 << 31), 3, -1},
	} {
		got, err := c.q.of(c.replicas)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%+v of %d: %d, want %d", c.q, c.replicas, got, c.want)
		}
	}
	for _, c := range []struct {
		w, pw, dw quorum
		want      door.Quorum
	}{
		{quorum{}, quorum{}, quorum{}, door.Quorum{}},
		{given(1), given(3), quorum{}, door.Quorum{W: 3}},
		{quorum{}, quorum{}, given(0), door.Quorum{DW: door.NotDurable}},
		{given(2), quorum{}, given(1), door.Quorum{W: 2, DW: 1}},
		{quorum{}, given(1), quorum{}, door.Quorum{W: 2}},
		{given(quorumDefault), given(3), quorum{}, door.Quorum{W: 3}},
		{given(1), given(quorumOne), quorum{}, door.Quorum{W: 1}},
	} {
		has := door.Replicas{N: 3, R: 2, W: 2}
		if got, err := writes(has, c.w, c.pw, c.dw); err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
		if got, err := reads(has, c.w, c.pw); err != nil || got != c.want.W {
			t.Errorf("a read by %+v and %+v: %d, %v", c.w, c.pw, got, err)
		}
	}
}

// FuzzDecode decodes anything as each message: it is an error, or what was decoded is a part of the message.
func FuzzDecode(f *testing.F) {
	f.Add(name("t", "b", "k"))
	f.Add(change(name("t", "b", "k"), []byte("context"), []string{"a", ""}, []string{"b"}, number(9, 1), number(10, 100)))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, message []byte) {
		whole := bytes.Clone(message)
		if q, err := decodeFetch(message); err == nil && (q.bucket == nil || q.key == nil || q.typ == nil) {
			t.Error("a fetch without a name")
		}
		if q, err := decodeUpdate(message); err == nil {
			n := 0
			for _, e := range append(q.adds, q.removes...) {
				n += len(e)
			}
			if n > len(message) {
				t.Errorf("%d bytes of elements in a message of %d", n, len(message))
			}
		}
		decodeDel(message)
		decodeAuth(message)
		if !bytes.Equal(message, whole) {
			t.Error("the message was changed")
		}
	})
}
