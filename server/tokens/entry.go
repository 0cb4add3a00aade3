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
	// ErrNoToken: the request needs a token, and none was given or the given one has been removed.
	ErrNoToken = errors.New("tokens: a token is needed")
	// ErrSecret: the secret belongs to no token.
	ErrSecret = errors.New("tokens: the secret is of no token")
	// ErrDenied: the token does not permit the request.
	ErrDenied = errors.New("tokens: the token does not permit this")
	// ErrNone: a secret was given, but no tokens exist.
	ErrNone = errors.New("tokens: there are no tokens")
	// ErrUnlearned: the node has not learned yet which tokens exist. Ask again, or ask another node.
	ErrUnlearned = errors.New("tokens: this node has not learned yet which tokens there are")

	// ErrEntry: a token or a list of tokens is not well formed.
	ErrEntry = errors.New("tokens: bad token")
	// ErrNotFound: no token has the ID.
	ErrNotFound = errors.New("tokens: no such token")
	// ErrFull: the list has no room for another token.
	ErrFull = errors.New("tokens: too many tokens")
)

// Verbs are what a token permits. They are bits on disk and on the wire.
type Verbs byte

// Verbs.
const (
	// Read permits reading the contents of a name, and whether it exists.
	Read Verbs = 1 << iota
	// Write permits changing the contents of a name, creating it and removing it.
	Write
	// Admin permits requests about the node rather than a name, such as its figures. It has no prefix.
	Admin
	verbsAll = Read | Write | Admin
)

var verbNames = []struct {
	verb Verbs
	name string
}{{Read, "read"}, {Write, "write"}, {Admin, "admin"}}

// String returns verbs in the form that ParseVerbs reads.
func (v Verbs) String() string {
	var names []string
	for _, n := range verbNames {
		if v&n.verb != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseVerbs reads verbs separated by commas.
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

// ID names a token. It is not secret.
type ID [8]byte

// String returns an ID as `bigset token ls` shows it: in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Limits.
const (
	LabelBytesMax  = 64     // of the label of a token
	PrefixBytesMax = 512    // of its prefix
	ActiveMax      = 1000   // tokens that have not been removed
	EntriesMax     = 50_000 // tokens including removed ones
)

// Entry is a token in a list. A removed token keeps only its ID.
type Entry struct {
	ID      ID
	Removed bool
	Hash    [sha256.Size]byte // of the secret's text
	Verbs   Verbs
	Prefix  []byte // of the names on which it permits the verbs; empty means all
	Label   string // purpose, for people; 1 to LabelBytesMax printable ASCII characters without spaces
	Created uint64 // seconds since 1970
}

// The text of a secret: the mark, the ID in hexadecimal digits, and 256 random bits.
const (
	secretMark  = "bigset_"
	secretBits  = 32 // bytes
	secretBytes = len(secretMark) + 2*len(ID{}) + 1 + (secretBits*8+5)/6
)

// New returns a token and its secret. Only the caller has the secret.
func New(label string, verbs Verbs, prefix []byte, now time.Time) (e Entry, secret string, err error) {
	var random [secretBits]byte
	e = Entry{Verbs: verbs, Prefix: bytes.Clone(prefix), Label: label, Created: uint64(max(0, now.Unix()))}
	_, _ = rand.Read(e.ID[:]) // never fails
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

// check reports what is wrong with an entry.
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

// removed returns what remains of a removed token.
func (e *Entry) removed() Entry { return Entry{ID: e.ID, Removed: true} }

// compare orders entries with one ID: the greater one prevails. A removal is the greatest.
func (e *Entry) compare(o *Entry) int {
	switch {
	case e.Removed != o.Removed && e.Removed:
		return 1
	case e.Removed != o.Removed:
		return -1
	}
	return bytes.Compare(appendEntry(nil, e), appendEntry(nil, o))
}
