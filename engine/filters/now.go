package filters

import (
	"bigset"
	"bigset/bloomslice"
)

// MarkNow marks a prefix of keys without blocking and returns its length. It stops at the first key whose page is not in memory. It
// marks none if marks are answered only after they are in the log, if the store is short of disk or memory, or if another goroutine
// is marking the filter.
func (f *Filter) MarkNow(keys [][]byte, added []bool) (n int, err error) {
	fs := f.fs
	if err := fs.db.Enter(); err != nil {
		return 0, err
	}
	defer fs.db.Leave()
	if err := fs.db.Writable(); err != nil {
		return 0, err
	}
	if fs.db.Full() || f.fs.resident.Bytes() > fs.opt.CacheBytes {
		return 0, nil
	}
	if len(keys) == 1 { // avoids the array for many
		h := [1]bloomslice.Hash{bloomslice.Sum(keys[0])}
		return f.markNow(h[:], added)
	}
	return f.markManyNow(keys, added)
}

func (f *Filter) markManyNow(keys [][]byte, added []bool) (n int, err error) {
	var room hashing
	for n < len(keys) {
		hashes := room.of(keys[n:])
		done, err := f.markNow(hashes, added[n:n+len(hashes)])
		if n += done; err != nil || done < len(hashes) {
			return n, err
		}
	}
	return n, nil
}

func (f *Filter) markNow(hashes []bloomslice.Hash, added []bool) (n int, err error) {
	for step := f.step(len(hashes)); n < len(hashes); n += step {
		part, err := f.part(&hashes[n])
		if err != nil {
			return n, err
		}
		if done := part.markNow(hashes[n:n+step], added[n:]); done < step {
			return n + done, nil
		}
	}
	return n, nil
}

// MarksWait reports whether marks are answered only after they are in the log or on disk, in which case MarkNow marks nothing.
func (f *Filter) MarksWait() bool {
	for i := range f.slices {
		if part := f.slices[i].Load(); part != nil && part != &idleSlice {
			return part.marksWait()
		}
	}
	return false
}

func (f *filterSlice) marksWait() bool {
	opt := f.opt.Load()
	return opt != nil && f.durability(opt) != bigset.FilterInterval
}

// lockTries is how often MarkNow tries the lock of a slice that another goroutine is marking: marking takes a microsecond or two,
// unless it waits.
const lockTries = 100

func (f *filterSlice) markNow(hashes []bloomslice.Hash, added []bool) (n int) {
	for try := 0; !f.mu.TryLock(); try++ {
		if try == lockTries {
			return 0
		}
	}
	defer f.mu.Unlock()
	slice := f.slice.Load()
	if slice == nil || f.marksWait() {
		return 0
	}
	opt := f.opt.Load()
	if !f.of.fs.db.Promised(f.promise(opt)) { // making the promise is a write
		return 0
	}
	f.use()
	var hits, misses uint64
	defer func() { f.of.counted().marks.add(hits, misses) }()
	for i := range hashes {
		news, known := slice.AdmitNow(&hashes[i], "")
		if !known {
			return i
		}
		if news && f.mayMark(opt, slice) != nil {
			return i
		}
		if added[i] = news; !news {
			misses++
			continue
		}
		f.changed()
		slice.Commit()
		hits++
	}
	return len(hashes)
}
