package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Greatest values.
const (
	sizeMax     = 1 << 30       // elements
	countMax    = 1_000_000_000 // of an absolute count
	shareMax    = 100_000       // of the size
	durationMax = 7 * 24 * time.Hour
	rateMax     = 100_000_000 // operations a second
	bytesMax    = 1 << 40
)

var scales = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9}

var units = map[string]float64{"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// split cuts a number from the letters behind it: "64 MiB" is 64 and MiB. Underscores may stand between digits.
func split(s string) (value float64, unit string, ok bool) {
	at := strings.IndexFunc(s, func(c rune) bool { return (c < '0' || c > '9') && c != '.' && c != '_' })
	if at < 0 {
		at = len(s)
	}
	digits := s[:at]
	if digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return 0, "", false
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
	return value, strings.TrimSpace(s[at:]), err == nil
}

// scaled is a number with a unit of some kind.
func scaled(s string, by map[string]float64) (float64, bool) {
	value, unit, ok := split(s)
	scale, known := by[unit]
	return value * scale, ok && known
}

// whole reads a number without a fraction, such as 120k, 10M or 1_000_000.
func (r *reader) whole(n *yaml.Node, what string, least, most int) int {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, scales)
	switch {
	case !ok || v != math.Trunc(v):
		r.wrong(n, "%q for %s: it must be a whole number, such as 50, 120k or 10M", short(s), what)
	case v < float64(least) || v > float64(most):
		r.wrong(n, "%s is %s: it must be %s to %s", what, s, grouped(least), grouped(most))
	default:
		return int(v)
	}
	return 0
}

// number reads a number that may have a fraction.
func (r *reader) number(n *yaml.Node, what string, most float64) float64 {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, scales)
	switch {
	case !ok:
		r.wrong(n, "%q for %s: it must be a number, such as 0.5, 1000 or 10k", short(s), what)
	case v <= 0 || v > most:
		r.wrong(n, "%s is %s: it must be above 0 and at most %s", what, s, grouped(int(most)))
	default:
		return v
	}
	return 0
}

// share reads a number above 0 and below 1, or at most 1 where one is allowed, which may be written as percents.
func (r *reader) share(n *yaml.Node, what string, one bool) float64 {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, map[string]float64{"": 1, "%": 0.01})
	switch {
	case !ok:
		r.wrong(n, "%q for %s: it must be a share, such as 0.2 or 20%%", short(s), what)
	case one && (v <= 0 || v > 1):
		r.wrong(n, "%s is %s: it must be above 0 and at most 1 (100%%)", what, s)
	case !one && (v <= 0 || v >= 1):
		r.wrong(n, "%s is %s: it must be above 0 and below 1 (100%%)", what, s)
	default:
		return v
	}
	return 0
}

// count reads a number of things: absolute, or a share of the size in percents.
func (r *reader) count(n *yaml.Node, what string, most int) Count {
	s, ok := r.text(n, what)
	if !ok {
		return Count{}
	}
	if v, unit, ok := split(s); ok && unit == "%" {
		if of := v / 100; of > 0 && of <= shareMax {
			return Count{Of: of}
		}
		r.wrong(n, "%s is %s: a share of the size must be above 0%% and at most %s%%", what, s, grouped(shareMax*100))
		return Count{}
	}
	v, ok := scaled(s, scales)
	switch {
	case !ok || v != math.Trunc(v):
		r.wrong(n, "%q for %s: it must be a whole number (120k) or a share of the size (50%%)", short(s), what)
	case v < 1 || v > float64(most):
		r.wrong(n, "%s is %s: it must be 1 to %s, or a share of the size (50%%)", what, s, grouped(most))
	default:
		return Count{Absolute: int(v)}
	}
	return Count{}
}

// bytes reads a size in bytes.
func (r *reader) bytes(n *yaml.Node, what string, least, most int64) int64 {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, units)
	switch {
	case !ok || v != math.Trunc(v):
		r.wrong(n, "%q for %s: it must be bytes, such as 64MiB, 4 KiB or 4096", short(s), what)
	case v < float64(least) || v > float64(most):
		r.wrong(n, "%s is %s: it must be %s to %s", what, s, inBytes(least), inBytes(most))
	default:
		return int64(v)
	}
	return 0
}

func (r *reader) duration(n *yaml.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	switch {
	case err != nil:
		r.wrong(n, "%q for %s: it must be a time, such as 10s or 1m30s", short(s), what)
	case d < time.Millisecond || d > durationMax:
		r.wrong(n, "%s is %s: it must be 1ms to %s", what, s, durationMax)
	default:
		return d
	}
	return 0
}

// grouped writes a number with commas.
func grouped(v int) string {
	s := strconv.Itoa(v)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

func inBytes(v int64) string {
	for _, u := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(units[u]); v >= size && v%size == 0 {
			return fmt.Sprintf("%d%s", v/size, u)
		}
	}
	return grouped(int(v))
}
