// Package setname maps a client's name to the name of a set. A client's name is a key of redis, or a type, a bucket and a key of Riak and
// of HTTP. Both mappings are injective and have an inverse, so two clients use one set only if they use the same name.
//
//	client says              name of the set
//	key K                    K, if K is not empty and its first byte is not zero; otherwise 00 K
//	sets, default, K         the same
//	T, B, K                  00 01 e(T) 00 01 e(B) 00 01 K
//
// e puts FF after each zero byte. The name of a key never begins with 00 01, so the last line differs from the others. A name that begins
// with 00 and that none of the three lines makes belongs to no client.
//
// Order: names of the third line are ordered by type, then bucket, then key, each by its bytes. All names of a bucket other than (sets,
// default) begin with Prefix, and no other names do. Plain names are ordered by key: the empty key and keys that begin with a zero byte
// come before all names of the third line, the other keys after them.
//
// Files: name.go, text.go (names in sentences, lists and paths).
package setname
