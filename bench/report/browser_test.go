package report_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bigset/bench/chart"
	"bigset/bench/chart/charttest"
	"bigset/bench/report"
)

var (
	browserPath = flag.String("report.browser", "", "check pages in this headless Chromium")
	shots       = flag.String("report.shots", "", "write pictures of the checked pages to this folder")
	pageFiles   = flag.String("report.files", "", "check the pages in this folder too, which programs have written")
)

// browser is a Chromium that the test steers through a pipe (the DevTools protocol; messages end with a zero byte).
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	next    int
	session string
	width   int
	faults  []string // script errors, violated policies, requests
}

// startBrowser starts a browser for one test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if *browserPath == "" {
		t.Skip("no -report.browser")
	}
	hisIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, hisOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // the test's context ends before Browser.close
	cmd := exec.CommandContext(ctx, *browserPath, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{hisIn, hisOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = hisIn.Close(), hisOut.Close()
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		b.session = ""
		b.do("Browser.close", nil)
		_ = cmd.Wait()
		_ = os.RemoveAll(profile) // its helpers may still write
		cancel()
		_, _ = to.Close(), from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.do(domain+".enable", nil)
	}
	b.do("Network.emulateNetworkConditions", map[string]any{"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
	return b
}

type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// call sends a command and decodes its answer; events that come before it are kept.
func (b *browser) call(method string, params, answer any) {
	b.t.Helper()
	b.next++
	m := map[string]any{"id": b.next, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.read()
		if m.ID != b.next {
			b.event(m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if answer != nil {
			if err := json.Unmarshal(m.Result, answer); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, m.Result)
			}
		}
		return
	}
}

func (b *browser) do(method string, params any) { b.t.Helper(); b.call(method, params, nil) }

func (b *browser) read() message {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if errors.Is(err, io.EOF) && b.session == "" {
		return message{ID: b.next} // it closed
	}
	if err != nil {
		b.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// event keeps what must not happen.
func (b *browser) event(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
		b.faults = append(b.faults, m.Method+": "+string(m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if err := json.Unmarshal(m.Params, &p); err != nil {
			b.t.Fatal(err)
		}
		if !strings.HasPrefix(p.Request.URL, "file:") && !strings.HasPrefix(p.Request.URL, "data:") {
			b.faults = append(b.faults, "request for "+p.Request.URL)
		}
	}
}

// eval returns the value of a JavaScript expression.
func (b *browser) eval(expression string, answer any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	if answer != nil {
		if err := json.Unmarshal(r.Result.Value, answer); err != nil {
			b.t.Fatalf("%s: %v in %s", expression, err, r.Result.Value)
		}
	}
}

// frames waits until the browser has drawn what came so far.
func (b *browser) frames() {
	b.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, nil)
}

// view sets the size of the window, and whether it is a phone.
func (b *browser) view(width, height int, phone bool) {
	b.width = width
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone})
	b.do("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": phone})
}

func (b *browser) theme(name string) {
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": name}}})
}

// open shows a page.
func (b *browser) open(p *report.Page) {
	b.t.Helper()
	var text bytes.Buffer
	if err := report.WriteHTML(&text, p); err != nil {
		b.t.Fatal(err)
	}
	name := filepath.Join(b.t.TempDir(), "page.html")
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.openFile(name)
}

// openFile shows the page of a file and waits until all its charts are drawn.
func (b *browser) openFile(name string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": "file://" + name})
	b.eval(`new Promise((done, fail) => {
		const end = Date.now() + 20000;
		const look = () => {
			if (document.readyState === 'complete' && window.bigsetReport && (window.bigsetReport.charts.length ===
				document.querySelectorAll('.plot').length && window.bigsetReport.charts.every(c => c.u))) requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
			else if (Date.now() > end) fail(new Error('charts were not drawn'));
			else setTimeout(look, 10);
		};
		look();
	})`, nil)
}

// shot writes a picture of the whole page, or of the window.
func (b *browser) shot(name string, whole bool) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	params := map[string]any{"format": "png", "captureBeyondViewport": whole}
	if whole {
		var size []float64
		b.eval(`[document.documentElement.clientWidth, Math.min(document.documentElement.scrollHeight, 9000)]`, &size)
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
	}
	var answer struct{ Data []byte }
	b.call("Page.captureScreenshot", params, &answer)
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), answer.Data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// check fails the test for script errors, requests, and elements that are wider than the window.
func (b *browser) check(what string) {
	b.t.Helper()
	var wide []string
	b.eval(strings.ReplaceAll(`[...document.querySelectorAll('body *')].filter(e => !e.parentElement.closest('.scroll, pre, .still, svg') && !e.closest('.hear')).flatMap(e => {
		const r = e.getBoundingClientRect();
		return r.width > 0 && (r.right > WIDTH + 0.5 || r.left < -0.5) ? [e.tagName + '.' + e.className + ' ' + r.left + '..' + r.right + ' of WIDTH'] : [];
	}).concat(document.documentElement.scrollWidth > WIDTH ? ['the page is ' + document.documentElement.scrollWidth + ' wide'] : [])`, "WIDTH", strconv.Itoa(b.width)), &wide)
	for _, w := range wide {
		b.t.Errorf("%s: beyond the window: %s", what, w)
	}
	for _, f := range b.faults {
		b.t.Errorf("%s: %s", what, f)
	}
	b.faults = nil
}

