package riakpb

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/server/alone"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// TestConversation is what a client of Riak does with a set, from its first look to its end.
func TestConversation(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{Node: "a", Version: "1.2"})
	p := dial()
	id := name("sets", "people", "friends")
	expect := func(what string, got answer, want string) {
		t.Helper()
		if got.String() != want {
			t.Fatalf("%s: %v, want %s", what, got, want)
		}
	}
	expect("ping", p.do(t, codePingReq, nil), `2 ""`)
	expect("info", p.do(t, codeServerInfoReq, nil), `8 "\n\x01a\x12\x031.2"`)
	expect("a set of which nobody has heard", p.do(t, codeFetchReq, id), `fetched 2 false []`)
	expect("add", p.do(t, codeUpdateReq, change(id, nil, []string{"ringo", "paul", "", "\x00\xff"}, nil)), `updated []`)
	first := p.do(t, codeFetchReq, id)
	expect("fetch", first, `fetched 2 true ["" "\x00\xff" "paul" "ringo"]`)
	seen := shownSet(first.body).context
	if len(seen) == 0 {
		t.Fatal("no context")
	}
	if bare := shownSet(p.do(t, codeFetchReq, append(slices.Clone(id), number(11, 0)...)).body); len(bare.context) > 0 {
		t.Error("a context that the client did not want")
	}
	// Paul is added again after the look: a remove by what was seen leaves him.
	expect("add again", p.do(t, codeUpdateReq, change(id, nil, []string{"paul"}, nil)), `updated []`)
	body := append(number(9, 1), number(13, 1)...)
	after := p.do(t, codeUpdateReq, change(id, seen, nil, []string{"paul", "ringo"}, body))
	expect("remove what was seen", after, `updated ["" "\x00\xff" "paul"]`)
	if len(shownUpdate(after.body).context) == 0 {
		t.Error("return_body without a context")
	}
	expect("remove what is present", p.do(t, codeUpdateReq, change(id, shownUpdate(after.body).context, nil, []string{"paul", ""}, number(9, 1), number(13, 0))), `updated ["\x00\xff"]`)
	expect("remove without a context", p.do(t, codeUpdateReq, change(id, nil, nil, []string{"\x00\xff", "nobody"})), `updated []`)
	expect("an empty set is found", p.do(t, codeFetchReq, id), `fetched 2 true []`)
	expect("another set", p.do(t, codeFetchReq, name("sets", "people", "friend")), `fetched 2 false []`)
	if m := s.Metrics(); m.Fetches != 5 || m.Updates != 5 || m.Pings != 1 || m.Others != 1 || m.Errors != 0 || m.Elements != 11 || m.FetchTime.Count != 5 || m.ChangeTime.Count != 5 {
		t.Errorf("counted %+v", m)
	}
}

