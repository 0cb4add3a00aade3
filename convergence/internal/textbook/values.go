package textbook

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bigset/convergence"
)

// value is what an operation on a counter, a register or a map did: name is its dot.
type value struct {
	name   dot
	elem   string
	kind   string
	arg    string
	time   int64
	author int
	over   []dot // the values that it replaces
}

// cells are counters, registers or a map: for each key, the operations that count.
type cells struct {
	env   convergence.Env
	n     uint64
	known map[dot]bool
	dead  map[dot]bool
	now   map[string][]value
	bug   string
	// observes says that each operation replaces the values that its replica has; otherwise only "set" does.
	observes bool
	rule     func(s *cells, v value)
	show     func(s *cells, list []value) []string
}

func openCells(env convergence.Env, bug string, rule func(s *cells, v value), show func(s *cells, list []value) []string) *cells {
	return &cells{env: env, known: map[dot]bool{}, dead: map[dot]bool{}, now: map[string][]value{}, bug: bug, rule: rule, show: show}
}

// Do implements convergence.Replica.
func (s *cells) Do(op convergence.Op) (convergence.Effect, error) {
	s.n++
	v := value{name: dot{s.env.ID, s.n}, elem: op.Elem, kind: op.Kind, arg: string(op.Arg), time: s.env.Now(), author: s.env.ID}
	if op.Kind == "set" || s.observes {
		for _, o := range s.now[op.Elem] {
			v.over = append(v.over, o.name)
		}
	}
	var b buffer
	b.dot(v.name)
	for _, text := range []string{v.elem, v.kind, v.arg} {
		b.str(text)
	}
	b.num(uint64(v.time))
	b.dots(v.over)
	s.known[v.name] = true
	s.rule(s, v)
	return convergence.Effect{Out: [][]byte{b}}, nil
}

// Receive implements convergence.Replica.
func (s *cells) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	v := value{name: src.dot(), elem: src.str(), kind: src.str(), arg: src.str(), time: int64(src.num()), over: src.dots()}
	if err := src.end(); err != nil {
		return false, err
	}
	v.author = v.name.actor
	if s.known[v.name] && s.bug != "counts-twice" {
		return false, nil
	}
	s.known[v.name] = true
	s.rule(s, v)
	return false, nil
}

// count keeps all operations on a counter.
func count(s *cells, v value) { s.now[v.elem] = append(s.now[v.elem], v) }

func total(s *cells, list []value) []string {
	sum := 0
	for _, v := range list {
		n, _ := strconv.Atoi(v.arg) // made by the kit: a number
		if v.kind == "dec" {
			n = -n
		}
		sum += n
	}
	if s.bug == "value-of-16-bits" {
		sum = int(int16(sum))
	}
	return []string{strconv.Itoa(sum)}
}

// replace keeps the values of a register that were not replaced.
func replace(s *cells, v value) {
	for _, d := range v.over {
		s.dead[d] = true
	}
	known := s.bug == "equal-values-are-one" && slices.ContainsFunc(s.now[v.elem], func(o value) bool { return o.arg == v.arg && !s.dead[o.name] })
	if !s.dead[v.name] && !known {
		s.now[v.elem] = append(s.now[v.elem], v)
	}
	s.now[v.elem] = slices.DeleteFunc(slices.Clone(s.now[v.elem]), func(o value) bool { return s.dead[o.name] })
	if list := s.now[v.elem]; s.bug == "keeps-one" && len(list) > 1 {
		s.now[v.elem] = list[len(list)-1:]
	}
}

func values(_ *cells, list []value) (all []string) {
	for _, v := range list {
		all = append(all, v.arg)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// newest keeps the last operation on a key of a map.
func newest(s *cells, v value) {
	list := append(slices.Clone(s.now[v.elem]), v)
	s.now[v.elem] = []value{slices.MaxFunc(list, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.author, b.author), cmp.Compare(a.name.n, b.name.n))
	})}
	if s.bug == "deletes-forgotten" && s.now[v.elem][0].kind == "delete" {
		delete(s.now, v.elem)
	}
}

func put(s *cells, list []value) []string {
	if list[0].kind == "delete" || s.bug == "empty-is-none" && list[0].arg == "" {
		return nil
	}
	return []string{list[0].arg}
}

