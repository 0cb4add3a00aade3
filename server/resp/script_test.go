package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts has conversations: the command is the protocol of a new connection, the lines are inline commands.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		dial, _ := start(t, Options{Version: "v1"})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p := dial()
			p.do(t, "HELLO", d.Cmd)
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if _, err := p.Write([]byte(line + "\r\n")); err != nil { // the second line break is an empty command
					t.Fatal(err)
				}
				fmt.Fprintln(&out, p.read(t))
			}
			return out.String()
		})
	})
}
