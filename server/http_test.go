package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/server/tokens"
)

// httpURL returns where a node answers HTTP.
func (n *Node) httpURL() string {
	for _, d := range n.doors {
		if d.name == "http" {
			return "http://" + d.listener.Addr().String()
		}
	}
	return "http://no.http.door"
}

// askHTTP sends a request and returns the status and the answer.
func askHTTP(n *Node, method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, n.httpURL()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// wantHTTP wants a status and an answer that has a text.
func wantHTTP(t *testing.T, n *Node, method, path, body string, status int, has string) string {
	t.Helper()
	got, answer, err := askHTTP(n, method, path, body)
	if err != nil || got != status || !strings.Contains(answer, has) {
		t.Errorf("%s %s %s: %d %.300s, %v, want %d and %q", method, path, body, got, answer, err, status, has)
	}
	return answer
}

const plainPath = "/types/sets/buckets/default/datatypes/"

// TestHTTP has sets and filters of a node alone over a restart, in one key space with the other protocols.
func TestHTTP(t *testing.T) {
	c := testConfig(t)
	c.HTTP, c.Resp, c.Health = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	n := startNode(t, c)
	wantHTTP(t, n, "POST", plainPath+"s", `{"add_all":["a","b"]}`, 204, "")
	wantHTTP(t, n, "POST", "/types/t/buckets/b/datatypes/s", `{"add":"x"}`, 204, "")
	redis(t, n, "SADD s b c", ":1\r\n", "SCARD s", ":3\r\n", "DBSIZE", ":1\r\n")
	wantHTTP(t, n, "GET", plainPath+"s?include_context=false", "", 200, `"value":["a","b","c"]`)
	wantHTTP(t, n, "PUT", "/filters/f", "", 201, "true")
	redis(t, n, "BF.ADD f x", ":1\r\n", "SADD f a", "-WRONGTYPE")
	wantHTTP(t, n, "POST", "/filters/f/contains", `{"keys":["x","y"]}`, 200, "[true,false]")
	wantHTTP(t, n, "POST", plainPath+"f", `{"add":"a"}`, 409, "kind")
	stopNode(t, n)
	n = startNode(t, c)
	wantHTTP(t, n, "GET", "/types/t/buckets/b/datatypes/s", "", 200, `"value":["x"]`)
	wantHTTP(t, n, "GET", plainPath+"s/stats?here=true", "", 200, `"table_bytes"`)
	wantHTTP(t, n, "GET", "/readyz", "", 200, "ready")
	var node struct {
		Ready   bool
		Figures []struct {
			Name, Label, Of string
			Value           float64
		}
	}
	if err := json.Unmarshal([]byte(wantHTTP(t, n, "GET", "/node", "", 200, "compactions_in_progress")), &node); err != nil || !node.Ready {
		t.Error(err, node.Ready)
	}
	found := 0
	for _, f := range node.Figures {
		if f.Name == "http_requests" && f.Of == "stats" && f.Value == 1 || f.Name == "keys_in_tables" || f.Name == "door_connections" && f.Of == "http" && f.Value >= 1 {
			found++
		}
	}
	if found != 3 {
		t.Errorf("%d of 3 figures", found)
	}
	_ = n.store.Load() // a node that stops says so
	n.stopping.Store(true)
	wantHTTP(t, n, "GET", "/readyz", "", 503, "stopping")
}

// TestHTTPTokens: a token of the node is one of this door.
func TestHTTPTokens(t *testing.T) {
	c := testConfig(t)
	c.HTTP = "127.0.0.1:0"
	n := startNode(t, c)
	wantHTTP(t, n, "POST", plainPath+"s", `{"add":"a"}`, 204, "")
	e, secret, err := tokens.New("test", tokens.Read, []byte("s"), time.Now())
	if err == nil {
		_, err = n.tokenKeeper().ChangeAccessToken(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantHTTP(t, n, "GET", plainPath+"s", "", 401, "token")
	for path, status := range map[string]int{plainPath + "s": 200, plainPath + "t": 403, "/node": 403} {
		r, err := http.NewRequest("GET", n.httpURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.StatusCode != status {
			t.Errorf("%s: %d, want %d", path, a.StatusCode, status)
		}
	}
}

// TestHTTPAddress: what others could reach has to be asked for.
func TestHTTPAddress(t *testing.T) {
	for address, good := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, ":1": false, "192.0.2.1:1": false} {
		c := Defaults()
		c.HTTP = address
		if err := c.Validate(); (err == nil) != good || !good && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--http")) {
			t.Errorf("%s: %v", address, err)
		}
		c.InsecureClients = true
		if err := c.Validate(); err != nil {
			t.Errorf("%s, insecure: %v", address, err)
		}
	}
}

// TestHTTPInCluster asks every node of three for the same sets, then with members away.
func TestHTTPInCluster(t *testing.T) {
	nodes := startCluster(t, 3, func(_ int, c *Config) { c.HTTP = "127.0.0.1:0" })
	for i, n := range nodes {
		wantHTTP(t, n, "POST", plainPath+"s?w=quorum&dw=1", fmt.Sprintf(`{"add_all":["a","own%d"]}`, i), 204, "")
		wantHTTP(t, n, "GET", plainPath+"s/count?r=all", "", 200, fmt.Sprintf(`"count":%d`, 2+i))
		wantHTTP(t, n, "GET", plainPath+"s?r=4", "", 400, "quorum")
		wantHTTP(t, n, "GET", "/node", "", 200, `"cluster":{"cluster":"bigset"`)
		wantHTTP(t, n, "PUT", "/filters/f", "", map[bool]int{true: 201, false: 200}[i == 0], "created")
		wantHTTP(t, n, "POST", "/filters/f/add", fmt.Sprintf(`{"keys":["k%d"]}`, i), 200, "[true]")
	}
	// A context of one node is good at another one.
	var page struct{ Context string }
	if err := json.Unmarshal([]byte(wantHTTP(t, nodes[0], "GET", plainPath+"s", "", 200, "own2")), &page); err != nil {
		t.Fatal(err)
	}
	wantHTTP(t, nodes[1], "POST", plainPath+"s", `{"add":"late"}`, 204, "")
	wantHTTP(t, nodes[1], "POST", plainPath+"s?returnbody=true&include_context=false", fmt.Sprintf(`{"remove_all":["a","late"],"context":%q}`, page.Context), 200, `["late","own0","own1","own2"]`)
	stopNode(t, nodes[2])
	wantHTTP(t, nodes[0], "POST", plainPath+"s?w=all", `{"add":"x"}`, 503, `"outcome":"`)
	wantHTTP(t, nodes[0], "GET", plainPath+"s/contains?element=own2", "", 200, "[true]")
	wantHTTP(t, nodes[1], "POST", plainPath+"s?request_id=1", `{"add":"y"}`, 204, "")
	stopNode(t, nodes[1])
	wantHTTP(t, nodes[0], "GET", plainPath+"s", "", 503, `"error":"unavailable"`)
	wantHTTP(t, nodes[0], "POST", plainPath+"s", `{"add":"z"}`, 503, `"outcome":"`)
	eventually(t, "it is not ready", func() bool {
		status, _, _ := askHTTP(nodes[0], "GET", "/readyz", "")
		return status == 503
	})
}

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	contexts     = regexp.MustCompile(`"context":"[A-Za-z0-9_-]+"`)
)

// TestHTTPDocs runs the session of docs/http.md by curl, without its changes, whose tokens differ each time: on a node alone, on a node of a cluster, and on two nodes that have lost the third.
func TestHTTPDocs(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl here")
	}
	c := testConfig(t)
	c.HTTP = "127.0.0.1:0"
	if commands := replayHTTP(t, startNode(t, c), "/changes"); commands < 10 {
		t.Errorf("%d commands", commands)
	}
	nodes := startCluster(t, 3, func(_ int, c *Config) { c.HTTP = "127.0.0.1:0" })
	replayHTTP(t, nodes[1], "/sets", "/changes") // a list comes from one member, which may not have heard of all
	stopNode(t, nodes[2])
	for i, n := range nodes[:2] {
		if i == 0 || tier.Full() {
			replayHTTP(t, n, "/sets", "/changes", "/filters/") // filters are made by all members
		}
	}
}

