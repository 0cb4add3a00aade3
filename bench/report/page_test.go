package report_test

import (
	"flag"
	"os"
	"testing"

	"bigset/bench/report"
)

var write = flag.String("report.write", "", "write the example page to this file")

func TestWriteExample(t *testing.T) {
	if *write == "" {
		t.Skip("no -report.write")
	}
	f, err := os.Create(*write)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.WriteHTML(f, examplePage()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
