package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bigset/internal/testkit/tier"
)

var rewrite = flag.Bool("rewrite", false, "write down what comes out")

// noise makes the rounds of a row as a noisy machine does: figures of a round share a part of their noise, times are rounded to tenths.
func noise(rng *rand.Rand, rounds int, sd, slower float64) []([]Value) {
	var all []([]Value)
	for range rounds {
		shared := rng.NormFloat64()
		value := func(center float64) Value {
			return Value{center * (1 + sd*(0.6*shared+0.8*rng.NormFloat64())), true}
		}
		round := make([]Value, len(figures))
		for i, f := range figures {
			switch f.Name {
			case "ops":
				round[i] = Value{10_000, true}
			case "ops_per_s":
				round[i] = value(50_000 / slower)
			case "cpu_us_per_op", "p50_us", "p99_us":
				v := value(20 * slower)
				round[i] = Value{math.Round(10*v.V) / 10, true}
			case "bytes_written", "keys_dead":
				v := value(1e6)
				round[i] = Value{math.Round(v.V), true}
			case "bytes_on_disk":
				round[i] = Value{4096, true}
			}
		}
		all = append(all, round)
	}
	return all
}

// report is a report with rows of noise.
func report(rng *rand.Rand, rows, rounds int, sd, slower float64) *Report {
	r := &Report{Name: "r.json"}
	for i := range rows {
		r.Rows = append(r.Rows, Row{Key: Key{Workload: string(rune('a' + i)), System: "bigset", Elements: 1000}, Rounds: noise(rng, rounds, sd, slower)})
	}
	return r
}

func cutRounds(r *Report, n int) *Report {
	out := &Report{Name: r.Name, Machine: r.Machine, Config: r.Config}
	for _, row := range r.Rows {
		row.Rounds = row.Rounds[:n]
		out.Rows = append(out.Rows, row)
	}
	return out
}

func files(t *testing.T, a, b *Report, o Options) *Comparison {
	t.Helper()
	c, err := Files(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// called reports whether a comparison calls anything changed.
func called(c *Comparison) bool {
	return c.Summary.Better+c.Summary.Worse+c.Summary.Mixed+c.Summary.Changed > 0
}

// TestAgainstItself compares runs of one build, and looks after every round: at most 5 of 100 comparisons may ever call anything changed. Comparisons
// with one figure check the levels of the looks, those with many the correction for many figures.
func TestAgainstItself(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		rows, runs int
		looks      []int
		o          Options
	}{
		{"one figure", 1, tier.Pick(200, 1000, 2000), []int{6, 7, 8, 9, 12, 20}, Options{Figures: []string{"ops_per_s"}}},
		{"24 figures", 4, tier.Pick(10, 30, 200), []int{6, 12, 20}, Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 16))
			wrong := 0
			for range test.runs {
				a, b := report(rng, test.rows, 20, 0.03, 1), report(rng, test.rows, 20, 0.03, 1)
				if slices.ContainsFunc(test.looks, func(n int) bool { return called(files(t, cutRounds(a, n), cutRounds(b, n), test.o)) }) {
					wrong++
				}
			}
			t.Logf("%d of %d comparisons of a build with itself call something changed", wrong, test.runs)
			if wrong*100 > 5*test.runs {
				t.Errorf("%d of %d comparisons of a build with itself call something changed: more than 5 of 100", wrong, test.runs)
			}
			if wrong == 0 && test.runs >= 200 {
				t.Error("none: the test has no power to see a level that is too high")
			}
		})
	}
}

// TestPower finds changes of 10 % under a noise of 3 % at 12 rounds, in a comparison with many figures, in the right direction.
func TestPower(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 16))
	found, runs := 0, 100
	for range runs {
		c := files(t, report(rng, 4, 12, 0.03, 1), report(rng, 4, 12, 0.03, 1.1), Options{})
		if c.Summary.Better+c.Summary.Mixed > 0 {
			t.Fatalf("slower is called better: %v", c.Summary)
		}
		if c.Summary.Worse == 4 {
			found++
		}
	}
	t.Logf("found in all four rows in %d of %d", found, runs)
	if found < 95 {
		t.Errorf("found in all four rows in %d of %d comparisons only", found, runs)
	}
}

