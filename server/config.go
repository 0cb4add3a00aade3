package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/internal/timerslack"
)

// ErrConfig is in the chain of every error about a configuration.
var ErrConfig = errors.New("server: bad configuration")

// Config is the configuration of a node. Its fields are the keys of the section [bloomd] of bloomd's INI file, and some of our own, which
// bloomd skips. Start with Defaults or BloomdDefaults.
type Config struct {
	DataDir     string // the store's folder
	BindAddress string // for bloomd's protocol: an IP address, or with --bloomd anything net.Listen takes; empty means all addresses
	Port        int    // 0 means any free port
	UDPPort     int    // read but not used: bloomd answers nothing there either, and nothing is bound

	LogLevel slog.Level
	Log      string // destination and format; text and json go to standard error

	// Filters are the defaults for options that create does not name. A filter keeps the options it was made with.
	Filters  bloomslice.Options
	InMemory bool

	FlushInterval time.Duration // how often filters are flushed; 0 means never
	ColdInterval  time.Duration // how often filters that were not used since are closed; 0 means never
	UseMmap       bool          // if Durability is not set, this means FilterLog
	Workers       int           // above 1: number of event loops, at most 256; otherwise half as many as processors
	// Durability says when the answer to a set is sent. FilterServer means FilterLog with UseMmap, otherwise FilterInterval.
	Durability bigset.FilterDurability

	// SetDurability says when a change of a set is answered if the request does not say so itself.
	SetDurability SetDurability
	// SkipPresent makes adds of elements that are present write nothing. It is for a node without a cluster.
	SkipPresent bool

	FilterCache int // bytes of memory for the bits of filters; filters in memory only are not included

	// What clients may make; 0 means no limit. Existing filters are served, whatever they take.
	MaxCapacity      uint64 // keys of one filter
	MaxFilters       int    // number of filters
	MaxFilterBytes   uint64 // bytes of the bits of one filter
	MaxTotalBytes    uint64 // bytes of the bits of all filters
	MaxInMemoryBytes int    // bytes of memory of the filters in memory only

	Admin          string        // address of the admin port; empty means none
	AdminHosts     []string      // names by which clients may ask for the admin port, the health port and HTTP, beside those in their addresses, localhost, and any IP address
	Health         string        // address of the health port, which answers only /healthz and /readyz; empty means none
	Pprof          bool          // whether the admin port serves profiles
	BackupDir      string        // absolute path of the folder below which the admin port makes backups; empty means none are made
	MaxConnections int           // of bloomd's protocol; further ones are closed
	MaxLine        int           // bytes of one line
	Idle           time.Duration // a connection without requests for this long is closed; 0 means never

	Resp            string // address for clients of redis; empty means none
	HTTP            string // address for HTTP clients and the console; empty means none
	Riak            string // address for Riak clients by protocol buffers; empty means none
	ClientTLS       string // folder of a node's certificates, with which Resp, HTTP and Riak use TLS; empty means no TLS
	InsecureClients bool   // whether other machines may reach Resp, HTTP and Riak without TLS, or without a token while no tokens exist
	Version         string // of the program, reported to those clients

	// Peers is the port for nodes and clients, and the cluster.
	Peers Peers

	// TimerSlack is how late timers may be at least, on Linux; see Slack. Start does not set it: a program that wants it calls package timerslack
	// before it does anything else.
	TimerSlack time.Duration

	// Store are the options of the store that the fields above do not set; nil means the defaults.
	Store *engine.Options
}

// SetDurability says when a change of a set is answered.
type SetDurability byte

// Durabilities of sets.
const (
	SetsAlways      SetDurability = iota // when it is on disk; in a cluster, on as many disks as the cluster's DW says
	SetsEverySecond                      // at once; it is on disk a second later
	SetsNo                               // at once; the system or the store writes it to disk at some time
)

// The formats of a log.
const (
	LogText   = "text"
	LogJSON   = "json"
	LogSyslog = "syslog"
)

// Defaults are those of `bigset serve`: bloomd's, but only this machine can reach the server until the configuration says otherwise.
func Defaults() Config {
	return Config{
		DataDir: "./bigset-data", BindAddress: "127.0.0.1", Port: 8673, UDPPort: 8674,
		LogLevel: slog.LevelInfo, Log: LogText,
		Filters:       bloomslice.DefaultOptions(),
		FlushInterval: time.Minute, ColdInterval: time.Hour, Workers: 1, FilterCache: 256 << 20,
		MaxCapacity: 1 << 30, MaxFilters: 100_000, MaxFilterBytes: 8 << 30, MaxTotalBytes: 128 << 30, MaxInMemoryBytes: 1 << 30,
		MaxConnections: 10_000, MaxLine: 64 << 20, TimerSlack: slackOfNode,
	}
}

