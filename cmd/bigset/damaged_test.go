package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFiltersAreCounted: verify and stats say what there is of filters, where nothing is wrong.
func TestFiltersAreCounted(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "filter", "create", "big", "--slices", "4").want(t, exitOK)
	call(t, "", "--dir", dir, "filter", "create", "small").want(t, exitOK)
	call(t, numbered(1000), "--dir", dir, "filter", "set", "small").want(t, exitOK)
	if out := call(t, "", "--dir", dir, "verify").want(t, exitOK); !strings.Contains(out, "; 2 filters, 5 slices, 74 pages, ") {
		t.Errorf("verify: %s", out)
	}
	out := call(t, "", "--dir", dir, "verify", "--json").want(t, exitOK)
	if !strings.Contains(out, `"filters":2,"filter_slices":5,"filter_pages":74,"filter_bytes":`) {
		t.Errorf("verify: %s", out)
	}
	if out = call(t, "", "--dir", dir, "stats").want(t, exitOK); !strings.Contains(out, "\nfilters          2 in 5 slices, 1,000 keys, ") {
		t.Errorf("stats: %s", out)
	}
	out = call(t, "", "--dir", dir, "stats", "--json").want(t, exitOK)
	for _, want := range []string{`"filters":2,`, `"filter_slices":5,`, `"filter_keys":1000,`, `"filter_pages":`, `"filters_damaged":0,`} {
		if !strings.Contains(out, want) {
			t.Errorf("stats --json: no %s in %s", want, out)
		}
	}
}

// TestFilterDamage flips 64 bytes in the large table of a store of filters: verify names the one that is damaged, and then stats and list do.
func TestFilterDamage(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "filter", "create", "big", "--capacity", "200000").want(t, exitOK)
	call(t, "", "--dir", dir, "filter", "create", "small").want(t, exitOK)
	call(t, numbered(20_000), "--dir", dir, "filter", "set", "big").want(t, exitOK)
	call(t, numbered(100), "--dir", dir, "filter", "set", "small").want(t, exitOK)
	call(t, "", "--dir", dir, "compact").want(t, exitOK)
	table := filepath.Join(dir, largestTable(t, dir))
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		data[len(data)/2+i] ^= 0xFF
	}
	if err := os.WriteFile(table, data, 0o644); err != nil {
		t.Fatal(err)
	}
	r := call(t, "", "--dir", dir, "verify")
	if r.code != exitAbsent || !strings.HasPrefix(r.out, `problem in filter "big": can't be read: store is damaged: `) ||
		!strings.Contains(r.out, "not verified, 1 problem: 0 sets, 0 elements, 0 keys, 0 of them dead; 2 filters, 2 slices, ") {
		t.Errorf("verify: %+v", r)
	}
	if r = call(t, "", "--dir", dir, "verify", "--json"); !strings.HasPrefix(r.out, `{"filter":"big","problem":"can't be read: `) {
		t.Errorf("verify --json: %+v", r)
	}
	if out := call(t, "", "--dir", dir, "stats").want(t, exitOK); !strings.Contains(out, "\ndamaged          filter \"big\"\n") {
		t.Errorf("stats: %s", out)
	}
	out := call(t, "", "--dir", dir, "stats", "--json").want(t, exitOK)
	if !strings.Contains(out, `"damaged_filters":[{"filter":"big"}]`) || !strings.Contains(out, `"filters_damaged":1,`) {
		t.Errorf("stats --json: %s", out)
	}
	out = call(t, "", "--dir", dir, "filter", "list").want(t, exitOK)
	if !strings.Contains(out, "\"big\"  damaged\n") || !strings.Contains(out, "20,0") || !strings.Contains(out, "\"small\"\n") {
		t.Errorf("list: %s", out)
	}
	if out = call(t, "", "--dir", dir, "filter", "list", "--json").want(t, exitOK); strings.Count(out, `"damaged":true`) != 1 {
		t.Errorf("list --json: %s", out)
	}
	if r = call(t, "", "--dir", dir, "filter", "check", "small", "1"); r.code == exitError {
		t.Errorf("check in the other filter: %+v", r)
	}
	call(t, "", "--dir", dir, "filter", "drop", "big").want(t, exitOK)
	if out = call(t, "", "--dir", dir, "stats").want(t, exitOK); strings.Contains(out, "damaged") {
		t.Errorf("stats after the drop: %s", out)
	}
}
