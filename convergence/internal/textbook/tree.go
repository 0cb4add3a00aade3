package textbook

import "bigset/convergence"

// leaves is how many leaves a hash tree has, and branch how many of them are below one node.
const (
	leaves = 16
	branch = 4
)

// tree is an observed-remove set that sends nothing but anti-entropy, by a hash tree of its operations: question, hashes of nodes, and
// then, as messages of its own, which nodes differ, the hashes of their leaves, which leaves differ, and their operations.
type tree struct {
	*orset
	mail
	sums   [leaves]uint64
	hashed int // operations
}

func openTree(env convergence.Env, bug string) *tree {
	return &tree{orset: openSet(env, setOptions{gossip: true, bug: bug})}
}

// leaf returns the place of an operation.
func leaf(c change) int { return (7*c.author + int(c.seq%leaves)) % leaves }

// hash brings the leaves up to date.
func (s *tree) hash() {
	for ; s.hashed < len(s.ops); s.hashed++ {
		c := s.ops[s.hashed]
		if s.o.bug == "hash-counts" {
			s.sums[leaf(c)]++
			continue
		}
		s.sums[leaf(c)] += scramble(dot{c.author, c.seq})
	}
}

// scramble is a hash of a dot.
func scramble(d dot) uint64 {
	x := uint64(d.actor)<<48 ^ d.n
	x = (x ^ x>>31) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// nodes returns the hashes of n nodes, each with some leaves, from a leaf on.
func (s *tree) nodes(from, n, each int) (list []uint64) {
	s.hash()
	for i := range n {
		sum := uint64(0)
		for k := range each {
			sum += s.sums[from+i*each+k]
		}
		list = append(list, sum)
	}
	return list
}

// letter begins a message of a kind to one replica: those for others are ignored.
func (s *tree) letter(kind byte, to int) buffer {
	b := buffer{kind}
	b.num(uint64(to))
	b.num(uint64(s.env.ID))
	return b
}

func (s *tree) hashes(kind byte, to, from, n, each int) []byte {
	b := s.letter(kind, to)
	b.num(uint64(from))
	for _, h := range s.nodes(from, n, each) {
		b.num(h)
	}
	return b
}

// Ask implements convergence.Repairer.
func (s *tree) Ask() ([]byte, error) { return s.hashes('r', s.env.ID, 0, 1, leaves), nil }

// Answer implements convergence.Repairer.
func (s *tree) Answer(ask []byte) ([][]byte, error) {
	src := source{b: ask[1:]}
	asker, _, _, root := int(src.num()), src.num(), src.num(), src.num()
	if src.end() != nil || root == s.nodes(0, 1, leaves)[0] {
		return nil, src.end()
	}
	return [][]byte{s.hashes('n', asker, 0, leaves/branch, branch)}, nil
}

// Receive implements convergence.Replica.
func (s *tree) Receive(msg []byte) (durable bool, err error) {
	if len(msg) == 0 {
		return false, errMalformed
	}
	src := source{b: msg[1:]}
	to, from := int(src.num()), int(src.num())
	if to != s.env.ID || src.bad {
		return false, nil
	}
	if msg[0] == 'o' {
		return s.orset.Receive(src.b)
	}
	at := int(src.num())
	switch msg[0] {
	case 'n':
		s.compare(&src, 'w', from, at, branch)
	case 'w':
		s.out = append(s.out, s.hashes('l', from, at, branch, 1))
	case 'l':
		s.compare(&src, 'd', from, at, 1)
	case 'd':
		for _, c := range s.ops {
			if leaf(c) == at {
				s.out = append(s.out, append(s.letter('o', from), c.encode()...))
			}
		}
	}
	return false, src.end()
}

// compare asks for each node whose hash differs.
func (s *tree) compare(src *source, kind byte, from, at, each int) {
	for _, h := range s.nodes(at, branch, each) {
		if h != src.num() {
			b := s.letter(kind, from)
			b.num(uint64(at))
			s.out = append(s.out, b)
		}
		at += each
	}
}

func treeSets(bug string) convergence.System {
	return convergence.System{Name: "or-set-tree", BestEffort: true, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openTree(env, bug), nil
	}}
}
