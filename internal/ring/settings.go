package ring

import "fmt"

// The bounds of settings.
const (
	CopiesMax = 16      // N
	SlicesMax = 1 << 12 // K, as in bloomslice
)

// Settings are chosen when a cluster is born. All members must have the same.
type Settings struct {
	N       int // copies of a bucket, 1 to CopiesMax
	R       int // how many of a full list answer a read
	W       int // how many of a full list acknowledge a write
	DW      int // how many of those have it on disk; at most W
	Buckets int // the number of buckets with which the cluster was born: a power of two
	Slices  int // the largest number of slices into which a bloom filter is cut: a power of two
}

// Check returns an error that is ErrSettings for settings under which a read could miss an acknowledged write, and for those that
// are out of bounds.
func (s Settings) Check() error {
	switch {
	case s.N < 1 || s.N > CopiesMax:
		return fmt.Errorf("%w: n is %d, must be 1 to %d", ErrSettings, s.N, CopiesMax)
	case s.R < 1 || s.R > s.N || s.W < 1 || s.W > s.N:
		return fmt.Errorf("%w: r is %d and w is %d, both must be 1 to n, which is %d", ErrSettings, s.R, s.W, s.N)
	case s.R+s.W <= s.N:
		return fmt.Errorf("%w: r+w is %d, must be above n, which is %d", ErrSettings, s.R+s.W, s.N)
	case s.DW < 0 || s.DW > s.W:
		return fmt.Errorf("%w: dw is %d, must be 0 to w, which is %d", ErrSettings, s.DW, s.W)
	case s.Buckets < 1 || s.Buckets > BucketsMax || s.Buckets&(s.Buckets-1) != 0:
		return fmt.Errorf("%w: %d buckets, must be a power of two from 1 to %d", ErrSettings, s.Buckets, BucketsMax)
	case s.Slices < 1 || s.Slices > SlicesMax || s.Slices&(s.Slices-1) != 0:
		return fmt.Errorf("%w: %d slices, must be a power of two from 1 to %d", ErrSettings, s.Slices, SlicesMax)
	}
	return nil
}

// ReadQuorum returns how many of a list answer a read: R, or all of a shorter list.
func (s Settings) ReadQuorum(list []Member) int { return min(s.R, len(list)) }

// WriteQuorum returns how many of a list acknowledge a write: W, or all of a shorter list.
func (s Settings) WriteQuorum(list []Member) int { return min(s.W, len(list)) }

// DurableQuorum returns how many of a list have a write on disk before it is acknowledged: DW, or all of a shorter list.
func (s Settings) DurableQuorum(list []Member) int { return min(s.DW, len(list)) }
