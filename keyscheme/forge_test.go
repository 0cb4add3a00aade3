package keyscheme_test

import (
	"encoding/binary"
	"testing"

	"github.com/dchest/siphash"

	"bigset/keyscheme"
)

// forgeWithZeroKey makes a wide token by the letter of docs/format.md, with the zero key, which no ring accepts. It is also a
// second implementation of the seal.
func forgeWithZeroKey(t *testing.T, ctx keyscheme.TokenContent) []byte {
	return sealByHand(t, ctx, keyscheme.SealKey{})
}

func sealByHand(t *testing.T, ctx keyscheme.TokenContent, key keyscheme.SealKey) []byte {
	token := seal(t, ring, ctx)
	body := token[: len(token)-16 : len(token)-16]
	bound := ctx.Element
	if ctx.Form != keyscheme.Narrow {
		bound = nil
	}
	mac := siphash.New128(key[:])
	mac.Write(body)
	mac.Write(ctx.Set)
	mac.Write(bound)
	mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(ctx.Set))))
	mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(bound))))
	return mac.Sum(body)
}

func TestSealByHand(t *testing.T) {
	for _, ctx := range []keyscheme.TokenContent{
		{Form: keyscheme.Wide, Set: []byte("set")},
		{Form: keyscheme.Narrow, Set: []byte("set"), Element: []byte("element")},
		{Form: keyscheme.Cursor, Set: []byte("set"), Element: []byte("element")},
	} {
		if got, want := seal(t, ring, ctx), sealByHand(t, ctx, ring.Current); string(got) != string(want) {
			t.Errorf("form %d: got %x, by hand %x", ctx.Form, got, want)
		}
	}
}
