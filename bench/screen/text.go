package screen

import (
	"fmt"
	"math"
	"strconv"
)

// Bytes returns a number of bytes in a suitable unit.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1024
		i++
	}
	switch {
	case math.IsNaN(n):
		return "-"
	case i == 0 || n >= 99.95:
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}

// Micros returns a time given in microseconds.
func Micros(us float64) string {
	switch {
	case math.IsNaN(us):
		return "-"
	case us >= 10_000_000:
		return fmt.Sprintf("%.0f s", us/1e6)
	case us >= 999_500:
		return fmt.Sprintf("%.1f s", us/1e6)
	case us >= 10_000:
		return fmt.Sprintf("%.0f ms", us/1000)
	case us >= 1000:
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// Count returns a number in groups of three digits.
func Count(n float64) string {
	if math.IsNaN(n) {
		return "-"
	}
	s := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
