package spec

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"bigset/bench/spec/source"
)

// Figure is a figure that an assertion may name.
type Figure struct {
	Name    string // as in the JSON of reports
	Derived bool   // it is not in reports; it is computed of those that are
	About   string
}

var figures = []Figure{
	{"ops", false, "operations"},
	{"ops_per_s", false, "operations a second"},
	{"cpu_us_per_op", false, "CPU of the whole process for an operation, in microseconds"},
	{"p50_us", false, "latency that half of the calls do not pass, in microseconds"},
	{"p99_us", false, "the same of 99 of 100 calls"},
	{"p999_us", false, "the same of 999 of 1,000 calls"},
	{"bytes_written", false, "bytes written to the log and to tables"},
	{"bytes_wal", false, "bytes written to the log"},
	{"bytes_flush", false, "bytes that flushes wrote"},
	{"bytes_compact", false, "bytes that compactions wrote"},
	{"bytes_rewrite", false, "bytes that the rewriter wrote"},
	{"bytes_read", false, "bytes that compactions read"},
	{"bytes_on_disk", false, "bytes of tables in use, at the end"},
	{"bytes_peak", false, "most bytes of tables at a time"},
	{"bytes_live", false, "bytes of tables of a fresh load of what lives at the end"},
	{"bytes_moved", false, "bytes from replica to replica"},
	{"write_amp", false, "bytes written for each byte of the elements"},
	{"keys_live", false, "live dots"},
	{"keys_dead", false, "keys in tables beyond those"},
	{"heap_bytes", false, "bytes on the heap"},
	{"mb_per_s", false, "millions of bytes of keys and values a second"},
	{"kept", false, "speed beside that of the phase that beside names"},
	{"allocs_per_op", false, "objects on the heap for an operation"},
	{"share", false, "false positives, of the configured probability"},
	{"errors", false, "operations that failed"},
	{"rss_bytes", false, "bytes of the process in memory"},
	{"bytes_below_log", true, "bytes_written without bytes_wal"},
	{"garbage", true, "keys_dead of what the default strategy leaves: 4,096 or 0.3 of keys_live, whichever is more"},
	{"bytes_direct", true, "bytes_wal and bytes_flush: what writes cause by themselves"},
	{"seconds", true, "time that the phase took, of its operations and what belongs to it"},
	{"heap_each", true, "heap_bytes for each element of the size"},
	{"stalls", false, "times that writes waited for flushes or compactions"},
	{"keys_tabled", false, "element keys written to tables, each as often as it was"},
}

// Figures returns the figures that an assertion may name. p50, p99, p999 and cpu are short for p50_us, p99_us, p999_us and cpu_us_per_op.
func Figures() []Figure { return slices.Clone(figures) }

// FigureName returns the name of a figure in reports, of its name or its short one; "" if there is no such figure.
func FigureName(s string) string {
	for _, f := range figures {
		if s == f.Name || s == shortName(f.Name) {
			return f.Name
		}
	}
	return ""
}

func shortName(s string) string {
	if s == "cpu_us_per_op" {
		return "cpu"
	}
	return strings.TrimSuffix(s, "_us")
}

// Unit returns the unit of what is judged: "us", "B", or "" where it has none.
func (a *Assertion) Unit() string {
	f := a.Of.Figure
	switch {
	case a.To != (Ref{}) && !a.Minus:
		return ""
	case strings.HasSuffix(f, "_us"):
		return "us"
	case strings.HasPrefix(f, "bytes_") || strings.HasSuffix(f, "_bytes") || f == "heap_each":
		return "B"
	}
	return ""
}

// assertion reads a text, or a mapping with that, means and why. The text is understood when all phases are known.
func (r *reader) assertion(n *yaml.Node) Assertion {
	a := Assertion{Line: n.Line}
	text := n
	if n.Kind == yaml.MappingNode {
		p := place{node: n}
		p.keys = r.Object(n, "assertion", []field{
			{Key: "that", Read: func(n *yaml.Node) { a.Text, _ = r.Text(n, "that") }},
			{Key: "means", Read: func(n *yaml.Node) { a.Means, _ = r.Text(n, "means") }},
			{Key: "why", Read: func(n *yaml.Node) { a.Why, _ = r.Text(n, "why") }},
		})
		r.needs(p, "assertion", "that")
		text = p.of("that")
	} else {
		a.Text, _ = r.Text(n, "assertion")
	}
	a.Line = text.Line
	if a.Means == "" {
		a.Means = a.Text
	}
	r.texts = append(r.texts, text)
	return a
}

const assertionForm = "FIGURE(ROW[, SYSTEM[/STRATEGY]][, smallest]), alone or with / or - and another, then <= or >= and a number"

// checkAssertion understands the text of an assertion.
func (r *reader) checkAssertion(w *Workload, a *Assertion, n *yaml.Node) {
	s := &scanner{reader: r, node: n, text: a.Text}
	s.ref(w, &a.Of)
	switch {
	case s.failed:
		return
	case s.take("/"):
		s.ref(w, &a.To)
	case s.take("-"):
		a.Minus = true
		s.ref(w, &a.To)
	}
	switch {
	case s.failed:
		return
	case s.take("<="):
		a.AtMost = true
	case s.take(">="):
	case len(w.Phases) == 0 && s.rest() == end:
		a.Shown = true
		return
	default:
		s.wrong("%s where <= or >= must stand: an assertion is %s", s.rest(), assertionForm)
		return
	}
	s.limit(a)
	if !s.failed && a.To.Figure != "" && a.Of == a.To {
		s.at = 0
		s.wrong("a figure beside itself: the two must differ in figure, row, system, strategy or size")
	}
}

