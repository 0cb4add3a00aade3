package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limit is how much worse a figure may become.
type Limit struct {
	Text   string  // as written
	Row    string  // a workload, or one with parts; "" means all rows
	Figure int     // index of FigureList
	Share  float64 // 0.05 is 5 %
}

// Failure is a figure of a row that exceeds a limit.
type Failure struct {
	Limit  string  `json:"limit"`
	Row    string  `json:"row"`
	Change *Change `json:"change"`
}

const limitSyntax = "a limit is [ROW/]FIGURE:+PERCENT%, like p99:+5% or contains/hit/ops_per_s:-3%"

// ParseLimit parses a limit: FIGURE:+5%, ROW/FIGURE:+5%. The sign is that of getting worse, which is - for figures of which more is better.
// It may be left out. An error wraps ErrOptions and says what is allowed.
func ParseLimit(text string) (Limit, error) {
	l := Limit{Text: text}
	name, percent, ok := strings.Cut(text, ":")
	number, isPercent := strings.CutSuffix(percent, "%")
	if !ok || !isPercent {
		return l, fmt.Errorf("%w: limit %q: %s", ErrOptions, text, limitSyntax)
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		if l.Row, name = name[:i], name[i+1:]; l.Row == "" {
			return l, fmt.Errorf("%w: limit %q names no row: %s", ErrOptions, text, limitSyntax)
		}
	}
	var err error
	if l.Figure, err = figureNamed(name); err != nil {
		return l, err
	}
	f := figures[l.Figure]
	if f.Better == Neither {
		return l, fmt.Errorf("%w: limit %q: %s is neither better nor worse when it changes; the figures with a better are %s", ErrOptions, text, name, directed())
	}
	sign := strings.HasPrefix(number, "+") || strings.HasPrefix(number, "-")
	if sign && (number[0] == '-') != (f.Better == More) {
		return l, fmt.Errorf("%w: limit %q: %s is better of %s: write %s:%s%s%%", ErrOptions, text, f.Better, name, name, worseSign(f), number[1:])
	}
	if sign {
		number = number[1:]
	}
	l.Share, err = strconv.ParseFloat(number, 64)
	if err != nil || !(l.Share >= 0 && l.Share <= 1e6) || strings.Trim(number, "0123456789.") != "" {
		return l, fmt.Errorf("%w: limit %q: %q is not a percentage from 0 to 1000000: %s", ErrOptions, text, number, limitSyntax)
	}
	l.Share /= 100
	return l, nil
}

func worseSign(f Figure) string {
	if f.Better == More {
		return "-"
	}
	return "+"
}

// directed lists the figures that can have a limit.
func directed() string {
	var names []string
	for _, f := range figures {
		if f.Better != Neither {
			names = append(names, shortName(f.Name))
		}
	}
	return strings.Join(names, ", ")
}

// Check sets Failed to the figures that became worse beyond noise and by more than a limit. Figures over a limit whose rounds do not allow
// a verdict yet go to Unjudged. A limit that matches no figure of the comparison is an error, since it could never fail, and so is one on a row
// that only the first of two files has.
func (c *Comparison) Check(limits []Limit) error {
	c.Failed, c.Unjudged = nil, nil
	for _, l := range limits {
		if i := slices.IndexFunc(c.gone, func(k Key) bool { return l.Row == "" || k.is(l.Row) }); i >= 0 {
			return fmt.Errorf("%w: limit %q is also on the row %s, which %s does not have: name the rows that both have, by --row or before the figure", ErrOptions, l.Text, c.gone[i], c.B)
		}
		fits := false
		for i := range c.Rows {
			r := &c.Rows[i]
			at := slices.IndexFunc(r.Figures, func(f *Change) bool { return f.Name == figures[l.Figure].Name })
			if at < 0 || l.Row != "" && !r.A.is(l.Row) {
				continue
			}
			fits = true
			f := r.Figures[at]
			if !f.over(l.Share) {
				continue
			}
			failure := Failure{Limit: l.Text, Row: r.String(), Change: f}
			switch f.Verdict {
			case Worse:
				c.Failed = append(c.Failed, failure)
			case Undecided, TooFew:
				c.Unjudged = append(c.Unjudged, failure)
			}
		}
		if !fits {
			return fmt.Errorf("%w: limit %q fits no figure that is compared: the rows with %s are %s", ErrOptions, l.Text,
				shortName(figures[l.Figure].Name), cut(orNone(c.rowsWith(figures[l.Figure].Name)), 400))
		}
	}
	return nil
}

// over reports whether the figure became worse by more than a share. Every rise from 0 exceeds every limit.
func (c *Change) over(share float64) bool {
	switch {
	case c.Change == nil:
		return c.Better == Less
	case c.Better == More:
		return *c.Change < -share
	}
	return *c.Change > share
}

// rowsWith lists the workloads that have a figure.
func (c *Comparison) rowsWith(figure string) (names []string) {
	for _, r := range c.Rows {
		if slices.ContainsFunc(r.Figures, func(f *Change) bool { return f.Name == figure }) && !slices.Contains(names, r.A.Workload) {
			names = append(names, r.A.Workload)
		}
	}
	return names
}
