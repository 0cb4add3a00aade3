// Package comparator decides the order of all keys of a store: slot, set, clock before tombstone before elements, elements
// bytewise, and under one element by actor, counter and op.
//
// Its law: the order is total on arbitrary bytes, no key makes a function of this package panic, and two keys are equal only
// when their bytes are. Fields are compared in turn; a key that ends inside a field sorts before all keys in which that
// field is whole, such keys among each other by their remaining raw bytes; bytes behind the last field compare last. So the
// head of a key, cut between two fields, is the lower bound of all keys that start with those fields.
//
//	slot     set                 element              dot
//	+------+-----+-----------+---+-----+------------+-----+---------+---------+----+
//	| 4 BE | len | name      | e | len | element    | len | actor   | counter | op |
//	+------+-----+-----------+---+-----+------------+-----+---------+---------+----+
//	bytes  number  bytes      byte       bytes             bytes     number   byte
//	|<------------------ Split: the prefix -------->|<---------- suffix ---------->|
//
// A set's name is compared by its length first and then bytewise, an element bytewise alone: range and prefix queries
// depend on it. In keys that are no element key (or end inside the element) the prefix is the whole key.
//
// # What Pebble is promised
//
// Split, the suffix comparisons, Compare, Separator, Successor and ImmediateSuccessor keep the contract of Pebble's
// base.Comparer on arbitrary keys, with two exceptions that the element order forces:
//
//   - Prefixes are not in bytewise order (an element's length stands before it). Pebble's columnar blocks depend on that
//     with their default key schema, its row blocks do not: a store uses row blocks.
//   - A prefix without its first bytes is another key, or none. Pebble asks for that only where tables are ingested with a
//     synthetic prefix: a store never does.
//
// pebble.CheckComparer demands both and so fails; the tests here run all its other checks, and note where it stops. It
// passes whole on store metadata, where the order is bytewise.
//
// All functions are pure, allocate nothing but what they append, and may be called concurrently.
package comparator
