package report

import (
	"strings"
	"testing"
)

// TestAssets: nothing in the scripts or the licence ends the element or the comment that they stand in.
func TestAssets(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"report.js": scriptOwn, "uplot.min.js": scriptPlot, "styles": style()} {
		for _, end := range []string{"</script", "</style", "<!--"} {
			if strings.Contains(strings.ToLower(text), end) {
				t.Errorf("%s contains %s", name, end)
			}
		}
	}
	if strings.Contains(licencePlot, "--") || licencePlot == "" {
		t.Error("the licence can't stand in a comment")
	}
	for _, call := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(", "XMLHttpRequest", "WebSocket"} {
		if strings.Contains(scriptOwn, call) || strings.Contains(scriptPlot, call) {
			t.Errorf("a script uses %s", call)
		}
	}
}
