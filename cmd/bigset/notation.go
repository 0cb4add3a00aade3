package main

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"bigset/keyscheme"
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
}

func (n notation) jsonElement(b []byte) jsonElement {
	text, raw := n.split(b)
	return jsonElement{text, raw}
}

func (n notation) jsonSet(b []byte) jsonSet {
	text, raw := n.split(b)
	return jsonSet{text, raw}
}

// split returns bytes as text, or raw if they are not valid text or base64 was requested.
func (n notation) split(b []byte) (text *string, raw []byte) {
	if !utf8.Valid(b) || n.base64 && len(b) > 0 {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