// BloomdDefaults are the defaults of a program that is started under the name bloomd.
func BloomdDefaults() Config {
	c := Defaults()
	c.DataDir, c.BindAddress, c.LogLevel, c.Log = "/tmp/bloomd", "0.0.0.0", slog.LevelDebug, LogSyslog
	return c
}

// Address returns the address at which bloomd's protocol is served.
func (c *Config) Address() string { return net.JoinHostPort(c.BindAddress, strconv.Itoa(c.Port)) }

// durability returns when the answer to a set is sent.
func (c *Config) durability() bigset.FilterDurability {
	switch {
	case c.Durability != bigset.FilterServer:
		return c.Durability
	case c.Peers.Peers != "":
		return durabilityInCluster
	case c.UseMmap:
		return bigset.FilterLog
	}
	return bigset.FilterInterval
}

// slackOfNode is the TimerSlack of a node whose configuration does not choose one.
const slackOfNode = -1

// Slack returns the least timer slack of the process. 0 leaves it as the system has it, which is the default of a node without peers. The default of a
// member of a cluster is timerslack.Node.
func (c *Config) Slack() time.Duration {
	switch {
	case c.TimerSlack != slackOfNode:
		return c.TimerSlack
	case c.Peers.Peers != "":
		return timerslack.Node
	}
	return 0
}

// Load applies the file, if path is not empty, and then the environment (BIGSET_ and the key in capitals). It returns sentences about what
// it ignored. Errors are ErrConfig and name the file and the line.
func (c *Config) Load(path string, getenv func(string) string) (ignored []string, err error) {
	if path != "" {
		if ignored, err = c.loadFile(path); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
		}
	}
	for _, s := range settings {
		name := "BIGSET_" + strings.ToUpper(s.key)
		value := getenv(name)
		if value == "" || s.alias { // orchestrators set BIGSET_PORT to the address of a service named bigset
			continue
		}
		if err := s.set(c, value); err != nil {
			return nil, fmt.Errorf("%w: environment: %s = %s: %w", ErrConfig, name, value, err)
		}
		c.Peers.Bloomd = c.Peers.Bloomd || s.isAddress()
		if s.changed(c) {
			ignored = append(ignored, fmt.Sprintf("environment: %s = %s: it has no effect: %s", name, value, s.unused))
		}
	}
	if address := getenv("BIGSET_BLOOMD"); address != "" {
		if err := c.Listen(address); err != nil {
			return nil, fmt.Errorf("%w, in the environment as BIGSET_BLOOMD", err)
		}
	}
	return ignored, nil
}

func (c *Config) loadFile(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err // the path is named already
		}
		return nil, err
	}
	f, err := readINI(string(text))
	if err != nil {
		return nil, err
	}
	lines := map[int]string{} // what is ignored, by line
	ignore := func(line int, format string, args ...any) {
		lines[line] = fmt.Sprintf("%s: line %d: ", path, line) + fmt.Sprintf(format, args...)
	}
	for _, line := range f.ignored {
		ignore(line, "neither a key nor a comment, it is ignored")
	}
	for _, s := range settings {
		v, ok := f.values[s.key]
		if !ok {
			continue
		}
		delete(f.values, s.key)
		value := v.text
		if s.kind != word {
			number, rest := cutNumber(value, s.kind == fraction)
			if rest != "" {
				ignore(v.line, "%s = %s is read as %s", s.key, value, number)
			}
			value = number
		}
		if s.zeroIsDefault && isZero(value) {
			ignore(v.line, "%s = %s keeps the default", s.key, v.text)
			continue
		}
		if err := s.set(c, value); err != nil {
			return nil, fmt.Errorf("line %d: %s = %s: %w", v.line, s.key, v.text, err)
		}
		c.Peers.Bloomd = c.Peers.Bloomd || s.isAddress()
		if s.changed(c) {
			ignore(v.line, "%s = %s: it has no effect: %s", s.key, value, s.unused)
		}
	}
	for key, v := range f.values {
		ignore(v.line, "no key %q is known, it is ignored", key)
	}
	var ignored []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		ignored = append(ignored, lines[line])
	}
	return ignored, nil
}

