package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// reports keeps what a folder reported.
type reports struct {
	mu  sync.Mutex
	all []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

func (r *reports) take() (all []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// TestReload changes the files of a node while connections are made: new ones have the new certificate, old ones stay, and what is broken
// changes nothing and is reported once.
func TestReload(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	k.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 0)
	var told reports
	b, err := Load(k.folder("b"), RoleNode, FolderOptions{Now: clock.now, Report: told.add})
	k.must(err)
	server, client := b.Server(), k.load(RoleNode, "a").Peer("b")
	first := shake(t, client, server)
	first.good(t)
	serial := func(e ends) string { return e.client.ConnectionState().PeerCertificates[0].SerialNumber.String() }

	renew := func() {
		clock.forward(lookEvery)
		_, err := Renew(k.folder("b"), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now})
		k.must(err)
	}
	renew()
	second := shake(t, client, server)
	second.good(t)
	if serial(first) == serial(second) || second.client.ConnectionState().DidResume {
		t.Error("the new certificate is not shown")
	}
	first.works(t)

	whole := readText(t, k.folder("b"), "node.crt")
	for _, broken := range []struct {
		name string
		do   func()
		want error
	}{
		{"cut", func() { spoilFile(t, k.folder("b"), "node.crt", whole[:len(whole)/2]) }, ErrForm},
		{"gone", func() { remove(t, k.folder("b"), "node.crt") }, ErrMissing},
		{"other node", func() {
			copyFile(t, k.folder("b"), k.folder("a"), "node.crt")
			copyFile(t, k.folder("b"), k.folder("a"), "node.key")
		}, ErrNode},
		{"half", func() { spoilFile(t, k.folder("b"), "node.crt", whole) }, ErrKey},
	} {
		broken.do()
		for range 3 {
			clock.forward(lookEvery)
			e := shake(t, client, server)
			e.good(t)
			if serial(e) != serial(second) {
				t.Errorf("%s: another certificate is shown", broken.name)
			}
		}
		if got := told.take(); len(got) != 1 || !errors.Is(got[0], broken.want) {
			t.Errorf("%s: got reports %v, want one of %v", broken.name, got, broken.want)
		}
	}
	_, err = Issue(k.folder("b"), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "b", Force: true, Now: clock.now})
	k.must(err)
	if e := shake(t, client, server); serial(e) != serial(second) {
		t.Error("the files were looked at twice within a second")
	}
	clock.forward(lookEvery)
	last := shake(t, client, server)
	last.good(t)
	if serial(last) == serial(second) {
		t.Error("a good pair after broken ones is not used")
	}
	if got := told.take(); len(got) != 0 {
		t.Errorf("got reports %v", got)
	}
	second.works(t)
}

// TestReloadTooOpen: a changed key that others may read is not used until its permissions are mended, which changes no time and no size.
func TestReloadTooOpen(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	dir := k.issue(RoleNode, "a", 0)
	var told reports
	f, err := Load(dir, RoleNode, FolderOptions{Now: clock.now, Report: told.add})
	k.must(err)
	was := f.current()
	_, err = Renew(dir, RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now})
	k.must(err)
	k.must(os.Chmod(filepath.Join(dir, "node.key"), 0o644))
	for range 3 {
		clock.forward(lookEvery)
		if f.current() != was {
			t.Fatal("it is used")
		}
	}
	if got := told.take(); len(got) != 1 || !errors.Is(got[0], ErrTooOpen) {
		t.Errorf("got reports %v", got)
	}
	k.must(os.Chmod(filepath.Join(dir, "node.key"), 0o600))
	clock.forward(lookEvery)
	if f.current() == was {
		t.Error("it is not used after chmod")
	}
}

