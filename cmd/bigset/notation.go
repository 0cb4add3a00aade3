package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"bigset/keyscheme"
	"bigset/server/setname"
)

// notation is how bytes are written as arguments and on lines: verbatim, or as base64.
type notation struct{ base64 bool }

func (n *notation) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&n.base64, "base64", false, "elements are written as standard base64, for arbitrary bytes")
}

// base64Encoding is used in files that users keep.
var base64Encoding = base64.StdEncoding.Strict()

// decode returns the element for a text; it may alias the text.
func (n notation) decode(text []byte) (element []byte, err error) {
	element = text
	if n.base64 {
		if element, err = base64Encoding.AppendDecode(nil, text); err != nil {
			return nil, fmt.Errorf("%w: %w", errBase64, err)
		}
	}
	return element, keyscheme.CheckElement(element)
}

// elements decodes arguments.
func (n notation) elements(args []string) ([][]byte, error) {
	out := make([][]byte, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = n.decode([]byte(arg)); err != nil {
			return nil, fmt.Errorf("element %d: %w", i+1, err)
		}
	}
	return out, nil
}

// jsonElement and jsonSet are bytes in JSON: a string if they are valid UTF-8, otherwise base64 under another name.
type jsonElement struct {
	Text   *string `json:"element,omitempty"`
	Base64 []byte  `json:"element_base64,omitempty"`
}

type jsonSet struct {
	Text   *string `json:"set,omitempty"`
	Base64 []byte  `json:"set_base64,omitempty"`
	*jsonName
}

// jsonName is the name of a set by which Riak's and HTTP's clients know it.
type jsonName struct {
	Type         *string `json:"type,omitempty"`
	TypeBase64   []byte  `json:"type_base64,omitempty"`
	Bucket       *string `json:"bucket,omitempty"`
	BucketBase64 []byte  `json:"bucket_base64,omitempty"`
	Key          *string `json:"key,omitempty"`
	KeyBase64    []byte  `json:"key_base64,omitempty"`
}

func (n notation) jsonElement(b []byte) jsonElement {
	text, raw := n.split(b)
	return jsonElement{text, raw}
}

func (n notation) jsonSet(b []byte) jsonSet {
	text, raw := n.split(b)
	return jsonSet{text, raw, n.jsonName(b)}
}

// jsonName returns nil for a set whose name is its key.
func (n notation) jsonName(set []byte) *jsonName {
	name, ok := setname.Split(set)
	if !ok || bytes.Equal(set, name.Key) {
		return nil
	}
	k := &jsonName{}
	k.Type, k.TypeBase64 = n.split(name.Type)
	k.Bucket, k.BucketBase64 = n.split(name.Bucket)
	k.Key, k.KeyBase64 = n.split(name.Key)
	return k
}

// split returns bytes as text, or raw if they are not valid text or base64 was requested.
func (n notation) split(b []byte) (text *string, raw []byte) {
	if !utf8.Valid(b) || n.base64 && len(b) > 0 {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