// replayHTTP runs the commands of the page but for those with some texts, and wants what stands there. It returns how many it ran.
func replayHTTP(t *testing.T, n *Node, without ...string) (commands int) {
	t.Helper()
	text, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	variables := ""
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, want, _ := strings.Cut(step, "\n")
			want = strings.TrimSuffix(want, "\n")
			command := strings.ReplaceAll(line, "http://127.0.0.1:8682", n.httpURL())
			if strings.HasPrefix(command, "SET=") {
				variables += command + "\n"
				continue
			}
			if slices.ContainsFunc(without, func(w string) bool { return strings.Contains(line, w) }) {
				continue
			}
			out, err := exec.Command("sh", "-c", variables+command).CombinedOutput()
			got := strings.TrimSuffix(contexts.ReplaceAllString(string(out), `"context":"…"`), "\n")
			if err != nil || got != want {
				t.Errorf("%s: %v\n%s\nand docs/http.md says\n%s", line, err, got, want)
			}
			commands++
		}
	}
	return commands
}

// TestHTTPLearns: a member that was away does not judge by the tokens that it knew, as long as it may hear of others in time. Health is answered before.
func TestHTTPLearns(t *testing.T) {
	for tries := 1; ; tries++ {
		status, answer, took := tokensAfterAway(t)
		if status == 401 && strings.Contains(answer, "token") {
			return
		}
		if took <= joinTime || tries == 3 { // else this machine was too busy to say
			t.Fatalf("after %v: %d %s", took, status, answer)
		}
	}
}

// tokensAfterAway returns what a member answers without a token, and how long after its start, if a token was made while it was away.
func tokensAfterAway(t *testing.T) (status int, answer string, took time.Duration) {
	t.Helper()
	var configs []Config
	nodes := startCluster(t, 3, func(_ int, c *Config) {
		c.HTTP = "127.0.0.1:0"
		configs = append(configs, *c)
	})
	wantHTTP(t, nodes[0], "POST", plainPath+"s", `{"add":"a"}`, 204, "")
	stopNode(t, nodes[2])
	makeToken(t, nodes[0], tokens.Read, "", "c")
	began := time.Now()
	nodes[2] = startNode(t, configs[2])
	wantHTTP(t, nodes[2], "GET", "/ping", "", 200, "OK")
	eventually(t, "the third knows which tokens there are", func() (known bool) {
		status, answer, _ = askHTTP(nodes[2], "GET", plainPath+"s?r=1", "")
		return status != 503
	})
	return status, answer, time.Since(began)
}
