// Package crashfs is a file system in memory for replicas that package convergence tests: after a crash its files have what was
// synced, and of the rest what chance left. A replica that forgets to sync is caught by what it shows afterwards.
//
// # Use
//
// Open returns the disk of a replica's life. Embedded in the replica it is its convergence.Backuper and
// convergence.DiskFaulter, and the first half of its convergence.Durable; Sync and Stop are for the replica to write:
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
// The law is POSIX at its least helpful, which is what journalled file systems and disks have each done at some time:
//
//   - File.Sync makes a file's bytes and length durable, and not its name.
//   - SyncDir, or Sync of an open directory, makes the names in one directory durable, and not the bytes behind them.
//   - A write that was not synced survives by block: some blocks may be there and others not, whatever their order. A file may
//     have grown without the bytes: they read as zeros.
//   - A change of names that was not synced survives or not, with all that it depends on. A rename within a directory is one
//     change: the old name or the new one, and what it replaced is whole until then. A rename from one directory to
//     another is two, each of which takes its own directory's sync: the file may be under both names or under none.
//   - A Sync that failed has lost what it was to write. Readers still see it, and the next Sync succeeds without it.
//   - A disk that is full takes a part of a write.
//
// Chance is the caller's generator: the same calls leave the same files.
package crashfs
