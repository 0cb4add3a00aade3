package resp

import (
	"os"
	"strings"
	"testing"
)

// TestEveryCommandOfRedis sends every command and subcommand of redis that is not served, and some of its modules: each is refused by a sentence that says why,
// and what to use instead.
func TestEveryCommandOfRedis(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/redis-commands")
	if err != nil {
		t.Fatal(err)
	}
	dial, s := start(t, Options{})
	p, names := dial(), strings.Fields("cf.add CMS.INITBYDIM topk.add tdigest.create json.get FT.SEARCH ts.add vadd waitaof hexpire")
	for line := range strings.Lines(string(list)) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	refused := 0
	for _, name := range names {
		command, _, sub := strings.Cut(name, "|")
		cmd := s.commands[command]
		if served := cmd != nil && cmd.about != ""; served != sub {
			continue // it is served, or a part of what is refused
		}
		words := strings.Split(name, "|")
		got := p.do(t, words...)
		for range 2 { // until a subcommand has its arguments
			if strings.Contains(got, "wrong number of arguments") {
				words = append(words, "x")
				got = p.do(t, words...)
			}
		}
		if sub && !strings.Contains(got, "unknown subcommand") && !strings.Contains(got, "not served") {
			continue
		}
		refused++
		said := "-ERR " + strings.ToUpper(strings.ReplaceAll(name, "|", " ")) + " is not served: "
		if why, ok := strings.CutPrefix(got, said); !ok || strings.Count(why, "; use ") != 1 || strings.Contains(why, "\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if refused < 200 {
		t.Errorf("%d commands were refused", refused)
	}
}
