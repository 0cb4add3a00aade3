package parser

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"bigset/bench/spec"
	"bigset/bench/spec/source"
)

// node is what the test looks at of a JSON schema.
type schemaNode struct {
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties *bool                      `json:"additionalProperties"`
	Enum                 []string                   `json:"enum"`
	Required             []string                   `json:"required"`
	Defs                 map[string]schemaNode      `json:"$defs"`
}

// The schema and the reader know the same keys of each object, and the same words.
func TestSchema(t *testing.T) {
	var top schemaNode
	if err := json.Unmarshal(spec.Schema(), &top); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Reader: source.Reader{Objects: map[string][]string{}, Words: map[string][]string{}}}
	r.parse(text)
	if err := r.Failed("testdata/all.yaml"); err != nil {
		t.Fatal(err)
	}
	objects, words := map[string][]string{"workload": keysOf(top)}, map[string][]string{}
	for name, d := range top.Defs {
		switch {
		case len(d.Properties) > 0:
			objects[name] = keysOf(d)
			if d.AdditionalProperties == nil || *d.AdditionalProperties {
				t.Errorf("the schema allows unknown keys in %s", name)
			}
		case len(d.Enum) > 0:
			words[name] = slices.Sorted(slices.Values(d.Enum))
		}
	}
	compare(t, "keys", objects, r.Objects)
	compare(t, "words", words, r.Words)
}

func keysOf(n schemaNode) []string { return slices.Sorted(maps.Keys(n.Properties)) }

func compare(t *testing.T, what string, schema, reader map[string][]string) {
	t.Helper()
	for name := range schema {
		if reader[name] == nil {
			t.Errorf("the reader has not read %s, testdata/all.yaml should have it", name)
		}
	}
	for name, read := range reader {
		if have := slices.Sorted(slices.Values(read)); !slices.Equal(have, schema[name]) {
			t.Errorf("%s of %s: the reader has %v, the schema %v", what, name, have, schema[name])
		}
	}
}