// TestFilters: the name of a filter is no set, whatever the request. Other names, also those that only end like it, are.
func TestFilters(t *testing.T) {
	t.Parallel()
	filters := bloomdtest.NewMemory()
	if _, err := filters.Create(t.Context(), []byte("seen"), door.FilterCreate{}); err != nil {
		t.Fatal(err)
	}
	store, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	dial, _ := serve(t, alone.New(store), filters, Options{})
	p := dial()
	id := name("sets", "default", "seen")
	for what, got := range map[string]answer{
		"fetch":  p.do(t, codeFetchReq, id),
		"update": p.do(t, codeUpdateReq, change(id, nil, []string{"a"}, nil)),
		"delete": p.do(t, codeDelReq, appendBytes(appendBytes(appendBytes(nil, 1, []byte("default")), 2, []byte("seen")), 13, []byte("sets"))),
	} {
		if want := `error 1: "seen" is a bloom filter, not a set: use another key, or BF.ADD and BF.EXISTS over redis's protocol`; got.String() != want {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
	}
	for _, id := range [][]byte{name("sets", "people", "seen"), name("sets", "default", "seen2"), name("sets", "default", "")} {
		if got := p.do(t, codeUpdateReq, change(id, nil, []string{"a"}, nil)); got.String() != `updated []` {
			t.Errorf("update of %q: %v", id, got)
		}
	}
	if n, err := store.CountSets(t.Context(), 0, 1<<32-1); err != nil || n.Sets != 3 {
		t.Errorf("%+v sets, %v", n, err)
	}
}

// named is a backend that refuses changes by errors that name the set.
type named struct{ door.Backend }

func (named) Write(_ context.Context, w door.Write) (door.Result, error) {
	return door.Result{}, fmt.Errorf("%w: %q, for a test", bigset.ErrRequest, w.Set)
}

// TestErrorsNameTheSet: an error names a set by its path, unless its key is its name.
func TestErrorsNameTheSet(t *testing.T) {
	t.Parallel()
	dial, _ := serve(t, named{}, nil, Options{})
	p := dial()
	for _, c := range []struct {
		id   []byte
		want string
	}{{name("sets", "default", "k"), `"k"`}, {name("maps", "b/x", "k"), "/types/maps/buckets/b%2Fx/datatypes/k"}} {
		want := "error 1: bad request: " + c.want + ", for a test"
		if got := p.do(t, codeUpdateReq, change(c.id, nil, []string{"a"}, nil)); got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// TestNewKey has the server choose the key of a set, and a set with a plain name.
func TestNewKey(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	id := appendBytes(appendBytes(nil, 1, []byte("b")), 3, []byte("t"))
	keys := map[string]bool{}
	for range 3 {
		s := shownUpdate(p.do(t, codeUpdateReq, change(id, nil, []string{"x"}, nil, number(9, 1))).body)
		if len(s.key) < 20 || !slices.Equal(s.elements, []string{"x"}) || keys[string(s.key)] {
			t.Fatalf("%+v after %v", s, keys)
		}
		keys[string(s.key)] = true
		if got := p.do(t, codeFetchReq, name("t", "b", string(s.key))).String(); got != `fetched 2 true ["x"]` {
			t.Error(got)
		}
	}
}

// TestDelete drops a set, whole and as far as it was seen.
func TestDelete(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	id := name("sets", "b", "k")
	del := func(context []byte) string {
		b := appendBytes(appendBytes(appendBytes(nil, 1, []byte("b")), 2, []byte("k")), 13, []byte("sets"))
		if context != nil {
			b = appendBytes(b, 4, context)
		}
		return p.do(t, codeDelReq, b).String()
	}
	if got := del(nil); got != `14 ""` {
		t.Fatal("of an unknown set:", got)
	}
	p.do(t, codeUpdateReq, change(id, nil, []string{"x", "y"}, nil))
	seen := shownSet(p.do(t, codeFetchReq, id).body).context
	p.do(t, codeUpdateReq, change(id, nil, []string{"y"}, nil))
	if got := del(seen); got != `14 ""` {
		t.Fatal(got)
	}
	if got := p.do(t, codeFetchReq, id).String(); got != `fetched 2 true ["y"]` {
		t.Error("after a delete by what was seen:", got)
	}
	del(nil)
	if got := p.do(t, codeFetchReq, id).String(); got != `fetched 2 true []` {
		t.Error("after a delete:", got)
	}
}

// TestRefused has a request for everything that is answered by an error: it changes nothing, and the connection goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{AnswerBytesMax: 1 << 10, Replicas: func() door.Replicas { return door.Replicas{N: 3} }})
	p := dial()
	id := name("sets", "b", "k")
	p.do(t, codeUpdateReq, change(id, nil, []string{"x"}, nil))
	other := shownSet(p.do(t, codeFetchReq, id).body).context
	p.do(t, codeUpdateReq, change(name("sets", "b", "large"), nil, []string{strings.Repeat("l", 2000)}, nil))
	op := func(n int) []byte {
		return append(slices.Clone(id), appendBytes(nil, 5, appendBytes(nil, 1+protowireNumber(n), nil))...)
	}
	long := strings.Repeat("e", 65_537)
	for _, c := range []struct {
		what string
		code byte
		body []byte
		want string // in the error
	}{
		{"fetch without a key", codeFetchReq, appendBytes(appendBytes(nil, 1, []byte("b")), 3, []byte("t")), "required field is missing"},
		{"fetch of no message", codeFetchReq, []byte{0x0a}, "is cut off or is not protobuf"},
		{"fetch with a tag of no field", codeFetchReq, []byte{0x00}, "invalid field number"},
		{"fetch with a number for a name", codeFetchReq, append(number(1, 7), id...), "wrong kind"},
		{"fetch with a name for a number", codeFetchReq, appendBytes(slices.Clone(id), 4, []byte("x")), "wrong kind"},
		{"fetch by four of three", codeFetchReq, append(slices.Clone(id), number(4, 4)...), "{n_val_violation,3}"},
		{"update without an operation", codeUpdateReq, id, "required field is missing"},
		{"update of a counter", codeUpdateReq, op(0), "Operation type is `counter` but bucket type is `set`."},
		{"update of a map", codeUpdateReq, op(2), "Operation type is `map` but bucket type is `set`."},
		{"update of a hll", codeUpdateReq, op(3), "Operation type is `hll` but bucket type is `set`."},
		{"update of a gset", codeUpdateReq, op(4), "Operation type is `gset` but bucket type is `set`."},
		{"update with a context of nothing", codeUpdateReq, change(id, []byte("nonsense"), []string{"y"}, nil), "the context is not one that a node gave for this set"},
		{"update with the context of another set", codeUpdateReq, change(name("sets", "b", "k2"), other, []string{"y"}, nil), "token"},
		{"remove with an empty context", codeUpdateReq, change(id, []byte{}, []string{"y"}, []string{"x"}), "the context is empty"},
		{"delete with an empty context", codeDelReq, appendBytes(appendBytes(appendBytes(appendBytes(nil, 1, []byte("b")), 2, []byte("k")), 4, nil), 13, []byte("sets")), "the context is empty"},
		{"update with a long element", codeUpdateReq, change(id, nil, []string{long}, nil), "65536"},
		{"update by four of three", codeUpdateReq, change(id, nil, []string{"y"}, nil, number(6, 4)), "{n_val_violation,3}"},
		{"update of more than this node", codeUpdateReq, change(id, nil, []string{"y"}, nil, number(6, quorumAll)), "at most 1"},
		{"fetch of a large set", codeFetchReq, name("sets", "b", "large"), "more than the 1024 bytes"},
		{"delete without a key", codeDelReq, appendBytes(nil, 1, []byte("b")), "required field is missing"},
		{"auth without a password", codeAuthReq, appendBytes(nil, 1, []byte("u")), "required field is missing"},
		{"TLS that there is not", codeStartTLS, nil, "Security not enabled"},
		{"an answer as a request", codeFetchResp, nil, "Unknown message code: 81"},
		{"an object", 9, nil, "objects are not stored here"},
		{"an unknown code", 99, nil, "Unknown message code: 99"},
	} {
		got := p.do(t, c.code, c.body).String()
		if !strings.HasPrefix(got, "error 1: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want an error with %q", c.what, got, c.want)
		}
	}
	many := make([]string, bigset.BatchOpsMax+1)
	if got := p.do(t, codeUpdateReq, change(id, nil, many, nil)).String(); !strings.Contains(got, "more than 100000 elements in one update") {
		t.Errorf("an update of many elements: %s", got)
	}
	if got := p.do(t, codeFetchReq, id).String(); got != `fetched 2 true ["x"]` {
		t.Errorf("after all that: %s", got)
	}
	if m := s.Metrics(); m.Errors != 26 || m.Failures != 0 {
		t.Errorf("counted %+v", m)
	}
}

// TestEveryCode sends each code without a body: each has one answer, and only these have one that is no error.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	for code := range 256 {
		got := p.do(t, byte(code), nil)
		served := code == codePingReq || code == codeServerInfoReq
		if (got.code != codeError) != served {
			t.Errorf("code %d: %v", code, got)
		}
	}
}

