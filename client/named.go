package client

import (
	"context"
	"iter"

	"bigset/keyscheme"
)

// Set is one set at the nodes, for programs whose names and elements are strings; a string may have any bytes. Its methods use the nodes'
// defaults. For quorums, ids, contexts of answers, batches that mix adds and removes, ranges and pages, use the methods of Client that take
// byte slices. A Set is a cheap value, whether or not the nodes have a set of that name. Its methods may be called by any number of
// goroutines. Package engine has a Set with the same methods for a store; the contexts there are bigset.Context, here they are sealed ones, Token.
type Set struct {
	c    *Client
	name []byte
}

// Set returns the set with a name. It asks no node.
func (c *Client) Set(name string) Set { return Set{c, []byte(name)} }

// Add adds elements, in one atomic batch.
func (x Set) Add(ctx context.Context, elements ...string) (Result, error) {
	return x.c.Write(ctx, Write{Set: x.name, Ops: ops(keyscheme.OpAdd, elements)})
}

// Remove removes elements as far as the nodes have seen them, in one atomic batch. Result.Removed says how many were present.
func (x Set) Remove(ctx context.Context, elements ...string) (Result, error) {
	return x.c.Write(ctx, Write{Set: x.name, Ops: ops(keyscheme.OpRemove, elements)})
}

// RemoveSeen removes what the context of an element covers, and nothing that was added since. Look returns such
// contexts. An empty context is none: RemoveSeen then does what Remove does.
func (x Set) RemoveSeen(ctx context.Context, element string, seen Token) (Result, error) {
	return x.c.Write(ctx, Write{Set: x.name, Ops: []Op{Remove([]byte(element), seen)}})
}

func ops(kind keyscheme.Op, elements []string) []Op {
	all := make([]Op, len(elements))
	for i, e := range elements {
		all[i] = Op{Kind: kind, Element: []byte(e)}
	}
	return all
}

// Contains reports whether the set contains an element. A set that the nodes do not know contains none.
func (x Set) Contains(ctx context.Context, element string) (bool, error) {
	found, err := x.Look(ctx, element)
	return found.Present, err
}

// Look reports whether the set contains an element, with the context to act on what was seen of it.
func (x Set) Look(ctx context.Context, element string) (Presence, error) {
	found, err := x.c.Subset(ctx, Subset{Set: x.name, Elements: [][]byte{[]byte(element)}})
	if err != nil {
		return Presence{}, err
	}
	return found[0], nil
}

// Elements streams the elements in order. It ends after an error. A set that no node knows is an error that wraps bigset.ErrNotFound; a set
// that has become empty is not. Leaving the loop also ends the read at the node.
func (x Set) Elements(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range x.c.Elements(ctx, Read{Set: x.name}) {
			if !yield(string(e.Name), err) {
				return
			}
		}
	}
}
