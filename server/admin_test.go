package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
)

// ask sends a request to the admin port.
func ask(t *testing.T, n *Node, method, path string, header ...string) (status int, body string) {
	t.Helper()
	return askAt(t, n.AdminAddr(), method, path, header...)
}

func askAt(t *testing.T, at net.Addr, method, path string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func wantAnswer(t *testing.T, n *Node, method, path string, status int, text string, header ...string) {
	t.Helper()
	got, body := ask(t, n, method, path, header...)
	if got != status || !strings.Contains(body, text) {
		t.Errorf("%s %s: got %d, %.300q, want %d with %q", method, path, got, body, status, text)
	}
}

func TestAdmin(t *testing.T) {
	c := testConfig(t)
	c.Pprof = true
	n := startNode(t, c)
	wantAnswer(t, n, "GET", "/healthz", 200, "ok")
	wantAnswer(t, n, "GET", "/readyz", 200, "ready")
	wantAnswer(t, n, "GET", "/debug/pprof/", 200, "goroutine")
	wantAnswer(t, n, "GET", "/debug/pprof/cmdline", 200, "")
	wantAnswer(t, n, "GET", "/", 404, "")
	wantAnswer(t, n, "GET", "/healthz", 431, "", "Odd", strings.Repeat("x", 64<<10))
	if n.admin.IdleTimeout <= 0 || n.admin.ReadHeaderTimeout <= 0 {
		t.Error("a client may hold a connection for ever")
	}
	n.stopping.Store(true)
	wantAnswer(t, n, "GET", "/readyz", 503, stopping)
	wantAnswer(t, n, "GET", "/healthz", 200, "ok")
	s := n.store.Swap(nil)
	n.stopping.Store(false)
	wantAnswer(t, n, "GET", "/readyz", 503, starting)
	wantAnswer(t, n, "GET", "/metrics", 503, starting)
	wantAnswer(t, n, "POST", "/backup?name=x", 503, starting)
	n.store.Store(s)
}

// TestProfilesAreOff starts a node without the flag for profiles.
func TestProfilesAreOff(t *testing.T) {
	n := startNode(t, testConfig(t))
	for _, path := range []string{"", "goroutine", "heap?gc=1", "profile?seconds=1", "trace", "cmdline", "symbol"} {
		wantAnswer(t, n, "GET", "/debug/pprof/"+path, 404, "start with --pprof")
	}
	wantAnswer(t, n, "POST", "/debug/pprof/symbol", 404, "start with --pprof")
}

// TestOtherPages asks as a browser does for pages of somewhere else, with every method: nothing is answered, and nothing is done.
func TestOtherPages(t *testing.T) {
	c := testConfig(t)
	c.BackupDir, c.Pprof, c.Health = t.TempDir(), true, "127.0.0.1:0"
	n := startNode(t, c)
	own := "http://" + n.AdminAddr().String()
	requests := []struct{ method, path string }{
		{"GET", "/metrics"}, {"HEAD", "/metrics"}, {"GET", "/readyz"}, {"GET", "/healthz"}, {"GET", "/debug/pprof/cmdline"}, {"OPTIONS", "/metrics"},
		{"POST", "/backup?name=x"},
	}
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "odd"}, {"Origin", "http://example.org"}, {"Origin", "null"},
		{"Origin", "http://" + n.Addr().String()}, {"Origin", "http://example.org", "Sec-Fetch-Site", "none"}, {"Origin", own, "Sec-Fetch-Site", "cross-site"},
	} {
		for _, r := range requests {
			if status, body := ask(t, n, r.method, r.path, headers...); status != 403 {
				t.Errorf("%s %s with %q: got %d, %.100q", r.method, r.path, headers, status, body)
			}
		}
	}
	if made, err := os.ReadDir(c.BackupDir); err != nil || len(made) > 0 {
		t.Errorf("backups: %v, %v", made, err)
	}
	for _, headers := range [][]string{
		{}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", own}, {"Origin", own, "Sec-Fetch-Site", "same-origin"},
	} {
		wantAnswer(t, n, "GET", "/metrics", 200, "bigset_ready 1", headers...)
		wantAnswer(t, n, "GET", "/debug/pprof/cmdline", 200, "", headers...)
	}
	wantAnswer(t, n, "POST", "/backup?name=own", 200, "", "Origin", own)
	if status, _ := askAt(t, n.HealthAddr(), "GET", "/readyz", "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("the health port answers a page of somewhere else with %d", status)
	}
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) (bigset_[a-z_]+) .`)
	sampleLine = regexp.MustCompile(`^(bigset_[a-z_]+)(\{[a-z]+="[^"]*"\})? (\+Inf|[-+0-9.e]+)$`)
)

