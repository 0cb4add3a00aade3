package keyscheme_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes properties run more than rapid's 100 cases, which are cheap here, unless -rapid.checks is given.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		flag.Set("rapid.checks", "3000")
	}
	os.Exit(m.Run())
}
