// Package charttest contains what tests of charts and of the pages around them share: charts that are hard to draw (Odd), texts that would
// do harm if they were interpreted as markup (Hostile), the charts of the golden files (Papers), and a check of markup (CheckMarkup). It is
// for tests.
package charttest
