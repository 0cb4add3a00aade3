// Package setname decides which set a client's name is: a key of redis, or a type, a bucket and a key of Riak and of HTTP. Both ways are injective,
// and each has an inverse, so two clients meet at one set only where they say the same.
//
//	client says              name of the set
//	key K                    K, where K has bytes and the first is not zero; otherwise 00 K
//	sets, default, K         that of the key K
//	T, B, K                  00 01 e(T) 00 01 e(B) 00 01 K
//
// e puts FF after each zero byte. No key has a name that begins with 00 01: so the last line meets none of those before. A name that begins with 00 and that
// none of the three lines makes belongs to nobody.
//
// Order: names of the third line are in the order of their types, then buckets, then keys, each by its bytes. All names of a bucket but (sets, default) begin
// with Prefix, and no others do. Plain names are in the order of their keys: before all those stand the empty key and keys that begin with a zero byte, after
// them the rest.
//
// Files: name.go.
package setname