// TestMetrics checks the form, by the rules of Prometheus' text format, and some figures.
func TestMetrics(t *testing.T) {
	n := startNode(t, testConfig(t))
	talk(t, n, "create f", "Done", "create g", "Done", "close g", "Done", "bulk f a b c", "Yes Yes Yes", "multi f a z", "Yes No", "bad", "Client Error: Command not supported")
	status, body := ask(t, n, "GET", "/metrics")
	if status != 200 {
		t.Fatal(status, body)
	}
	typed, last := map[string]bool{}, ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if m := headLine.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" {
				if typed[m[2]] {
					t.Errorf("%s stands in two places", m[2])
				}
				typed[m[2]], last = true, m[2]
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("bad line %q", line)
			continue
		}
		if !strings.HasPrefix(m[1], last) {
			t.Errorf("%s stands below %s", m[1], last)
		}
	}
	for _, want := range []string{
		"bigset_filters 2", "bigset_filters_open 1", "bigset_filter_keys 3", "bigset_filter_capacity 200000", "bigset_filters_damaged 0",
		"bigset_keys_set 3", "bigset_keys_checked 2", "bigset_client_errors 1", "bigset_internal_errors 0", "bigset_ready 1",
		`bigset_commands{command="bulk"} 1`, `bigset_commands{command="create"} 2`, "bigset_connections_accepted 1",
		`bigset_strategy{strategy="default"} 1`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
}

// TestFilterSums has many scrapes cost one look at all filters, and a later one see what has changed.
func TestFilterSums(t *testing.T) {
	n := startNode(t, testConfig(t))
	talk(t, n, "create f", "Done", "set f a", "Yes")
	wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_filter_keys 1\n")
	talk(t, n, "set f b", "Yes")
	wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_filter_keys 1\n")
	n.sums.made = n.sums.made.Add(-sumsAge)
	wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_filter_keys 2\n")
}

// TestAdminHosts asks by names: those that are not the node's are refused, before anything is done.
func TestAdminHosts(t *testing.T) {
	c := testConfig(t)
	c.BackupDir, c.AdminHosts = t.TempDir(), []string{"node7", "node7.example.org"}
	n := startNode(t, c)
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "10.1.2.3:8680", "[::1]:8680", "[::1]", "localhost", "LocalHost:8680", "node7:8680", "Node7.example.org.", own} {
		wantAnswer(t, n, "GET", "/readyz", 200, "ready", "Host", host)
	}
	for _, host := range []string{"example.org", "node7.example.com:8680", "localhost.example.org", "127.0.0.1.example.org", "1.2.3"} {
		wantAnswer(t, n, "GET", "/metrics", 421, "not a name of this node", "Host", host)
		wantAnswer(t, n, "POST", "/backup?name=x", 421, "--admin-hosts", "Host", host)
	}
	if made, err := os.ReadDir(c.BackupDir); err != nil || len(made) > 0 {
		t.Errorf("backups: %v, %v", made, err)
	}
	conn, err := net.Dial("tcp", n.AdminAddr().String()) // as some balancers ask
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /healthz HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200") {
		t.Errorf("without a name: %q, %v", answer, err)
	}
	c = testConfig(t)
	c.Admin = "localhost:0"
	wantAnswer(t, startNode(t, c), "GET", "/readyz", 200, "ready")
}

