package tokens

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of tokens.
var (
	// ErrNoToken says that a request needs a token, and none was given, or the one that was given has been removed.
	ErrNoToken = errors.New("tokens: a token is needed")
	// ErrSecret says that a secret is of no token.
	ErrSecret = errors.New("tokens: the secret is of no token")
	// ErrDenied says that a token does not permit a request.
	ErrDenied = errors.New("tokens: the token does not permit this")
	// ErrNone says that a secret was given, and there are no tokens.
	ErrNone = errors.New("tokens: there are no tokens")
	// ErrUnlearned says that a node has not learned yet which tokens there are. Ask again, or another node.
	ErrUnlearned = errors.New("tokens: this node has not learned yet which tokens there are")

	// ErrEntry says that a token, or a list of tokens, is not well formed.
	ErrEntry = errors.New("tokens: bad token")
	// ErrNotFound says that there is no token with an ID.
	ErrNotFound = errors.New("tokens: no such token")
	// ErrFull says that a list has no room for another token.
	ErrFull = errors.New("tokens: too many tokens")
)

// Verbs are what a token permits. They are on disk and on the wire, as bits.
type Verbs byte

// Verbs.
const (
	// Read is to learn what a name has, and that it exists.
	Read Verbs = 1 << iota
	// Write is to change what a name has, to make it and to remove it.
	Write
	// Admin is what concerns the node and no name, such as its figures. It has no prefix.
	Admin
	verbsAll = Read | Write | Admin
)

var verbNames = []struct {
	verb Verbs
	name string
}{{Read, "read"}, {Write, "write"}, {Admin, "admin"}}

// String returns verbs as ParseVerbs reads them.
func (v Verbs) String() string {
	var names []string
	for _, n := range verbNames {
		if v&n.verb != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseVerbs reads verbs with commas between them.
func ParseVerbs(text string) (v Verbs, err error) {
	for _, word := range strings.Split(text, ",") {
		was := v
		for _, n := range verbNames {
			if strings.EqualFold(strings.TrimSpace(word), n.name) {
				v |= n.verb
			}
		}
		if v == was {
			return 0, fmt.Errorf("%w: verbs %q: they are read, write and admin, each once, with commas between", ErrEntry, text)
		}
	}
	return v, nil
}

// ID names a token. It is no secret.
type ID [8]byte

// String returns an ID as ParseID reads it.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads an ID.
func ParseID(text string) (id ID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%w: ID %q: it has %d hexadecimal digits, as `bigset token ls` shows it", ErrEntry, text, 2*len(id))
	}
	return ID(b), nil
}

// Limits.
const (
	LabelBytesMax  = 64     // of the label of a token
	PrefixBytesMax = 512    // of its prefix
	ActiveMax      = 1000   // tokens that are not removed
	EntriesMax     = 50_000 // tokens, with those that were removed
)

// Entry is a token as lists have it. Of one that was removed only the ID is left.
type Entry struct {
	ID      ID
	Removed bool
	Hash    [sha256.Size]byte // of the secret's text
	Verbs   Verbs
	Prefix  []byte // of the names that it is good for; empty is all
	Label   string // what it is for, for people; 1 to LabelBytesMax printable ASCII characters without spaces
	Created uint64 // second since 1970
}

// Texts of secrets: the mark, the ID in hexadecimal digits, and 256 random bits.
const (
	secretMark  = "bigset_"
	secretBits  = 32 // bytes
	secretBytes = len(secretMark) + 2*len(ID{}) + 1 + (secretBits*8+5)/6
)

// New returns a token and its secret, which nothing else has.
func New(label string, verbs Verbs, prefix []byte, now time.Time) (e Entry, secret string, err error) {
	var random [secretBits]byte
	e = Entry{Verbs: verbs, Prefix: bytes.Clone(prefix), Label: label, Created: uint64(max(0, now.Unix()))}
	_, _ = rand.Read(e.ID[:]) // it never fails
	_, _ = rand.Read(random[:])
	secret = secretMark + e.ID.String() + "_" + base64.RawURLEncoding.EncodeToString(random[:])
	e.Hash = sha256.Sum256([]byte(secret))
	return e, secret, e.check()
}

// idOf returns the ID in a secret.
func idOf(secret []byte) (id ID, ok bool) {
	if len(secret) != secretBytes || !bytes.HasPrefix(secret, []byte(secretMark)) {
		return id, false
	}
	_, err := hex.Decode(id[:], secret[len(secretMark):len(secretMark)+2*len(id)])
	return id, err == nil
}

// check returns what is wrong with an entry.
func (e *Entry) check() error {
	switch {
	case e.Removed:
		if e.Hash != [sha256.Size]byte{} || e.Verbs != 0 || len(e.Prefix) > 0 || e.Label != "" || e.Created != 0 {
			return fmt.Errorf("%w: %v was removed, and more than its ID is left", ErrEntry, e.ID)
		}
	case e.Verbs == 0 || e.Verbs&^verbsAll != 0:
		return fmt.Errorf("%w: verbs %#x", ErrEntry, byte(e.Verbs))
	case len(e.Prefix) > PrefixBytesMax:
		return fmt.Errorf("%w: prefix is %d bytes, the maximum is %d", ErrEntry, len(e.Prefix), PrefixBytesMax)
	case e.Verbs&Admin != 0 && len(e.Prefix) > 0:
		return fmt.Errorf("%w: admin concerns the node and no name: a token with it has no prefix", ErrEntry)
	case len(e.Label) == 0 || len(e.Label) > LabelBytesMax || strings.ContainsFunc(e.Label, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: label %.100q: it has 1 to %d printable ASCII characters, no spaces among them", ErrEntry, e.Label, LabelBytesMax)
	}
	return nil
}

// removed returns what is left of a token that is removed.
func (e *Entry) removed() Entry { return Entry{ID: e.ID, Removed: true} }

// compare orders entries of one ID: the later one holds. A removal is the last word.
func (e *Entry) compare(o *Entry) int {
	switch {
	case e.Removed != o.Removed && e.Removed:
		return 1
	case e.Removed != o.Removed:
		return -1
	}
	return bytes.Compare(appendEntry(nil, e), appendEntry(nil, o))
}
