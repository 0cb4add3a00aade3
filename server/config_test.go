package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"bigset"
)

// TestConfig runs testdata/config. A block is a configuration file; words after `load` are the environment, those with -- flags. What comes
// out is what is not as in Defaults, what was ignored, or the error.
func TestConfig(t *testing.T) {
	datadriven.RunTest(t, filepath.Join("testdata", "config"), func(t *testing.T, d *datadriven.TestData) string {
		path, dir := "", t.TempDir()
		if d.Input != "" {
			path = filepath.Join(dir, "bloomd.conf")
			if err := os.WriteFile(path, []byte(unquote(d.Input)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		named := func(text string) string { return strings.ReplaceAll(text, dir+"/", "") }
		env, c := map[string]string{}, Defaults()
		for _, arg := range d.CmdArgs {
			env[arg.Key] = strings.Join(arg.Vals, ",")
		}
		ignored, err := c.Load(path, func(name string) string { return env[name] })
		for key, value := range env {
			flag, ok := strings.CutPrefix(key, "--")
			switch {
			case !ok || err != nil:
			case flag == "bloomd":
				err = c.Listen(value)
			default:
				err = c.Set(flag, value)
			}
		}
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v is not ErrConfig", d.Pos, err)
			}
			return named(err.Error()) + "\n"
		}
		var b strings.Builder
		for _, text := range ignored {
			fmt.Fprintf(&b, "ignored: %s\n", named(text))
		}
		b.WriteString(changes(t, c))
		return b.String()
	})
}

// unquote puts in what a script can't show.
func unquote(text string) string {
	return strings.NewReplacer(`\t`, "\t", `\r`, "\r", `\x20`, " ", `\ufeff`, "\ufeff").Replace(text) + "\n"
}

// changes lists what is not as in Defaults.
func changes(t *testing.T, c Config) string {
	was, is := Defaults(), strings.SplitAfter(printed(t, c), "\n")
	var b strings.Builder
	for i, line := range strings.SplitAfter(printed(t, was), "\n") {
		if is[i] != line {
			b.WriteString(is[i])
		}
	}
	if b.Len() == 0 {
		return "defaults\n"
	}
	return b.String()
}

func printed(t *testing.T, c Config) string {
	t.Helper()
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPrintedConfigIsRead wants Load to read what Print writes, with every key other than its default.
func TestPrintedConfigIsRead(t *testing.T) {
	want := `[bloomd]
tcp_port = 1
udp_port = 2
bind_address = ::1
data_dir = /a b
log_level = CRITICAL
initial_capacity = 20000
default_probability = 1.5e-07
scale_size = 2
probability_reduction = 0.5
flush_interval = 3
cold_interval = 0
in_memory = 1
use_mmap = 1
workers = 4
durability = sync
set_durability = everysec
present_adds = skip
filter_cache = 2000000
max_capacity = 30000
max_filters = 8
max_filter_bytes = 9000000
max_total_bytes = 0
max_in_memory_bytes = 7
admin = 127.0.0.1:5
admin_hosts = a b.example.org
health = 127.0.0.1:6
pprof = 1
backup_dir = /backups
resp = 127.0.0.1:8
http = 127.0.0.1:9
riak =
client_tls = /certs
insecure_clients = 1
listen = 127.0.0.1:7
node = a
peers = a=127.0.0.1:7
cluster = c
tls =
insecure = 1
cluster_n = 1
cluster_r = 1
cluster_w = 1
cluster_dw = 1
cluster_buckets = 16
cluster_slices = 32
cluster_copy_bytes_per_second = 3000000000
timer_slack = 1ms
log = json
max_connections = 6
max_line = 2048
idle = 1m30s
`
	path := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	ignored, err := c.Load(path, func(string) string { return "" })
	if err != nil || len(ignored) != 1 || !strings.Contains(ignored[0], "udp_port = 2") {
		t.Fatal(ignored, err)
	}
	if got := printed(t, c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if c.Durability != bigset.FilterSync || c.Address() != "[::1]:1" {
		t.Errorf("got durability %v, address %s", c.Durability, c.Address())
	}
}

// TestBloomdDefaults has the figures of bloomd's own code.
func TestBloomdDefaults(t *testing.T) {
	want := `[bloomd]
tcp_port = 8673
udp_port = 8674
bind_address = 0.0.0.0
data_dir = /tmp/bloomd
log_level = DEBUG
initial_capacity = 100000
default_probability = 0.0001
scale_size = 4
probability_reduction = 0.9
flush_interval = 60
cold_interval = 3600
in_memory = 0
use_mmap = 0
workers = 1
durability = interval
set_durability = always
present_adds = write
filter_cache = 268435456
max_capacity = 1073741824
max_filters = 100000
max_filter_bytes = 8589934592
max_total_bytes = 137438953472
max_in_memory_bytes = 1073741824
admin =
admin_hosts =
health =
pprof = 0
backup_dir =
resp =
http =
riak =
client_tls =
insecure_clients = 0
listen =
node =
peers =
cluster =
tls =
insecure = 0
cluster_n = 0
cluster_r = 0
cluster_w = 0
cluster_dw = 0
cluster_buckets = 0
cluster_slices = 0
cluster_copy_bytes_per_second = 0
timer_slack = 0s
log = syslog
max_connections = 10000
max_line = 67108864
idle = 0s
`
	if got := printed(t, BloomdDefaults()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// FuzzReadINI wants no panic, and of every key a line that has it.
func FuzzReadINI(f *testing.F) {
	f.Add("[bloomd]\ntcp_port = 1 ; one\n:\n=\n[x\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := readINI(text)
		if err != nil {
			return
		}
		lines := strings.Split(text, "\n")
		for key, v := range file.values {
			if v.line < 1 || v.line > len(lines) || !strings.Contains(lines[v.line-1], v.text) {
				t.Errorf("%q = %q is said to be on line %d", key, v.text, v.line)
			}
		}
	})
}

// TestBloomdOfMember: a member of a cluster serves bloomd's protocol if its configuration has the address, wherever that stands.
func TestBloomdOfMember(t *testing.T) {
	for key, want := range map[string]bool{"": false, "BIGSET_BLOOMD": true, "BIGSET_TCP_PORT": true, "BIGSET_BIND_ADDRESS": true, "BIGSET_ADMIN": false} {
		c := Defaults()
		_, err := c.Load("", func(name string) string {
			if name != key {
				return ""
			}
			return map[string]string{"BIGSET_TCP_PORT": "7", "BIGSET_BIND_ADDRESS": "127.0.0.2"}[name] + map[string]string{"BIGSET_BLOOMD": "127.0.0.2:7", "BIGSET_ADMIN": "127.0.0.1:8"}[name]
		})
		if err != nil || c.Peers.Bloomd != want {
			t.Errorf("%q in the environment: %t, %v", key, c.Peers.Bloomd, err)
		}
	}
}

// TestPresentAdds: adds of present elements are skipped without a cluster only.
func TestPresentAdds(t *testing.T) {
	c := Defaults()
	c.SkipPresent = true
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Peers.Node, c.Peers.Peers, c.Peers.Insecure = "a", "a=127.0.0.1:7", true
	if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "present_adds") {
		t.Errorf("with peers: %v", err)
	}
}

// TestSlack: a member of a cluster has a timer slack, and a node alone has none, unless the configuration chooses one.
func TestSlack(t *testing.T) {
	for _, c := range []struct {
		peers, set string
		want       time.Duration
	}{
		{"", "", 0}, {"", "2ms", 2 * time.Millisecond}, {"a=10.0.0.1:8690", "", time.Millisecond}, {"a=10.0.0.1:8690", "0", 0}, {"a=10.0.0.1:8690", "50us", 50 * time.Microsecond},
	} {
		conf := Defaults()
		conf.Peers.Peers = c.peers
		if c.set != "" {
			if err := conf.Set("timer_slack", c.set); err != nil {
				t.Fatal(err)
			}
		}
		if got := conf.Slack(); got != c.want {
			t.Errorf("peers %q, timer_slack %q: a slack of %v, not %v", c.peers, c.set, got, c.want)
		}
	}
}
