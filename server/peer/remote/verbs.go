package remote

import (
	"bigset"
	"bigset/server/peer"
	"bigset/server/wire"
)

// The verbs of replicas. They are on the wire. The durability of an acknowledged change is in its verb, VerbApply, VerbApplyMany or
// VerbApplyFacts plus the bigset.Durability, so that the frame of a delta is the same for every replica and for hints.
const (
	VerbWrite          wire.Verb = 100
	VerbKnows          wire.Verb = 101
	VerbApply          wire.Verb = 102 // to 104
	VerbApplyFacts     wire.Verb = 105 // to 107
	VerbHeal           wire.Verb = 108
	VerbLost           wire.Verb = 109
	VerbElementDigests wire.Verb = 110
	VerbState          wire.Verb = 111
	VerbLocate         wire.Verb = 112 // a stream
	VerbRead           wire.Verb = 113 // a stream
	VerbLookup         wire.Verb = 114
	VerbDotStatus      wire.Verb = 115
	VerbExport         wire.Verb = 116
	VerbDigests        wire.Verb = 117 // a stream
	VerbRangeDigests   wire.Verb = 118
	VerbCountParts     wire.Verb = 119
	VerbRequests       wire.Verb = 120 // a stream
	VerbWriteAhead     wire.Verb = 122 // a stream: what was applied, and then its durability
	VerbApplyMany      wire.Verb = 123 // to 125, as VerbApply; since version 2 of the wire's protocol

	VerbMark           wire.Verb = 130
	VerbApplyMarks     wire.Verb = 131
	VerbCheck          wire.Verb = 132
	VerbDropGeneration wire.Verb = 133
	VerbSliceDigests   wire.Verb = 134 // a stream
	VerbPageSums       wire.Verb = 135
	VerbPages          wire.Verb = 136
	VerbMergePages     wire.Verb = 137
	VerbFlushSlice     wire.Verb = 138
	VerbMarkMany       wire.Verb = 139
	VerbCheckMany      wire.Verb = 140
	VerbApplyMarksMany wire.Verb = 141
	VerbStamp          wire.Verb = 142
	VerbFilterDigest   wire.Verb = 143
)

// Verbs returns all verbs of replicas, ascending.
func Verbs() (all []wire.Verb) {
	for v := VerbWrite; v <= VerbFilterDigest; v++ {
		if fits(v, nil) {
			all = append(all, v)
		}
	}
	return all
}

// names are the names of verbs in figures. A change with its durability has the name of the verb before it.
var names = map[wire.Verb]string{
	VerbWrite: "write", VerbKnows: "knows", VerbApply: "apply", VerbApplyFacts: "apply_facts", VerbHeal: "heal", VerbLost: "lost", VerbElementDigests: "element_digests",
	VerbState: "set_state", VerbLocate: "locate", VerbRead: "read", VerbLookup: "lookup", VerbDotStatus: "dot_status", VerbExport: "export", VerbDigests: "digests",
	VerbRangeDigests: "range_digests", VerbCountParts: "count_parts", VerbRequests: "requests", VerbWriteAhead: "write_ahead", VerbApplyMany: "apply_many",
	VerbMark: "mark", VerbApplyMarks: "apply_marks", VerbCheck: "check", VerbDropGeneration: "drop_generation", VerbSliceDigests: "slice_digests", VerbPageSums: "page_sums",
	VerbPages: "pages", VerbMergePages: "merge_pages", VerbFlushSlice: "flush_slice", VerbMarkMany: "mark_many", VerbCheckMany: "check_many", VerbApplyMarksMany: "apply_marks_many",
	VerbStamp: "stamp", VerbFilterDigest: "filter_digest",
}

// Name returns the name of a verb of replicas in figures, or "" for another verb. Verbs that differ in the durability have one name.
func Name(v wire.Verb) string {
	for ; fits(v, nil); v-- {
		if name := names[v]; name != "" {
			return name
		}
	}
	return ""
}

