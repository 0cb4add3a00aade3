package report_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"bigset/bench/chart"
	"bigset/bench/chart/charttest"
	"bigset/bench/report"
)

// html returns a page's text.
func html(t *testing.T, p *report.Page) string {
	t.Helper()
	var b strings.Builder
	if err := report.WriteHTML(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// smallPage has one of everything.
func smallPage() *report.Page {
	return &report.Page{Title: "All parts", About: "First.\n\nSecond.", Sections: []report.Section{
		{Title: "Words", Text: "A text.", Verdicts: []report.Verdict{{Word: report.Pass, What: "a", Detail: "1"}, {Word: report.Fail, What: "b"},
			{Word: report.Steady, What: "c"}, {Word: report.Noisy, What: "d"}, {Word: "other", What: "e"}}},
		{Facts: []report.Fact{{Name: "n", Value: "v"}}, Code: "a: 1\n", Tables: []report.Table{
			{Title: "T", Head: []string{"name", "number", "mixed"}, Rows: [][]string{{"x", "1,234", "1"}, {"y", "−5 µs", "none"}, {"z", "", "", "more"}}, Note: "A note."}}},
		{Title: "Plots", Charts: []chart.Chart{charttest.Papers()["stacked"]}},
	}}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	charttest.Golden(t, "page.html", without(html(t, smallPage())))
}

var fixed = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<script type="application/json" id="data">.*?</script>|<!--.*?-->|content="default-src[^"]*"`)

// without returns a page without what is the same in all, and without its packed numbers.
func without(page string) string { return fixed.ReplaceAllString(page, "…") }

// TestSameBytes: a page is a function of its content, and writing changes nothing of it. A test of charts says the same of their numbers.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	p := oddPage()
	before := html(t, p)
	if html(t, p) != before || html(t, oddPage()) != before {
		t.Error("the same page gave other bytes")
	}
	if !reflect.DeepEqual(wideTable(), p.Sections[1].Tables[0]) {
		t.Error("writing changed a table")
	}
}

type brokenWriter struct{ left int }

var errBroken = errors.New("disk full")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errBroken
	}
	w.left -= len(p)
	return len(p), nil
}

func TestWriterFails(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 5000} {
		if err := report.WriteHTML(&brokenWriter{left}, smallPage()); !errors.Is(err, errBroken) {
			t.Errorf("WriteHTML after %d bytes: %v", left, err)
		}
	}
}

