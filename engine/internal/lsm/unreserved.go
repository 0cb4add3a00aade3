package lsm

import "github.com/cockroachdb/pebble/v2/vfs"

// unreserved is a file system that reserves no room for files. Pebble reserves the room of a whole memtable for each new log. A disk
// notes that it is taken, at no cost, and later syncs need not note it. A file system in memory fills all of it with zeros, which takes
// longer than everything else in the life of a small store, and takes the memory.
type unreserved struct{ vfs.FS }

// Unwrap implements vfs.FS.
func (u unreserved) Unwrap() vfs.FS { return u.FS }

// Create implements vfs.FS.
func (u unreserved) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unreservedFile(u.FS.Create(path, category))
}

// ReuseForWrite implements vfs.FS.
func (u unreserved) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unreservedFile(u.FS.ReuseForWrite(old, path, category))
}

// OpenReadWrite implements vfs.FS.
func (u unreserved) OpenReadWrite(path string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return unreservedFile(u.FS.OpenReadWrite(path, category, opts...))
}

func unreservedFile(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return growing{f}, nil
}

// growing is a file that takes room as it is written.
type growing struct{ vfs.File }

// Preallocate implements vfs.File. It only saves time.
func (growing) Preallocate(offset, length int64) error { return nil }
