package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/ring"
)

// valueKind says how bloomd parses a value: a number ends at the first character that does not belong to it.
type valueKind byte

const (
	word valueKind = iota
	integer
	fraction
)

// setting is one key, with how its text is parsed (strictly) and printed.
type setting struct {
	key           string
	kind          valueKind
	alias         bool   // of another key, which is printed instead
	zeroIsDefault bool   // in a file, 0 or text that is not a number changes nothing
	unused        string // why the setting has no effect; a value other than bloomd's default is reported
	set           func(c *Config, value string) error
	get           func(c *Config) string
}

// settings are all keys, bloomd's own first. If a file has both a key and its alias, the later entry here counts.
var settings = []setting{
	aliasOf("port", number("tcp_port", 0, 65535, func(c *Config) *int { return &c.Port })),
	number("tcp_port", 0, 65535, func(c *Config) *int { return &c.Port }),
	unused("UDP is not served", number("udp_port", 0, 65535, func(c *Config) *int { return &c.UDPPort })),
	text("bind_address", setBindAddress, func(c *Config) string { return c.BindAddress }),
	text("data_dir", setDataDir, func(c *Config) string { return c.DataDir }),
	text("log_level", setLogLevel, func(c *Config) string { return levelName(c.LogLevel) }),
	number("initial_capacity", bloomslice.CapacityMin+1, 1<<53, func(c *Config) *uint64 { return &c.Filters.Capacity }),
	{key: "default_probability", kind: fraction, zeroIsDefault: true, set: setProbability,
		get: func(c *Config) string { return formatFloat(c.Filters.Probability) }},
	{key: "scale_size", kind: integer, set: setScale,
		get: func(c *Config) string { return strconv.Itoa(int(c.Filters.Scale)) }},
	{key: "probability_reduction", kind: fraction, set: setReduction,
		get: func(c *Config) string { return formatFloat(c.Filters.Reduction) }},
	seconds("flush_interval", func(c *Config) *time.Duration { return &c.FlushInterval }),
	seconds("cold_interval", func(c *Config) *time.Duration { return &c.ColdInterval }),
	flag("in_memory", func(c *Config) *bool { return &c.InMemory }),
	flag("use_mmap", func(c *Config) *bool { return &c.UseMmap }),
	number("workers", 1, 1<<20, func(c *Config) *int { return &c.Workers }),

	text("durability", setDurability, func(c *Config) string { return durabilityNames[c.durability()] }),
	text("set_durability", setSetDurability, func(c *Config) string { return setDurabilityNames[c.SetDurability] }),
	text("present_adds", setPresentAdds, func(c *Config) string { return presentAdds[c.SkipPresent] }),
	number("filter_cache", 1<<20, math.MaxInt, func(c *Config) *int { return &c.FilterCache }),
	number("max_capacity", 0, 1<<53, func(c *Config) *uint64 { return &c.MaxCapacity }),
	number("max_filters", 0, math.MaxInt32, func(c *Config) *int { return &c.MaxFilters }),
	number("max_filter_bytes", 0, 1<<53, func(c *Config) *uint64 { return &c.MaxFilterBytes }),
	number("max_total_bytes", 0, 1<<60, func(c *Config) *uint64 { return &c.MaxTotalBytes }),
	number("max_in_memory_bytes", 0, math.MaxInt, func(c *Config) *int { return &c.MaxInMemoryBytes }),
	address("admin", "127.0.0.1:8680", func(c *Config) *string { return &c.Admin }),
	text("admin_hosts", setAdminHosts, func(c *Config) string { return strings.Join(c.AdminHosts, " ") }),
	address("health", "127.0.0.1:8681", func(c *Config) *string { return &c.Health }),
	flag("pprof", func(c *Config) *bool { return &c.Pprof }),
	text("backup_dir", setBackupDir, func(c *Config) string { return c.BackupDir }),
	address("resp", "127.0.0.1:6379", func(c *Config) *string { return &c.Resp }),
	address("http", "127.0.0.1:8682", func(c *Config) *string { return &c.HTTP }),
	address("riak", "127.0.0.1:8087", func(c *Config) *string { return &c.Riak }),
	plainText("client_tls", func(c *Config) *string { return &c.ClientTLS }),
	flag("insecure_clients", func(c *Config) *bool { return &c.InsecureClients }),
	address("listen", "127.0.0.1:8690", func(c *Config) *string { return &c.Peers.Listen }),
	plainText("node", func(c *Config) *string { return &c.Peers.Node }),
	plainText("peers", func(c *Config) *string { return &c.Peers.Peers }),
	plainText("cluster", func(c *Config) *string { return &c.Peers.Cluster }),
	plainText("tls", func(c *Config) *string { return &c.Peers.TLS }),
	flag("insecure", func(c *Config) *bool { return &c.Peers.Insecure }),
	number("cluster_n", 0, ring.CopiesMax, func(c *Config) *int { return &c.Peers.Settings.N }),
	number("cluster_r", 0, ring.CopiesMax, func(c *Config) *int { return &c.Peers.Settings.R }),
	number("cluster_w", 0, ring.CopiesMax, func(c *Config) *int { return &c.Peers.Settings.W }),
	number("cluster_dw", 0, ring.CopiesMax, func(c *Config) *int { return &c.Peers.Settings.DW }),
	number("cluster_buckets", 0, ring.BucketsMax, func(c *Config) *int { return &c.Peers.Settings.Buckets }),
	number("cluster_slices", 0, ring.SlicesMax, func(c *Config) *int { return &c.Peers.Settings.Slices }),
	number("cluster_copy_bytes_per_second", 0, math.MaxInt64, func(c *Config) *int64 { return &c.Peers.CopyBytesPerSecond }),
	text("timer_slack", setTimerSlack, func(c *Config) string { return c.Slack().String() }),
	text("log", setLog, func(c *Config) string { return c.Log }),
	number("max_connections", 1, 1<<20, func(c *Config) *int { return &c.MaxConnections }),
	number("max_line", 1<<10, 1<<30, func(c *Config) *int { return &c.MaxLine }),
	text("idle", setIdle, func(c *Config) string { return c.Idle.String() }),
}

