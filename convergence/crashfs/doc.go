// Package crashfs is a file system in memory for replicas that package convergence tests. After a crash its files have what was
// synced, and a random part of the rest. A replica that forgets to sync is caught by what it shows afterwards.
//
// # Use
//
// Open returns the disk of a replica's life. Embedded in the replica it implements convergence.Backuper, convergence.DiskFaulter,
// and the Crash method of convergence.Durable; the replica has to supply Sync and Stop:
//
//	type replica struct {
//		*crashfs.Disk
//		log *crashfs.File
//	}
//
//	func open(env convergence.Env) (convergence.Replica, error) {
//		disk, err := crashfs.Open(env)
//		if err != nil {
//			return nil, err
//		}
//		log, err := disk.OpenFile("log", os.O_CREATE|os.O_RDWR|os.O_APPEND)
//		...
//	}
//
//	func (r *replica) Sync() error        { return r.log.Sync() }
//	func (r *replica) Stop() (any, error) { return r.FS, r.Sync() }
//
// FS is an fs.FS for reading. Names are those of io/fs: slash-separated, without a leading slash, "." for the root.
//
// # What a crash leaves
//
// The law is POSIX at its least helpful. Journalled file systems and disks have done each of these things at some time:
//
//   - File.Sync makes a file's bytes and length durable, but not its name.
//   - SyncDir, or Sync of an open directory, makes the names in one directory durable, but not the bytes of their files.
//   - A write that was not synced survives block by block: some blocks may survive and others not, in any order. A file may have
//     grown without its new bytes: they read as zeros.
//   - A change of names that was not synced survives or not, together with everything it depends on. A rename within a directory is
//     one change: either the old name or the new one exists, and the replaced file is whole until then. A rename from one directory
//     to another is two changes, each of which needs a sync of its own directory: the file may exist under both names or under
//     none.
//   - A Sync that failed has lost what it was to write. Readers still see it, and the next Sync succeeds without it.
//   - A full disk accepts a part of a write.
//
// All random choices come from the caller's generator: the same calls leave the same files.
package crashfs
