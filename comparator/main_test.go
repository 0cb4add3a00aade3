package comparator_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes properties look at more than rapid's 100 cases, which are cheap here; -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		flag.Set("rapid.checks", "3000")
	}
	os.Exit(m.Run())
}
