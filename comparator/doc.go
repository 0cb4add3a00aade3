// Package comparator decides the order of all keys of a store: slot, set, clock before tombstone before elements, elements
// bytewise, and under one element by actor, counter and op.
//
// Its law: the order is total on arbitrary bytes, no key makes a function of this package panic, and two keys are equal only if
// their bytes are. Fields are compared in turn. A key that ends inside a field sorts before all keys in which that field is whole;
// two such keys compare by their remaining raw bytes. Bytes after the last field compare last. So the head of a key, cut between
// two fields, is the lower bound of all keys that start with those fields.
//
//	slot     set                 element              dot
//	+------+-----+-----------+---+-----+------------+-----+---------+---------+----+
//	| 4 BE | len | name      | e | len | element    | len | actor   | counter | op |
//	+------+-----+-----------+---+-----+------------+-----+---------+---------+----+
//	bytes  number  bytes      byte       bytes             bytes     number   byte
//	|<------------------ Split: the prefix -------->|<---------- suffix ---------->|
//
// A set's name is compared by its length first and then bytewise, an element bytewise only: range and prefix queries depend on it.
// In keys that are not element keys (or end inside the element) the prefix is the whole key.
//
// # What Pebble is promised
//
// Split, the suffix comparisons, Compare, Separator, Successor and ImmediateSuccessor keep the contract of Pebble's base.Comparer
// on arbitrary keys, with two exceptions that the element order requires:
//
//   - Prefixes are not in bytewise order, because an element's length precedes it. Pebble's columnar blocks with their default key
//     schema depend on bytewise order; row blocks do not, so a store uses row blocks.
//   - A prefix without its first bytes is another key, or no key. Pebble asks for this only when tables are ingested with a
//     synthetic prefix, which a store never does.
//
// pebble.CheckComparer requires both and therefore fails. The tests here run all its other checks, and note where it stops. On
// store metadata, where the order is bytewise, it passes.
//
// All functions are pure, allocate only what they append, and may be called concurrently.
package comparator
