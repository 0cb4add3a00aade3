package ring

import "errors"

// Errors for invalid values.
var (
	// ErrSettings is returned for numbers of copies, quorums or buckets that no cluster can have.
	ErrSettings = errors.New("ring: bad settings")
	// ErrBucket is returned for a mask and a key that do not make a bucket.
	ErrBucket = errors.New("ring: bad bucket")
	// ErrMember is returned for a node or a member that is not valid.
	ErrMember = errors.New("ring: bad member")
	// ErrMap is returned for a map that breaks an invariant.
	ErrMap = errors.New("ring: bad map")
	// ErrStep is returned for a change that an assignment in its state can't take.
	ErrStep = errors.New("ring: impossible step")
)

// Errors of changes of the map, and of assignments that are adopted.
var (
	// ErrVersion is returned for a change that was planned from another version of the map.
	ErrVersion = errors.New("ring: the change was planned from another map")
	// ErrTerm is returned for a change by a manager whose term has ended.
	ErrTerm = errors.New("ring: the change was made by an earlier manager")
	// ErrEpoch is returned when an epoch would get a second content, or would fall.
	ErrEpoch = errors.New("ring: epoch used twice")
	// ErrLimit is returned for a change that would start too many moves.
	ErrLimit = errors.New("ring: too many moves")
)

// ErrCodec is returned for bytes that this package does not write.
var ErrCodec = errors.New("ring: bad bytes")