// TestFrames splits and joins requests, and sends lengths that can't be right.
func TestFrames(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	var all []byte
	for range 100 {
		all = appendMessage(all, codePingReq)
		all = appendMessage(all, codeUpdateReq, change(name("t", "b", "k"), nil, []string{"e"}, nil))
	}
	for len(all) > 0 {
		n := min(len(all), 1+len(all)%37)
		if _, err := p.Write(all[:n]); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
	for range 100 {
		if a, b := p.receive(t), p.receive(t); a.code != codePingResp || b.code != codeUpdateResp {
			t.Fatal(a, b)
		}
	}
	for _, head := range [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, []byte("GET / HTTP/1.1\r\n\r\n")} {
		p := dial()
		p.Write(head)
		if got := p.receive(t).String(); !strings.Contains(got, "a message of") {
			t.Errorf("%q: %s", head, got)
		}
		if n, err := p.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: the connection goes on: %d bytes", head, n)
		}
	}
}

// TestAnswersCount has clients that ask for a long answer and read nothing: what waits for them counts until they have taken it, so that the node refuses others instead
// of holding all. A client that reads has its answer whole.
func TestAnswersCount(t *testing.T) {
	t.Parallel()
	limits := door.NewLimits(door.LimitsOptions{LongBytes: 48 << 20})
	dial, _ := start(t, Options{Options: door.Options{Limits: limits, RequestBytesMax: 8 << 20}})
	p := dial()
	id := name("t", "b", "large")
	element := strings.Repeat("e", 60_000)
	for i := range 4 {
		elements := make([]string, 100)
		for j := range elements {
			elements[j] = fmt.Sprint(element, i, " ", j)
		}
		if got := p.do(t, codeUpdateReq, change(id, nil, elements, nil)); got.code != codeUpdateResp {
			t.Fatal(got)
		}
	}
	if got := p.do(t, codeFetchReq, id); got.code != codeFetchResp || len(shownSet(got.body).elements) != 400 {
		t.Fatalf("%.100v", got)
	}
	refused := false
	for range 5 { // of 24 MB each; one whose answer has begun takes no more of it
		q := dial()
		q.send(t, codeFetchReq, id)
		var head [headBytes]byte
		if _, err := io.ReadFull(q, head[:]); err != nil {
			t.Fatal(err)
		}
		if n := binary.BigEndian.Uint32(head[:]); n < 1000 {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("answers that nobody reads do not count")
	}
}

// memory is a place for a list of tokens.
type memory struct{ list []byte }

func (m *memory) Load() ([]byte, error)                     { return m.list, nil }
func (m *memory) Save(_ context.Context, list []byte) error { m.list = bytes.Clone(list); return nil }

// TestTokens asks for everything without a token, with one for other names, with one that may only read, and with one that was removed.
func TestTokens(t *testing.T) {
	t.Parallel()
	list, err := tokens.Open(&memory{}, true)
	if err != nil {
		t.Fatal(err)
	}
	guard := &tokens.Guard{List: list}
	dial, _ := start(t, Options{Tokens: guard})
	id, del := name("t", "b", "k"), appendBytes(appendBytes(appendBytes(nil, 1, []byte("b")), 2, []byte("k")), 13, []byte("t"))
	if got := dial().do(t, codeUpdateReq, change(id, nil, []string{"x"}, nil)); got.code != codeUpdateResp {
		t.Fatal("while there are no tokens:", got)
	}
	add := func(verbs tokens.Verbs, prefix []byte) (tokens.ID, []byte) {
		t.Helper()
		entry, secret, err := tokens.New("test", verbs, prefix, time.Now())
		if err == nil {
			err = list.Add(context.Background(), entry)
		}
		if err != nil {
			t.Fatal(err)
		}
		return entry.ID, []byte(secret)
	}
	mine := setname.Prefix([]byte("t"), []byte("b"))
	reader, readSecret := add(tokens.Read, mine)
	_, writeSecret := add(tokens.Write, mine)
	_, otherSecret := add(tokens.Read|tokens.Write, []byte("elsewhere"))
	all := []struct {
		what string
		code byte
		body []byte
	}{{"fetch", codeFetchReq, id}, {"update", codeUpdateReq, change(id, nil, []string{"y"}, nil)}, {"update and body", codeUpdateReq, change(id, nil, []string{"y"}, nil, number(9, 1))},
		{"delete", codeDelReq, del}, {"info", codeServerInfoReq, nil}}
	check := func(who string, p *peer, permitted ...string) {
		t.Helper()
		for _, r := range all {
			if got := p.do(t, r.code, r.body); (got.code != codeError) != slices.Contains(permitted, r.what) {
				t.Errorf("%s: %s: %v", who, r.what, got)
			}
		}
		if got := p.do(t, codePingReq, nil); got.code != codePingResp {
			t.Errorf("%s: ping: %v", who, got)
		}
	}
	auth := func(secret []byte) *peer {
		t.Helper()
		p := dial()
		if got := p.do(t, codeAuthReq, appendBytes(appendBytes(nil, 1, []byte("anybody")), 2, secret)); got.code != codeAuthResp {
			t.Fatal(got)
		}
		return p
	}
	check("nobody", dial())
	p := dial()
	p.send(t, codeUpdateReq, change(id, nil, []string{strings.Repeat("x", strangerBytesMax)}, nil))
	if got := p.receive(t).String(); !strings.Contains(got, "a message of") {
		t.Errorf("a long message of nobody: %s", got)
	}
	p = dial()
	if got := p.do(t, codeAuthReq, appendBytes(appendBytes(nil, 1, []byte("u")), 2, []byte("guess"))).String(); got != "error 1: Authentication failed" {
		t.Error(got)
	}
	check("a guess", p)
	r := auth(readSecret)
	check("a reader", r, "fetch", "info")
	check("a writer", auth(writeSecret), "update", "delete", "info")
	check("of elsewhere", auth(otherSecret), "info")
	if err := list.Remove(context.Background(), reader); err != nil {
		t.Fatal(err)
	}
	check("one whose token was removed", r)
}

// TestStartTLS goes on with TLS in the middle of a connection.
func TestStartTLS(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t)
	dial, s := start(t, Options{Upgrade: &tls.Config{Certificates: []tls.Certificate{cert}}})
	p := dial()
	if got := p.do(t, codePingReq, nil); got.code != codePingResp {
		t.Fatal(got)
	}
	if got := p.do(t, codeStartTLS, nil); got.code != codeStartTLS {
		t.Fatal(got)
	}
	secure := &peer{tls.Client(p.Conn, &tls.Config{RootCAs: pool, ServerName: "localhost"})}
	id := name("t", "b", "k")
	for i := range 3 {
		if got := secure.do(t, codeUpdateReq, change(id, nil, []string{fmt.Sprint(i)}, nil)); got.code != codeUpdateResp {
			t.Fatal(got)
		}
	}
	if got := secure.do(t, codeFetchReq, id).String(); got != `fetched 2 true ["0" "1" "2"]` {
		t.Error(got)
	}
	if got := secure.do(t, codeStartTLS, nil).String(); !strings.Contains(got, "TLS already") {
		t.Error(got)
	}

	only, _ := start(t, Options{Upgrade: &tls.Config{Certificates: []tls.Certificate{cert}}, SecureOnly: true})
	p = only()
	for _, code := range []byte{codePingReq, codeFetchReq, codeUpdateReq, codeAuthReq, codeServerInfoReq} {
		if got := p.do(t, code, id).String(); got != "error 1: Security is enabled, please STARTTLS first" {
			t.Errorf("without TLS: code %d: %s", code, got)
		}
	}
	p.do(t, codeStartTLS, nil)
	if got := (&peer{tls.Client(p.Conn, &tls.Config{RootCAs: pool, ServerName: "localhost"})}).do(t, codePingReq, nil); got.code != codePingResp {
		t.Error("with TLS:", got)
	}

	// What is sent before the handshake is not executed, wherever it comes from.
	p = dial()
	p.Write(appendMessage(appendMessage(nil, codeStartTLS), codeUpdateReq, change(id, nil, []string{"injected"}, nil)))
	p.receive(t)
	if _, err := p.Read(make([]byte, 1)); err == nil {
		t.Error("requests before the handshake: the connection goes on")
	}
	if got := secure.do(t, codeFetchReq, id).String(); strings.Contains(got, "injected") {
		t.Error("a request before the handshake was executed:", got)
	}

	// A handshake that fails ends the connection, and is counted.
	p = dial()
	p.do(t, codeStartTLS, nil)
	p.Write([]byte("no handshake of anybody's"))
	for err := error(nil); err == nil; {
		_, err = p.Read(make([]byte, 100))
	}
	if n := s.Metrics().Handshakes; n != 1 {
		t.Errorf("%d failed handshakes counted", n)
	}
}

