package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// FolderOptions say how a [Folder] is read. The zero value is valid.
type FolderOptions struct {
	// Now is the clock for the validity of certificates and for the checks of the files; nil means time.Now.
	Now func() time.Time
	// Report is called when files have changed and can't be used, once for each content, in the goroutine of a handshake. The previous
	// files stay in use. Nil means no report.
	Report func(error)
}

// Folder is a folder of certificates. A handshake reads it again if its files have changed, but checks that at most once a second. Existing
// connections stay. The methods are safe for concurrent use, and so are the configurations that they return.
type Folder struct {
	dir  string
	role Role // of our own certificate
	o    FolderOptions

	now     atomic.Pointer[loaded]
	looking sync.Mutex // guards the fields below
	looked  time.Time  // when the files were last checked
	stamps  [3]stamp
	seen    [sha256.Size]byte // of the contents that were read last, valid or not
	keysAt  time.Time         // when the ticket keys were drawn
	keys    [][32]byte        // of session tickets, the current one first
}

// Load reads a folder for a process with a role, RoleNode or RoleClient, and checks everything that can be checked without the other side.
func Load(dir string, role Role, o FolderOptions) (*Folder, error) {
	if role != RoleNode && role != RoleClient {
		return nil, fmt.Errorf("%w: %q has no connections", ErrRole, role)
	}
	f := &Folder{dir: dir, role: role, o: o}
	stamps, err := f.stat()
	if err != nil {
		return nil, err
	}
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	at := now(o.Now)
	l, err := f.parse(texts, at)
	if err != nil {
		return nil, err
	}
	f.stamps, f.seen, f.looked = stamps, sum(texts), at
	f.use(l, at)
	return f, nil
}

// Identity returns the identity in our certificate.
func (f *Folder) Identity() Identity { return f.now.Load().id }

// Ends returns when our certificate ends.
func (f *Folder) Ends() time.Time { return f.now.Load().own.Leaf.NotAfter }

// loaded is the state of the files at one time. It does not change.
type loaded struct {
	id     Identity
	own    tls.Certificate
	roots  *x509.CertPool
	server *tls.Config            // given to each handshake of a server
	anyone *tls.Config            // the same for a server that asks for no certificate
	cache  tls.ClientSessionCache // of sessions made with own
}

// files are the names of the files that the folder is read from.
func (f *Folder) files() [3]string { return [3]string{caCert, certFile(f.role), keyFile(f.role)} }

// stamp is the time and the size of a file.
type stamp struct {
	at   time.Time
	size int64
}