// TestFewRounds: below 6 rounds there are changes and no verdicts, however large they are.
func TestFewRounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 16))
	a, b := report(rng, 1, 12, 0.001, 1), report(rng, 1, 12, 0.001, 3)
	for n := 1; n <= 12; n++ {
		c := files(t, cutRounds(a, n), b, Options{Figures: []string{"p99"}})
		f := c.Rows[0].Figures[0]
		want := Worse
		if n < 6 {
			want = TooFew
		}
		if f.Verdict != want || c.Rows[0].Verdict != want || *f.Change < 1.9 {
			t.Errorf("%d rounds: %s, change %v, want %s", n, f.Verdict, *f.Change, want)
		}
		if n < 6 && (c.Summary.MoreRounds != 6-n || c.Summary.NextLook != 6 || c.Summary.TooFew != 1) {
			t.Errorf("%d rounds: %+v", n, c.Summary)
		}
	}
}

// TestBetweenLooks: rounds after a look do not change its verdict nor its figures, until the next look.
func TestBetweenLooks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 16))
	a, b := report(rng, 2, 30, 0.03, 1), report(rng, 2, 30, 0.03, 1.03)
	for n := 6; n <= 30; n++ {
		at := looks[lookAt(n)].rounds
		have, want := files(t, cutRounds(a, n), cutRounds(b, n), Options{}), files(t, cutRounds(a, at), cutRounds(b, at), Options{})
		for i := range have.Rows {
			h, w := asJSON(t, have.Rows[i].Figures), asJSON(t, want.Rows[i].Figures)
			if h != w {
				t.Errorf("%d rounds: %s\nat %d: %s", n, h, at, w)
			}
		}
		if more := slices.ContainsFunc(have.Notes, func(s string) bool { return strings.Contains(s, "first 20") }); more != (n > 20) {
			t.Errorf("%d rounds: notes %q", n, have.Notes)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDirection: every figure knows which way is worse.
func TestDirection(t *testing.T) {
	t.Parallel()
	for i, f := range figures {
		side := func(center float64) *Report {
			var rounds []([]Value)
			for j := range 12 {
				round := make([]Value, len(figures))
				round[i] = Value{center + float64(j), true}
				rounds = append(rounds, round)
			}
			return &Report{Rows: []Row{{Key: Key{Workload: "w"}, Rounds: rounds}}}
		}
		up, down := files(t, side(100), side(200), Options{}).Rows[0], files(t, side(200), side(100), Options{}).Rows[0]
		want := map[Direction][2]Verdict{More: {Better, Worse}, Less: {Worse, Better}, Neither: {Changed, Changed}}[f.Better]
		if up.Verdict != want[0] || down.Verdict != want[1] {
			t.Errorf("%s: up is %s, down is %s, want %v", f.Name, up.Verdict, down.Verdict, want)
		}
	}
	for _, name := range []string{"ops_per_s", "mb_per_s", "kept"} {
		if i, _ := figureNamed(name); figures[i].Better != More {
			t.Errorf("%s is better of %s", name, figures[i].Better)
		}
	}
	for _, name := range []string{"p50", "p99", "p999", "cpu", "bytes_written", "write_amp", "keys_dead", "errors", "rss_bytes"} {
		if i, _ := figureNamed(name); figures[i].Better != Less {
			t.Errorf("%s is better of %s", name, figures[i].Better)
		}
	}
}

// sample makes a change of one figure from values.
func sample(name string, a, b []float64) *Change {
	i, err := figureNamed(name)
	if err != nil {
		panic(err)
	}
	c := measure(figures[i], a, b)
	holm([]*Change{c})
	return c
}

func repeat(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

// TestWithoutNoise: a count of which all rounds agree is exact; a time that happens to be constant is a sample like any other.
func TestWithoutNoise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		figure  string
		a, b    []float64
		want    Verdict
		p       float64
		exact   bool
		percent string
	}{
		{"equal counts", "bytes_written", repeat(7, 6), repeat(7, 6), NoChange, 1, true, "0.0%"},
		{"counts that differ by one", "bytes_written", repeat(1000, 6), repeat(1001, 6), Worse, 0, true, "+0.1%"},
		{"equal times", "p99", repeat(7, 6), repeat(7, 6), NoChange, 1, false, "0.0%"},
		{"constant times", "p99", repeat(7, 6), repeat(6, 6), Better, leastP(6), false, "-14.3%"},
		{"from nothing", "errors", repeat(0, 6), repeat(3, 6), Worse, 0, true, "from 0"},
		{"to nothing", "errors", repeat(3, 6), repeat(0, 6), Better, 0, true, "-100.0%"},
		{"always nothing", "errors", repeat(0, 6), repeat(0, 6), NoChange, 1, true, "0.0%"},
		{"one round alone", "bytes_written", append(repeat(7, 5), 8), repeat(7, 6), NoChange, 1, false, "0.0%"},
	} {
		c := sample(test.figure, test.a, test.b)
		if c.Verdict != test.want || math.Abs(*c.P-test.p) > 1e-6 || c.Exact != test.exact || percent(c.Change) != test.percent {
			t.Errorf("%s: %s, P %v, exact %v, %s; want %s, %v, %v, %s", test.name, c.Verdict, *c.P, c.Exact, percent(c.Change), test.want, test.p, test.exact, test.percent)
		}
	}
}

// TestHolm checks the correction against P values worked out by hand.
func TestHolm(t *testing.T) {
	t.Parallel()
	family := func(look int, ps ...float64) (changes []*Change) {
		for _, p := range ps {
			changes = append(changes, &Change{Figure: Figure{Better: Less}, B: Side{Median: 1}, P: new(p), Level: looks[look].level, look: look})
		}
		return changes
	}
	for _, test := range []struct {
		look int
		ps   []float64
		want string
	}{
		{0, []float64{0.0199}, "worse"},
		{0, []float64{0.0201}, "undecided"}, // the whole error would find it
		{0, []float64{0.051}, "no change"},
		{1, []float64{0.0149, 0.0074}, "worse worse"},
		{1, []float64{0.0076, 0.0076}, "undecided undecided"},
		{1, []float64{0.0151, 0.0074}, "undecided worse"},
		{2, []float64{0.0151, 0.0074}, "no change worse"},                                                                       // there is no later look
		{1, []float64{0.004, 0.006, 0.007}, "worse worse worse"},                                                                // 0.015/3, /2, /1
		{1, []float64{0.006, 0.007, 0.0001}, "worse worse worse"},                                                               // step down
		{2, []float64{0.0051, 0.0001, 0.008}, "worse worse worse"},                                                              // 0.0051 <= 0.0075
		{2, []float64{0.0076, 0.0001, 0.008}, "no change worse no change"},                                                      // 0.008 alone would pass
		{0, []float64{0.0022, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, "undecided" + strings.Repeat(" no change", 9)},      // 0.0022·10
		{0, append([]float64{0.0022}, repeat(0.5, 99)...), "undecided" + strings.Repeat(" no change", 99)},                      // six rounds can't decide 100
		{1, append([]float64{0.0022}, repeat(0.5, 99)...), strings.TrimSpace(strings.Repeat(" no change", 100))},                // twelve can
		{1, append([]float64{0.00014, 0.00014}, repeat(0.5, 98)...), "worse worse" + strings.Repeat(" no change", 98)},          // 0.00014·100, ·99
		{1, append([]float64{0.00016, 0.000151}, repeat(0.5, 98)...), "undecided undecided" + strings.Repeat(" no change", 98)}, // 0.000151·100 is above
		{1, append([]float64{0.00016, 0.00014}, repeat(0.5, 98)...), "undecided worse" + strings.Repeat(" no change", 98)},      // 0.00016·99 is above
	} {
		changes := family(test.look, test.ps...)
		if n := holm(changes); n != len(test.ps) {
			t.Errorf("%v: a family of %d", test.ps, n)
		}
		var have []string
		for _, c := range changes {
			have = append(have, string(c.Verdict))
		}
		if strings.Join(have, " ") != test.want {
			t.Errorf("look %d, %v: %q, want %q", test.look, test.ps[:min(3, len(test.ps))], have, test.want)
		}
	}
}

// TestLooks: the levels add up to the whole error, and each look can decide something.
func TestLooks(t *testing.T) {
	t.Parallel()
	sum := 0.0
	for i, l := range looks {
		sum += l.level
		if !l.decides(9) || l.decides(1e12) || lookAt(l.rounds) != i || lookAt(l.rounds-1) != i-1 {
			t.Errorf("look %d: %+v", i, l)
		}
	}
	if math.Abs(sum-errorTotal) > 1e-12 {
		t.Errorf("the looks spend %v, not %v", sum, errorTotal)
	}
	if looks[0].decides(10) || !looks[1].decides(20_000) {
		t.Error("docs say that six rounds decide 9 figures, twelve 20,000")
	}
	if have := []int{lookFor(-1, 9), lookFor(-1, 10), lookFor(0, 9), lookFor(1, 1), lookFor(2, 1)}; !slices.Equal(have, []int{0, 1, 1, 2, 2}) {
		t.Errorf("next looks %v", have)
	}
}

// TestOutside derives the numbers of differences outside an interval from the distribution of U, which counts the ways to walk.
func TestOutside(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 20; n++ {
		ways := map[[3]int]float64{}
		var count func(a, b, u int) float64
		count = func(a, b, u int) float64 {
			if u < 0 || a < 0 || b < 0 {
				return 0
			}
			if a == 0 || b == 0 {
				if u == 0 {
					return 1
				}
				return 0
			}
			k := [3]int{a, b, u}
			if w, ok := ways[k]; ok {
				return w
			}
			ways[k] = count(a-1, b, u-b) + count(a, b-1, u)
			return ways[k]
		}
		all, skip := 2/leastP(n), 0
		for sum := count(n, n, 0); 2*sum/all <= 0.05; sum += count(n, n, skip) {
			skip++
		}
		if have, ok := outside[n]; ok && have != skip || !ok && skip > 0 && (n < 6 || lookAt(n) != lookAt(n-1)) {
			t.Errorf("%d rounds: %d differences are outside, not %d", n, skip, have)
		}
	}
}

// TestInterval: 95 of 100 intervals hold the true change, and they agree with the test.
func TestInterval(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 16))
	for _, n := range []int{4, 5, 6, 12, 20} {
		hit, runs := 0, 4000
		for range runs {
			var a, b []float64
			for range n {
				a, b = append(a, 100*math.Exp(0.05*rng.NormFloat64())), append(b, 120*math.Exp(0.05*rng.NormFloat64()))
			}
			slices.Sort(a)
			slices.Sort(b)
			median := func(s []float64) float64 { return (s[(n-1)/2] + s[n/2]) / 2 }
			if lo, hi := interval(a, b, median(a), ratio(median(b), median(a))); *lo <= 0.2 && 0.2 <= *hi {
				hit++
			}
		}
		if hit < runs*94/100 || hit > runs*99/100 {
			t.Errorf("%d rounds: %d of %d intervals hold the true change", n, hit, runs)
		}
	}
	for range 200 { // it agrees with the test
		n := looks[rng.IntN(2)].rounds
		var a, b []float64
		for range n {
			a, b = append(a, 100*math.Exp(0.05*rng.NormFloat64())), append(b, 104*math.Exp(0.05*rng.NormFloat64()))
		}
		c := sample("p99", a, b)
		if *c.Change < *c.Lo || *c.Change > *c.Hi {
			t.Fatalf("%d rounds: %v is outside %v .. %v", n, *c.Change, *c.Lo, *c.Hi)
		}
		if (*c.P <= 0.05) != (*c.Lo > 0 || *c.Hi < 0) {
			t.Fatalf("%d rounds: P %v, but %v .. %v", n, *c.P, *c.Lo, *c.Hi)
		}
	}
	if c := sample("p99", []float64{1, 2, 3}, []float64{4, 5, 6}); c.Lo != nil {
		t.Errorf("three rounds have an interval")
	}
	if c := sample("errors", []float64{0, 0, 2, 4, 6, 8}, []float64{9, 9, 9, 9, 9, 9}); *c.Change != 2 || *c.Lo != 1.0/3 || *c.Hi != 3 {
		t.Errorf("with zeros: %v, %v .. %v", *c.Change, *c.Lo, *c.Hi)
	}
}

