package main

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// terminalSize returns the columns and rows of the terminal that w writes to.
func terminalSize(w io.Writer, getenv func(string) string) (columns, rows int) {
	var size struct{ rows, columns, x, y uint16 }
	if file, ok := w.(*os.File); ok {
		_, _, e := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
		if e == 0 && size.columns > 0 && size.rows > 0 {
			return int(size.columns), int(size.rows)
		}
	}
	return usualSize(getenv)
}
