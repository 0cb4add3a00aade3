package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// Build identifies the build of a program that measured something.
type Build struct {
	Revision   string `json:"revision,omitempty"`   // of the source; "" if the toolchain did not record it
	Modified   bool   `json:"modified,omitempty"`   // the source had uncommitted changes
	Executable string `json:"executable,omitempty"` // a hash of the program's file; "" if the file can't be read
}

// String returns the build in a few words.
func (b Build) String() string {
	const digits = 12
	text := b.Revision[:min(digits, len(b.Revision))]
	if b.Modified {
		text += " with changes"
	}
	switch {
	case b.Executable == "" && text == "":
		return "unknown"
	case b.Executable == "":
		return text
	case text == "":
		return "executable " + b.Executable
	}
	return text + ", executable " + b.Executable
}

// ThisBuild returns the build of the running program.
var ThisBuild = sync.OnceValue(func() (b Build) {
	b.Executable = hashOfExecutable()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
})

// hashDigits is how many digits of a hash are kept.
const hashDigits = 16

func hashOfExecutable() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))[:hashDigits]
}
