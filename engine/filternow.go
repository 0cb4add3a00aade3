package engine

import "bigset/bloomslice"

// MarkNow does what MarkAll does for as many keys, from the first on, as need to wait neither for the disk nor for who may be waiting for
// it, and returns how many: none where marks are answered when they are in the log, where the store is short of disk or of memory, or where
// another marks the filter now; fewer where a page is not in memory.
func (f *Filter) MarkNow(keys [][]byte, added []bool) (n int, err error) {
	s := f.fs.s
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := s.writable(); err != nil {
		return 0, err
	}
	if s.disk.full.Load() != nil || f.fs.resident.Load() > s.opt.FilterCacheBytes {
		return 0, nil
	}
	for n < len(keys) {
		to := min(n+marksLocked, len(keys))
		done := f.markSomeNow(keys[n:to], added[n:to])
		if n += done; n < to {
			break
		}
	}
	return n, nil
}

// MarksWait reports whether marks are answered when they are in the log or on disk, so that MarkNow marks nothing.
func (f *Filter) MarksWait() bool {
	opt := f.opt.Load()
	return opt != nil && f.durability(opt) != FilterInterval
}

// lockTries is how often MarkNow looks whether who marks the filter has done: that takes a microsecond or two, unless it waits.
const lockTries = 100

func (f *Filter) markSomeNow(keys [][]byte, added []bool) (n int) {
	for try := 0; !f.mu.TryLock(); try++ {
		if try == lockTries {
			return 0
		}
	}
	defer f.mu.Unlock()
	slice := f.slice.Load()
	if slice == nil || f.MarksWait() {
		return 0
	}
	f.use()
	for i, key := range keys {
		h := bloomslice.Sum(key)
		news, known := slice.AdmitNow(&h, "")
		if !known {
			return i
		}
		if added[i] = news; !news {
			f.markMisses++
			continue
		}
		slice.Commit()
		f.markHits++
	}
	return len(keys)
}
