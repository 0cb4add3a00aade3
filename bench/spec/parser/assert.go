package parser

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"bigset/bench/spec"
	"bigset/bench/spec/source"
)

// assertion reads a text, or a mapping with that, means and why. The text is parsed when all phases are known.
func (r *reader) assertion(n *yaml.Node) spec.Assertion {
	a := spec.Assertion{Line: n.Line}
	text := n
	if n.Kind == yaml.MappingNode {
		p := place{node: n}
		p.keys = r.Object(n, "assertion", []field{
			{Key: "that", Read: func(n *yaml.Node) { a.Text, _ = r.Text(n, "that") }},
			{Key: "means", Read: func(n *yaml.Node) { a.Means = r.remark(n, "means") }},
			{Key: "why", Read: func(n *yaml.Node) { a.Why = r.remark(n, "why") }},
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

// checkAssertion parses the text of an assertion.
func (r *reader) checkAssertion(w *spec.Workload, a *spec.Assertion, n *yaml.Node) {
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

// wrong reports a problem at the scanner's position.
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

// take skips a sign if it is next.
func (s *scanner) take(sign string) bool {
	s.space()
	if strings.HasPrefix(s.text[s.at:], sign) {
		s.at += len(sign)
		return true
	}
	return false
}

// rest returns the next word, for a problem.
func (s *scanner) rest() string {
	s.space()
	if s.at == len(s.text) {
		return end
	}
	word, _, _ := strings.Cut(s.text[s.at:], " ")
	return "\"" + source.Short(word) + "\""
}

const end = "the end"

// until returns the text before the next of some signs, without surrounding spaces, and where it begins.
func (s *scanner) until(signs string) (word string, begins int) {
	s.space()
	begins = s.at
	for s.at < len(s.text) && !strings.ContainsRune(signs, rune(s.text[s.at])) {
		s.at++
	}
	return strings.TrimSpace(s.text[begins:s.at]), begins
}

// ref reads FIGURE(ROW[, SYSTEM[/STRATEGY]][, smallest]).
func (s *scanner) ref(w *spec.Workload, ref *spec.Ref) {
	figure, begins := s.until("(/<>, ")
	ref.Figure = spec.FigureName(figure)
	if ref.Figure == "" {
		var names []string
		for _, f := range spec.Figures() {
			names = append(names, f.Short())
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
	ref.System = spec.Bigset
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

// row finds the row that a word refers to.
func (s *scanner) row(w *spec.Workload, ref *spec.Ref, word string, begins int) {
	ref.Row = w.Name + "/" + strings.TrimPrefix(word, spec.Main+"/")
	if word == spec.Main || word == w.Name {
		ref.Row = w.Name
	}
	if len(w.Phases) == 0 { // the rows are unknown
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
				name = spec.Main
			}
			names = append(names, name)
		}
		s.at = begins
		s.wrong("no phase measures a row %q%s: the rows are %s", source.Short(word), source.Hint(word, names), source.List(names))
		return
	}
	if ref.Figure == "kept" && !slices.ContainsFunc(w.Phases, func(p spec.Phase) bool { return p.Beside != "" && w.PhaseRows(p)[0] == ref.Row }) {
		s.at = begins
		s.wrong("kept of a phase without beside: beside must say which phase its speed is compared with")
	}
}

// system finds the system and the strategy that a word refers to.
func (s *scanner) system(w *spec.Workload, ref *spec.Ref, word string, begins int) {
	system, strategy, named := strings.Cut(word, "/")
	ref.System, ref.Strategy = spec.System(system), strategy
	s.at, begins = begins, s.at
	switch {
	case len(w.Systems) > 0 && !slices.Contains(w.Systems, ref.System):
		s.wrong("system %q does not run%s: the systems are %s", source.Short(system), source.Hint(system, []string{"bigset", "pebble", "blob"}), systemList(w.Systems))
	case named && ref.System != spec.Bigset:
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

// limit reads the number at the end, in the unit of the judged value.
func (s *scanner) limit(a *spec.Assertion) {
	word, begins := s.until("")
	v, form, ok := source.InUnit(word, a.Unit())
	if !ok {
		what := spec.Figure{Name: a.Of.Figure}.Short()
		if a.To != (spec.Ref{}) {
			what = map[bool]string{true: "a difference of ", false: "a ratio of "}[a.Minus] + what
		}
		s.at = begins
		s.wrong("%q for the limit of %s: it must be %s", source.Short(word), what, form)
		return
	}
	a.Limit = v
}

// remark reads a text about an assertion.
func (r *reader) remark(n *yaml.Node, what string) string {
	s, _ := r.Text(n, what)
	return r.printable(n, s, what)
}
