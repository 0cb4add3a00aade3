package keyscheme_test

import (
	"errors"
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/keyscheme"
)

// TestRequestBytes pins the bytes that are on disk.
func TestRequestBytes(t *testing.T) {
	p := keyscheme.NewPrefix([]byte("set"))
	if got, want := fmt.Sprintf("%x", p.AppendRequestKey(nil, []byte("id"), 258)), "849f6cf3ffffffff6d"+"72"+"03000000"+"736574"+"02"+"6964"+"0000000000000102"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	r := &keyscheme.Request{Millis: 300, Actor: "ab", First: 7, Items: []keyscheme.RequestItem{
		{Op: keyscheme.OpAdd, Sum: 1, Context: clock.Of(clock.Dot{Actor: "c", Counter: 9})}, {Op: keyscheme.OpRemove, Sum: 2}}}
	value := keyscheme.AppendRequestValue(nil, r)
	if got, want := fmt.Sprintf("%x", value), "01"+"ac02"+"026162"+"07"+"02"+"61"+"0100000000000000"+"03"+"030963"+"72"+"0200000000000000"+"02"+"0100"; got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	for i := range value {
		if _, err := keyscheme.DecodeRequestValue(value[:i]); !errors.Is(err, keyscheme.ErrCorruptValue) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	got, err := keyscheme.DecodeRequestValue(value)
	if err != nil || got.Millis != 300 || got.Actor != "ab" || got.First != 7 || len(got.Items) != 2 || got.Items[0].Op != keyscheme.OpAdd ||
		got.Items[1].Sum != 2 || !got.Items[0].Context.Equal(r.Items[0].Context) {
		t.Errorf("%+v, %v", got, err)
	}
}
