package sim

import (
	"strings"
	"testing"

	"bigset/internal/faultdisk"
)

// TestCopyOfCopy: a copy of a folder has another identity file than the folder, and a copy of that copy another one than both. Otherwise
// the old disk would be taken for the one that a cluster's record names.
func TestCopyOfCopy(t *testing.T) {
	const log = "000002.log\n"
	for _, digit := range []string{"0", "1", "f"} {
		disk, files := faultdisk.New(), map[string]bool{}
		text := strings.Repeat(digit, 32) + "\n" + log
		w, err := disk.Create("IDENTITY", "identity")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		files[text] = true
		for copies := range uint64(3) {
			if err := touch(disk, "IDENTITY", 4+copies); err != nil {
				t.Fatal(err)
			}
			f, err := disk.Open("IDENTITY")
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text)+1)
			n, _ := f.ReadAt(got, 0)
			if _ = f.Close(); files[string(got[:n])] || n != len(text) || !strings.HasSuffix(string(got[:n]), "\n"+log) {
				t.Errorf("copy %d of a folder whose file has %qs: %q", copies, digit, got[:n])
			}
			files[string(got[:n])] = true
		}
	}
	if err := touch(faultdisk.New(), "IDENTITY", 1); err == nil {
		t.Error("a folder without the file counts as copied")
	}
}
