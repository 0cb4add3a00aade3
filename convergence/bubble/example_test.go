package bubble_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bigset/convergence"
	"bigset/convergence/bubble"
)

// Courier is an observed-remove set with goroutines: one applies received messages from a channel, a second later, and another
// sends the messages of operations.
type Courier struct {
	mu      sync.Mutex
	name    int
	next    int
	adds    map[string]string // tag to element
	removed map[string]bool   // tags

	in  chan []byte
	out chan []byte
}

const delay = time.Second

type parcel struct {
	Tag     string
	Elem    []byte
	Removes []string
}

func Open(env convergence.Env) (convergence.Replica, error) {
	s := &Courier{name: env.ID, adds: map[string]string{}, removed: map[string]bool{}, in: make(chan []byte), out: make(chan []byte, 100)}
	go func() {
		for msg := range s.in {
			time.Sleep(delay)
			var p parcel
			if json.Unmarshal(msg, &p) == nil {
				s.take(p)
			}
		}
	}()
	return s, nil
}

func (s *Courier) take(p parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Tag != "" {
		s.adds[p.Tag] = string(p.Elem)
	}
	for _, t := range p.Removes {
		s.removed[t] = true
	}
}

// Do waits until the goroutines are blocked, and returns what they have sent.
func (s *Courier) Do(op convergence.Op) (e convergence.Effect, err error) {
	p := parcel{Removes: s.present()[op.Elem]}
	if op.Kind == "add" {
		s.next++
		p = parcel{Tag: fmt.Sprintf("%d-%d", s.name, s.next), Elem: []byte(op.Elem)}
	}
	s.take(p)
	msg, err := json.Marshal(p)
	go func() { s.out <- msg }()
	synctest.Wait()
	for len(s.out) > 0 {
		e.Out = append(e.Out, <-s.out)
	}
	e.Tag = p.Tag
	return e, err
}

func (s *Courier) Receive(msg []byte) (durable bool, err error) {
	s.in <- append([]byte(nil), msg...)
	return false, nil
}

func (s *Courier) present() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]string{}
	for t, e := range s.adds {
		if !s.removed[t] {
			all[e] = append(all[e], t)
		}
	}
	return all
}

func (s *Courier) Read() (convergence.View, error) { return convergence.ViewOfTags(s.present()), nil }

func (s *Courier) Close() error { close(s.in); return nil }

func TestConverges(t *testing.T) {
	convergence.Run(t, bubble.In(t, convergence.System{Name: "courier", Open: Open}, delay), convergence.Options{Schedules: 200})
}