// TestBackup makes a copy under a running node, which has what was set before and can be served.
func TestBackup(t *testing.T) {
	c := testConfig(t)
	c.BackupDir = filepath.Join(t.TempDir(), "backups")
	n := startNode(t, c)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	dir := filepath.Join(c.BackupDir, "monday")
	path := "/backup?name=monday"
	wantAnswer(t, n, "POST", path, 500, "no such file") // a folder that is not there is not made
	if err := os.Mkdir(c.BackupDir, 0o755); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, n, "GET", path, 405, "")
	wantAnswer(t, n, "POST", path, 403, "", "Sec-Fetch-Site", "cross-site")
	wantAnswer(t, n, "POST", "/backup", 400, "give the backup a name")
	for _, name := range []string{
		dir, "..", ".", "/", "../x", "a/b", "a/../../x", "monday/", "./x", "a/..", `a\b`,
		"-rf", "x\ny", "monday\n", "a b", " a", "a\x00", "\x00", ".hidden", "_a", "é", "a\xff", "a:b", "a*",
		strings.Repeat("a", 129), strings.Repeat("a", 300),
	} {
		wantAnswer(t, n, "POST", "/backup?name="+url.QueryEscape(name), 400, "1 to 128 letters, digits, '.', '_' and '-'")
	}
	if made, err := os.ReadDir(c.BackupDir); err != nil || len(made) > 0 {
		t.Errorf("backups by bad names: %v, %v", made, err)
	}
	wantAnswer(t, n, "POST", path, 200, dir)
	for _, name := range []string{"1", "Z-a_b.9..", strings.Repeat("a", 128)} {
		wantAnswer(t, n, "POST", "/backup?name="+name, 200, filepath.Join(c.BackupDir, name))
	}
	talk(t, n, "set f b", "Yes")
	wantAnswer(t, n, "POST", path, 409, "exists")
	n.backingUp.Lock()
	wantAnswer(t, n, "POST", path+"2", 409, "under way")
	n.backingUp.Unlock()
	c.DataDir = dir
	if err := c.Validate(); err != nil {
		t.Errorf("a store beside others' backups: %v", err)
	}
	talk(t, startNode(t, c), "multi f a b", "Yes No")
}

// TestNoBackup has a node without a folder for backups, and one that would have them in its own.
func TestNoBackup(t *testing.T) {
	c := testConfig(t)
	wantAnswer(t, startNode(t, c), "POST", "/backup?name=monday", 403, "--backup-dir")
	for _, below := range []string{".", "backups", "a/../b"} {
		c.BackupDir = filepath.Join(c.DataDir, below)
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", c.BackupDir, err)
		}
	}
}

// TestBackupLinks has folders for backups that lead into the data folder by links, at the start and later.
func TestBackupLinks(t *testing.T) {
	c := testConfig(t)
	link := filepath.Join(t.TempDir(), "link")
	c.BackupDir = link
	if err := os.Symlink(filepath.Dir(c.DataDir), link); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("beside the data folder: %v", err)
	}
	n := startNode(t, c)
	turn := func(to string) {
		if err := errors.Join(os.Remove(link), os.Symlink(to, link)); err != nil {
			t.Fatal(err)
		}
	}
	turn(c.DataDir)
	wantAnswer(t, n, "POST", "/backup?name=monday", 403, "within the data folder")
	if err := c.Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("a link to the data folder: %v", err)
	}
	c.BackupDir = filepath.Join(link, "not", "there")
	if err := c.Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("a folder to come below a link to the data folder: %v", err)
	}
	c.DataDir, c.BackupDir = filepath.Join(link, "data"), filepath.Join(c.DataDir, "data", "backups") // which is not there yet
	if err := c.Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("a data folder by a link: %v", err)
	}
}

// TestNotReady fills the disk under a node: it says so where it is asked, and checks go on.
func TestNotReady(t *testing.T) {
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store = "data", &engine.Options{FS: disk}
	n := startNode(t, c)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	disk.FailWrites(".log", 0, fmt.Errorf("write: %w", syscall.ENOSPC))
	n.flushFilters(t.Context())
	wantAnswer(t, n, "GET", "/readyz", 503, "disk full: the last flush of filters failed")
	wantAnswer(t, n, "GET", "/readyz", 503, "disk full: store failed")
	wantAnswer(t, n, "GET", "/metrics", 200, "bigset_ready 0")
	talk(t, n, "check f a", "Yes", "set f b", "Internal Error", "flush", "Internal Error")
	disk.Heal()
}

// TestReadyNamesNoFilter: filters that could not be flushed are named to operators and to who may read them, but not to clients without a token.
func TestReadyNamesNoFilter(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store, c.HTTP = "data", &engine.Options{FS: disk}, "127.0.0.1:0"
	n := startNode(t, c)
	keys := ""
	for i := range 2000 {
		keys += fmt.Sprint(" ", i)
	}
	talk(t, n, "create secret capacity=2000000", "Done", "set secret a", "Yes", "flush", "Done", "bulk secret"+keys, strings.TrimSpace(strings.Repeat("Yes ", 2000)))
	disk.SetHook("full", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return &fs.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})
	if err := n.store.Load().Flush(t.Context()); err == nil {
		t.Fatal("a full disk takes a table")
	}
	n.flushFilters(t.Context())
	wantAnswer(t, n, "GET", "/readyz", 503, `disk full: the last flush of filters failed: engine: flush filter "secret": `)
	wantHTTP(t, n, "GET", "/node", "", 200, `flush filter \"secret\"`)
	if text := wantHTTP(t, n, "GET", "/readyz", "", 503, "disk full: the last flush of filters failed: the log says which"); strings.Contains(text, "secret") {
		t.Errorf("clients read without a token: %s", text)
	}
	disk.SetHook("full", nil)
	n.flushFilters(t.Context())
}

