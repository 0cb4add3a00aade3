package filters

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"bigset"
)

// A filter's stamp is a number that stands for all that this process has of the filter. It changes before any bit is set and before
// a slice is removed from disk or memory, and it is random when the store is opened. So a replica that was found to have the same bits as
// another one has no key more, as long as both stamps are what they were then. A caller that relies on the stamp reads it after
// it has looked for keys: a slice that was removed before has changed it.

// StampNow returns the stamp of a filter, by its generation. It reports false if the store has nothing of that generation. The spec's slice
// is ignored.
func (fs *Filters) StampNow(spec *bigset.SliceSpec) (stamp uint64, ok bool) {
	f, err := fs.knownFilter(spec)
	if f == nil || err != nil {
		return 0, false
	}
	return f.stamp.Load(), true
}

// Stamp returns the stamp of a filter. Marks that were acknowledged before the call are in what it stands for. The spec's slice is ignored.
// Its error is bigset.ErrNoFilter if the generation has been dropped or replaced, and bigset.ErrSliceAway if the store has nothing of it.
func (fs *Filters) Stamp(ctx context.Context, spec bigset.SliceSpec) (uint64, error) {
	if err := fs.db.Enter(); err != nil {
		return 0, err
	}
	defer fs.db.Leave()
	f, err := fs.stamped(ctx, &spec)
	if err != nil {
		return 0, err
	}
	return f.stamp.Load(), nil
}

// DigestBytesMax is the maximum number of bytes of layers that FilterDigest reads. What anti-entropy has digested is not read again.
const DigestBytesMax = 64 << 20

// FilterDigest returns the stamp of a filter, and a digest of what it stands for: filters with equal digests have the same slices with the
// same bits. The digest means nothing if the stamp has changed when the call returns. Errors are those of Stamp, bigset.ErrLimit for a filter
// of which too much would have to be read, and those of CheckSlice.
func (fs *Filters) FilterDigest(ctx context.Context, spec bigset.SliceSpec) (stamp uint64, sum [16]byte, err error) {
	if err := fs.db.Enter(); err != nil {
		return 0, sum, err
	}
	defer fs.db.Leave()
	f, err := fs.stamped(ctx, &spec)
	if err != nil {
		return 0, sum, err
	}
	stamp = f.stamp.Load() // before anything is read
	if n := f.undigested(&spec); n > DigestBytesMax {
		return 0, sum, &bigset.LimitError{What: "bytes of a filter to be digested", Got: int(n), Max: DigestBytesMax}
	}
	hash := sha256.New()
	for i := range f.slices {
		spec.Slice = uint32(i)
		part, err := f.known(&spec)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, sum, err
		}
		if part == nil {
			continue
		}
		d, err := part.digestNow()
		if err != nil {
			return 0, sum, fs.goneFor(&spec, err)
		}
		_, _ = hash.Write(append(binary.BigEndian.AppendUint32(nil, spec.Slice), d.Sum[:]...))
	}
	copy(sum[:], hash.Sum(nil))
	return stamp, sum, nil
}

// stamped returns the filter of a request about its stamp.
func (fs *Filters) stamped(ctx context.Context, spec *bigset.SliceSpec) (*Filter, error) {
	f, err := fs.knownFilter(spec)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case f == nil:
		return nil, fmt.Errorf("%w: nothing of generation %d of filter %q", bigset.ErrSliceAway, spec.Generation, spec.Name)
	}
	return f, nil
}

// undigested returns the number of bytes of the layers whose digest is not known. A slice that was not opened yet is taken to be as large as
// the largest that was, and not smaller than its first layer.
func (f *Filter) undigested(spec *bigset.SliceSpec) (n uint64) {
	largest, unopened := f.guess, uint64(0)
	if shape, err := spec.Options.Shape(0); err == nil {
		largest = max(largest, shape.Bytes)
	}
	for i := range f.slices {
		part := f.slices[i].Load()
		if part == nil {
			continue
		}
		if part == &idleSlice {
			unopened++
			continue
		}
		part.mu.Lock()
		bytes, digested, open := part.bytes, part.flags&flagDigested != 0, part.isOpen()
		part.mu.Unlock()
		largest = max(largest, bytes)
		switch {
		case digested:
		case !open && bytes <= f.guess:
			unopened++
		default:
			n += bytes
		}
	}
	return n + unopened*largest
}
