package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options narrow a comparison. Fewer figures need fewer rounds; choose them before you look. The zero value compares everything.
type Options struct {
	Rows    []string // names of workloads; contains includes contains/hit
	Figures []string // names, or names without unit: p99
}

// Comparison contains what changed from A to B.
type Comparison struct {
	A           string       `json:"a"` // what is compared: a file, a strategy, a system
	B           string       `json:"b"`
	Interleaved bool         `json:"interleaved"` // rounds of A and B ran in turns
	Notes       []string     `json:"notes"`       // reasons not to trust it
	Rows        []RowChanges `json:"rows"`
	OnlyA       []string     `json:"only_a,omitempty"` // rows without a partner
	OnlyB       []string     `json:"only_b,omitempty"`
	Summary     Summary      `json:"summary"`
	Failed      []Failure    `json:"failed,omitempty"`   // figures that Check found over their limits
	Unjudged    []Failure    `json:"unjudged,omitempty"` // figures over their limits but not beyond noise yet

	gone []Key // rows of a file that the other one should have, too
}

// RowChanges are the changes of one row.
type RowChanges struct {
	A       Key       `json:"a"`
	B       Key       `json:"b"`
	RoundsA int       `json:"rounds_a"`
	RoundsB int       `json:"rounds_b"`
	Verdict Verdict   `json:"verdict"`
	Figures []*Change `json:"figures"`
}