// checkAxes fails the test for axes without ticks.
func (b *browser) checkAxes(what string) {
	b.t.Helper()
	var bare []string
	b.eval(`bigsetReport.charts.filter(c => c.u.axes.some(a => !(a._show && a._splits && a._splits.length > 1))).map(c => c.spec.t)`, &bare)
	for _, title := range bare {
		b.t.Errorf("%s: the chart %q has an axis without ticks", what, title)
	}
}

func (b *browser) mouse(kind string, x, y float64, buttons, clicks int) {
	b.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": map[int]string{0: "none", 1: "left"}[buttons], "buttons": buttons, "clickCount": clicks})
}

func (b *browser) key(name string) {
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name})
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name})
}

// plot scrolls to a chart and returns where its plot is in the window: left, top, width, height.
func (b *browser) plot(i int) [4]float64 {
	var r [4]float64
	b.eval(fmt.Sprintf(`(() => {
		document.documentElement.style.scrollBehavior = 'auto';
		const o = bigsetReport.charts[%d].u.over;
		o.scrollIntoView({block: 'center'});
		const r = o.getBoundingClientRect();
		return [r.left, r.top, r.width, r.height];
	})()`, i), &r)
	return r
}

func TestBrowserSizesAndThemes(t *testing.T) {
	b := startBrowser(t)
	checked := 0
	pages := []struct {
		name string
		page *report.Page
	}{{"example", examplePage()}, {"hostile", hostilePage()}, {"odd", oddPage()}}
	for _, p := range pages {
		for _, width := range []int{1280, 400} {
			for _, theme := range []string{"light", "dark"} {
				name := fmt.Sprintf("%s-%d-%s", p.name, width, theme)
				b.view(width, 900, width < 600)
				b.theme(theme)
				b.open(p.page)
				b.eval(`document.querySelectorAll('details').forEach((d, i) => { d.open = i === 0; })`, nil)
				b.check(name)
				b.checkAxes(name)
				b.shot(name, true)
				checked++
			}
		}
	}
	t.Attr("pages", strconv.Itoa(checked))
	var harmed bool
	b.open(hostilePage())
	if b.eval(`'harmed' in window || document.querySelectorAll('script').length !== 3 || document.querySelector('img, iframe, a[href^="javascript"]') !== null`, &harmed); harmed {
		t.Error("a name became markup")
	}
}

// pageBytesMax is the maximum size of a page, also of one of an hour.
const pageBytesMax = 3e6