// TestPolicy compares the hashes of the page's policy with what the page has.
func TestPolicy(t *testing.T) {
	t.Parallel()
	page := html(t, hostilePage())
	_, policy, _ := strings.Cut(page, `content="`)
	policy, _, _ = strings.Cut(policy, `"`)
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	parts := regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`).FindAllStringSubmatch(page, -1)
	if len(parts) != 3 {
		t.Fatalf("%d scripts and style sheets, want 3", len(parts))
	}
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p[2]))
		if h := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, h) {
			t.Errorf("the policy does not allow a %s of %d bytes", p[1], len(p[2]))
		}
	}
	if n := strings.Count(policy, "sha256-"); n != 3 {
		t.Errorf("the policy allows %d texts, want 3", n)
	}
	if !strings.Contains(page, "Copyright (c) 2022 Leon Sorokin") {
		t.Error("uPlot's licence is missing")
	}
}

// elements are all that a page may have around its plots, with their attributes.
var elements = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "link": "rel href", "body": "", "div": "class id data-chart aria-live tabindex role aria-label",
	"header": "", "h1": "", "h2": "", "h3": "", "p": "class id hidden", "button": "type id title hidden", "nav": "aria-label", "ul": "class", "li": "", "a": "href", "main": "", "section": "id",
	"span": "class aria-hidden", "dl": "", "dt": "", "dd": "", "table": "", "caption": "", "thead": "", "tbody": "", "tr": "", "th": "scope class", "td": "class", "pre": "tabindex",
	"code": "", "figure": "", "figcaption": "", "details": "", "summary": "",
}

// TestMarkup: hostile texts and odd numbers give well-formed pages with the package's own elements.
func TestMarkup(t *testing.T) {
	t.Parallel()
	allowed := maps.Clone(charttest.Plot)
	maps.Copy(allowed, elements)
	for name, p := range map[string]*report.Page{"hostile": hostilePage(), "odd": oddPage(), "small": smallPage(), "empty": {}} {
		page := without(html(t, p))
		// HTML's void elements and attributes without a value are no XML.
		page = regexp.MustCompile(`<(meta|link)([^>]*)>`).ReplaceAllString(page, "<$1$2/>")
		page = strings.NewReplacer("<!doctype html>", "", " hidden>", ` hidden="">`, "content=…", `content=""`, ` …>`, `>`, ` …/>`, `/>`).Replace(page)
		texts := strings.Join(charttest.CheckMarkup(t, name, page, allowed), "\n")
		if name == "hostile" {
			for _, h := range charttest.Hostile[:8] {
				if !strings.Contains(texts, h) {
					t.Errorf("the page does not show %q", h)
				}
			}
		}
	}
}

// packed is what the script reads.
type packed struct {
	X      []json.RawMessage
	Charts []struct {
		T  string
		St bool
		R  [2]float64
		M  [][2]any
		L  []struct {
			N         string
			X         int
			Y, Lo, Hi []*float64
		}
	}
}

// unpack returns the numbers of a page, and the lists of X as the script makes them.
func unpack(t *testing.T, page string) (packed, [][]float64) {
	t.Helper()
	_, text, _ := strings.Cut(page, `id="data">`)
	text, _, _ = strings.Cut(text, "<")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var p packed
	if err := json.NewDecoder(z).Decode(&p); err != nil {
		t.Fatal(err)
	}
	var lists [][]float64
	for _, raw := range p.X {
		var list []float64
		var even struct {
			A, S float64
			N    int
		}
		if json.Unmarshal(raw, &list) != nil {
			if err := json.Unmarshal(raw, &even); err != nil {
				t.Fatal(err)
			}
			for i := range even.N {
				list = append(list, even.A+float64(i)*even.S)
			}
		}
		lists = append(lists, list)
	}
	return p, lists
}

// TestPackedNumbers: what the script gets is what the chart has, to five digits.
func TestPackedNumbers(t *testing.T) {
	t.Parallel()
	p, lists := unpack(t, html(t, oddPage()))
	for i, c := range charttest.Odd() {
		got := p.Charts[i]
		if got.T != c.Title || len(got.L) != len(c.Lines) || got.R[0] >= got.R[1] {
			t.Errorf("%s: packed as %q with %d lines over %v", c.Title, got.T, len(got.L), got.R)
		}
		for j, l := range got.L {
			x := lists[l.X]
			if len(l.Y) != len(x) || l.Lo != nil && (len(l.Lo) != len(x) || len(l.Hi) != len(x)) {
				t.Errorf("%s: %d X, %d Y", c.Title, len(x), len(l.Y))
			}
			for k := 1; k < len(x); k++ {
				if x[k] <= x[k-1] {
					t.Errorf("%s: X %v after %v", c.Title, x[k], x[k-1])
				}
			}
			if c.Title == "both signs" || c.Title == "all negative" {
				for k, y := range l.Y {
					if math.Abs(*y-c.Lines[j].Y[k]) > 1e-5*math.Abs(*y) {
						t.Errorf("%s: %g is packed as %g", c.Title, c.Lines[j].Y[k], *y)
					}
				}
			}
		}
	}
}

// TestTimeIsOneAxis: charts over time have one range, others and sections with a time of their own have theirs.
func TestTimeIsOneAxis(t *testing.T) {
	t.Parallel()
	line := func(x ...float64) []chart.Line { return []chart.Line{{X: x, Y: x}} }
	p, _ := unpack(t, html(t, &report.Page{Sections: []report.Section{
		{Charts: []chart.Chart{{XUnit: "s", Lines: line(5, 10)}, {XUnit: "op/s", Lines: line(1, 2)}}}, {Charts: []chart.Chart{{XUnit: "s", Lines: line(20, 40)}, {XUnit: "s"}}},
		{OwnTime: true, Charts: []chart.Chart{{XUnit: "s", Lines: line(1, 3)}, {XUnit: "s", Lines: line(1, 7)}}},
	}}))
	// The first sample came after a second.
	if r := p.Charts[4].R; r != [2]float64{0, 7} {
		t.Errorf("the range of a section with its own time is %v", r)
	}
	if a, b, c := p.Charts[0].R, p.Charts[2].R, p.Charts[3].R; a != [2]float64{5, 40} || a != b || a != c {
		t.Errorf("the ranges over time are %v, %v and %v", a, b, c)
	}
	if r := p.Charts[1].R; r[0] < 0.9 || r[1] > 2.1 {
		t.Errorf("the range over load is %v", r)
	}
}

// TestSize: the largest page stays below 3 MB and keeps its spikes.
func TestSize(t *testing.T) {
	t.Parallel()
	p := largePage()
	p.Sections[0].Charts[7].Lines[2].Y[1234] = 777777
	page := html(t, p)
	if len(page) > 3e6 || len(page) < 1e6 {
		t.Errorf("the page has %d bytes", len(page))
	}
	got, _ := unpack(t, page)
	most := 0.0
	for _, v := range got.Charts[7].L[2].Hi {
		most = max(most, *v)
	}
	if math.Abs(most-777777) > 10 {
		t.Errorf("the greatest value is %g, want 777777", most)
	}
}

func TestExampleIsMarked(t *testing.T) {
	t.Parallel()
	p := examplePage()
	if !strings.Contains(p.Title, "Example") || !strings.Contains(p.About, "Nothing was measured") || reflect.DeepEqual(p, &report.Page{}) {
		t.Error("the example page could be taken for a measurement")
	}
}

func BenchmarkWriteHTML(b *testing.B) {
	p := largePage()
	b.ReportAllocs()
	for b.Loop() {
		var w bytes.Buffer
		if err := report.WriteHTML(&w, p); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(w.Len()), "page-bytes")
	}
}
