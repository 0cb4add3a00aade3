package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  bigset version\n  bigset version --json",
		Args:    takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			return a.answer(b, "bigset %s %s %s", b.Version, b.Go, b.Platform)
		},
	}
}

func readBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