// certificate makes a certificate for localhost that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestRefusedRequests: a connection above the limits, a request that finds no memory and one that is too long are told apart.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	limits := door.NewLimits(door.LimitsOptions{Connections: 1, LongBytes: RequestBytesLeast})
	dial, s := start(t, Options{Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: limits}})
	only := func() *peer {
		for s.Counts().Connections > 0 {
			time.Sleep(time.Millisecond)
		}
		return dial()
	}
	end := func(p *peer, want string) {
		t.Helper()
		b, err := io.ReadAll(p)
		if err != nil || len(b) < 5 || b[4] != codeError || !strings.Contains(string(b), want) {
			t.Errorf("%q %v, want %s", b, err, want)
		}
		p.Close()
	}
	p := only()
	for s.Counts().Connections == 0 {
		time.Sleep(time.Millisecond)
	}
	end(dial(), door.Crowded)
	p.Close()
	long := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), append([]byte{codeUpdateReq}, make([]byte, n-1)...)...)
	}
	if !limits.TakeLong(RequestBytesLeast) {
		t.Fatal("memory is taken")
	}
	p = only()
	go p.Write(long(100 << 10))
	end(p, "nothing has happened, ask again or ask another node: ")
	limits.GiveLong(RequestBytesLeast)
	p = only()
	go p.Write(long(RequestBytesLeast + 1))
	end(p, "a message of 524289 bytes; one has 1 to 524284")
}