// TestReloadNotYet: a new certificate that begins in the future, because this machine's clock is slow, is used when the clock was corrected.
func TestReloadNotYet(t *testing.T) {
	t.Parallel()
	slow, right := newHands(), newHands()
	k := newKit(t, "prod", right)
	dir := k.issue(RoleNode, "a", 0)
	right.forward(skew + time.Minute)
	var told reports
	f, err := Load(dir, RoleNode, FolderOptions{Now: slow.now, Report: told.add})
	k.must(err)
	was := f.current()
	_, err = Renew(dir, RenewOptions{CA: k.ca(), NewKey: true, Now: right.now})
	k.must(err)
	for range 3 {
		slow.forward(lookEvery)
		if f.current() != was {
			t.Fatal("it is used")
		}
	}
	if got := told.take(); len(got) != 1 || !errors.Is(got[0], ErrNotYet) {
		t.Errorf("got reports %v", got)
	}
	slow.forward(time.Hour)
	if f.current() == was || !f.Ends().After(was.own.Leaf.NotAfter) {
		t.Error("it is not used after the clock was corrected")
	}
}

// TestSameStamp: a file that changed within the grain of file times is found by its content.
func TestSameStamp(t *testing.T) {
	t.Parallel()
	clock := newHands()
	clock.at.Store(time.Now().UnixNano())
	k := newKit(t, "prod", clock)
	dir := k.issue(RoleNode, "a", 0)
	path := filepath.Join(dir, "node.crt")
	info, err := os.Stat(path)
	k.must(err)
	f := k.load(RoleNode, "a")
	was := f.current()
	for { // signatures differ in length
		_, err = Renew(dir, RenewOptions{CA: k.ca(), Within: 2 * ValidOther, Now: clock.now})
		k.must(err)
		if now, err := os.Stat(path); err == nil && now.Size() == info.Size() {
			break
		}
	}
	k.must(os.Chtimes(path, info.ModTime(), info.ModTime()))
	clock.forward(lookEvery)
	if f.current() == was {
		t.Error("the change was not found")
	}
}

// TestReloadUnderHandshakes renews both sides all the time while connections are made by several goroutines: none fails.
func TestReloadUnderHandshakes(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	k.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 0)
	report := func(err error) { t.Error("reported:", err) }
	a, err := Load(k.folder("a"), RoleNode, FolderOptions{Now: clock.now, Report: report})
	k.must(err)
	b, err := Load(k.folder("b"), RoleNode, FolderOptions{Now: clock.now, Report: report})
	k.must(err)
	client, server := a.Peer("b"), b.Server()
	stop := make(chan struct{})
	var wg, dialers sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"a", "b"} {
				if _, err := Renew(k.folder(name), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now}); err != nil {
					t.Error(err)
				}
				clock.forward(lookEvery)
			}
		}
	})
	var mu sync.Mutex
	serials := map[string]bool{}
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(serials)
	}
	end := time.Now().Add(time.Minute) // on a busy machine a renewal may take longer than many handshakes
	for range 3 {
		dialers.Go(func() {
			for n := 0; n < 40 || seen() < 2 && time.Now().Before(end); n++ {
				e := shake(t, client, server)
				if e.clientErr != nil || e.serverErr != nil {
					t.Errorf("refused: the client says %v, the server %v", e.clientErr, e.serverErr)
					return
				}
				mu.Lock()
				serials[e.client.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
				mu.Unlock()
			}
		})
	}
	dialers.Wait()
	close(stop)
	wg.Wait()
	if len(serials) < 2 {
		t.Errorf("%d certificates were seen: nothing was read again", len(serials))
	}
}