func text(key string, set func(*Config, string) error, get func(*Config) string) setting {
	return setting{key: key, set: set, get: get}
}

// plainText is a setting of any text; Validate checks what it means.
func plainText(key string, field func(*Config) *string) setting {
	return text(key, func(c *Config, value string) error { *field(c) = value; return nil }, func(c *Config) string { return *field(c) })
}

func aliasOf(key string, s setting) setting {
	s.key, s.alias = key, true
	return s
}

func unused(why string, s setting) setting {
	s.unused = why
	return s
}

// number is a setting that is an integer from least to most.
func number[T int | int64 | uint64](key string, least, most T, field func(*Config) *T) setting {
	return setting{key: key, kind: integer,
		set: func(c *Config, value string) error {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < int64(least) || n > int64(most) {
				return fmt.Errorf("it is a number from %d to %d", least, most)
			}
			*field(c) = T(n)
			return nil
		},
		get: func(c *Config) string { return fmt.Sprint(*field(c)) },
	}
}

// seconds is a setting in seconds; 0 means never.
func seconds(key string, field func(*Config) *time.Duration) setting {
	return setting{key: key, kind: integer,
		set: func(c *Config, value string) error {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return errors.New("it is a number of seconds, 0 for never")
			}
			*field(c) = time.Duration(n) * time.Second
			return nil
		},
		get: func(c *Config) string { return strconv.Itoa(int(*field(c) / time.Second)) },
	}
}

// flag is a setting that is 0 or 1.
func flag(key string, field func(*Config) *bool) setting {
	return setting{key: key, kind: integer,
		set: func(c *Config, value string) error {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > 1 {
				return errors.New("it is 0 or 1")
			}
			*field(c) = n == 1
			return nil
		},
		get: func(c *Config) string {
			if *field(c) {
				return "1"
			}
			return "0"
		},
	}
}

// address is a setting that is the address to listen on, or empty.
func address(key, instance string, field func(*Config) *string) setting {
	return setting{key: key,
		set: func(c *Config, value string) error {
			if _, _, err := net.SplitHostPort(value); value != "" && err != nil {
				return fmt.Errorf("it is HOST:PORT, for instance %s, or empty for none", instance)
			}
			*field(c) = value
			return nil
		},
		get: func(c *Config) string { return *field(c) },
	}
}