// parted is a backend of one set.
type parted struct {
	door.Backend
	part door.Part
}

func (p *parted) Read(context.Context, door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) { yield(p.part, nil) }
}

// TestLongAnswer: an answer takes no more memory than it may have bytes, and a wide context counts beside it.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	const most = 1_000_000
	limits := door.NewLimits(door.LimitsOptions{LongBytes: most})
	_, inner := start(t, Options{})
	b := &parted{Backend: inner.sets, part: door.Part{Done: true}}
	dial, _ := serve(t, b, nil, Options{AnswerBytesMax: most, Options: door.Options{RequestBytesMax: RequestBytesLeast, Limits: limits}})
	p := dial()
	fetch := func(want string) {
		t.Helper()
		for !limits.TakeLong(most) { // the message before returns its memory after its answer
			time.Sleep(time.Millisecond)
		}
		limits.GiveLong(most)
		if got := p.do(t, codeFetchReq, name("sets", "b", "k")).String(); !strings.Contains(got, want) {
			t.Errorf("%.200s, want %s", got, want)
		}
	}
	for range 900 {
		b.part.Elements = append(b.part.Elements, door.Element{Name: []byte(strings.Repeat("x", 1000))})
	}
	fetch("fetched")
	b.part.Elements = nil
	b.part.Context = make(door.Token, 100<<10)
	fetch("fetched")
	b.part.Context = make(door.Token, 400<<10)
	fetch("nothing has happened, ask again or ask another node: ")
}

// TestWideContexts: a wide context of a request counts as what is made of it.
func TestWideContexts(t *testing.T) {
	t.Parallel()
	const most = 29 << 20 // besides the message and its parts, which may be 100,000
	limits := door.NewLimits(door.LimitsOptions{LongBytes: most})
	dial, _ := start(t, Options{Options: door.Options{RequestBytesMax: 4 << 20, Limits: limits}})
	p := dial()
	for size, want := range map[int]string{200 << 10: "the context is not one", 1 << 20: "nothing has happened, ask again or ask another node: "} {
		for code, body := range map[byte][]byte{
			codeUpdateReq: change(name("sets", "b", "k"), make([]byte, size), []string{"x"}, nil),
			codeDelReq:    appendBytes(appendBytes(appendBytes(appendBytes(nil, 1, []byte("b")), 2, []byte("k")), 13, []byte("sets")), 4, make([]byte, size)),
		} {
			for !limits.TakeLong(most) { // the message before returns its memory after its answer
				time.Sleep(time.Millisecond)
			}
			limits.GiveLong(most)
			if got := p.do(t, code, body).String(); !strings.Contains(got, want) {
				t.Errorf("code %d, %d bytes: %.200s, want %s", code, size, got, want)
			}
		}
	}
}