// checkFast fails the test if a page takes more than a second to be drawn.
func (b *browser) checkFast(what string, open func()) {
	b.t.Helper()
	open() // the first page waits for the browser
	drawn := math.Inf(1)
	for range 3 { // what else the machine does is no time of the page
		open()
		var ms float64
		b.eval(`performance.getEntriesByName('bigset-drawn')[0].startTime`, &ms)
		if drawn = min(drawn, ms); drawn <= 1000 {
			break
		}
	}
	b.t.Logf("%s: drawn after %.0f ms", what, drawn)
	if drawn > 1000 {
		b.t.Errorf("%s: drawn after %.0f ms, the limit is 1000", what, drawn)
	}
}

// TestBrowserFiles opens the pages that bigset has written: a wide and a narrow window, light and dark. Each is drawn within a second and takes
// at most 3 MB.
func TestBrowserFiles(t *testing.T) {
	if *pageFiles == "" {
		t.Skip("no -report.files")
	}
	names, err := filepath.Glob(filepath.Join(*pageFiles, "*.html"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages in %s: %v", *pageFiles, err)
	}
	b := startBrowser(t)
	for _, file := range names {
		b.view(1280, 900, false)
		b.checkFast(filepath.Base(file), func() { b.openFile(file) })
		about, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if about.Size() > pageBytesMax {
			t.Errorf("%s has %d bytes, the limit is %d", file, about.Size(), int(pageBytesMax))
		}
		for _, width := range []int{1280, 400} {
			for _, theme := range []string{"light", "dark"} {
				name := fmt.Sprintf("%s-%d-%s", strings.TrimSuffix(filepath.Base(file), ".html"), width, theme)
				b.view(width, 900, width < 600)
				b.theme(theme)
				b.openFile(file)
				var charts int
				if b.eval(`bigsetReport.charts.length`, &charts); charts == 0 {
					t.Errorf("%s has no charts", name)
				}
				b.check(name)
				b.checkAxes(name)
				b.shot(name, true)
			}
		}
	}
	t.Attr("files", strconv.Itoa(len(names)))
}

// TestBrowserIsFast opens a page of the largest size without a network.
func TestBrowserIsFast(t *testing.T) {
	b := startBrowser(t)
	b.view(1280, 900, false)
	p := largePage()
	b.checkFast("large", func() { b.open(p) })
	b.check("large")
	b.shot("large", false)
}

// spans returns the ends of X of some charts.
func (b *browser) spans(charts ...int) [][2]float64 {
	b.t.Helper()
	var all [][2]float64
	for _, i := range charts {
		var s [2]float64
		b.eval(fmt.Sprintf(`[bigsetReport.charts[%d].u.scales.x.min, bigsetReport.charts[%d].u.scales.x.max]`, i, i), &s)
		all = append(all, s)
	}
	return all
}

func TestBrowserZoomAndValues(t *testing.T) {
	b := startBrowser(t)
	b.view(1280, 900, false)
	b.theme("light")
	b.open(examplePage())
	const ops, shape, load = 0, 4, 6
	before := b.spans(ops, shape, load)
	r := b.plot(ops)
	y := r[1] + r[3]/2
	b.mouse("mouseMoved", r[0]+r[2]*0.25, y, 0, 0)
	b.mouse("mousePressed", r[0]+r[2]*0.25, y, 1, 1)
	b.mouse("mouseMoved", r[0]+r[2]*0.4, y, 1, 0)
	b.mouse("mouseMoved", r[0]+r[2]*0.5, y, 1, 0)
	b.mouse("mouseReleased", r[0]+r[2]*0.5, y, 1, 1)
	after := b.spans(ops, shape, load)
	if math.Abs(after[0][0]-900) > 10 || math.Abs(after[0][1]-1800) > 10 {
		t.Errorf("after dragging over the second quarter the chart shows %v", after[0])
	}
	if after[1] != after[0] {
		t.Errorf("a chart over time shows %v, the one that was dragged %v", after[1], after[0])
	}
	if after[2] != before[2] {
		t.Errorf("the zoom of time changed a chart over load: %v", after[2])
	}
	b.mouse("mouseMoved", r[0]+r[2]*0.6, y, 0, 0)
	var tip string
	b.eval(`document.querySelector('.tip:not([hidden])').innerText`, &tip)
	for _, want := range []string{"time 2", "point deletes", "set-tombstones", "k op/s"} {
		if !strings.Contains(tip, want) {
			t.Errorf("no %q under the pointer: %q", want, tip)
		}
	}
	b.check("zoomed")
	b.shot("zoomed", false)
	b.mouse("mousePressed", r[0]+r[2]*0.6, y, 1, 1)
	b.mouse("mouseReleased", r[0]+r[2]*0.6, y, 1, 1)
	b.mouse("mousePressed", r[0]+r[2]*0.6, y, 1, 2)
	b.mouse("mouseReleased", r[0]+r[2]*0.6, y, 1, 2)
	if now := b.spans(ops, shape, load); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("a double click left %v, not %v", now, before)
	}
	b.testLegend(shape)
	b.testFiles(load)
	b.testTheme(ops)
	b.testKeys(ops, before[0])
	b.check("at the end")
}

