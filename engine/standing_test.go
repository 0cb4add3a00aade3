package engine

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// A disk stays the same one over stops of all kinds, while its actor changes; what was promised and may have been lost is reported until it was made
// good.
func TestStanding(t *testing.T) {
	ctx := context.Background()
	disk := testkit.NewDisk()
	open := func(fs *testkit.Disk) *Store {
		t.Helper()
		s, err := Open("db", &Options{FS: fs, BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	add := func(s *Store) {
		t.Helper()
		if _, err := s.Write(ctx, []byte("s"), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("e")}}, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lacks := func(s *Store, sets, filters bool) {
		t.Helper()
		if gotSets, gotFilters := s.Replica().MayLack(); gotSets != sets || gotFilters != filters {
			t.Errorf("may lack %v %v, want %v %v", gotSets, gotFilters, sets, filters)
		}
	}
	s := open(disk)
	id, actor := bytes.Clone(s.Replica().Identity()), s.Replica().Actor()
	if err := s.Replica().SetMeta(ctx, MetaCluster, []byte("map")); err != nil {
		t.Fatal(err)
	}
	add(s)
	crash := func(promises ...Promise) *Store {
		t.Helper()
		for _, p := range promises {
			if err := s.Replica().Promise(p); err != nil {
				t.Fatal(err)
			}
		}
		clone := disk.CrashClone(0, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		disk = clone
		return open(disk)
	}
	s = crash()
	lacks(s, false, false)
	if !bytes.Equal(s.Replica().Identity(), id) || s.Replica().Actor() == actor {
		t.Errorf("after a crash: identity %x of %x, actor %x of %x", s.Replica().Identity(), id, string(s.Replica().Actor()), string(actor))
	}
	if v, err := s.Replica().Meta(MetaCluster); err != nil || string(v) != "map" {
		t.Errorf("metadata after a crash: %q, %v", v, err)
	}
	if err := s.Replica().DropRange(ctx, 0, keyscheme.SlotMax); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Replica().Meta(MetaCluster); err != nil || string(v) != "map" || !bytes.Equal(s.Replica().Identity(), id) {
		t.Errorf("after a drop of all: %q, %v, identity %x", v, err, s.Replica().Identity())
	}
	s = crash(PromiseFiltersLog) // the machine was not started again
	lacks(s, false, false)
	s = crash(PromiseFiltersMemory)
	lacks(s, false, true)
	s = crash(PromiseSets)
	lacks(s, true, true)
	if err := s.Close(); err != nil { // it is reported until it was made good, also when nothing was written
		t.Fatal(err)
	}
	s = open(disk)
	lacks(s, true, true)
	if err := s.Replica().MadeGood(true, false); err != nil {
		t.Fatal(err)
	}
	s = crash()
	lacks(s, false, true)
	if err := s.Replica().MadeGood(true, true); err != nil {
		t.Fatal(err)
	}
	s = crash()
	lacks(s, false, false)
	if err := s.Replica().Promise(PromiseSets); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // in order: nothing is lost
		t.Fatal(err)
	}
	s = open(disk)
	lacks(s, false, false)
	add(s)
	if rep, err := s.Verify(ctx, VerifyOptions{}); err != nil || rep.ProblemCount > 0 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStandingOfCopy: a folder that was restored is another disk, and stays the one that it has become.
func TestStandingOfCopy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	disk := testkit.NewDisk()
	open := func(dir string) *Store {
		t.Helper()
		s, err := Open(dir, &Options{FS: disk, BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open("db")
	id := bytes.Clone(s.Replica().Identity())
	if err := s.Replica().SetNote(ctx, "note", 0, keyscheme.SlotMax, []byte("kept"), bigset.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Replica().SetMeta(ctx, MetaCluster, []byte("map")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, "db", "copy", &RestoreOptions{FS: disk}); err != nil {
		t.Fatal(err)
	}
	s = open("copy")
	other := bytes.Clone(s.Replica().Identity())
	if bytes.Equal(other, id) {
		t.Errorf("a restored store is the disk %x, which it was copied from", id)
	}
	if err := s.Replica().SetMeta(ctx, MetaFilled, []byte("now")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open("copy")
	if !bytes.Equal(s.Replica().Identity(), other) {
		t.Errorf("identity %x after a close in order, it was %x", s.Replica().Identity(), other)
	}
	if v, err := s.Replica().Meta(MetaCluster); err != nil || string(v) != "map" {
		t.Errorf("metadata of a restored store: %q, %v", v, err)
	}
	if v, err := s.Replica().Note(ctx, "note"); err != nil || v != nil {
		t.Errorf("a note was copied: %q, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMetaBounds: a value whose key would lie among the sets, or that is too long, is refused and changes nothing.
func TestMetaBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := Open("store", &Options{FS: testkit.NewDisk(), BackgroundInterval: -1, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		name  Meta
		bytes int
		want  error
	}{{"", 1, bigset.ErrRequest}, {"abc", 1, bigset.ErrLimit}, {"c", 4<<20 + 1, bigset.ErrLimit}, {"ab", 4 << 20, nil}, {MetaFiltersPage(255), 0, nil}} {
		if err := s.Replica().SetMeta(ctx, tt.name, make([]byte, tt.bytes)); !errors.Is(err, tt.want) {
			t.Errorf("%d bytes under %q: %v, want %v", tt.bytes, tt.name, err, tt.want)
		}
		if value, err := s.Replica().Meta(tt.name); err != nil || tt.want == nil && len(value) != tt.bytes || tt.want != nil && value != nil {
			t.Errorf("under %q are %d bytes, %v", tt.name, len(value), err)
		}
	}
}
