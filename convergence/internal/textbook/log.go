package textbook

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"

	"bigset/convergence"
	"bigset/convergence/crashfs"
)

// logged is an observed-remove set that writes each operation to a log before it applies it. Each life is an actor of its own.
type logged struct {
	*orset
	*crashfs.Disk
	file   *crashfs.File
	size   int64 // of the log
	synced int64 // how much of it is durable
	tail   []byte
	broken bool // what follows synced is not known
	cut    int  // a snapshot of that many operations has begun; 0 is none
}

func openLog(env convergence.Env, o setOptions) (convergence.Replica, error) {
	disk, err := crashfs.Open(env)
	if err != nil {
		return nil, err
	}
	s := &logged{orset: openSet(env, o), Disk: disk}
	if o.bug == "lives-counted-on-disk" {
		if err := s.nextLife(); err != nil {
			return nil, err
		}
	}
	if s.file, err = disk.OpenFile("log", os.O_CREATE|os.O_RDWR); err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(disk, "log")
	if err != nil {
		return nil, err
	}
	for {
		body, n := record(data[s.size:])
		if n == 0 {
			break
		}
		c, err := decodeChange(body)
		if err != nil {
			return nil, err
		}
		s.all(c)
		s.size += int64(n)
	}
	if s.o.bug == "torn-record-stays" {
		s.size = int64(len(data))
	} else if err := s.file.Truncate(s.size); err != nil {
		return nil, err
	}
	if err := s.file.Sync(); err != nil {
		return nil, err
	}
	s.synced = s.size
	s.log = s.write
	if s.o.repair {
		return loggedGossip{s, gossips{s.orset}}, disk.SyncDir(".")
	}
	return s, disk.SyncDir(".")
}

// nextLife counts the lives of the replica on its disk, instead of using Env.Start.
func (s *logged) nextLife() error {
	f, err := s.OpenFile("lives", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	lives, err := fs.ReadFile(s.Disk, "lives")
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte{1}, int64(len(lives))); err != nil {
		return err
	}
	s.actor = s.env.ID + 8*len(lives)
	return f.Sync()
}

// loggedGossip has anti-entropy, too.
type loggedGossip struct {
	*logged
	gossips
}

func (s loggedGossip) Do(op convergence.Op) (convergence.Effect, error) { return s.logged.Do(op) }
func (s loggedGossip) Receive(msg []byte) (bool, error)                 { return s.logged.Receive(msg) }
func (s loggedGossip) Read() (convergence.View, error)                  { return s.logged.Read() }
func (s loggedGossip) Close() error                                     { return nil }
func (s loggedGossip) Fingerprint() string                              { return s.logged.Fingerprint() }

func frame(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

// record returns the first record, and its length including the header; the length is 0 if the record is torn or missing.
func record(data []byte) (body []byte, n int) {
	if len(data) < 8 {
		return nil, 0
	}
	n = int(binary.LittleEndian.Uint32(data))
	if n == 0 || n > len(data)-8 {
		return nil, 0
	}
	body = data[8 : 8+n]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(data[4:]) {
		return nil, 0
	}
	return body, n + 8
}

func (s *logged) write(c change) error {
	if err := s.mend(); err != nil {
		return err
	}
	b := frame(c.encode())
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		s.broken = true
		return err
	}
	s.size += int64(len(b))
	s.tail = append(s.tail, b...)
	return nil
}

// mend writes again what an error may have lost.
func (s *logged) mend() error {
	if !s.broken {
		return nil
	}
	if err := s.file.Truncate(s.synced); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(s.tail, s.synced); err != nil {
		return err
	}
	s.size, s.broken = s.synced+int64(len(s.tail)), false
	return nil
}

// Sync implements convergence.Durable.
func (s *logged) Sync() error {
	if err := s.mend(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		s.broken = s.o.bug != "failed-sync-forgotten"
		return err
	}
	s.synced, s.tail = s.size, nil
	return nil
}

// Stop implements convergence.Durable.
func (s *logged) Stop() (any, error) { return s.FS, s.Sync() }

// Maintain implements convergence.Maintainer: it replaces the log with a new one, in two steps.
func (s *logged) Maintain(int) (string, error) {
	if s.cut == 0 {
		s.cut = len(s.ops)
		return "snapshot", nil
	}
	ops := slices.Clone(s.ops)
	if s.o.bug == "snapshot-cuts-log" {
		ops = ops[:s.cut]
	}
	s.cut = 0
	return "compaction", s.rewrite(ops)
}

func (s *logged) rewrite(ops []change) error {
	f, err := s.OpenFile("new", os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return err
	}
	var all []byte
	for _, c := range ops {
		all = append(all, frame(c.encode())...)
	}
	if _, err := f.WriteAt(all, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := s.Rename("new", "log"); err != nil {
		return err
	}
	s.file, s.size, s.synced, s.tail, s.broken = f, int64(len(all)), int64(len(all)), nil, false
	return s.SyncDir(".")
}