// TestResume: a second connection resumes the session of the first, is verified all the same, and a change of the files ends it.
func TestResume(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	k.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 24*time.Hour)
	a, b := k.load(RoleNode, "a"), k.load(RoleNode, "b")
	dial := func(want bool, when string) {
		t.Helper()
		e := shake(t, a.Peer("b"), b.Server())
		e.good(t)
		if got := e.client.ConnectionState().DidResume; got != want {
			t.Errorf("%s: resumed is %v", when, got)
		}
		if _, role, name, err := RoleOf(e.server.ConnectionState()); role != RoleNode || name != "a" || err != nil {
			t.Errorf("%s: the server has %v %v, %v", when, role, name, err)
		}
	}
	dial(false, "first")
	dial(true, "second")
	if e := shake(t, a.Peer("c"), b.Server()); !errors.Is(e.clientErr, ErrNode) {
		t.Errorf("another node by a resumed session: got %v", e.clientErr)
	}
	dial(false, "after a refusal, which forgets the session")
	clock.forward(keysFor - time.Hour)
	dial(true, "after 23 hours")
	_, err := Renew(k.folder("a"), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now})
	k.must(err)
	clock.forward(lookEvery)
	dial(false, "after the client's renewal")
	_, err = Renew(k.folder("b"), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now})
	k.must(err)
	clock.forward(lookEvery)
	dial(false, "after the server's renewal")
	dial(true, "once more")
	clock.forward(keysFor)
	time.Sleep(20 * time.Millisecond) // files are distinguished by their times, and those of a file system have ticks
	_, err = Renew(k.folder("b"), RenewOptions{CA: k.ca(), Within: time.Hour, Now: clock.now})
	k.must(err)
	dial(false, "with an expired certificate")
}

// TestRollAndRevoke walks through a rotation of the CA: at each step every connection works, and at the end what was not renewed is refused,
// a session of it too.
func TestRollAndRevoke(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	names := []string{"a", "b"}
	for _, n := range names {
		k.issue(RoleNode, n, 0)
	}
	k.issue(RoleClient, "stolen", 0)
	a, b, stolen := k.load(RoleNode, "a"), k.load(RoleNode, "b"), k.load(RoleClient, "stolen")
	all := func(when string) {
		t.Helper()
		clock.forward(lookEvery)
		for _, e := range []ends{shake(t, a.Peer("b"), b.Server()), shake(t, b.Peer("a"), a.Server())} {
			if e.clientErr != nil || e.serverErr != nil {
				t.Errorf("%s: the client says %v, the server %v", when, e.clientErr, e.serverErr)
			}
		}
	}
	all("before")
	shake(t, stolen.Client(), a.Server()).good(t)
	info, err := RotateCA(k.ca(), 0, clock.now)
	k.must(err)
	if info.Identity != (Identity{"prod", RoleCA, ""}) {
		t.Errorf("got %v", info)
	}
	for _, n := range append(names, "stolen") { // what an operator copies
		copyFile(t, k.folder(n), k.ca(), "ca.crt")
		all("after ca.crt came to " + n)
	}
	for _, n := range names {
		done, err := Renew(k.folder(n), RenewOptions{CA: k.ca(), Now: clock.now})
		k.must(err)
		if len(done) != 1 || done[0].Reason != "was signed by another CA" {
			t.Errorf("got %+v", done)
		}
		all("after " + n + " was renewed")
	}
	shake(t, stolen.Client(), a.Server()).good(t)
	removed, err := RetireCA(k.ca())
	k.must(err)
	if len(removed) != 1 {
		t.Errorf("got %v", removed)
	}
	for _, n := range names {
		copyFile(t, k.folder(n), k.ca(), "ca.crt")
		all("after the old CA left " + n)
	}
	if e := shake(t, stolen.Client(), a.Server()); e.clientErr == nil || !errors.Is(e.serverErr, ErrAuthority) {
		t.Errorf("the stolen one: the client says %v, the server %v", e.clientErr, e.serverErr)
	}
	if _, err := Renew(k.folder("stolen"), RenewOptions{CA: k.ca(), Now: clock.now}); !errors.Is(err, ErrAuthority) {
		t.Errorf("the stolen one is renewed: %v", err)
	}
}

