// Package awset adapts github.com/aalpar/crdt/awset for package convergence.
package awset

import (
	"bytes"
	"strconv"

	"bigset/convergence"

	"github.com/aalpar/crdt/awset"
	"github.com/aalpar/crdt/dotcontext"
)

type state = dotcontext.Causal[*dotcontext.DotMap[string, *dotcontext.DotSet]]

var codec = dotcontext.CausalCodec[*dotcontext.DotMap[string, *dotcontext.DotSet]]{
	StoreCodec: dotcontext.DotMapCodec[string, *dotcontext.DotSet]{KeyCodec: dotcontext.StringCodec{}, ValueCodec: dotcontext.DotSetCodec{}},
}

type replica struct{ *awset.AWSet[string] }

// Open opens a replica.
func Open(env convergence.Env) (convergence.Replica, error) {
	return replica{awset.New[string](dotcontext.ReplicaID(strconv.Itoa(env.ID)))}, nil
}

func encode(s state) ([]byte, error) {
	var b bytes.Buffer
	err := codec.Encode(&b, s)
	return b.Bytes(), err
}

func (r replica) Do(op convergence.Op) (e convergence.Effect, err error) {
	delta := r.Remove
	if op.Kind == "add" {
		delta = r.Add
	}
	msg, err := encode(delta(op.Elem).State())
	e.Out = [][]byte{msg}
	return e, err
}

func (r replica) Receive(msg []byte) (durable bool, err error) {
	s, err := codec.Decode(bytes.NewReader(msg))
	if err == nil {
		r.Merge(awset.FromCausal(s))
	}
	return false, err
}

func (r replica) Read() (convergence.View, error) { return convergence.ViewOf(r.Elements()), nil }
func (r replica) Ask() ([]byte, error)            { return nil, nil }

func (r replica) Answer([]byte) ([][]byte, error) {
	msg, err := encode(r.State())
	return [][]byte{msg}, err
}

func (r replica) Close() error { return nil }