// isAddress reports whether the key is part of the address of bloomd's protocol. A node of a cluster whose configuration sets such a key
// serves the protocol.
func (s *setting) isAddress() bool {
	return s.key == "tcp_port" || s.key == "port" || s.key == "bind_address"
}

// changed reports whether an unused key has a value other than bloomd's default: the operator may expect an effect.
func (s *setting) changed(c *Config) bool {
	was := BloomdDefaults()
	return s.unused != "" && s.get(c) != s.get(&was)
}

func isZero(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && f == 0
}

// Set changes one key, as a flag does.
func (c *Config) Set(key, value string) error {
	for _, s := range settings {
		if s.key == key {
			if err := s.set(c, value); err != nil {
				return fmt.Errorf("%w: %s = %s: %w", ErrConfig, key, value, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: no key %q", ErrConfig, key)
}

// Listen sets the address at which bloomd's protocol is served, from HOST:PORT.
func (c *Config) Listen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: address %q: it is HOST:PORT, for instance 127.0.0.1:8673", ErrConfig, address)
	}
	if err := c.Set("tcp_port", port); err != nil {
		return err
	}
	c.BindAddress, c.Peers.Bloomd = host, true
	return nil
}

// Validate returns an ErrConfig if values that are valid by themselves do not fit together: no filter could be made with them, or backups
// would be in the data folder.
func (c *Config) Validate() error {
	if err := c.Filters.Validate(); err != nil {
		return fmt.Errorf("%w: initial_capacity and default_probability: %v", ErrConfig, err) // %v: the error is about the configuration and wraps nothing else
	}
	if c.MaxCapacity > 0 && c.Filters.Capacity > c.MaxCapacity {
		return fmt.Errorf("%w: initial_capacity is %d, and max_capacity allows %d", ErrConfig, c.Filters.Capacity, c.MaxCapacity)
	}
	if c.InMemory && c.Peers.Peers != "" {
		return fmt.Errorf("%w: in_memory with peers: members of a cluster could not copy filters that are in memory only", ErrConfig)
	}
	if c.SkipPresent && c.Peers.Peers != "" {
		return fmt.Errorf("%w: present_adds = skip with peers: a remove at another member that has not come yet would take away an element whose add was acknowledged", ErrConfig)
	}
	if c.ClientTLS != "" && c.Resp == "" && c.HTTP == "" && c.Riak == "" {
		return fmt.Errorf("%w: --client-tls is for --resp, --http and --riak: give one of these; bloomd's protocol and the admin port have no TLS", ErrConfig)
	}
	return errors.Join(c.Peers.check(), c.checkDoor("--resp", c.Resp), c.checkDoor("--http", c.HTTP), c.checkDoor("--riak", c.Riak), c.checkBackupDir())
}

// filterLimits returns engine.Options.FilterLimits.
func (c *Config) filterLimits() filters.Limits {
	return filters.Limits{Capacity: c.MaxCapacity, Filters: c.MaxFilters, Bytes: c.MaxFilterBytes, TotalBytes: c.MaxTotalBytes,
		MemoryBytes: int64(c.MaxInMemoryBytes)}
}

// checkBackupDir returns an ErrConfig if backups would be in the data folder, by their names or through links that exist now.
func (c *Config) checkBackupDir() error {
	if c.BackupDir == "" {
		return nil
	}
	data, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("%w: data_dir: %w", ErrConfig, err)
	}
	if isWithin(c.BackupDir, data) || isWithin(followLinks(c.BackupDir), followLinks(data)) {
		return fmt.Errorf("%w: backup_dir %s is within the data folder %s", ErrConfig, c.BackupDir, c.DataDir)
	}
	return nil
}

func isWithin(path, folder string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(below)
}

// followLinks returns where an absolute path leads. A part of it that does not exist yet, or can't be read, stays unchanged.
func followLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent, name := filepath.Split(filepath.Clean(path))
	if name == "" {
		return path
	}
	return filepath.Join(followLinks(filepath.Clean(parent)), name)
}

// loopsMost bounds the event loops that workers may ask for: each has three file descriptors.
const loopsMost = 256

// loops returns door.Options.Loops.
func (c *Config) loops() int {
	if c.Workers <= 1 {
		return 0 // bloomd's default, which many files contain
	}
	return min(c.Workers, loopsMost)
}

// Print writes the configuration as a file that Load reads.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("[bloomd]\n")
	for _, s := range settings {
		if s.alias || s.isAddress() && c.Peers.Peers != "" && !c.Peers.Bloomd {
			continue
		}
		b.WriteString(strings.TrimSuffix(s.key+" = "+s.get(c), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