// TestResumeIsVerified: a session whose certificate's CA is not trusted any more is refused although its ticket can be read.
func TestResumeIsVerified(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	k.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 0)
	a, b := k.load(RoleNode, "a"), k.load(RoleNode, "b")
	shake(t, a.Peer("b"), b.Server()).good(t)
	empty := x509.NewCertPool()
	b.now.Load().roots = empty
	if e := shake(t, a.Peer("b"), b.Server()); !errors.Is(e.serverErr, ErrAuthority) || !e.server.ConnectionState().DidResume {
		t.Errorf("the server says %v, resumed %v", e.serverErr, e.server.ConnectionState().DidResume)
	}
	a.now.Load().roots = empty
	e := shake(t, a.Peer("b"), b.Server())
	if !errors.Is(e.clientErr, ErrAuthority) {
		t.Errorf("the client says %v", e.clientErr)
	}
}

// TestRenew renews what ends soon, keeps keys, names and hosts, and brings ca.crt.
func TestRenew(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	dir := k.folder("a")
	_, err := Issue(dir, IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Hosts: []string{"h", "10.0.0.1"}, Valid: 100 * 24 * time.Hour, Now: clock.now})
	k.must(err)
	_, err = Issue(dir, IssueOptions{CA: k.ca(), Role: RoleClient, Name: "paul", Valid: 200 * 24 * time.Hour, Now: clock.now})
	k.must(err)
	key, paul := readText(t, dir, "node.key"), readText(t, dir, "client.crt")
	run := func(o RenewOptions) []Renewed {
		t.Helper()
		o.CA, o.Now = k.ca(), clock.now
		done, err := Renew(dir, o)
		k.must(err)
		if len(done) != 2 {
			t.Fatalf("got %+v", done)
		}
		return done
	}
	if done := run(RenewOptions{Within: 30 * 24 * time.Hour}); done[0].Reason+done[1].Reason != "" {
		t.Errorf("early: got %+v", done)
	}
	clock.forward(80 * 24 * time.Hour)
	done := run(RenewOptions{Within: 30 * 24 * time.Hour})
	if done[0].Reason != "was to end soon" || done[1].Reason != "" || !done[0].Ends.Equal(clock.now().Add(100*24*time.Hour).Truncate(time.Second)) {
		t.Errorf("near the end: got %+v", done)
	}
	if strings.Join(done[0].Hosts, " ") != "h 10.0.0.1" || done[0].Identity != (Identity{"prod", RoleNode, "a"}) {
		t.Errorf("got %+v", done[0])
	}
	if string(readText(t, dir, "node.key")) != string(key) || string(readText(t, dir, "client.crt")) != string(paul) {
		t.Error("the key has changed, or the other certificate")
	}
	clock.forward(300 * 24 * time.Hour)
	if done := run(RenewOptions{NewKey: true}); done[0].Reason != "had expired" || done[1].Reason != "had expired" {
		t.Errorf("after the end: got %+v", done)
	}
	if string(readText(t, dir, "node.key")) == string(key) {
		t.Error("the key has not changed")
	}
	k.load(RoleNode, "a")
	k.must(second(Load(dir, RoleClient, FolderOptions{Now: clock.now})))
	clock.forward(ValidCA)
	if _, err := Renew(dir, RenewOptions{CA: k.ca(), Now: clock.now}); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "--rotate") {
		t.Errorf("by an expired CA: got %v", err)
	}
	other := newKit(t, "test", clock)
	if _, err := Renew(dir, RenewOptions{CA: other.ca(), Now: clock.now}); !errors.Is(err, ErrCluster) {
		t.Errorf("by another cluster's CA: got %v", err)
	}
	if _, err := Renew(t.TempDir(), RenewOptions{CA: k.ca(), Now: clock.now}); !errors.Is(err, ErrMissing) {
		t.Errorf("an empty folder: got %v", err)
	}
}

// TestEndsWithCA: no certificate outlives its CA.
func TestEndsWithCA(t *testing.T) {
	t.Parallel()
	clock := newHands()
	dir := t.TempDir()
	if err := MakeCA(dir, CAOptions{Cluster: "c", Valid: time.Hour, Now: clock.now}); err != nil {
		t.Fatal(err)
	}
	info, err := Issue(dir, IssueOptions{CA: dir, Role: RoleNode, Name: "a", Now: clock.now})
	if err != nil || !info.Ends.Equal(birth.Add(time.Hour)) {
		t.Errorf("it ends on %v, %v", info.Ends, err)
	}
}

