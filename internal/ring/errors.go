package ring

import "errors"

// What can be wrong with values that are given.
var (
	// ErrSettings is returned for numbers of copies, quorums or buckets that no cluster can have.
	ErrSettings = errors.New("ring: bad settings")
	// ErrBucket is returned for a mask and a key that are no bucket.
	ErrBucket = errors.New("ring: bad bucket")
	// ErrMember is returned for a node or a member that can't be one.
	ErrMember = errors.New("ring: bad member")
	// ErrMap is returned for a map that breaks an invariant.
	ErrMap = errors.New("ring: bad map")
	// ErrStep is returned for a change that an assignment in its state can't take.
	ErrStep = errors.New("ring: impossible step")
)

// What can happen to a change of the map, and to an assignment that is adopted.
var (
	// ErrVersion is returned for a change that was planned from another version of the map.
	ErrVersion = errors.New("ring: the change was planned from another map")
	// ErrTerm is returned for a change by a manager whose term has ended.
	ErrTerm = errors.New("ring: the change is of an earlier manager")
	// ErrEpoch is returned when an epoch would be used for two contents, or would fall.
	ErrEpoch = errors.New("ring: epoch used twice")
	// ErrLimit is returned for a change that would start too many moves.
	ErrLimit = errors.New("ring: too many moves")
)

// ErrCodec is returned for bytes that this package does not write.
var ErrCodec = errors.New("ring: bad bytes")