// Summary counts rows by their verdict.
type Summary struct {
	Rows      int `json:"rows"`
	Better    int `json:"better"`
	Worse     int `json:"worse"`
	Mixed     int `json:"mixed"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Undecided int `json:"undecided"`
	// TooFew counts the undecided rows with fewer rounds than a verdict needs.
	TooFew int `json:"too_few_rounds"`
	// MoreRounds is the largest number of rounds that an undecided row needs until the next verdict.
	MoreRounds int `json:"more_rounds"`
	NextLook   int `json:"next_look"` // rounds of each side at that verdict, or 0
	Tests      int `json:"tests"`     // number of tests among which errors are controlled
}

// Files compares two reports. Their rounds ran in turns if two runs took turns to add a round to them.
func Files(a, b *Report, o Options) (*Comparison, error) {
	c := &Comparison{A: a.Name, B: b.Name, Notes: []string{}, Interleaved: inTurns(o.rows(a.Rows), o.rows(b.Rows))}
	if !c.Interleaved {
		c.Notes = append(c.Notes, "the rounds of two files did not run in turns: the machine may have changed in between; compare two strategies or systems of one run where you can")
	}
	c.Notes = append(c.Notes, differences("machine", a.Machine, b.Machine)...)
	c.Notes = append(c.Notes, differences("config", a.Config, b.Config)...)
	return c.compare(a.Rows, b.Rows, pairing{common: func(k Key) Key { return k }, files: true}, o, a, b)
}

// turnsMin is the least number of rounds of each side that show whether they took turns.
const turnsMin = 2

// inTurns reports whether rounds of the rows that both sides have were measured in turns: never more than two of one side in succession,
// because the side that comes first may change.
func inTurns(as, bs []Row) bool {
	pairs := 0
	for _, a := range as {
		i := slices.IndexFunc(bs, func(b Row) bool { return b.Key == a.Key })
		if i < 0 {
			continue
		}
		b := bs[i]
		if len(a.Ended) != len(a.Rounds) || len(b.Ended) != len(b.Rounds) || min(len(a.Rounds), len(b.Rounds)) < turnsMin || longestTurn(a.Ended, b.Ended) > 2 {
			return false
		}
		pairs++
	}
	return pairs > 0
}

// longestTurn returns the largest number of times of one side that no time of the other side separates.
func longestTurn(a, b []float64) (most int) {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	turn, side := 0, 0
	for len(a)+len(b) > 0 {
		now, from := 1, &a
		if len(a) == 0 || len(b) > 0 && b[0] < a[0] {
			now, from = 2, &b
		}
		*from = (*from)[1:]
		if turn++; now != side {
			turn, side = 1, now
		}
		most = max(most, turn)
	}
	return most
}

// By says how the two sides of one report differ.
type By string

const (
	ByStrategy By = "strategy"
	BySystem   By = "system"
)

// Within compares two strategies or systems of one report, whose rounds ran in turns.
func Within(r *Report, by By, a, b string, o Options) (*Comparison, error) {
	c := &Comparison{A: a, B: b, Interleaved: true, Notes: []string{}}
	var sides [2][]Row
	have := map[string]bool{}
	for _, row := range r.Rows {
		value := row.System
		if by == ByStrategy {
			value = row.Strategy
		}
		if value != "" {
			have[value] = true
		}
		for i, want := range []string{a, b} {
			if value == want {
				sides[i] = append(sides[i], row)
			}
		}
	}
	for i, name := range []string{a, b} {
		if len(sides[i]) == 0 || name == "" {
			return nil, fmt.Errorf("%w: %s has no rows of %s %q: there are %s", ErrOptions, r.Name, by, name, orNone(slices.Sorted(maps.Keys(have))))
		}
	}
	if a == b {
		return nil, fmt.Errorf("%w: %q is both sides", ErrOptions, a)
	}
	common := func(k Key) Key { // systems differ in records and strategies, strategies in records
		if k.Record = ""; by == BySystem {
			k.System = ""
		}
		k.Strategy = ""
		return k
	}
	return c.compare(sides[0], sides[1], pairing{common: common, loose: by == BySystem}, o, r)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// pairing says which rows are compared.
type pairing struct {
	common func(Key) Key // what must be equal
	files  bool          // both sides are whole files, so each row of A should have a partner
	loose  bool          // a row of B without a partner with its record may have one with another record, even if that partner has one with its own
}

// compare pairs rows and judges all of them together.
func (c *Comparison) compare(as, bs []Row, by pairing, o Options, reports ...*Report) (*Comparison, error) {
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		if r.Unfinished != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("%s is of a run that has not finished: rounds of %s are left out", r.Name, r.Unfinished))
		}
	}
	for _, name := range o.Rows {
		if fits := func(r Row) bool { return r.Key.is(name) }; !slices.ContainsFunc(as, fits) && !slices.ContainsFunc(bs, fits) {
			return nil, fmt.Errorf("%w: no row %q in %s and %s", ErrOptions, name, c.A, c.B)
		}
	}
	as, bs = o.rows(as), o.rows(bs)
	haveA := map[Key]bool{}
	for _, a := range as {
		haveA[a.Key] = true
	}
	byKey := map[Key][]int{}
	for i, b := range bs {
		byKey[by.common(b.Key)] = append(byKey[by.common(b.Key)], i)
	}
	used := map[int]bool{}
	streams := 0
	for _, a := range as {
		found := by.partners(a, bs, byKey[by.common(a.Key)], haveA)
		if len(found) == 0 {
			c.OnlyA = append(c.OnlyA, a.Key.String())
			if by.files {
				c.gone = append(c.gone, a.Key)
			}
		}
		for _, i := range found {
			used[i] = true
			if a.Stream != "" && bs[i].Stream != "" && a.Stream != bs[i].Stream {
				streams++
			}
			c.Rows = append(c.Rows, pair(a, bs[i], chosen))
		}
	}
	for i, b := range bs {
		if !used[i] {
			c.OnlyB = append(c.OnlyB, b.Key.String())
		}
	}
	if len(c.Rows) == 0 {
		return nil, fmt.Errorf("%w: no row of %s and %s is the same load%s", ErrOptions, c.A, c.B, o.narrowed())
	}
	if streams > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d of %d rows did other operations in A than in B (their stream_hash differs): their figures compare different work", streams, len(c.Rows)))
	}
	c.judge()
	return c, nil
}

// partners keeps, of the rows that may be compared with a, those with its record. If there are none, it keeps rows whose record no other
// row of A has: a strategy may need a record that the other can't have.
func (by pairing) partners(a Row, bs []Row, candidates []int, haveA map[Key]bool) (same []int) {
	var other []int
	for _, i := range candidates {
		k := bs[i].Key
		k.System, k.Strategy = a.System, a.Strategy
		switch {
		case bs[i].Record == a.Record:
			same = append(same, i)
		case !haveA[k]:
			other = append(other, i)
		}
	}
	if len(same) > 0 && !by.loose {
		return same
	}
	return append(same, other...)
}

// pair measures what changed between two rows.
func pair(a, b Row, chosen []int) RowChanges {
	r := RowChanges{A: a.Key, B: b.Key, RoundsA: len(a.Rounds), RoundsB: len(b.Rounds), Figures: []*Change{}}
	for _, i := range chosen {
		if c := measure(figures[i], a.values(i), b.values(i)); c != nil {
			r.Figures = append(r.Figures, c)
		}
	}
	return r
}

// values returns a figure of all rounds that have it, in their order.
func (r *Row) values(figure int) (values []float64) {
	for _, round := range r.Rounds {
		if round[figure].Is {
			values = append(values, round[figure].V)
		}
	}
	return values
}

// judge gives verdicts to figures, then to rows, and counts.
func (c *Comparison) judge() {
	var all []*Change
	for _, r := range c.Rows {
		all = append(all, r.Figures...)
	}
	s := &c.Summary
	s.Tests, s.Rows = holm(all), len(c.Rows)
	unused := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.RoundsA > looks[len(looks)-1].rounds || r.RoundsB > looks[len(looks)-1].rounds {
			unused++
		}
		r.Verdict = r.judge()
		switch r.Verdict {
		case Better:
			s.Better++
		case Worse:
			s.Worse++
		case Mixed:
			s.Mixed++
		case Changed:
			s.Changed++
		case NoChange:
			s.Unchanged++
		case TooFew:
			s.TooFew++
			s.Undecided++
		case Undecided:
			s.Undecided++
		}
		for _, f := range r.Figures {
			if f.Verdict == Undecided || f.Verdict == TooFew {
				next := looks[lookFor(f.look, s.Tests)].rounds
				s.NextLook = max(s.NextLook, next)
				s.MoreRounds = max(s.MoreRounds, next-f.Rounds, next-min(r.RoundsA, r.RoundsB))
			}
		}
	}
	if unused > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("verdicts use the first %d rounds; %d rows have more", looks[len(looks)-1].rounds, unused))
	}
}

// judge returns the verdict of a row: the combination of its figures' verdicts.
func (r *RowChanges) judge() Verdict {
	has := map[Verdict]bool{}
	for _, f := range r.Figures {
		has[f.Verdict] = true
	}
	switch {
	case has[Better] && has[Worse]:
		return Mixed
	case has[Better]:
		return Better
	case has[Worse]:
		return Worse
	case has[Changed]:
		return Changed
	case has[Undecided]:
		return Undecided
	case has[TooFew] || len(r.Figures) == 0:
		return TooFew
	}
	return NoChange
}

// chosen returns the indexes of the figures that are compared.
func (o Options) chosen() ([]int, error) {
	var chosen []int
	for _, name := range o.Figures {
		i, err := figureNamed(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, i)
	}
	if len(o.Figures) == 0 {
		for i := range figures {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

func (o Options) rows(rows []Row) []Row {
	if len(o.Rows) == 0 {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		return !slices.ContainsFunc(o.Rows, func(name string) bool { return r.Key.is(name) })
	})
}

func (o Options) narrowed() string {
	if len(o.Rows) == 0 {
		return ""
	}
	return " among " + strings.Join(o.Rows, ", ")
}

// is reports whether a name is that of the row's workload, or of a workload that it is part of.
func (k Key) is(name string) bool {
	rest, ok := strings.CutPrefix(k.Workload, name)
	return ok && (rest == "" || rest[0] == '/')
}

// String returns the names of the row, without empty ones.
func (k Key) String() string {
	parts := []string{k.Workload}
	for _, s := range []string{k.System, k.Record, k.Strategy} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if k.Elements > 0 {
		parts = append(parts, thousands(k.Elements)+" elements")
	}
	return strings.Join(parts, ", ")
}

// differences names the fields in which two objects differ. It ignores rounds and workloads, which show in the rows.
func differences(what string, a, b map[string]json.RawMessage) (notes []string) {
	names := map[string]bool{}
	for _, m := range []map[string]json.RawMessage{a, b} {
		for name := range m {
			names[name] = name != "rounds" && name != "workloads"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := shown(a[name]), shown(b[name])
		if names[name] && x != y {
			notes = append(notes, cut(fmt.Sprintf("%s differs: %s is %s in A, %s in B", what, quoteName(name), cut(x, shownMax), cut(y, shownMax)), 4*shownMax))
		}
	}
	return notes
}

const shownMax = 60 // characters of a value in a note

// shown returns a JSON value in a form for people.
func shown(raw json.RawMessage) string {
	if raw == nil {
		return "absent"
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "unreadable"
	}
	return quoteName(b.String())
}

// quoteName quotes a text that would garble a terminal.
func quoteName(s string) string {
	if printable(s) {
		return s
	}
	return fmt.Sprintf("%q", s)
}