// testLegend clicks the top area of a stack away, then the one below it.
func (b *browser) testLegend(stack int) {
	b.t.Helper()
	click := func(line int) (top, sum, below float64) {
		var v [3]float64
		b.eval(fmt.Sprintf(`(() => {
			const c = bigsetReport.charts[%d];
			c.buttons[%d].click();
			return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done([c.u.scales.y.max, c.u.data[5][600], c.joined[4][600]]))));
		})()`, stack, line), &v)
		return v[0], v[1], v[2]
	}
	var top, sum, below float64
	b.eval(fmt.Sprintf(`bigsetReport.charts[%d].u.scales.y.max`, stack), &top)
	without, _, _ := click(4)
	if without >= top/2 {
		b.t.Errorf("without its largest area the stack's axis ends at %g, before at %g", without, top)
	}
	var pressed string
	b.eval(fmt.Sprintf(`bigsetReport.charts[%d].buttons.map(b => b.getAttribute('aria-pressed')).join()`, stack), &pressed)
	if pressed != "true,true,true,true,false" {
		b.t.Errorf("the legend's buttons say %s", pressed)
	}
	back, sum, _ := click(4)
	_, less, below := click(3)
	if back != top || math.Abs(sum-below-less) > sum*1e-9 || below == 0 {
		b.t.Errorf("without an area of %g the sum went from %g to %g", below, sum, less)
	}
}