// TestLimits: a limit fails for what is worse, beyond noise and by more than it says, and for nothing else.
func TestLimits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 16))
	base := report(rng, 2, 12, 0.01, 1)
	for _, test := range []struct {
		limit            string
		rounds           int
		slower           float64
		failed, unjudged int
	}{
		{"p99:+5%", 12, 1.1, 2, 0},
		{"p99:5%", 12, 1.1, 2, 0},
		{"p99_us:+5.5%", 12, 1.1, 2, 0},
		{"p99:+20%", 12, 1.1, 0, 0},
		{"p99:+5%", 12, 0.8, 0, 0}, // better
		{"ops_per_s:-5%", 12, 1.1, 2, 0},
		{"ops_per_s:5%", 12, 0.8, 0, 0},
		{"ops_per_s:-15%", 12, 1.1, 0, 0},
		{"b/p99:+5%", 12, 1.1, 1, 0},
		{"p99:+5%", 5, 1.1, 0, 2}, // no verdict yet
		{"p99:+5%", 6, 1.1, 0, 2}, // 6 rounds can't decide that many figures
		{"p99:+0%", 12, 1, 0, 0},  // noise
	} {
		other := report(rng, 2, 12, 0.01, test.slower)
		c := files(t, base, cutRounds(other, test.rounds), Options{})
		l, err := ParseLimit(test.limit)
		if err == nil {
			err = c.Check([]Limit{l})
		}
		if err != nil || len(c.Failed) != test.failed || len(c.Unjudged) != test.unjudged {
			t.Errorf("%s, %d rounds, slower %v: %v, %d failed, %d unjudged, want %d and %d", test.limit, test.rounds, test.slower, err, len(c.Failed), len(c.Unjudged), test.failed, test.unjudged)
		}
	}
	if l, _ := ParseLimit("errors:+1000%"); true {
		c := &Comparison{Rows: []RowChanges{{Figures: []*Change{sample("errors", repeat(0, 6), repeat(1, 6))}}}}
		if err := c.Check([]Limit{l}); err != nil || len(c.Failed) != 1 {
			t.Errorf("errors from 0: %v, %v", err, c.Failed)
		}
	}
}

