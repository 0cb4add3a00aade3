package crashfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"
)

// File is an open file or directory. It implements fs.ReadDirFile, io.ReadWriteSeeker, io.ReaderAt and io.WriterAt.
type File struct {
	fs     *FS
	n      *node
	name   string
	flag   int
	off    int64
	list   []fs.DirEntry // of a directory: what ReadDir has not returned yet
	listed bool
	closed bool
}

// call makes one call on the handle, and wraps its error with the handle's name.
func (h *File) call(op string, dir bool, do func() error) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	var err error
	switch {
	case h.closed || h.fs.ended:
		err = fs.ErrClosed
	case h.n.dir && !dir:
		err = errIsDir
	default:
		err = do()
	}
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: h.name, Err: err}
}

// Name returns the name by which the file was opened.
func (h *File) Name() string { return h.name }

// Stat implements fs.File.
func (h *File) Stat() (info fs.FileInfo, err error) {
	err = h.call("stat", true, func() error {
		info = h.n.stat(path.Base(h.name))
		return nil
	})
	return info, err
}

// Read implements io.Reader.
func (h *File) Read(b []byte) (n int, err error) {
	err = h.call("read", false, func() error {
		n, err = h.readAt(b, h.off)
		h.off += int64(n)
		if n > 0 {
			return nil
		}
		return err
	})
	return n, err
}

// ReadAt implements io.ReaderAt.
func (h *File) ReadAt(b []byte, off int64) (n int, err error) {
	err = h.call("read", false, func() error {
		n, err = h.readAt(b, off)
		return err
	})
	return n, err
}

func (h *File) readAt(b []byte, off int64) (int, error) {
	switch {
	case h.flag&os.O_WRONLY != 0:
		return 0, fs.ErrPermission
	case off < 0:
		return 0, fs.ErrInvalid
	case len(b) == 0:
		return 0, nil
	case off >= int64(len(h.n.data)):
		return 0, io.EOF
	}
	n := copy(b, h.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Seek implements io.Seeker.
func (h *File) Seek(off int64, whence int) (at int64, err error) {
	err = h.call("seek", false, func() error {
		switch whence {
		case io.SeekStart:
		case io.SeekCurrent:
			off += h.off
		case io.SeekEnd:
			off += int64(len(h.n.data))
		default:
			return fs.ErrInvalid
		}
		if off < 0 {
			return fs.ErrInvalid
		}
		h.off, at = off, off
		return nil
	})
	return at, err
}

// Write implements io.Writer. With O_APPEND it writes at the end.
func (h *File) Write(b []byte) (n int, err error) {
	err = h.call("write", false, func() error {
		if h.flag&os.O_APPEND != 0 {
			h.off = int64(len(h.n.data))
		}
		n, err = h.writeAt(b, h.off)
		h.off += int64(n)
		return err
	})
	return n, err
}

// WriteAt implements io.WriterAt. As in package os it is an error with O_APPEND.
func (h *File) WriteAt(b []byte, off int64) (n int, err error) {
	err = h.call("write", false, func() error {
		if h.flag&os.O_APPEND != 0 {
			return fs.ErrInvalid
		}
		n, err = h.writeAt(b, off)
		return err
	})
	return n, err
}

func (h *File) writeAt(b []byte, off int64) (int, error) {
	if err := h.writable(off); err != nil {
		return 0, err
	}
	fault := h.fs.fault
	switch {
	case h.fs.broken():
		return 0, fault
	case fault != nil:
		b = b[:len(b)/2]
	}
	if len(b) > 0 {
		h.n.write(write{off: off, data: slices.Clone(b)})
	}
	return len(b), fault
}

func (h *File) writable(at int64) error {
	switch {
	case h.flag&(os.O_WRONLY|os.O_RDWR) == 0:
		return fs.ErrPermission
	case at < 0:
		return fs.ErrInvalid
	}
	return nil
}

// Truncate changes the length. What it adds is zeros.
func (h *File) Truncate(size int64) error {
	return h.call("truncate", false, func() error {
		if err := h.writable(size); err != nil {
			return err
		}
		return h.fs.truncate(h.n, size)
	})
}

func (f *FS) truncate(n *node, size int64) error {
	if f.broken() || f.fault != nil && size > int64(len(n.data)) {
		return f.fault
	}
	n.write(write{off: size, cut: true})
	return nil
}

// Sync makes durable what was written to the file by any handle, or the names in a directory. If it fails, what was written is
// lost, although it can be read until a crash: it has to be written again.
func (h *File) Sync() error {
	return h.call("sync", true, func() error { return h.fs.sync(h.n) })
}

// Close ends the handle. It syncs nothing.
func (h *File) Close() error {
	return h.call("close", true, func() error {
		h.closed = true
		return nil
	})
}

// ReadDir implements fs.ReadDirFile. The names come in ascending order, as they were at the first call.
func (h *File) ReadDir(n int) (list []fs.DirEntry, err error) {
	err = h.call("readdir", true, func() error {
		if !h.n.dir {
			return errNotDir
		}
		if !h.listed {
			h.listed = true
			for _, name := range slices.Sorted(maps.Keys(h.n.names)) {
				h.list = append(h.list, fs.FileInfoToDirEntry(h.n.names[name].stat(name)))
			}
		}
		if n <= 0 {
			n = len(h.list)
		} else if len(h.list) == 0 {
			return io.EOF
		}
		n = min(n, len(h.list))
		list, h.list = h.list[:n:n], h.list[n:]
		return nil
	})
	return list, err
}

func (n *node) write(w write) {
	n.writes = append(n.writes, w)
	n.data = w.apply(n.data)
}

// apply does a write to a file's bytes.
func (w *write) apply(b []byte) []byte {
	if w.cut {
		return resize(b, w.off)
	}
	if end := w.off + int64(len(w.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[w.off:], w.data)
	return b
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size] // a later write must not grow into what was cut off
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// info is a node's state at the time of the request.
type info struct {
	name string
	size int64
	dir  bool
}

func (n *node) stat(name string) info { return info{name, int64(len(n.data)), n.dir} }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} } // no clock is read
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
