package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// metricLine is a line that Prometheus reads.
var metricLine = regexp.MustCompile(`^(# (HELP|TYPE) bigset_[a-z_]+ .+|bigset_[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+)$`)

// TestStatsMetrics: what --json says of the store, --metrics says too, in lines that Prometheus reads.
func TestStatsMetrics(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "friends", "paul").want(t, exitOK)
	text := call(t, "", "--dir", dir, "stats", "--metrics").want(t, exitOK)
	types := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !metricLine.MatchString(line) {
			t.Errorf("no metric: %q", line)
		}
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if types[kind] {
				t.Errorf("%q comes twice", line)
			}
			types[kind] = true
		}
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(call(t, "", "--dir", dir, "stats", "--json").want(t, exitOK)), &fields); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"dir", "sets", "sets_empty", "live_dots", "events", "filter_slices", "filter_keys", "filter_capacity", "filter_pages", "filter_storage_bytes"} { // that the command counts itself
		delete(fields, own)
	}
	for name := range fields {
		if name != "levels" && !strings.Contains(text, "\nbigset_"+name) && !strings.HasPrefix(text, "# HELP bigset_"+name) {
			t.Errorf("no metric %s", name)
		}
	}
	if want := "bigset_level_tables{level=\"6\"} "; !strings.Contains(text, want) {
		t.Errorf("no line %q", want)
	}
}

// TestStatsLimit: of more sets than are wanted those come that have most.
func TestStatsLimit(t *testing.T) {
	dir := newDir(t)
	for i := range 12 {
		args := []string{"--dir", dir, "set", "add", fmt.Sprintf("set-%02d", i)}
		for k := range 1 + i*7%12 {
			args = append(args, fmt.Sprint(k))
		}
		call(t, "", args...).want(t, exitOK)
	}
	text := call(t, "", "--dir", dir, "stats", "--sets", "--by", "live", "--limit", "3", "--json").want(t, exitOK)
	got := regexp.MustCompile(`"live_dots":\d+`).FindAllString(text, -1)
	if want := `["live_dots":12 "live_dots":11 "live_dots":10]`; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestStatsSum: a set of the same elements has the same sum as long as it has them by the same adds.
func TestStatsSum(t *testing.T) {
	dir := newDir(t)
	sum := func(set string) string {
		t.Helper()
		text := call(t, "", "--dir", dir, "stats", set, "--sum", "--json").want(t, exitOK)
		var figures struct {
			Live uint64 `json:"live_dots"`
			Sum  string `json:"live_sum"`
		}
		if err := json.Unmarshal([]byte(text), &figures); err != nil || figures.Live != 2 || len(figures.Sum) != 32 {
			t.Fatalf("%v: %s", err, text)
		}
		return figures.Sum
	}
	call(t, "", "--dir", dir, "set", "add", "s", "a", "b").want(t, exitOK)
	was := sum("s")
	call(t, "", "--dir", dir, "set", "add", "other", "a", "c").want(t, exitOK)
	call(t, "", "--dir", dir, "compact").want(t, exitOK)
	if now := sum("s"); now != was || now == sum("other") {
		t.Errorf("without a change: %s, then %s", was, now)
	}
	call(t, "", "--dir", dir, "set", "rm", "s", "a").want(t, exitOK)
	call(t, "", "--dir", dir, "set", "add", "s", "a").want(t, exitOK)
	if now := sum("s"); now == was {
		t.Error("another add of an element has the same sum")
	}
	if text := call(t, "", "--dir", dir, "stats", "s").want(t, exitOK); strings.Contains(text, "sum") {
		t.Errorf("without --sum: %s", text)
	}
	call(t, "", "--dir", dir, "stats", "--sum").want(t, exitError)
}
