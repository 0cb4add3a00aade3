package crashfs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"slices"

	"bigset/convergence"
	"bigset/convergence/crashfs"
)

// logSet is an observed-remove set that keeps its operations in a log file, one per line.
type logSet struct {
	*crashfs.Disk
	env     convergence.Env
	log     *crashfs.File
	torn    bool // the log's end, or how much of it is durable, is not known
	next    int
	adds    map[string]string // tag to element
	removed map[string]bool   // tags
	slip    string            // what it forgets
}

type record struct {
	Tag     string
	Elem    []byte // any bytes: a string of JSON would be UTF-8
	Removes []string
}

func openLogSet(env convergence.Env, slip string) (convergence.Replica, error) {
	disk, err := crashfs.Open(env)
	if err != nil {
		return nil, err
	}
	s := &logSet{Disk: disk, env: env, slip: slip, adds: map[string]string{}, removed: map[string]bool{}}
	data, err := fs.ReadFile(disk, "log")
	if err != nil {
		return s, s.rewrite() // the first start
	}
	if s.log, err = disk.OpenFile("log", os.O_RDWR|os.O_APPEND); err != nil {
		return nil, err
	}
	whole := 0
	for line := range bytes.Lines(data) {
		sum, text, _ := bytes.Cut(line, []byte(" "))
		if string(sum) != checksum(text) {
			break // a crash tore it, so neither it nor what follows was acknowledged
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, err
		}
		s.apply(r)
		whole += len(line)
	}
	if slip == "truncate" {
		return s, nil
	}
	return s, s.log.Truncate(int64(whole))
}

// rewrite writes everything to a new log, and replaces the old one with it.
func (s *logSet) rewrite() error {
	log, err := s.OpenFile("log.new", os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	s.log, s.torn = log, true
	for _, tag := range slices.Sorted(maps.Keys(s.adds)) {
		if err := s.append(record{Tag: tag, Elem: []byte(s.adds[tag])}); err != nil {
			return err
		}
	}
	if err := s.append(record{Removes: slices.Sorted(maps.Keys(s.removed))}); err != nil {
		return err
	}
	if s.slip != "sync before rename" {
		if err := s.log.Sync(); err != nil {
			return err
		}
	}
	if err := s.Rename("log.new", "log"); err != nil {
		return err
	}
	if s.slip != "directory sync" {
		if err := s.SyncDir("."); err != nil {
			return err
		}
	}
	s.torn = false
	return nil
}

func (s *logSet) append(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = fmt.Fprintf(s.log, "%s %s", checksum(text), text)
	return err
}

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }

func (s *logSet) write(r record) (err error) {
	if s.torn {
		if err = s.rewrite(); err != nil {
			return err
		}
	}
	if err = s.append(r); err != nil {
		s.torn = s.slip != "torn write"
		return err
	}
	s.apply(r)
	return nil
}

func (s *logSet) apply(r record) {
	if r.Tag != "" {
		s.adds[r.Tag] = string(r.Elem)
	}
	for _, t := range r.Removes {
		s.removed[t] = true
	}
}

func (s *logSet) Do(op convergence.Op) (convergence.Effect, error) {
	r := record{Removes: s.tags(op.Elem)}
	if op.Kind == "add" {
		s.next++
		r = record{Elem: []byte(op.Elem), Tag: fmt.Sprintf("%d-%d-%d", s.env.ID, s.env.Start, s.next)}
	}
	msg, err := json.Marshal(r)
	if err != nil {
		return convergence.Effect{}, err
	}
	return convergence.Effect{Tag: r.Tag, Out: [][]byte{msg}}, s.write(r)
}

func (s *logSet) Receive(msg []byte) (durable bool, err error) {
	var r record
	if err := json.Unmarshal(msg, &r); err != nil {
		return false, err
	}
	return false, s.write(r)
}

func (s *logSet) tags(elem string) []string { return s.present()[elem] }

// present returns the elements that are present, with their tags.
func (s *logSet) present() map[string][]string {
	all := map[string][]string{}
	for _, t := range slices.Sorted(maps.Keys(s.adds)) {
		if !s.removed[t] {
			all[s.adds[t]] = append(all[s.adds[t]], t)
		}
	}
	return all
}

func (s *logSet) Read() (v convergence.View, err error) {
	all := s.present()
	for _, e := range slices.Sorted(maps.Keys(all)) {
		v.Items = append(v.Items, convergence.Item{Elem: e, Tags: all[e]})
	}
	return v, nil
}

// Sync makes the log durable. After a failure only a new log can be made durable.
func (s *logSet) Sync() error {
	if s.slip == "sync" {
		return nil
	}
	if s.torn {
		return s.rewrite()
	}
	err := s.log.Sync()
	s.torn = err != nil && s.slip != "failed sync"
	return err
}

func (s *logSet) Stop() (disk any, err error) { return s.FS, s.Sync() }

func (s *logSet) Maintain(int) (what string, err error) { return "compaction", s.rewrite() }

func (s *logSet) Close() error { return s.log.Close() }

func logSets(slip string) convergence.System {
	return convergence.System{Name: "log-set", Open: func(env convergence.Env) (convergence.Replica, error) { return openLogSet(env, slip) }}
}

// A set with a log in a file keeps what it acknowledged, through crashes, full disks and compactions. A set that answers Sync
// without syncing its log is detected by the first crash.
func Example() {
	for _, slip := range []string{"", "sync"} {
		r, err := convergence.Explore(context.Background(), logSets(slip), convergence.Options{Seed: 1, Replicas: 2, Schedules: 300})
		switch {
		case err != nil:
			fmt.Println(err)
		case r.Failure == nil:
			fmt.Println("no violation in", r.Schedules, "schedules")
		default:
			fmt.Print(r.Failure)
		}
	}
	// Output:
	// no violation in 300 schedules
	// resurrected at step 42: replica A: "a" is shown by add 0-1-1 of step 16, which was removed or replaced
	// shrunk from 60 to 5 steps
	// it rests on: Spec AddWins{}; a delivered message takes effect at once, even if earlier ones are missing
	// no other declaration accepts it
	//
	// convergence script 1
	// system log-set
	// seed 10451216379200822465
	// replicas 1
	// shape unsynced
	// 15 crash A 3                       # A shows {}
	// 16 do A add a                      # a is 0-1-1; A shows {a[0-1-1]}
	// 18 do A remove a                   # A shows {}
	// 35 sync A                          # A shows {}
	// 42 crash A 2                       # A shows {a[0-1-1]} !! resurrected
}
