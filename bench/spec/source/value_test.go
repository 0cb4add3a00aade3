package source

import (
	"fmt"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestWhole: each number with decimals that is whole in its unit is read as it is, and one that is not is refused.
func TestWhole(t *testing.T) {
	r := &Reader{}
	whole := func(text string) int {
		return r.Whole(&yaml.Node{Kind: yaml.ScalarNode, Value: text}, "ops", 0, 1<<40)
	}
	for thousandth := range 20_000 {
		for unit, scale := range map[string]int{"k": 1, "M": 1000, "G": 1_000_000} {
			text := fmt.Sprintf("%d.%03d%s", thousandth/1000, thousandth%1000, unit)
			if got := whole(text); got != thousandth*scale || !r.Sound() {
				t.Fatalf("%s: %d, %v", text, got, r.Failed("x"))
			}
		}
	}
	for i, text := range []string{"0.5", "1.0001k", "1.0000001M", "3.000000000001G"} {
		if got := whole(text); got != 0 || len(r.problems) != i+1 {
			t.Errorf("%s: %d, %v", text, got, r.Failed("x"))
		}
	}
}

// TestInUnit: a unit belongs to a kind of figure, and a number alone is in the smallest unit of it.
func TestInUnit(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       float64 // below 0 is refused
	}{
		{"20ms", "us", 20_000}, {"20", "us", 20}, {"1.5 s", "us", 1.5e6}, {"7µs", "us", 7}, {"5%", "us", -1}, {"16MiB", "us", -1}, {"1k", "us", -1},
		{"16MiB", "B", 16 << 20}, {"4096", "B", 4096}, {"20ms", "B", -1}, {"5%", "B", -1}, {"3k", "B", -1},
		{"120k", "", 120_000}, {"5%", "", 0.05}, {"0.7", "", 0.7}, {"90s", "", -1}, {"1KiB", "", -1}, {"", "", -1}, {"-1", "", -1}, {"-20ms", "us", -1},
	} {
		got, form, ok := InUnit(c.text, c.unit)
		if ok != (c.want >= 0) || ok && got != c.want || form == "" {
			t.Errorf("%q in %q: %v, %v", c.text, c.unit, got, ok)
		}
	}
}

// TestNegative: a number below 0 is refused by the limits, not as if it were none.
func TestNegative(t *testing.T) {
	for want, read := range map[string]func(r *Reader, n *yaml.Node){
		"size is -3: it must be 1 to 1,000":                              func(r *Reader, n *yaml.Node) { r.Whole(n, "size", 1, 1000) },
		"rate is -3: it must be above 0 and at most 9":                   func(r *Reader, n *yaml.Node) { r.Number(n, "rate", 9) },
		"share is -3: it must be above 0 and below 1 (100%)":             func(r *Reader, n *yaml.Node) { r.Share(n, "share", false) },
		"ops is -3: it must be 1 to 1,000, or a share of the size (50%)": func(r *Reader, n *yaml.Node) { r.Amount(n, "ops", 1000, 5) },
		"cache is -3: it must be 1 to 1KiB":                              func(r *Reader, n *yaml.Node) { r.Bytes(n, "cache", 1, 1024) },
	} {
		r := &Reader{}
		read(r, &yaml.Node{Kind: yaml.ScalarNode, Value: "-3"})
		if len(r.problems) != 1 || r.problems[0].What != want {
			t.Errorf("%v, want %s", r.problems, want)
		}
	}
	if r := (&Reader{}); r.Whole(&yaml.Node{Kind: yaml.ScalarNode, Value: "--3"}, "size", 1, 1000) != 0 || r.Sound() {
		t.Error("--3 is a number")
	}
}
