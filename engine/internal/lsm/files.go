package lsm

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inPlaceOfFile says what is wrong with a folder that has the name of a file.
const inPlaceOfFile = "a folder is in the place of a file"

// checkFiles returns an error that wraps bigset.ErrCorrupt if a folder holds a store without its format file, or a folder in the
// place of a file. others reports which names are those of files of the store's owner. It skips tables: there may be many, and
// Pebble checks each that it needs.
func checkFiles(fs vfs.FS, dir string, others func(name string) bool) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // no such folder, or the next reader reports the error
	}
	if !slices.Contains(names, formatFile) {
		marked := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, markerPrefix) })
		if marked && (slices.Contains(names, identityFile) || slices.Contains(names, closedFile)) {
			return damagedFile(dir, "the file %s is missing", formatFile)
		}
		return nil
	}
	for _, name := range names {
		if !isFile(name) && !others(name) {
			continue
		}
		path := fs.PathJoin(dir, name)
		if info, err := fs.Stat(path); err == nil && info.IsDir() {
			return damagedFile(path, inPlaceOfFile)
		}
	}
	return nil
}

// isFile reports whether a name in a store's folder is that of a file other than a table.
func isFile(name string) bool {
	switch name {
	case formatFile, closedFile, identityFile, unfinishedFile, ballastFile, lockFile:
		return true
	}
	for _, prefix := range []string{"marker.", "MANIFEST-", "OPTIONS-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	_, log := logNumber(name)
	return log || strings.HasPrefix(name, spanFilePrefix) && strings.HasSuffix(name, tempSuffix)
}

// isWritten reports whether a folder has files that are written only after a marker has named the MANIFEST.
func isWritten(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, log := logNumber(name)
		return log || name == identityFile || name == closedFile || strings.HasSuffix(name, ".sst")
	}), nil
}
