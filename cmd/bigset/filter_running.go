package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

var errRunning = errors.New("the bloomd is running")

// whoHasOpen returns a process that has a file of a folder open, and the file, if the system shows it: Linux does, for processes that the
// user may inspect. bloomd keeps the files of all filters in memory open, and has no lock.
func whoHasOpen(dir string) (process, path string) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // other systems have none
	for _, link := range links {
		target, e := os.Readlink(link)
		if err == nil && e == nil && strings.HasPrefix(target, dir+string(filepath.Separator)) {
			return strings.Split(link, "/")[2], target
		}
	}
	return "", ""
}
