package lsm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/keyscheme"
)

// Errors of opening a store.
var (
	// ErrLocked is returned when another process, or another DB of this one, has the folder open.
	ErrLocked = errors.New("engine: store is open elsewhere")
	// ErrFormat is returned for a folder that does not hold a store, or holds one of an unknown format.
	ErrFormat = errors.New("engine: store format")
	// ErrNoStore is returned if there is no store in the folder and none was to be made.
	ErrNoStore = errors.New("engine: no store")
	// ErrUnfinished is returned for a folder into which a store was being copied when the process ended.
	ErrUnfinished = errors.New("engine: unfinished checkpoint or restore")
	// ErrReadOnly is in the chain of errors of a read-only file system. Open needs a writable one; Restore can read from a
	// read-only one.
	ErrReadOnly = errors.New("engine: the folder is read-only, mount it for writing, or restore the store to another folder")
	// ErrNotEmpty is returned by Checkpoint and Restore for a folder that holds something.
	ErrNotEmpty = errors.New("engine: folder is not empty")
)

// CorruptionError says where damage was found. errors.Is finds bigset.ErrCorrupt in it. Unknown fields are empty.
type CorruptionError struct {
	Path string // the file
	// Set, From, LastSet and To are the keys that the damaged file holds, or should hold: from element From of the set Set to
	// element To of the set LastSet, both included. A nil From or To is the set's clock or tombstone, a nil Set or LastSet the
	// store's own metadata.
	Set, From   []byte
	LastSet, To []byte
	// Filter and LastFilter replace Set or LastSet if that end belongs to a filter.
	Filter, LastFilter []byte
	Err                error // what is wrong
}

// damagedFile returns the error of an open that has found a damaged file before it changed anything.
func damagedFile(path, format string, args ...any) error {
	return &CorruptionError{Path: path, Err: fmt.Errorf(format+"; nothing was changed, restore the folder from a copy", args...)}
}

// Error implements error.
func (e *CorruptionError) Error() string {
	text := bigset.ErrCorrupt.Error()
	if e.Path != "" {
		text += ": " + e.Path
	}
	if e.Set != nil || e.LastSet != nil || e.Filter != nil || e.LastFilter != nil {
		text += fmt.Sprintf(", which holds %s to %s", position(e.Set, e.From, e.Filter), position(e.LastSet, e.To, e.LastFilter))
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// position names a key; names may be long.
func position(set, element, filter []byte) string {
	switch {
	case filter != nil:
		return fmt.Sprintf("filter %.64q", filter)
	case set == nil:
		return "the store's own keys"
	case element == nil:
		return fmt.Sprintf("the clock of set %.64q", set)
	}
	return fmt.Sprintf("element %.64q of set %.64q", element, set)
}

// Unwrap makes errors.Is find bigset.ErrCorrupt and the cause.
func (e *CorruptionError) Unwrap() []error { return []error{bigset.ErrCorrupt, e.Err} }

// corruptionError is CorruptionOf for an error of Pebble.
func corruptionError(err error) error {
	info := pebble.ExtractDataCorruptionInfo(err)
	if info == nil {
		return &CorruptionError{Err: err}
	}
	return CorruptionOf(*info)
}

// CorruptionOf names the file and the keys that Pebble reports as damaged.
func CorruptionOf(info pebble.DataCorruptionInfo) *CorruptionError {
	e := &CorruptionError{Path: info.Path, Err: info.Details}
	e.Set, e.From = setAndElement(info.Bounds.Start)
	e.LastSet, e.To = setAndElement(info.Bounds.End.Key)
	e.Filter, e.LastFilter = filterOf(info.Bounds.Start), filterOf(info.Bounds.End.Key)
	return e
}

// filterOf returns the name of the filter to which a table's bound belongs, or nil if it is not a key of a filter.
func filterOf(key []byte) []byte {
	k, err := keyscheme.Decode(key)
	if err != nil || k.Kind != keyscheme.KindSlotBloom {
		return nil
	}
	f, ok := keyscheme.DecodeFilterKey(k.Rest)
	if !ok {
		return nil
	}
	return append([]byte{}, f.Name...)
}

// setAndElement decodes a table's bound; both results are nil if it is not a key of a set.
func setAndElement(key []byte) (set, element []byte) {
	k, err := keyscheme.Decode(key)
	if err != nil || k.PrefixLen() == 0 {
		return nil, nil
	}
	if k.Kind == keyscheme.KindElement {
		element = append([]byte{}, k.Element...)
	}
	return append([]byte{}, k.Set...), element
}

// DiskError adds the sentinel that matches an error from Pebble or the file system.
func DiskError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bigset.ErrCorrupt), errors.Is(err, bigset.ErrDiskFull):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w", bigset.ErrDiskFull, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case pebble.IsCorruptionError(err):
		return corruptionError(err)
	}
	return err
}
