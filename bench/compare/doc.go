// Package compare reports what changed between two runs of a benchmark, and whether that is more than noise.
//
// It reads what `bigset bench --json` and `--out` write (Read), pairs the rows of two reports (Files), or of two strategies or systems in
// one report (Within), and returns a Comparison: for each row and figure the medians of both sides, the change with a 95 % interval, and a
// verdict. WriteTable and WriteJSON print it. ParseLimit and Comparison.Check make a gate of it: "p99 must not rise by more than 5 %".
//
//	a, err := compare.Read(fileA, "old.json")
//	b, err := compare.Read(fileB, "new.json")
//	c, err := compare.Files(a, b, compare.Options{})
//	err = c.WriteTable(os.Stdout, false)
//
// # What a sample is
//
// A sample is a round: one whole repetition of a load. Operations inside a round depend on each other (they share caches, compactions and
// a minute of the machine), so a million of them are one measurement. Rounds that ran in turns, A B A B, in one run share the machine's
// slow changes; rounds of two files do not, and Files adds a note that says so.
//
// # How a verdict is found
//
// The test is Mann-Whitney's U, from golang.org/x/perf/benchmath, the library of benchstat: it assumes nothing about how noise is
// distributed. Two things make a single test wrong too often, and both are corrected:
//
//   - People measure, look, measure more, and look again. So verdicts are given at three sizes only, 6, 12 and 20 rounds, and the three looks
//     share an error of 5 %: see looks.
//   - A comparison contains many figures, one in twenty of which would differ by chance. Holm's method keeps the chance that any figure
//     of the whole comparison is called changed by mistake at the level of the look: see holm.
//
// So a build compared with itself gets "no change" in at least 95 of 100 comparisons, however many figures they contain and however often
// someone looks. Fewer than 6 rounds give changes without verdicts.
//
// All functions are pure except for the reader or writer that they are given. A Report or Comparison may be read by several goroutines.
package compare