// Read implements convergence.Replica.
func (s *cells) Read() (v convergence.View, err error) {
	for _, elem := range slices.Sorted(maps.Keys(s.now)) {
		if len(s.now[elem]) == 0 {
			continue
		}
		if list := s.show(s, s.now[elem]); list != nil {
			v.Items = append(v.Items, convergence.Item{Elem: elem, Values: list})
		}
	}
	return page(v, s.bug), nil
}

// page returns what a read shows. With the bug, the read ends after its first page.
func page(v convergence.View, bug string) convergence.View {
	if strings.HasPrefix(bug, "page-of-100-") {
		v.Items = v.Items[:min(len(v.Items), 100)]
	}
	return v
}

// Close implements convergence.Replica.
func (s *cells) Close() error { return nil }

// sparse is a counter that drops zeros in its background work.
type sparse struct{ *cells }

// Maintain implements convergence.Maintainer.
func (s sparse) Maintain(int) (string, error) {
	maps.DeleteFunc(s.now, func(_ string, list []value) bool { return total(s.cells, list)[0] == "0" })
	return "compaction", nil
}

func sparseCounters() convergence.System {
	return convergence.System{Name: "pn-counter-sparse", Spec: convergence.Counter{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return sparse{openCells(env, "", count, total)}, nil
	}}
}

// stored are cells on a disk: a list of operations, in which a batch is one entry.
type stored struct {
	*cells
	disk   [][][]byte
	synced int // entries
}

func openStored(env convergence.Env, bug string) (convergence.Replica, error) {
	s := &stored{cells: openCells(env, bug, count, total)}
	s.n = uint64(env.Start) << 32 // no name is used twice
	s.disk, _ = env.Disk.([][][]byte)
	s.synced = len(s.disk)
	for _, entry := range s.disk {
		for _, msg := range entry {
			if _, err := s.cells.Receive(msg); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Do implements convergence.Replica.
func (s *stored) Do(op convergence.Op) (convergence.Effect, error) {
	return s.DoBatch([]convergence.Op{op})
}

// DoBatch implements convergence.Batcher.
func (s *stored) DoBatch(ops []convergence.Op) (convergence.Effect, error) {
	var entry [][]byte
	for _, op := range ops {
		e, err := s.cells.Do(op)
		if err != nil {
			return e, err
		}
		entry = append(entry, e.Out...)
	}
	most := len(entry)
	if s.bug == "batches-of-100" {
		most = 100
	}
	s.disk = slices.AppendSeq(s.disk, slices.Chunk(entry, most))
	var b buffer
	b.num(uint64(len(entry)))
	for _, msg := range entry {
		b.str(string(msg))
	}
	return convergence.Effect{Out: [][]byte{b}}, nil
}

// Receive implements convergence.Replica.
func (s *stored) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	var entry [][]byte
	for range src.count() {
		entry = append(entry, []byte(src.str()))
	}
	if err := src.end(); err != nil {
		return false, err
	}
	for _, msg := range entry {
		if _, err := s.cells.Receive(msg); err != nil {
			return false, err
		}
	}
	s.disk = append(s.disk, entry)
	return false, nil
}

// Sync implements convergence.Durable.
func (s *stored) Sync() error {
	s.synced = len(s.disk)
	return nil
}

// Crash implements convergence.Durable.
func (s *stored) Crash(keep int) (disk any, err error) {
	n := s.synced + (len(s.disk)-s.synced)*keep/4
	left := slices.Clone(s.disk[:n])
	if s.bug == "batch-half-kept" && n < len(s.disk) {
		left = append(left, s.disk[n][:len(s.disk[n])/2])
	}
	return left, nil
}

// Stop implements convergence.Durable.
func (s *stored) Stop() (disk any, err error) { return s.disk, s.Sync() }

func storedCounters(bug string) convergence.System {
	return convergence.System{Name: "pn-counter-stored", Spec: convergence.Counter{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openStored(env, bug)
	}}
}

func counters(bug string) convergence.System {
	return convergence.System{Name: "pn-counter", Spec: convergence.Counter{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openCells(env, bug, count, total), nil
	}}
}

func registers(bug string) convergence.System {
	return convergence.System{Name: "mv-register", Spec: convergence.Register{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openCells(env, bug, replace, values), nil
	}}
}

func lwwMap(bug string) convergence.System {
	return convergence.System{Name: "lww-map", Spec: convergence.LWWMap{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openCells(env, bug, newest, put), nil
	}}
}