func (f *Folder) stat() (s [3]stamp, err error) {
	for i, name := range f.files() {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return s, f.missing(name)
		}
		if err != nil {
			return s, fmt.Errorf("certs: %w", err)
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, nil
}

// missing names the command that makes a file.
func (f *Folder) missing(name string) error {
	return fmt.Errorf("%w: %s: `bigset cert %s` makes it", ErrMissing, filepath.Join(f.dir, name), f.role)
}

// readsMax is how often files that change while they are read are read again.
const readsMax = 10

// read returns the contents of all files at one moment: contents that were read twice in a row do not mix two renewals.
func (f *Folder) read() (texts [3][]byte, err error) {
	var before [sha256.Size]byte
	for range readsMax {
		if texts, err = f.readOnce(); err != nil {
			return texts, err
		}
		now := sum(texts)
		if now == before {
			break
		}
		before = now
	}
	return texts, nil
}

func (f *Folder) readOnce() (texts [3][]byte, err error) {
	for i, name := range f.files() {
		if texts[i], err = readFile(f.dir, name); err != nil {
			return texts, err
		}
	}
	return texts, nil
}

func sum(texts [3][]byte) [sha256.Size]byte {
	var all []byte
	for _, t := range texts {
		one := sha256.Sum256(t)
		all = append(all, one[:]...)
	}
	return sha256.Sum256(all)
}

// parse turns the contents of the files into what connections need.
func (f *Folder) parse(texts [3][]byte, at time.Time) (*loaded, error) {
	names := f.files()
	trusted, cluster, err := parseTrusted(filepath.Join(f.dir, names[0]), texts[0])
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(f.dir, names[2]); err != nil {
		return nil, err
	}
	path := filepath.Join(f.dir, names[1])
	all, err := parseCerts(path, texts[1])
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(filepath.Join(f.dir, names[2]), texts[2])
	if err != nil {
		return nil, err
	}
	key := fitting(keys, all[0])
	if key == nil {
		return nil, fmt.Errorf("%w: %s and %s", ErrKey, filepath.Join(f.dir, names[2]), path)
	}
	l := &loaded{roots: x509.NewCertPool()}
	for _, c := range trusted {
		l.roots.AddCert(c)
	}
	l.own = tls.Certificate{Certificate: [][]byte{all[0].Raw}, PrivateKey: key, Leaf: all[0]}
	usage := x509.ExtKeyUsageClientAuth
	if f.role == RoleNode {
		usage = x509.ExtKeyUsageServerAuth
	}
	if l.id, err = verify(all[0], l.roots, cluster, usage, at); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.id.Role != f.role {
		return nil, fmt.Errorf("%w: %s is the certificate of %s", ErrRole, path, l.id)
	}
	return l, nil
}

// lookEvery is the least time between two checks of the files.
const lookEvery = time.Second

// current returns what connections use. It first checks the files if the last check is a second old. While one handshake checks, the others
// use the previous state.
func (f *Folder) current() *loaded {
	if !f.looking.TryLock() {
		return f.now.Load()
	}
	defer f.looking.Unlock()
	at := now(f.o.Now)
	if d := at.Sub(f.looked); d >= 0 && d < lookEvery {
		return f.now.Load()
	}
	before := f.looked
	f.looked = at
	if err := f.look(before, at); err != nil && f.o.Report != nil {
		f.o.Report(fmt.Errorf("certs: changed files are not used: %w", err))
	}
	f.freshKeys(at)
	return f.now.Load()
}

// look reads files that have changed. before is the time of the previous check. A file whose time is close to it may have changed again
// within the grain of file times, so its content is compared too.
func (f *Folder) look(before, at time.Time) error {
	stamps, err := f.stat()
	if err != nil {
		return f.once(sha256.Sum256([]byte(err.Error())), err)
	}
	if stamps == f.stamps && !f.fresh(stamps, before) {
		return nil
	}
	texts, err := f.read()
	if err != nil {
		return f.once(sha256.Sum256([]byte(err.Error())), err)
	}
	f.stamps = stamps
	seen := sum(texts)
	if seen == f.seen {
		return nil
	}
	l, err := f.parse(texts, at)
	if err != nil {
		// The permissions of a key, and this machine's clock, may be corrected without another change, so the files are checked again.
		if errors.Is(err, ErrTooOpen) || errors.Is(err, ErrNotYet) {
			f.stamps = [3]stamp{}
			return f.once(sha256.Sum256([]byte(err.Error())), err)
		}
		return f.once(seen, err)
	}
	if was := f.Identity(); l.id != was {
		return f.once(seen, fmt.Errorf("%w: %s has a certificate of %s, and this process is %s", ErrNode, f.dir, l.id, was))
	}
	f.seen = seen
	f.use(l, at)
	return nil
}

// grain bounds the grain of file times plus the difference between the file system's clock and ours.
const grain = 2 * time.Second

func (f *Folder) fresh(stamps [3]stamp, before time.Time) bool {
	for _, s := range stamps {
		if before.Sub(s.at) < grain {
			return true
		}
	}
	return false
}

// once returns an error the first time it occurs for a content.
func (f *Folder) once(seen [sha256.Size]byte, err error) error {
	if seen == f.seen {
		return nil
	}
	f.seen = seen
	return err
}
