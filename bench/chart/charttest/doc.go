// Package charttest has what tests of charts and of the pages around them share: charts that are hard to draw (Odd), texts that would do something if
// they were taken for markup (Hostile), the charts of the golden files (Papers), and a check of markup (CheckMarkup). It is for tests.
package charttest
