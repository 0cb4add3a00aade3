package report

import "bigset/bench/chart"

// Page is a whole report, in reading order.
type Page struct {
	Title    string
	About    string // what ran, in a sentence or two; blank lines separate paragraphs
	Sections []Section
}

// Section is a part of a page. It shows its fields in their order and leaves out empty ones.
type Section struct {
	Title    string
	Text     string // blank lines separate paragraphs
	Verdicts []Verdict
	Facts    []Fact
	Tables   []Table
	Charts   []chart.Chart
	OwnTime  bool   // the charts over time have an axis of their own, not the page's, for a run of another length
	Code     string // a configuration or a command, shown verbatim in a fixed-width font
}

// Verdict is a judgement in one word, with its subject.
type Verdict struct {
	Word   Word
	What   string // "no element is lost"
	Detail string // figures or a reason; may be empty
}

// Word is the word of a verdict. Pages show the words below with a colour and a sign, and any other word in grey.
type Word string

// The words that a page knows.
const (
	Pass   Word = "PASS"
	Fail   Word = "FAIL"
	Steady Word = "steady" // rounds agree: a difference between runs is reliable
	Noisy  Word = "noisy"  // rounds differ too much for a difference to be reliable
)

// Fact is a name with its value: a line of a configuration, or of a machine's description.
type Fact struct{ Name, Value string }

// Table is a table of texts. A column whose cells are all numbers is aligned to the right. Rows may be shorter or longer than Head.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Note  string // shown below the table
}