// fits reports whether a request matches its verb or, for a nil request, whether the verb is a replica's.
func fits(v wire.Verb, m peer.Message) (ok bool) {
	switch v {
	case VerbWrite, VerbWriteAhead:
		_, ok = m.(peer.Write)
	case VerbKnows:
		_, ok = m.(peer.Knows)
	case VerbApply, VerbApply + wire.Verb(bigset.Sync), VerbApply + wire.Verb(bigset.NoSync):
		_, ok = m.(peer.Delta)
	case VerbApplyMany, VerbApplyMany + wire.Verb(bigset.Sync), VerbApplyMany + wire.Verb(bigset.NoSync):
		_, ok = m.(peer.Deltas)
	case VerbApplyFacts, VerbApplyFacts + wire.Verb(bigset.Sync), VerbApplyFacts + wire.Verb(bigset.NoSync):
		_, ok = m.(peer.Facts)
	case VerbHeal:
		_, ok = m.(peer.Heal)
	case VerbLost:
		_, ok = m.(peer.AskLost)
	case VerbElementDigests:
		_, ok = m.(peer.ElementRange)
	case VerbState:
		_, ok = m.(peer.AskState)
	case VerbLocate:
		_, ok = m.(peer.Locate)
	case VerbRead:
		_, ok = m.(peer.Read)
	case VerbLookup:
		_, ok = m.(peer.Lookup)
	case VerbDotStatus:
		_, ok = m.(peer.Ask)
	case VerbExport:
		_, ok = m.(peer.Export)
	case VerbDigests:
		_, ok = m.(peer.AskDigests)
	case VerbRangeDigests:
		_, ok = m.(peer.AskRangeDigests)
	case VerbCountParts:
		_, ok = m.(peer.AskCount)
	case VerbRequests:
		_, ok = m.(peer.AskRequests)
	default:
		return fitsSlices(v, m)
	}
	return ok || m == nil
}

// fitsSlices is fits for the verbs about slices of bloom filters.
func fitsSlices(v wire.Verb, m peer.Message) (ok bool) {
	switch v {
	case VerbMark:
		_, ok = m.(peer.Mark)
	case VerbApplyMarks:
		_, ok = m.(peer.Marks)
	case VerbCheck:
		_, ok = m.(peer.Check)
	case VerbDropGeneration:
		_, ok = m.(peer.DropGeneration)
	case VerbSliceDigests:
		_, ok = m.(peer.AskSliceDigests)
	case VerbPageSums:
		_, ok = m.(peer.AskPageSums)
	case VerbPages:
		_, ok = m.(peer.AskPages)
	case VerbMergePages:
		_, ok = m.(peer.SlicePages)
	case VerbFlushSlice:
		_, ok = m.(peer.FlushSlice)
	case VerbMarkMany:
		_, ok = m.(peer.MarkMany)
	case VerbCheckMany:
		_, ok = m.(peer.CheckMany)
	case VerbApplyMarksMany:
		_, ok = m.(peer.MarksMany)
	case VerbStamp, VerbFilterDigest:
		a, is := m.(peer.AskStamp)
		ok = is && a.Digest == (v == VerbFilterDigest)
	default:
		return false
	}
	return ok || m == nil
}

// priorityOf returns the priority of a verb: that of a client's write, of a read, or of a repair or copy.
func priorityOf(v wire.Verb) wire.Priority {
	switch v {
	case VerbRead, VerbDotStatus, VerbCountParts:
		return wire.PriorityRead
	case VerbExport, VerbRequests:
		return wire.PriorityCopy
	case VerbApplyFacts, VerbApplyFacts + wire.Verb(bigset.Sync), VerbApplyFacts + wire.Verb(bigset.NoSync), VerbHeal, VerbLost, VerbElementDigests,
		VerbState, VerbLocate, VerbDigests, VerbRangeDigests, VerbSliceDigests, VerbPageSums, VerbPages, VerbMergePages, VerbFlushSlice,
		VerbFilterDigest:
		return wire.PriorityRepair
	}
	return wire.PriorityQuorum
}
