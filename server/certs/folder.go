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

// FolderOptions say how a [Folder] is read. The zero value is good.
type FolderOptions struct {
	// Now is the clock by which certificates end and files are looked at; nil is time.Now.
	Now func() time.Time
	// Report is called when files have changed and can't be used, once for each content of them, in the goroutine of a handshake. What
	// was read before stays in use. nil is nobody.
	Report func(error)
}

// Folder is a folder of certificates that is read again when its files change: at a handshake, at most once a second. Connections that
// exist stay. Its methods are safe for concurrent use, and so are the configurations that it gives.
type Folder struct {
	dir  string
	role Role // of our own certificate
	o    FolderOptions

	now     atomic.Pointer[loaded]
	looking sync.Mutex // guards what follows
	looked  time.Time  // when the files were looked at
	stamps  [3]stamp
	seen    [sha256.Size]byte // of the contents that were read last, whether or not they could be used
	keysAt  time.Time         // when the ticket keys were drawn
	keys    [][32]byte        // of session tickets, the current one first
}

// Load reads a folder for a process of a role, RoleNode or RoleClient, and checks everything that can be checked without the other side.
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

// Identity returns whom our certificate is for.
func (f *Folder) Identity() Identity { return f.now.Load().id }

// Ends returns when our certificate ends.
func (f *Folder) Ends() time.Time { return f.now.Load().own.Leaf.NotAfter }

// loaded is what was read at one time. It does not change.
type loaded struct {
	id     Identity
	own    tls.Certificate
	roots  *x509.CertPool
	server *tls.Config            // handed to each handshake of a server
	anyone *tls.Config            // the same of one that asks for no certificate
	cache  tls.ClientSessionCache // of sessions made with own
}

// files are those that a folder is read from.
func (f *Folder) files() [3]string { return [3]string{caCert, certFile(f.role), keyFile(f.role)} }

// stamp is what a file looks like from outside.
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

// missing says which command makes a file.
func (f *Folder) missing(name string) error {
	return fmt.Errorf("%w: %s: `bigset cert %s` makes it", ErrMissing, filepath.Join(f.dir, name), f.role)
}

// readsMax is how often files are read that change while they are read.
const readsMax = 10

// read returns the contents of all files as they were together: what was read two times alike was not of two renewals.
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

// parse makes of the contents of files what connections need.
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

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// current returns what connections use, after a look at the files if the last one is a second old. While one handshake looks, the others
// go on with what there is.
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

// look reads files that have changed. before is when they were looked at the time before: a file whose time is about that may have changed
// again within the grain of file times, so its content is compared, too.
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
		// The permissions of a key may be mended without another change, so they are looked at again.
		if errors.Is(err, ErrTooOpen) {
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

// grain is a bound for the grain of file times and the distance of a file system's clock from ours.
const grain = 2 * time.Second

func (f *Folder) fresh(stamps [3]stamp, before time.Time) bool {
	for _, s := range stamps {
		if before.Sub(s.at) < grain {
			return true
		}
	}
	return false
}

// once returns an error the first time that it is met for a content.
func (f *Folder) once(seen [sha256.Size]byte, err error) error {
	if seen == f.seen {
		return nil
	}
	f.seen = seen
	return err
}