// TestRenewAfterRotation: the end of an old CA does not shorten the certificates of the new one.
func TestRenewAfterRotation(t *testing.T) {
	t.Parallel()
	clock := newHands()
	ca, dir := t.TempDir(), t.TempDir()
	if err := MakeCA(ca, CAOptions{Cluster: "c", Valid: 20 * 24 * time.Hour, Now: clock.now}); err != nil {
		t.Fatal(err)
	}
	if _, err := Issue(dir, IssueOptions{CA: ca, Role: RoleNode, Name: "a", Now: clock.now}); err != nil {
		t.Fatal(err)
	}
	if _, err := RotateCA(ca, 0, clock.now); err != nil {
		t.Fatal(err)
	}
	done, err := Renew(dir, RenewOptions{CA: ca, Within: 30 * 24 * time.Hour, Now: clock.now})
	if err != nil || len(done) != 1 || !done[0].Ends.Equal(birth.Add(ValidOther)) {
		t.Errorf("got %+v, %v", done, err)
	}
}

// TestNothingIsOverwritten without Force.
func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k, same := newKit(t, "prod", clock), newKit(t, "prod", clock)
	dir := k.issue(RoleNode, "a", 0)
	if err := MakeCA(k.ca(), CAOptions{Cluster: "prod"}); !errors.Is(err, ErrExists) {
		t.Errorf("a CA: got %v", err)
	}
	o := IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Now: clock.now}
	if _, err := Issue(dir, o); !errors.Is(err, ErrExists) {
		t.Errorf("a node: got %v", err)
	}
	if _, err := Issue(dir, IssueOptions{CA: same.ca(), Role: RoleClient, Name: "a", Now: clock.now}); !errors.Is(err, ErrExists) {
		t.Errorf("a client of another CA: got %v", err)
	}
	was := readText(t, dir, "node.crt")
	o.Force = true
	k.must(second(Issue(dir, o)))
	if string(readText(t, dir, "node.crt")) == string(was) {
		t.Error("nothing was replaced by force")
	}
	k.load(RoleNode, "a")
	o.CA = same.ca()
	k.must(second(Issue(dir, o)))
	k.load(RoleNode, "a")
	k.must(MakeCA(k.ca(), CAOptions{Cluster: "prod", Force: true, Now: clock.now}))
}

// TestCrashes stops each command before one of its files is replaced: what is left is the old pair or the new one, and the command can be
// repeated.
func TestCrashes(t *testing.T) {
	t.Parallel()
	clock := newHands()
	for _, c := range []struct {
		name, folder string
		files        []string
		do           func(k *kit) error
	}{
		{"renew", "a", []string{"node.key", "node.crt"}, func(k *kit) error {
			return second(Renew(k.folder("a"), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now}))
		}},
		{"renew after a rotation", "a", []string{"ca.crt", "node.crt"}, func(k *kit) error {
			return second(Renew(k.folder("a"), RenewOptions{CA: k.ca(), Now: clock.now}))
		}},
		{"issue by force", "a", []string{"ca.crt", "node.key", "node.crt"}, func(k *kit) error {
			return second(Issue(k.folder("a"), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Force: true, Now: clock.now}))
		}},
		{"issue", "new", []string{"ca.crt", "node.key", "node.crt"}, func(k *kit) error {
			return second(Issue(k.folder("new"), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "new", Now: clock.now}))
		}},
		{"rotate", "ca", []string{"ca.key", "ca.crt"}, func(k *kit) error { return second(RotateCA(k.ca(), 0, clock.now)) }},
		{"retire", "ca", []string{"ca.key", "ca.crt"}, func(k *kit) error { return second(RetireCA(k.ca())) }},
	} {
		for _, file := range c.files {
			k := newKit(t, "prod", clock)
			k.issue(RoleNode, "a", 0)
			k.must(second(RotateCA(k.ca(), 0, clock.now)))
			if c.folder == "ca" {
				k.must(second(Renew(k.folder("a"), RenewOptions{CA: k.ca(), Now: clock.now})))
			}
			blocked := filepath.Join(k.folder(c.folder), file+".new", "in the way")
			k.must(os.MkdirAll(blocked, 0o700))
			if err := c.do(k); err == nil {
				t.Fatalf("%s: does not write %s", c.name, file)
			}
			k.must(os.RemoveAll(filepath.Dir(blocked)))
			k.load(RoleNode, "a")
			k.must(second(openAuthority(k.ca())))
			k.must(c.do(k))
			k.load(RoleNode, "a")
			if c.folder == "new" {
				k.load(RoleNode, "new")
			}
		}
	}
}

