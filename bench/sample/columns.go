package sample

import (
	"fmt"
	"strings"
)

// The columns that charts and views know. A source with such a figure must use this name.
const (
	LogBytes     = "log_bytes"     // B, growth: written to the log
	FlushBytes   = "flush_bytes"   // B, growth: written to tables by flushes
	CompactBytes = "compact_bytes" // B, growth: written to tables by compactions of all levels; see also Level
	RewriteBytes = "rewrite_bytes" // B, growth: written to tables by the rewriter, without sweeps
	SweepBytes   = "sweep_bytes"   // B, growth: written to tables by sweeps over many small sets
	IngestBytes  = "ingest_bytes"  // B, growth: tables from outside

	KeysLive       = "keys_live"       // keys
	KeysDead       = "keys_dead"       // keys: other keys in tables
	KeysInTables   = "keys_in_tables"  // keys
	TombstoneBytes = "tombstone_bytes" // B: of the sets' tombstones in memory
	Deletes        = "deletes"         // keys: deletes in tables
	TableBytes     = "table_bytes"     // B: of tables in use
	StoreBytes     = "store_bytes"     // B: of all files of the store
	MemTableBytes  = "memtable_bytes"  // B
	CompactionDebt = "compaction_debt" // B: still to be compacted

	Stalls      = "stalls"       // growth: times that writes had to wait for flushes or compactions
	Stalled     = "stalled"      // s, growth: the duration of these waits; per second it is a share of time
	FilterDrops = "filter_drops" // keys, growth: times that the filter left a key out, for readers and for tables
	CacheHit    = "cache_hit"    // 1: blocks found in the block cache, as a share of those looked up since the last tick

	WriteAmp = "write_amp" // 1: bytes written, relative to the bytes named by clients, since the phase began
	ReadAmp  = "read_amp"  // 1: runs of tables that a read of a key may have to read
	SpaceAmp = "space_amp" // 1: keys in tables, relative to the live ones

	CPU           = "cpu"              // cpu, growth: of the process
	Resident      = "resident_bytes"   // B: memory of the process in RAM
	Heap          = "heap_bytes"       // B: objects on the Go heap
	IORead        = "io_read_bytes"    // B, growth: read from disks for the process
	IOWritten     = "io_written_bytes" // B, growth: written to disks for the process
	MachineBusy   = "machine_busy"     // cpu, growth: of all processes
	MachineStolen = "machine_stolen"   // cpu, growth: given to others by the host
	MachineLoad   = "machine_load"     // processes that run or wait, averaged over a minute
	DiskRead      = "disk_read_bytes"  // B, growth: of the store's device, for all processes
	DiskWritten   = "disk_written_bytes"
	DiskBusy      = "disk_busy" // s, growth: time in which the device was busy; per second it is a share of time
)

// Level returns the name of a figure of a level of the LSM: "bytes" and "tables" in it, "compacted" (the bytes that compactions wrote to
// it), and "sublevels".
func Level(level int, figure string) string { return fmt.Sprintf("L%d/%s", level, figure) }

// Groups returns the groups of clients in their order. The group without a name is "".
func Groups(columns []Column) (list []string) {
	for _, c := range columns {
		if c.Name == "p99" {
			list = append(list, "")
		} else if group, ok := strings.CutSuffix(c.Name, "/p99"); ok {
			list = append(list, group)
		}
	}
	return list
}

// InGroup returns the name of a column of a group.
func InGroup(group, name string) string {
	if group == "" {
		return name
	}
	return group + "/" + name
}

// Amplification returns write and space amplification. The bytes named by the groups of clients are the divisor of the first.
func Amplification(groups ...string) []Ratio {
	var user []string
	for _, g := range groups {
		user = append(user, InGroup(g, "user_bytes"))
	}
	return []Ratio{
		{Name: WriteAmp, Of: []string{LogBytes, FlushBytes, CompactBytes, RewriteBytes, SweepBytes}, To: user},
		{Name: SpaceAmp, Of: []string{KeysInTables}, To: []string{KeysLive}},
	}
}

// UnitOf returns the unit of a column's values: growth is per second.
func (c Column) UnitOf() string {
	switch {
	case !c.Growth || c.Unit == "cpu":
		return c.Unit
	case c.Unit == "s":
		return "1"
	}
	return c.Unit + "/s"
}