func setBindAddress(c *Config, value string) error {
	if _, err := netip.ParseAddr(value); value != "" && err != nil {
		return errors.New("it is an IP address, for instance 0.0.0.0, or empty for all")
	}
	c.BindAddress = value
	return nil
}

func setDataDir(c *Config, value string) error {
	if value == "" {
		return errors.New("it is the path of a folder")
	}
	c.DataDir = value
	return nil
}

// levelCritical is bloomd's highest level. No record of the node is above an error.
const levelCritical = slog.LevelError + 4

var levels = map[string]slog.Level{
	"DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError, "CRITICAL": levelCritical,
}

func setLogLevel(c *Config, value string) error {
	level, ok := levels[strings.ToUpper(value)]
	if !ok {
		return errors.New("it is DEBUG, INFO, WARN, ERROR or CRITICAL")
	}
	c.LogLevel = level
	return nil
}

func levelName(level slog.Level) string {
	if level == levelCritical {
		return "CRITICAL"
	}
	return level.String()
}

func setProbability(c *Config, value string) error {
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || !(p > 0 && p < bloomslice.ProbabilityMax) {
		return fmt.Errorf("it is above 0 and below %v", bloomslice.ProbabilityMax)
	}
	c.Filters.Probability = p
	return nil
}

func setScale(c *Config, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n != 2 && n != 4 {
		return errors.New("it is 2 or 4")
	}
	c.Filters.Scale = uint32(n)
	return nil
}

func setReduction(c *Config, value string) error {
	r, err := strconv.ParseFloat(value, 64)
	if err != nil || !(r > 0.1 && r < 1) {
		return errors.New("it is above 0.1 and below 1")
	}
	c.Filters.Reduction = r
	return nil
}

var durabilityNames = map[bigset.FilterDurability]string{
	bigset.FilterInterval: "interval", bigset.FilterLog: "log", bigset.FilterSync: "sync",
}

func setDurability(c *Config, value string) error {
	for d, name := range durabilityNames {
		if strings.EqualFold(value, name) {
			c.Durability = d
			return nil
		}
	}
	return errors.New("it is interval, log or sync")
}

// setDurabilityNames are the names that redis uses.
var setDurabilityNames = []string{SetsAlways: "always", SetsEverySecond: "everysec", SetsNo: "no"}

func setSetDurability(c *Config, value string) error {
	for d, name := range setDurabilityNames {
		if strings.EqualFold(value, name) {
			c.SetDurability = SetDurability(d)
			return nil
		}
	}
	return errors.New("it is always, everysec or no")
}

// presentAdds are the names of what an add of an element that is present does.
var presentAdds = map[bool]string{false: "write", true: "skip"}

func setPresentAdds(c *Config, value string) error {
	for skip, name := range presentAdds {
		if strings.EqualFold(value, name) {
			c.SkipPresent = skip
			return nil
		}
	}
	return errors.New("it is write or skip")
}

func setAdminHosts(c *Config, value string) error {
	hosts := strings.Fields(strings.ReplaceAll(value, ",", " "))
	for _, h := range hosts {
		if strings.ContainsAny(h, ":/") {
			return fmt.Errorf("%q is not the name of a host: names stand without scheme and port, spaces between them", h)
		}
	}
	c.AdminHosts = hosts
	return nil
}

func setBackupDir(c *Config, value string) error {
	if value != "" && !filepath.IsAbs(value) {
		return errors.New("it is the absolute path of a folder, or empty for none")
	}
	c.BackupDir = value
	return nil
}

func setLog(c *Config, value string) error {
	switch value = strings.ToLower(value); value {
	case LogText, LogJSON, LogSyslog:
		c.Log = value
		return nil
	}
	return errors.New("it is text, json or syslog")
}

func setIdle(c *Config, value string) error {
	d, err := time.ParseDuration(value)
	if n, e := strconv.ParseInt(value, 10, 32); e == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return errors.New("it is a time such as 90s or 5m, 0 for never")
	}
	c.Idle = d
	return nil
}

// timerSlackMax bounds timer_slack: pings and hedged reads wait for tens of milliseconds.
const timerSlackMax = 10 * time.Millisecond

func setTimerSlack(c *Config, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > timerSlackMax {
		return fmt.Errorf("it is a time from 0 to %v, such as 1ms; 0 leaves it as the system has it", timerSlackMax)
	}
	c.TimerSlack = d
	return nil
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