// TestBadLimits: each is refused with what is allowed.
func TestBadLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "[ROW/]FIGURE:+PERCENT%",
		"p99":                "[ROW/]FIGURE:+PERCENT%",
		"p99:+5":             "[ROW/]FIGURE:+PERCENT%",
		"p99:%":              "not a percentage",
		"p99:+%":             "not a percentage",
		"p99:+x%":            "not a percentage",
		"p99:+1e3%":          "not a percentage",
		"p99:+NaN%":          "not a percentage",
		"p99:++5%":           "not a percentage",
		"p99:+1000001%":      "not a percentage",
		"/p99:+5%":           "names no row",
		"p98:+5%":            "ops, ops_per_s, cpu, p50, p99,",
		"ops:+5%":            "neither better nor worse",
		"p99:-5%":            "write p99:+5%",
		"ops_per_s:+5%":      "write ops_per_s:-5%",
		"contains/hit:+5%":   `no figure "hit"`,
		"contains/hit/x:+5%": `no figure "x"`,
	} {
		if _, err := ParseLimit(text); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	rng := rand.New(rand.NewPCG(7, 16))
	c := files(t, report(rng, 2, 6, 0.01, 1), report(rng, 2, 6, 0.01, 1), Options{})
	for text, want := range map[string]string{"c/p99:+5%": "the rows with p99 are a, b", "kept:5%": "the rows with kept are none"} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check([]Limit{l}); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestGoneRow: a limit on a row that only the first file has could never fail, so it is refused.
func TestGoneRow(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 16))
	a, b := report(rng, 2, 6, 0.01, 1), report(rng, 2, 6, 0.01, 1)
	b.Rows = b.Rows[:1]
	c := files(t, a, b, Options{})
	for text, refused := range map[string]bool{"p99:+5%": true, "b/p99:+5%": true, "a/p99:+5%": false} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check([]Limit{l}); refused != errors.Is(err, ErrOptions) || refused && !strings.Contains(err.Error(), "does not have") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if c := files(t, a, b, Options{Rows: []string{"a"}}); c.Check([]Limit{must(ParseLimit("p99:+5%"))}) != nil {
		t.Error("a row that was not chosen is missed")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestGolden compares the files in testdata, and what is printed with what is written down there.
func TestGolden(t *testing.T) {
	t.Parallel()
	a, b := open(t, "old.json"), open(t, "new.json")
	for _, test := range []struct {
		name string
		all  bool
		c    func() (*Comparison, error)
	}{
		{"files", false, func() (*Comparison, error) { return Files(a, b, Options{}) }},
		{"files-all", true, func() (*Comparison, error) { return Files(a, b, Options{}) }},
		{"few", false, func() (*Comparison, error) { return Files(cutRounds(a, 3), b, Options{}) }},
		{"strategy", false, func() (*Comparison, error) { return Within(a, ByStrategy, "default", "none", Options{}) }},
		{"system", false, func() (*Comparison, error) { return Within(a, BySystem, "bigset", "pebble", Options{}) }},
	} {
		c, err := test.c()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		c.gone = nil // TestGoneRow has what such a row does to a limit
		limit, _ := ParseLimit("p99:+5%")
		if err := c.Check([]Limit{limit}); err != nil {
			t.Error(err)
		}
		var out bytes.Buffer
		if err := c.WriteTable(&out, test.all); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if utf8.RuneCountInString(line) > tableColumns+1 {
				t.Errorf("%s: a line of %d columns: %s", test.name, len(line), line)
			}
		}
		out.WriteString("notes:\n" + strings.Join(c.Notes, "\n") + "\n")
		golden(t, test.name+".txt", out.Bytes())
		if test.name == "strategy" {
			out.Reset()
			if err := c.WriteJSON(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, test.name+".json", out.Bytes())
		}
	}
}