// TestCrashBeforeLastStep: a key file that still has the old key, too, is a good one, and the next renewal removes the old key.
func TestCrashBeforeLastStep(t *testing.T) {
	t.Parallel()
	k := newKit(t, "prod", newHands())
	dir := k.issue(RoleNode, "a", 0)
	spoilFile(t, dir, "node.key", append(readText(t, k.ca(), "ca.key"), readText(t, dir, "node.key")...))
	k.load(RoleNode, "a")
	k.must(second(Renew(dir, RenewOptions{CA: k.ca(), Within: 2 * ValidOther, Now: k.clock.now})))
	k.load(RoleNode, "a")
	if keys, err := readKeys(dir, RoleNode); err != nil || len(keys) != 1 {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
}

// TestModes: keys are for their owner alone, whatever the mask of the process.
func TestModes(t *testing.T) {
	t.Parallel()
	k := newKit(t, "prod", newHands())
	for _, path := range []string{filepath.Join(k.ca(), "ca.key"), filepath.Join(k.issue(RoleNode, "a", 0), "node.key")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestShow lists a folder.
func TestShow(t *testing.T) {
	t.Parallel()
	k := newKit(t, "prod", newHands())
	dir := k.issue(RoleNode, "a", 0)
	k.must(second(RotateCA(k.ca(), 0, k.clock.now)))
	for folder, want := range map[string]string{
		dir:    "ca.crt:bigset://prod/ca:signed,node.crt:bigset://prod/node/a:signed key",
		k.ca(): "ca.crt:bigset://prod/ca:signed key,ca.crt:bigset://prod/ca:signed key",
	} {
		all, err := Show(folder)
		k.must(err)
		var got []string
		for _, i := range all {
			text := i.File + ":" + i.Identity.String() + ":"
			if i.Issuer != "" {
				text += "signed"
			}
			if i.Key {
				text += " key"
			}
			got = append(got, text)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := Show(t.TempDir()); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// TestAnyone takes clients without certificates, and shows them the certificate of the moment.
func TestAnyone(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k := newKit(t, "prod", clock)
	k.must(second(Issue(k.folder("a"), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Hosts: []string{"a.example"}, Now: clock.now})))
	folder, err := Load(k.folder("a"), RoleNode, FolderOptions{Now: clock.now})
	k.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(readText(t, k.folder("a"), "ca.crt"))
	client, server := &tls.Config{RootCAs: roots, ServerName: "a.example", Time: clock.now, ClientSessionCache: tls.NewLRUClientSessionCache(4)}, folder.Anyone()
	serial := func() string {
		e := shake(t, client, server)
		e.good(t)
		e.works(t)
		return e.client.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	clock.forward(lookEvery)
	k.must(second(Renew(k.folder("a"), RenewOptions{CA: k.ca(), NewKey: true, Now: clock.now})))
	if again := serial(); again == first {
		t.Error("the new certificate is not shown")
	}
	if e := shake(t, &tls.Config{RootCAs: roots, ServerName: "b.example", Time: clock.now}, server); e.clientErr == nil {
		t.Error("the certificate is good for another host")
	}
}