// scanner reads the text of an assertion.
type scanner struct {
	reader *reader
	node   *yaml.Node
	text   string
	at     int
	failed bool
}

// wrong reports a problem where the scanner is.
func (s *scanner) wrong(format string, args ...any) {
	s.failed = true
	column := s.node.Column
	if s.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && strings.TrimSpace(s.node.Value) == s.node.Value {
		column += len([]rune(s.text[:s.at]))
		if s.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			column++
		}
	}
	s.reader.At(s.node.Line, column, format, args...)
}

func (s *scanner) space() {
	for s.at < len(s.text) && s.text[s.at] == ' ' {
		s.at++
	}
}

// take goes on after a sign if it is next.
func (s *scanner) take(sign string) bool {
	s.space()
	if strings.HasPrefix(s.text[s.at:], sign) {
		s.at += len(sign)
		return true
	}
	return false
}

// rest returns what is next, for a problem.
func (s *scanner) rest() string {
	s.space()
	if s.at == len(s.text) {
		return end
	}
	word, _, _ := strings.Cut(s.text[s.at:], " ")
	return "\"" + source.Short(word) + "\""
}

const end = "the end"

// until returns the text before the next of some signs, without spaces around it, and where it begins.
func (s *scanner) until(signs string) (word string, begins int) {
	s.space()
	begins = s.at
	for s.at < len(s.text) && !strings.ContainsRune(signs, rune(s.text[s.at])) {
		s.at++
	}
	return strings.TrimSpace(s.text[begins:s.at]), begins
}

// ref reads FIGURE(ROW[, SYSTEM[/STRATEGY]][, smallest]).
func (s *scanner) ref(w *Workload, ref *Ref) {
	figure, begins := s.until("(/<>, ")
	ref.Figure = FigureName(figure)
	if ref.Figure == "" {
		var names []string
		for _, f := range figures {
			names = append(names, shortName(f.Name))
		}
		s.at = begins
		s.wrong("no figure %q%s: the figures are %s", source.Short(figure), source.Hint(figure, names), source.List(names))
		return
	}
	if !s.take("(") {
		s.wrong("%s where ( must stand: an assertion is %s", s.rest(), assertionForm)
		return
	}
	row, begins := s.until(",)")
	s.row(w, ref, row, begins)
	ref.System = Bigset
	if len(w.Systems) > 0 {
		ref.System = w.Systems[0]
	}
	for part := 0; !s.failed && s.take(","); part++ {
		word, begins := s.until(",)")
		switch {
		case word == "smallest" && !ref.Smallest:
			ref.Smallest = true
			if len(w.Small) == 1 && len(w.Full) == 1 {
				s.at = begins
				s.wrong("smallest with one size: the workload must have several")
			}
		case part == 0:
			s.system(w, ref, word, begins)
		default:
			s.at = begins
			s.wrong("%q in a figure: it may have a row, a system and smallest", source.Short(word))
		}
	}
	if !s.failed && !s.take(")") {
		s.wrong("%s where ) must stand: an assertion is %s", s.rest(), assertionForm)
	}
}

// row finds the row that a word means.
func (s *scanner) row(w *Workload, ref *Ref, word string, begins int) {
	ref.Row = w.Name + "/" + strings.TrimPrefix(word, mainPhase+"/")
	if word == mainPhase || word == w.Name {
		ref.Row = w.Name
	}
	if len(w.Phases) == 0 { // nobody knows which rows there are
		if strings.HasPrefix(word, "/") {
			ref.Row = word[1:]
		}
		return
	}
	rows := w.Rows()
	if !slices.Contains(rows, ref.Row) {
		var names []string
		for _, row := range rows {
			name := strings.TrimPrefix(row, w.Name+"/")
			if row == w.Name {
				name = mainPhase
			}
			names = append(names, name)
		}
		s.at = begins
		s.wrong("no phase measures a row %q%s: the rows are %s", source.Short(word), source.Hint(word, names), source.List(names))
		return
	}
	if ref.Figure == "kept" && !slices.ContainsFunc(w.Phases, func(p Phase) bool { return p.Beside != "" && w.phaseRows(p)[0] == ref.Row }) {
		s.at = begins
		s.wrong("kept of a phase without beside: beside must say which phase its speed is compared with")
	}
}

// system finds the system and the strategy that a word means.
func (s *scanner) system(w *Workload, ref *Ref, word string, begins int) {
	system, strategy, named := strings.Cut(word, "/")
	ref.System, ref.Strategy = System(system), strategy
	s.at, begins = begins, s.at
	switch {
	case len(w.Systems) > 0 && !slices.Contains(w.Systems, ref.System):
		s.wrong("system %q does not run%s: the systems are %s", source.Short(system), source.Hint(system, []string{"bigset", "pebble", "blob"}), systemList(w.Systems))
	case named && ref.System != Bigset:
		s.wrong("a strategy of %s: only bigset has strategies", system)
	case named && strategy == RunStrategy:
		ref.Strategy = ""
		s.at = begins
	case named && !slices.Contains(w.Strategies, strategy):
		s.wrong("strategy %q does not run: the strategies are %s", source.Short(strategy), strategyList(w.Strategies))
	default:
		s.at = begins
	}
}

func strategyList(strategies []string) string {
	var names []string
	for _, s := range strategies {
		if s == "" {
			s = RunStrategy
		}
		names = append(names, s)
	}
	return source.List(names)
}

// limit reads the number at the end.
func (s *scanner) limit(a *Assertion) {
	word, begins := s.until("")
	v, ok := source.AnyNumber(word)
	if !ok {
		s.at = begins
		s.wrong("%q for the limit: it must be a number, such as 0.7, 20%%, 120k, 16MiB or 20ms", source.Short(word))
		return
	}
	a.Limit = v
}