func open(t testing.TB, name string) *Report {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Read(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *rewrite {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s: %v\nhave\n%s\nwant\n%s", name, err, have, want)
	}
}

// TestPairs: rows are compared with rows of the same load only.
func TestPairs(t *testing.T) {
	t.Parallel()
	row := func(workload, system, record, strategy string, stream string) Row {
		return Row{Key: Key{workload, system, record, strategy, 10}, Stream: stream, Rounds: noise(rand.New(rand.NewPCG(8, 16)), 6, 0.01, 1)}
	}
	r := &Report{Name: "r", Rows: []Row{
		row("w", "bigset", "merge", "default", "1"), row("w", "bigset", "set", "default", "1"), row("w", "bigset", "set", "deletes", "2"),
		row("w", "pebble", "merge", "", "1"), row("v", "bigset", "merge", "default", ""), row("w/part", "bigset", "merge", "default", ""),
	}}
	names := func(c *Comparison, err error) string {
		if err != nil {
			return err.Error()
		}
		var s []string
		for _, r := range c.Rows {
			s = append(s, r.String())
		}
		return strings.Join(append(append(s, c.OnlyA...), c.OnlyB...), "; ")
	}
	for want, have := range map[string]string{
		"w, bigset, merge, default, 10 elements; w, bigset, set, default, 10 elements; w, bigset, set, deletes, 10 elements; w, pebble, merge, 10 elements; " +
			"v, bigset, merge, default, 10 elements; w/part, bigset, merge, default, 10 elements": names(Files(r, r, Options{})),
		"v, bigset, merge, default, 10 elements":      names(Files(r, r, Options{Rows: []string{"v"}})),
		"w/part, bigset, merge, default, 10 elements": names(Files(r, r, Options{Rows: []string{"w/part"}})),
		"w, bigset, set, default|deletes, 10 elements; w, bigset, merge, default, 10 elements; v, bigset, merge, default, 10 elements; w/part, bigset, merge, default, 10 elements":                                                                      names(Within(r, ByStrategy, "default", "deletes", Options{})),
		"w, bigset|pebble, merge, default|-, 10 elements; w, bigset|pebble, set|merge, deletes|-, 10 elements; w, bigset, set, default, 10 elements; v, bigset, merge, default, 10 elements; w/part, bigset, merge, default, 10 elements":                names(Within(r, BySystem, "bigset", "pebble", Options{})),
		"w, pebble|bigset, merge, -|default, 10 elements; w, pebble|bigset, merge|set, -|default, 10 elements; w, pebble|bigset, merge|set, -|deletes, 10 elements; v, bigset, merge, default, 10 elements; w/part, bigset, merge, default, 10 elements": names(Within(r, BySystem, "pebble", "bigset", Options{})),
		`bad comparison: r has no rows of strategy "x": there are default, deletes`: names(Within(r, ByStrategy, "default", "x", Options{})),
		`bad comparison: r has no rows of strategy "": there are default, deletes`:  names(Within(r, ByStrategy, "default", "", Options{})),
		`bad comparison: "default" is both sides`:                                   names(Within(r, ByStrategy, "default", "default", Options{})),
		`bad comparison: no row "u" in r and r`:                                     names(Files(r, r, Options{Rows: []string{"w", "u"}})),
	} {
		if have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
	c, err := Within(r, ByStrategy, "default", "deletes", Options{})
	if err != nil || !c.Interleaved || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "1 of 1 rows did other operations") {
		t.Errorf("%v: notes %q", err, c.Notes)
	}
}

// TestNumber: values fit their columns, and keep four digits.
func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 7: "7", 0.5: "0.500", 0.0001234: "1.23e-04", 9.9996: "10.00", 12.345: "12.35", 999.97: "1000", 9_999_999: "9,999,999",
		1e7: "10.00M", 999_949_999: "999.9M", 999_960_000: "1.000G", 8_230_500.5: "8.231M", 1e300: "1.00e+300", 5e20: "500.0E"} {
		if have := number(v); len(have) > 10 || have != want {
			t.Errorf("%v is %q, want %q", v, have, want)
		}
	}
	for share, want := range map[float64]string{0: "0.0%", 0.0004: "0.0%", -0.0006: "-0.1%", 0.123: "+12.3%", 99: "+9900.0%", 1e4: "+1e+06%", math.MaxFloat64: "+Inf%"} {
		if have := percent(&share); len(have) > 9 || have != want {
			t.Errorf("%v is %q, want %q", share, have, want)
		}
	}
}

