package rest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// linesOf returns the lines of an answer, each as an object.
func linesOf(t *testing.T, answer string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(answer) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, o)
	}
	return all
}

// TestChanges asks what was added and removed since a token.
func TestChanges(t *testing.T) {
	s := start(t, Options{})
	next := ""
	ask := func(more string) (all []map[string]any) {
		t.Helper()
		all = linesOf(t, s.want("GET", friends+"/changes?since="+next+more, "", 200, `{"done":true,"count":`))
		next = all[len(all)-1]["next"].(string)
		return all
	}
	if all := ask(""); len(all) != 2 || all[0]["reset"] != "begin" {
		t.Errorf("of nothing: %v", all)
	}
	s.want("POST", friends, `{"add_all":["paul","ringo"]}`, 204)
	s.want("POST", friends+"?encoding=base64", `{"add":"`+base64.StdEncoding.EncodeToString([]byte("\xff"))+`"}`, 204)
	all := ask("")
	if len(all) != 4 || fmt.Sprint(all[0]["added"], all[1]["added"], all[2]["added_base64"]) != "paulringo/w==" || len(all[0]["dots"].([]any)) != 1 || all[3]["count"] != 3.0 {
		t.Errorf("%v", all)
	}
	s.want("POST", friends, `{"remove":"paul"}`, 204)
	dots := fmt.Sprint(all[0]["dots"])
	if all = ask(""); len(all) != 2 || all[0]["removed"] != "paul" || fmt.Sprint(all[0]["dots"]) != dots {
		t.Errorf("%v, want dots %v", all, dots)
	}
	s.want("DELETE", friends, "", 200)
	if all = ask("&limit=1&r=1"); len(all) != 2 || all[0]["dead"] == nil {
		t.Errorf("%v", all)
	}
	ask("")
	var late sync.WaitGroup
	late.Go(func() {
		time.Sleep(100 * time.Millisecond)
		s.ask(call{method: "POST", path: friends, body: `{"add":"late"}`})
	})
	if all = ask("&wait=30000"); all[0]["added"] != "late" {
		t.Errorf("%v", all)
	}
	late.Wait()
	s.want("GET", "/types/sets/buckets/b/datatypes/other/changes?since="+next, "", 400, `"error":"context"`)
	for _, query := range []string{"?since=!", "?limit=0", "?wait=60001", "?wait=x", "?r=2", "?timeout=1"} {
		s.want("GET", friends+"/changes"+query, "", 400)
	}
}
