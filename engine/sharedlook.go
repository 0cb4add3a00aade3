package engine

import (
	"sync/atomic"

	"bigset"
	"bigset/clock"
)

const (
	// sharedMin is the number of operations from which on a second goroutine helps to look them up.
	sharedMin = 128
	// sharedPart is how many of them a goroutine takes at a time.
	sharedPart = 32
)

// sharedLook looks up the elements of many operations. The leader does it and, if a processor is free soon enough, a helper, each with iterators of its own. The leader takes parts
// of the order from its beginning, and the helper from its end, so each stays among keys that are close to each other, and the leader never waits for a helper that has not begun:
//
//	order    | part | part | part | part | part | part |
//	leader     ███    ███    ███    ███  ─► closes, or waits for the helper's last part
//	helper                                 ███    ███   ◄─ starts
//
// No other goroutine writes the set during that time, and iterators show nothing of flushes and compactions. So it makes no difference when each iterator was opened.
type sharedLook struct {
	s      *Store
	st     *set
	actor  clock.Actor
	ops    []bigset.Op
	order  []int // operations in the order of their keys
	looks  func(op *bigset.Op) bool
	stored [][]clock.Dot // what the store has of the element of each operation
	begun  atomic.Int64  // how many parts have been taken
	taken  atomic.Bool   // the helper has begun, or must not begin any more
	helped chan error    // receives once if the helper has begun; has room for one
}

// look looks up all elements with the leader's iterators, and those of a helper if help is set.
func (l *sharedLook) look(iters *elementIters, help bool) error {
	if help {
		go l.help()
	}
	err := l.parts(iters, false)
	if help && !l.taken.CompareAndSwap(false, true) {
		if e := <-l.helped; err == nil {
			err = e
		}
	}
	return err
}

// help takes parts until none is left. It uses nothing of the leader's once the leader has finished without it.
func (l *sharedLook) help() {
	if !l.taken.CompareAndSwap(false, true) {
		return
	}
	iters := l.s.elementIters(l.st)
	err := l.parts(&iters, true)
	if e := iters.Close(); err == nil {
		err = e
	}
	l.helped <- err
}

// parts looks up parts, from the beginning or from the end, until all are taken, or one fails.
func (l *sharedLook) parts(iters *elementIters, fromEnd bool) error {
	all := (len(l.order) + sharedPart - 1) / sharedPart
	for n := 0; l.begun.Add(1) <= int64(all); n++ {
		at := n
		if fromEnd {
			at = all - 1 - n
		}
		if err := l.part(iters, l.order[at*sharedPart:min((at+1)*sharedPart, len(l.order))]); err != nil {
			l.begun.Store(int64(all)) // the other one may stop
			return err
		}
	}
	return nil
}

func (l *sharedLook) part(iters *elementIters, order []int) (err error) {
	looked := 0
	for _, i := range order {
		op := &l.ops[i]
		if !l.looks(op) {
			continue
		}
		looked++
		if l.stored[i], err = iters.appendDots(nil, op.Element, l.actor); err != nil {
			return err
		}
	}
	l.s.counters.lookUps.Add(uint64(looked))
	return nil
}

// lookUpOrdered looks up what this store has of the elements of a request's operations, in the order of their keys.
func (b *builder) lookUpOrdered(r *request, order []int) [][]clock.Dot {
	if b.iters.st == nil {
		b.iters = b.s.elementIters(b.st)
	}
	keeps, policy := b.s.opt.KeepContexts, r.opt.Policy
	l := sharedLook{s: b.s, st: b.st, actor: b.actor, ops: r.ops, order: order, stored: make([][]clock.Dot, len(order)), helped: make(chan error, 1),
		looks: func(op *bigset.Op) bool {
			c := &op.Context
			return c.Wide != nil && !keeps || !c.Given && policy == bigset.PolicyCoordinator
		}}
	b.check(l.look(&b.iters, len(order) >= sharedMin))
	return l.stored
}