// TestReadyOnFullDisk: as long as the store refuses adds for lack of room a node is not ready, says why and counts it; a warning comes before,
// and it is ready again when there is room.
func TestReadyOnFullDisk(t *testing.T) {
	for _, durability := range []bigset.FilterDurability{bigset.FilterInterval, bigset.FilterLog} {
		t.Run(durabilityNames[durability], func(t *testing.T) {
			t.Parallel()
			disk := testkit.NewDisk()
			c := testConfig(t)
			c.DataDir, c.Store, c.Durability = "data", &engine.Options{FS: disk}, durability
			n := startNode(t, c)
			talk(t, n, "create f", "Done", "set f a", "Yes")
			usage := func(percent uint64, status int, text string) {
				t.Helper()
				disk.SetUsage(vfs.DiskUsage{AvailBytes: percent << 20, TotalBytes: 100 << 20})
				eventually(t, text, func() bool {
					got, body := ask(t, n, "GET", "/readyz")
					return got == status && strings.Contains(body, text)
				})
			}
			usage(9, 200, "ready\nwarning: the disk fills up: 9437184 bytes are free, adds are refused at 2097152\n")
			wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_disk_space_level 1\n")
			wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_ready 1\n")
			usage(1, 503, "disk full: adds are refused: ")
			for _, want := range []string{"ready 0", "full_disk 1", "disk_free_bytes 1.048576e+06", "disk_reserve_bytes 2.097152e+06", "disk_space_level 4"} {
				wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_"+want+"\n")
			}
			talk(t, n, "set f b", "Internal Error", "create g", "Internal Error", "check f a", "Yes")
			usage(50, 200, "ready\n")
			wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_ready 1\n")
			talk(t, n, "set f b", "Yes", "create g", "Done")
		})
	}
}

// TestReadyOnDamage: a node with a damaged filter is ready, for the others, and names it; before and after a restart.
func TestReadyOnDamage(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store, c.HTTP = "data", &engine.Options{FS: disk}, "127.0.0.1:0"
	n := startNode(t, c)
	keys := ""
	for i := range 2000 {
		keys += fmt.Sprint(" ", i)
	}
	talk(t, n, "create big capacity=500000", "Done", "create small", "Done", "set small a", "Yes")
	talk(t, n, "bulk big"+keys, strings.TrimSpace(strings.Repeat("Yes ", 2000)), "flush", "Done")
	stopNode(t, n)
	names, err := disk.List("data")
	if err != nil {
		t.Fatal(err)
	}
	var table string
	var data []byte
	for _, name := range names {
		if b := fileOn(t, disk, "data/"+name); strings.HasSuffix(name, ".sst") && len(b) > len(data) {
			table, data = "data/"+name, b
		}
	}
	for i := range 64 {
		data[len(data)/2+i] ^= 0xFF
	}
	f, err := disk.Create(table, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, c)
	wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_filters_damaged 0\n")
	talk(t, n, "multi big"+keys, "Internal Error")
	for range 2 {
		wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_filters_damaged 1\n")
		wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_ready 1\n")
		wantAnswer(t, n, "GET", "/readyz", 200, "ready\nwarning: damaged filters: [\"big\"]: run `bigset verify`")
		wantHTTP(t, n, "GET", "/readyz", "", 200, "ready\nwarning: damaged filters: 1: run `bigset verify`") // clients ask this one without a token
		wantHTTP(t, n, "GET", "/node", "", 200, `damaged filters: [\"big\"]: run`)
		talk(t, n, "check small a", "Yes")
		stopNode(t, n)
		n = startNode(t, c)
	}
	talk(t, n, "drop big", "Done")
	if _, body := ask(t, n, "GET", "/readyz"); body != "ready\n" {
		t.Errorf("after the drop: %q", body)
	}
}

func fileOn(t *testing.T, disk *testkit.Disk, path string) []byte {
	t.Helper()
	f, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
