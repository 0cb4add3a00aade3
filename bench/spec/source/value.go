package source

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

const durationMax = 7 * 24 * time.Hour

var scales = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9}

var units = map[string]float64{"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// split separates a number from the letters after it: "64 MiB" is 64 and MiB. Underscores may separate digits. A number may be negative, so
// that the error for it names the limits.
func split(s string) (value float64, unit string, ok bool) {
	if rest, negative := strings.CutPrefix(s, "-"); negative && !strings.HasPrefix(rest, "-") {
		value, unit, ok = split(rest)
		return -value, unit, ok
	}
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

// scaled returns a number with a unit. A number that is whole except for floating-point rounding is rounded: 1.001k is 1001.
func scaled(s string, by map[string]float64) (float64, bool) {
	value, unit, ok := split(s)
	scale, known := by[unit]
	v := value * scale
	if whole := math.Round(v); math.Abs(v-whole) <= 1e-15*math.Abs(whole) {
		v = whole
	}
	return v, ok && known
}

// wholeForm describes a whole number in errors.
const wholeForm = "a whole number, such as 50, 120k or 10M"

// Whole returns the number that a text stands for, such as 120k, 10M or 1_000_000. It must be at least 1.
func Whole(s string) (int, error) {
	v, ok := scaled(s, scales)
	if !ok || v != math.Trunc(v) || v < 1 || v > math.MaxInt32 {
		return 0, fmt.Errorf("%q: it must be %s, from 1 to %s", Short(s), wholeForm, Grouped(math.MaxInt32))
	}
	return int(v), nil
}

// Whole reads a number without a fraction, such as 120k, 10M or 1_000_000.
func (r *Reader) Whole(n *yaml.Node, what string, least, most int) int {
	return int(r.whole(n, what, wholeForm, scales, int64(least), int64(most), func(v int64) string { return Grouped(int(v)) }))
}

// Bytes reads a size in bytes.
func (r *Reader) Bytes(n *yaml.Node, what string, least, most int64) int64 {
	return r.whole(n, what, "bytes, such as 64MiB, 4 KiB or 4096", units, least, most, inBytes)
}

// whole reads a number with a unit and without a fraction. form describes its form, text writes a limit.
func (r *Reader) whole(n *yaml.Node, what, form string, by map[string]float64, least, most int64, text func(int64) string) int64 {
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, by)
	switch {
	case !ok || v != math.Trunc(v):
		r.Wrong(n, "%q for %s: it must be %s", Short(s), what, form)
	case v < float64(least) || v > float64(most):
		r.Wrong(n, "%s is %s: it must be %s to %s", what, s, text(least), text(most))
	default:
		return int64(v)
	}
	return 0
}

// Number reads a number that may have a fraction.
func (r *Reader) Number(n *yaml.Node, what string, most float64) float64 {
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, scales)
	switch {
	case !ok:
		r.Wrong(n, "%q for %s: it must be a number, such as 0.5, 1000 or 10k", Short(s), what)
	case v <= 0 || v > most:
		r.Wrong(n, "%s is %s: it must be above 0 and at most %s", what, s, Grouped(int(most)))
	default:
		return v
	}
	return 0
}

// Share reads a number above 0 and below 1, or at most 1 if one is set. It may be written in percent.
func (r *Reader) Share(n *yaml.Node, what string, one bool) float64 {
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	v, ok := scaled(s, map[string]float64{"": 1, "%": 0.01})
	switch {
	case !ok:
		r.Wrong(n, "%q for %s: it must be a share, such as 0.2 or 20%%", Short(s), what)
	case one && (v <= 0 || v > 1):
		r.Wrong(n, "%s is %s: it must be above 0 and at most 1 (100%%)", what, s)
	case !one && (v <= 0 || v >= 1):
		r.Wrong(n, "%s is %s: it must be above 0 and below 1 (100%%)", what, s)
	default:
		return v
	}
	return 0
}

// Amount reads a number of items: absolute, from 1 to most, or a share of something else in percent, above 0 and at most shares times it.
func (r *Reader) Amount(n *yaml.Node, what string, most, shares int) (of float64, absolute int) {
	s, ok := r.Text(n, what)
	if !ok {
		return 0, 0
	}
	if v, unit, ok := split(s); ok && unit == "%" {
		if of := v / 100; of > 0 && of <= float64(shares) {
			return of, 0
		}
		r.Wrong(n, "%s is %s: a share of the size must be above 0%% and at most %s%%", what, s, Grouped(shares*100))
		return 0, 0
	}
	v, ok := scaled(s, scales)
	switch {
	case !ok || v != math.Trunc(v):
		r.Wrong(n, "%q for %s: it must be a whole number (120k) or a share of the size (50%%)", Short(s), what)
	case v < 1 || v > float64(most):
		r.Wrong(n, "%s is %s: it must be 1 to %s, or a share of the size (50%%)", what, s, Grouped(most))
	default:
		return 0, int(v)
	}
	return 0, 0
}

func (r *Reader) Duration(n *yaml.Node, what string) time.Duration {
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	switch {
	case err != nil:
		r.Wrong(n, "%q for %s: it must be a time, such as 10s or 1m30s", Short(s), what)
	case d < time.Millisecond || d > durationMax:
		r.Wrong(n, "%s is %s: it must be 1ms to %s", what, s, durationMax)
	default:
		return d
	}
	return 0
}

// InUnit reads a number in a unit: "us" is a time in microseconds, "B" is bytes, "" is a number of items, or a share that may be in
// percent. form describes the form.
func InUnit(s, unit string) (v float64, form string, ok bool) {
	by, form := map[string]float64{"%": 0.01}, "a number, such as 0.7, 20% or 120k"
	switch unit {
	case "us":
		by, form = map[string]float64{"": 1, "us": 1, "µs": 1, "ms": 1e3, "s": 1e6}, "a time, such as 20ms, 500us or 20, which is microseconds"
	case "B":
		by, form = units, "bytes, such as 16MiB, 4kB or 4096"
	default:
		maps.Copy(by, scales)
	}
	v, ok = scaled(s, by)
	return v, form, ok && v >= 0
}

// Grouped writes a number with commas.
func Grouped(v int) string {
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
	return Grouped(int(v))
}
