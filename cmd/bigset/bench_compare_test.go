package main

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bigset/bench"
	"bigset/bench/compare"
)

// TestCompareKnowsFigures: compare reads what bench writes, and every figure of a round has a direction there.
func TestCompareKnowsFigures(t *testing.T) {
	t.Parallel()
	var f bench.Figures
	var names []string
	v := reflect.ValueOf(&f).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		field := v.Field(i)
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		if field.CanUint() {
			field.SetUint(uint64(i + 1))
		} else {
			field.SetFloat(float64(i + 1))
		}
	}
	r := &bench.Report{Results: []bench.Row{{Workload: "w/part", System: "bigset", Record: "set", Strategy: "s", Elements: 7, Figures: f,
		Rounds: slices.Repeat([]bench.Figures{f}, 6)}}}
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	report, err := compare.Read(&text, "r.json")
	if err != nil {
		t.Fatal(err)
	}
	row := report.Rows[0]
	if row.Key != (compare.Key{Workload: "w/part", System: "bigset", Record: "set", Strategy: "s", Elements: 7}) || len(row.Rounds) != 6 {
		t.Errorf("%+v", row.Key)
	}
	for i, known := range compare.FigureList() {
		at := slices.Index(names, known.Name)
		if have := row.Rounds[5][i]; at < 0 || have != (compare.Value{V: float64(at + 1), Is: true}) {
			t.Errorf("%s is %v, the round has %d", known.Name, have, at+1)
			continue
		}
		names[at] = ""
	}
	if rest := strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == "" }), ", "); rest != "" {
		t.Errorf("bench/compare does not know %s: add them to its table, with their direction", rest)
	}
}