// testFiles clicks the buttons that save a plot.
func (b *browser) testFiles(chart int) {
	b.t.Helper()
	dir := b.t.TempDir()
	b.do("Page.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir})
	for _, name := range []string{"latency-over-load.csv", "latency-over-load.svg"} {
		b.eval(fmt.Sprintf(`[...bigsetReport.charts[%d].under.querySelectorAll('.tools button')].find(b => b.textContent === %q).click()`, chart,
			strings.ToUpper(name[len(name)-3:])), nil)
		var text []byte
		for range 100 {
			if text, _ = os.ReadFile(filepath.Join(dir, name)); len(text) > 0 {
				break
			}
			b.frames()
		}
		switch s := string(text); {
		case strings.HasSuffix(name, "svg"):
			if !strings.Contains(s, `stroke="#0068b0"`) || strings.Contains(s, "class=") {
				b.t.Errorf("%s is %.300q", name, s)
			}
			charttest.CheckMarkup(b.t, name, s, charttest.Plot)
		case !strings.HasPrefix(s, `"load [op/s]","point deletes [us]","point deletes least [us]"`) || strings.Count(s, "\n") != 26:
			b.t.Errorf("%s is %.300q", name, s)
		}
	}
}

// TestBrowserOwnTime zooms one of two sections.
func TestBrowserOwnTime(t *testing.T) {
	b := startBrowser(t)
	b.view(1280, 900, false)
	over := func(to float64) chart.Chart {
		return chart.Chart{XUnit: "s", Lines: []chart.Line{{Name: "a", X: []float64{0, to}, Y: []float64{1, 2}}}}
	}
	b.open(&report.Page{Sections: []report.Section{
		{Charts: []chart.Chart{over(10)}}, {OwnTime: true, Charts: []chart.Chart{over(100), over(60)}}, {Charts: []chart.Chart{over(10)}},
	}})
	b.eval(`bigsetReport.charts[1].group.zoom(20, 30)`, nil)
	b.frames()
	if got, want := fmt.Sprint(b.spans(0, 1, 2, 3)), "[[0 10] [20 30] [20 30] [0 10]]"; got != want {
		t.Errorf("the charts show %s, want %s", got, want)
	}
}

// testTheme changes to the dark theme by the button, and looks for its colours on the canvas.
func (b *browser) testTheme(chart int) {
	b.t.Helper()
	paint := func() (has bool) {
		// The first line of the dark theme is #4da6f0.
		b.eval(fmt.Sprintf(`(() => {
			const from = bigsetReport.charts[%d].u.ctx.canvas, copy = new OffscreenCanvas(from.width, from.height).getContext('2d');
			copy.drawImage(from, 0, 0);
			const d = copy.getImageData(0, 0, from.width, from.height).data;
			for (let i = 0; i < d.length; i += 4) if (d[i] === 0x4d && d[i + 1] === 0xa6 && d[i + 2] === 0xf0 && d[i + 3] === 255) return true;
			return false;
		})()`, chart), &has)
		return has
	}
	before := paint()
	b.eval(`document.getElementById("theme").click()`, nil)
	b.frames()
	if after := paint(); before || !after {
		b.t.Errorf("dark lines before the button %t, after it %t", before, after)
	}
	b.eval(`document.getElementById("theme").click()`, nil)
}

// testKeys walks and zooms by keys.
func (b *browser) testKeys(chart int, whole [2]float64) {
	b.t.Helper()
	b.mouse("mouseMoved", 1, 1, 0, 0)
	b.eval(fmt.Sprintf(`bigsetReport.charts[%d].canvas.focus()`, chart), nil)
	for range 3 {
		b.key("ArrowRight")
	}
	var heard string
	b.eval(`document.getElementById('heard').textContent`, &heard)
	if !strings.Contains(heard, "point deletes") || !strings.HasPrefix(heard, "7 s;") {
		b.t.Errorf("the third point is read as %q", heard)
	}
	b.key("+")
	if s := b.spans(chart)[0]; s[1]-s[0] > (whole[1]-whole[0])*0.6 {
		b.t.Errorf("plus shows %v", s)
	}
	b.key("Escape")
	if s := b.spans(chart)[0]; s != whole {
		b.t.Errorf("Escape shows %v", s)
	}
}

func TestBrowserTouch(t *testing.T) {
	b := startBrowser(t)
	b.view(400, 900, true)
	b.theme("dark")
	b.open(examplePage())
	r := b.plot(1)
	y := r[1] + r[3]/2
	touch := func(kind string, x ...float64) {
		points := []any{}
		for _, v := range x {
			points = append(points, map[string]any{"x": r[0] + r[2]*v, "y": y})
		}
		b.do("Input.dispatchTouchEvent", map[string]any{"type": kind, "touchPoints": points})
	}
	touch("touchStart", 0.3)
	touch("touchMove", 0.5)
	touch("touchMove", 0.7)
	b.frames()
	var tip string
	b.eval(`[...document.querySelectorAll('.tip:not([hidden])')].map(t => t.innerText).join('|')`, &tip)
	if !strings.Contains(tip, "time 4") || !strings.Contains(tip, "set-tombstones") {
		t.Errorf("under the finger: %q", tip)
	}
	b.check("touched")
	b.shot("touched", false)
	touch("touchEnd")
	touch("touchStart", 0.4, 0.6)
	touch("touchMove", 0.3, 0.7)
	touch("touchMove", 0.2, 0.8)
	b.frames()
	touch("touchEnd")
	if s := b.spans(1)[0]; s[1]-s[0] > 1500 || s[0] > 1800 || s[1] < 1800 {
		t.Errorf("two fingers that went apart show %v", s)
	}
	b.check("pinched")
}

// TestBrowserPrints looks for the light SVGs on paper.
func TestBrowserPrints(t *testing.T) {
	b := startBrowser(t)
	b.view(1280, 900, false)
	b.theme("dark")
	b.open(examplePage())
	var pdf struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"printBackground": true}, &pdf)
	if *shots != "" {
		data, err := base64.StdEncoding.DecodeString(pdf.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*shots, "print.pdf"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.do("Emulation.setEmulatedMedia", map[string]any{"media": "print"})
	var seen struct {
		Still, Canvas string
		Paper         string
	}
	b.eval(`({Still: getComputedStyle(document.querySelector('.still')).display, Canvas: getComputedStyle(document.querySelector('.canvas')).display,
		Paper: getComputedStyle(document.body).backgroundColor})`, &seen)
	if seen.Still == "none" || seen.Canvas != "none" || seen.Paper != "rgb(255, 255, 255)" {
		t.Errorf("on paper: %+v", seen)
	}
}

// TestBrowserWithoutScripts shows the SVGs where scripts are off.
func TestBrowserWithoutScripts(t *testing.T) {
	b := startBrowser(t)
	b.view(400, 900, true)
	b.theme("dark")
	b.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	var text bytes.Buffer
	if err := report.WriteHTML(&text, examplePage()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do("Page.navigate", map[string]any{"url": "file://" + name})
	time.Sleep(time.Second)
	b.shot("noscript", true)
	b.check("without scripts")
}

// TestBrowserWordsAgree compares the words and scales of the script with those that package chart agrees to.
func TestBrowserWordsAgree(t *testing.T) {
	b := startBrowser(t)
	b.open(&report.Page{})
	text, err := os.ReadFile("../chart/testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var agreed struct {
		Words []struct {
			V                     float64
			Unit, Value, X, Short string
		}
		Axes []struct {
			From, To  float64
			Unit      string
			Log, Time bool
			Ticks     [][2]any
			Shown     string
			Range     [2]float64
		}
	}
	if err := json.Unmarshal(text, &agreed); err != nil || len(agreed.Words) == 0 || len(agreed.Axes) == 0 {
		t.Fatal(len(agreed.Words), len(agreed.Axes), err)
	}
	for _, want := range agreed.Words {
		got := want
		b.eval(fmt.Sprintf(`((v, u) => ({Value: bigsetReport.valueText(v, u), X: bigsetReport.xText(v, u), Short: bigsetReport.shortText(v, u)}))(%g, %q)`, want.V, want.Unit), &got)
		if got != want {
			t.Errorf("%g %s: the script writes %+v, the package %+v", want.V, want.Unit, got, want)
		}
	}
	for _, want := range agreed.Axes {
		got := want
		got.Ticks = nil
		b.eval(fmt.Sprintf(`(() => { const [t, u] = bigsetReport.ticks({from: %g, to: %g, log: %t}, %q, %t, 6), r = bigsetReport.%s(%g, %g, %q);
			return {Ticks: t, Shown: u, Range: [r.from, r.to]}; })()`, want.From, want.To, want.Log, want.Unit, want.Time, map[bool]string{false: "fromZero", true: "decades"}[want.Log], want.From, want.To, want.Unit), &got)
		if got.Shown != want.Shown || len(got.Ticks) != len(want.Ticks) || !near(got.Range[0], want.Range[0]) || !near(got.Range[1], want.Range[1]) {
			t.Errorf("the script has %v, the package %v", got, want)
			continue
		}
		for i, w := range want.Ticks {
			if g := got.Ticks[i]; !near(g[0].(float64), w[0].(float64)) || g[1] != w[1] {
				t.Errorf("%v: tick %v in the script, %v in the package", want, g, w)
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