// TestTurns: rounds of two files ran in turns if their times say so.
func TestTurns(t *testing.T) {
	rounds := slices.Repeat([][]Value{make([]Value, len(figures))}, 3)
	row := func(ended ...float64) []Row {
		return []Row{{Key: Key{Workload: "w"}, Rounds: rounds, Ended: ended}}
	}
	for _, c := range []struct {
		what string
		a, b []Row
		want bool
	}{
		{"A B A B", row(1, 3, 5), row(2, 4, 6), true}, {"A B B A", row(1, 4, 5), row(2, 3, 6), true}, {"A A A B", row(1, 2, 3), row(4, 5, 6), false},
		{"no times", row(), row(), false}, {"half of the times", row(1, 3), row(2, 4, 6), false}, {"other rows", row(1, 3, 5), []Row{{Key: Key{Workload: "x"}}}, false},
	} {
		if got := inTurns(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
		report := func(rows []Row) *Report { return &Report{Rows: rows} }
		if r, err := Files(report(c.a), report(c.b), Options{}); err == nil && (r.Interleaved != c.want || len(r.Notes) > 0 == c.want) {
			t.Errorf("%s: interleaved %v, notes %q", c.what, r.Interleaved, r.Notes)
		}
	}
	one := []Row{{Key: Key{Workload: "w"}, Rounds: rounds[:1], Ended: []float64{1}}}
	if inTurns(one, one) {
		t.Error("one round of each shows no turns")
	}
}
