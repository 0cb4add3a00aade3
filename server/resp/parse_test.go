package resp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/server/door"
)

// parsed returns what a parser makes of bytes that come in pieces of a size: requests, then what is wrong or how much is left.
func parsed(text []byte, piece int) string {
	p := parser{bulkMax: 100}
	buf := bytes.Clone(text)
	var out strings.Builder
	used := 0
	for end := 0; ; end = min(end+piece, len(buf)) {
		for {
			whole, fault := p.parse(buf[used:end])
			if fault != "" {
				return out.String() + "-" + fault
			}
			if !whole {
				break
			}
			for _, a := range p.arguments(nil, buf[used:]) {
				fmt.Fprintf(&out, "%q ", a)
			}
			out.WriteString("| ")
			used += p.at
			p.reset()
		}
		if end == len(buf) {
			return out.String() + fmt.Sprint(len(buf)-used)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", "0"},
		{"*1\r\n$4\r\nPING\r\n", `"PING" | 0`},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*0\r\n*-1\r\n", `"GET" "" | | | 0`},
		{"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb", `21`},
		{"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n\r\n", `"GET" "a\r\nb" | | 0`},
		{"*1\r\n$101\r\n", "-" + faultBulk},
		{"*1\r\n$100\r\n", "10"},
		{"*1048577\r\n", "-" + faultArguments},
		{"*1048576\r\n", "10"},
		{"*1\r\n:4\r\n", "-" + faultDollar + ":'"},
		{"PING\r\nECHO 'a b' \"\\x00\\n\"\r\n", `"PING" | "ECHO" "a b" "\x00\n" | 0`},
		{"SADD k \"\" ''\n", `"SADD" "k" "" "" | 0`},
		{"a\"b\r\n", "-" + faultQuotes},
		{"'a'b\r\n", "-" + faultQuotes},
		{"PING", "4"},
		{strings.Repeat("x", lineBytesMax) + "\n", `"` + strings.Repeat("x", lineBytesMax) + `" | 0`},
		{strings.Repeat("x", lineBytesMax+1) + "\n", "-" + faultInline},
		{"*" + strings.Repeat("1", lineBytesMax+1), "-" + faultArgumentsL},
		{"*1\r\n$" + strings.Repeat("1", lineBytesMax+1), "-" + faultBulkLine},
	} {
		for _, piece := range []int{1, 2, 7, 1 << 20} {
			if len(tt.in) > 100 && piece < 7 {
				piece = 1 << 12
			}
			if got := parsed([]byte(tt.in), piece); got != tt.want {
				t.Errorf("%.60q in pieces of %d: %.100s, want %.100s", tt.in, piece, got, tt.want)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-1": "-1", "7": "7", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808",
		"": "no", "-": "no", "-0": "no", "00": "no", "01": "no", "+1": "no", " 1": "no", "1 ": "no", "1.5": "no", "9223372036854775808": "no", "-9223372036854775809": "no", "99999999999999999999": "no",
	} {
		got := "no"
		if n, ok := number([]byte(in)); ok {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// FuzzParse wants that it is all the same in which pieces requests come.
func FuzzParse(f *testing.F) {
	for _, in := range []string{"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n\r\n", "PING 'a b' \"\\x41\"\r\n", "*1\r\n:4\r\n", "*-1\r\n*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbc\r\n"} {
		f.Add([]byte(in), byte(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece byte) {
		whole := parsed(in, max(1, len(in)))
		if got := parsed(in, 1+int(piece)); got != whole {
			t.Errorf("in pieces of %d: %.200s, whole %.200s", 1+int(piece), got, whole)
		}
	})
}

func globOf(t rapid.TB, pattern string) *glob {
	t.Helper()
	g, err := newGlob([]byte(pattern))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// globbed is a definition of a pattern: how much of the text each beginning of the pattern may have taken.
func globbed(pattern, text []byte) bool {
	taken := make([]bool, len(text)+1)
	taken[0] = true
	for len(pattern) > 0 {
		next, n := make([]bool, len(text)+1), 1
		for i := range taken {
			switch {
			case pattern[0] == '*':
				next[i] = taken[i] || i > 0 && next[i-1]
			case i > 0:
				var ok bool
				n, ok = matchOne(pattern, text[i-1])
				next[i] = taken[i-1] && ok
			}
		}
		if len(text) == 0 && pattern[0] != '*' {
			return false
		}
		taken, pattern = next, pattern[n:]
	}
	return taken[len(text)]
}

// matchOne matches one byte against the beginning of a pattern, which is neither empty nor a star. n is the length of the used part.
func matchOne(pattern []byte, b byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(pattern, b)
	case '\\':
		if len(pattern) >= 2 {
			return 2, pattern[1] == b
		}
	}
	return 1, pattern[0] == b
}

// matchClass matches a byte against a class. A class without an end ends with the pattern.
func matchClass(pattern []byte, b byte) (n int, ok bool) {
	i, not, found := 1, false, false
	if i < len(pattern) && pattern[i] == '^' {
		not = true
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			found = found || pattern[i] == b
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := pattern[i], pattern[i+2]
			if low > high {
				low, high = high, low
			}
			found = found || b >= low && b <= high
			i += 2
		default:
			found = found || pattern[i] == b
		}
	}
	return min(i+1, len(pattern)), found != not
}

// TestGlobOfOne: each beginning of a pattern stands for the bytes of its definition.
func TestGlobOfOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := []byte(rapid.SampledFrom([]string{"[", "[^", "?", "\\", "a", ""}).Draw(t, "begins"))
		for _, b := range rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("[]^-\\\x00\x3f\x40\x7f\x80\xbf\xc0\xff"))), 0, 8).Draw(t, "rest") {
			pattern = append(pattern, b)
		}
		if len(pattern) == 0 || pattern[0] == '*' {
			return
		}
		one, n := oneOf(pattern)
		for b := range 256 {
			if wantN, want := matchOne(pattern, byte(b)); one.has(byte(b)) != want || n != wantN {
				t.Fatalf("%q, %d: %v after %d bytes, want %v after %d", pattern, b, one.has(byte(b)), n, want, wantN)
			}
		}
	})
}

// BenchmarkGlob makes the patterns of a CONFIG GET of 64 KiB, and looks at the settings.
func BenchmarkGlob(b *testing.B) {
	for _, pattern := range []string{strings.Repeat("a", patternBytesMax), "*" + strings.Repeat("a", patternBytesMax-2) + "*", "[" + strings.Repeat("a-z", patternBytesMax/3)} {
		b.Run(fmt.Sprintf("%.2s", pattern), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range 64 {
					g, err := newGlob([]byte(pattern))
					if err != nil || g.matches([]byte("proto-max-bulk-len")) {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// TestGlobIsItsDefinition: a pattern matches what it should, also with parts longer than those that are compared at each place, and than a word of bits.
func TestGlobIsItsDefinition(t *testing.T) {
	t.Parallel()
	long, longer := strings.Repeat("a", 17), strings.Repeat("ab", 40)
	pieces := [][2]string{{"*", ""}, {"*", "ab"}, {"*", longer}, {"?", "c"}, {"a", "a"}, {"b", "b"}, {"[ab]", "b"}, {"[^a]", "c"}, {"\\a", "a"}, {long, long}, {longer, longer}, {"[", ""}, {"\\", "\\"}}
	rapid.Check(t, func(t *rapid.T) {
		var pattern, text string // which match, unless the text is changed, or one of the last two pieces is not the last
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "pieces") {
			pattern, text = pattern+piece[0], text+piece[1]
		}
		if n := rapid.IntRange(0, 2*len(text)).Draw(t, "changed"); n < len(text) {
			text = text[:n] + rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, "by") + text[n+1:]
		}
		g := globOf(t, pattern)
		want := globbed([]byte(pattern), []byte(text))
		if got := g.matches([]byte(text)); got != want || got != g.matches([]byte(text)) { // and again
			t.Fatalf("%q, %q: %v, want %v", pattern, text, got, want)
		}
	})
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abb", false}, {"?", "", false}, {"?", "a", true}, {"a?c", "abc", true},
		{"[a-c]x", "bx", true}, {"[a-c]x", "dx", false}, {"[c-a]", "b", true}, {"[^a]", "b", true}, {"[^a]", "a", false}, {"[\\]]", "]", true}, {"[ab", "b", true}, {"[", "[", false}, {"\\*", "*", true}, {"\\*", "a", false},
		{"\\", "\\", true}, {"**a**", "bab", true}, {"*a*b*c", "xaxbxc", true}, {"*a*b*c", "xaxcxb", false}, {"h\x00*", "h\x00\xff", true},
		{"ab*ba", "aba", false}, {"ab*ba", "abba", true}, {"a*a", "a", false},
		{"*b" + strings.Repeat("a", 80) + "*", strings.Repeat("a", 200), false}, {"*b" + strings.Repeat("a", 80) + "*", "ab" + strings.Repeat("a", 80), true},
	} {
		if got := globOf(t, tt.pattern).matches([]byte(tt.text)); got != tt.want {
			t.Errorf("%q, %q: %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
		if p := prefixOf([]byte(tt.pattern)); tt.want && !strings.HasPrefix(tt.text, string(p)) {
			t.Errorf("%q: %q does not begin with %q", tt.pattern, tt.text, p)
		}
	}
	text := []byte(strings.Repeat("a", 64<<10)) // no matter how many stars, and how long what is between them
	for _, pattern := range []string{strings.Repeat("*a", 200) + "b*", "*" + strings.Repeat("a", 1000) + "b*", "*" + strings.Repeat("?[a-b]", 140) + "b*"} {
		if globOf(t, pattern).matches(text) {
			t.Errorf("%.10s: matched", pattern)
		}
	}
	dial, _ := start(t, Options{})
	p := dial()
	for _, n := range []int{patternBytesMax, patternBytesMax + 1} {
		class := "[" + strings.Repeat("a", n-2) + "]"
		for _, args := range [][]string{{"KEYS", class}, {"SCAN", "0", "MATCH", class}, {"SSCAN", "k", "0", "MATCH", class}, {"CONFIG", "GET", "save", class}} {
			p.do(t, "SADD", "k", "x")
			if got := p.do(t, args...); strings.HasPrefix(got, "-ERR pattern is ") != (n > patternBytesMax) {
				t.Errorf("%s with a pattern of %d bytes: %.100s", args[0], n, got)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range []string{"", "a", "\x00", "\x00\x00", "\x00a", "\x00\x00a", "a\x00"} {
		name := string(nameOf([]byte(key)))
		if other, ok := seen[name]; ok || name == "" {
			t.Errorf("%q and %q have the name %q", key, other, name)
		}
		seen[name] = key
		if got, ok := keyOf([]byte(name)); !ok || string(got) != key {
			t.Errorf("%q: %q, %v", key, got, ok)
		}
	}
	if _, ok := keyOf([]byte("\x00a")); ok {
		t.Error("a name that no key has")
	}
}

// TestErrorsShowBytes: an error shows as many bytes of an argument as redis does, whatever characters they are.
func TestErrorsShowBytes(t *testing.T) {
	t.Parallel()
	dial, _ := start(t, Options{})
	p := dial()
	long, shown := strings.Repeat("é", 100), strings.Repeat("é", 64)
	for want, args := range map[string][]string{
		"-ERR unknown command '" + shown + "', with args beginning with: '" + shown + "' ":           {long, long, "x"},
		"-ERR unknown command 'a', with args beginning with: 'b' '" + strings.Repeat("é", 62) + "' ": {"a", "b", long, "x"},
		"-ERR unknown subcommand '" + shown + "'. Try CLIENT HELP.":                                  {"CLIENT", long},
		"-ERR unknown command 'ts', with args beginning with: 'x' ":                                  {"ts", "x"}, // no module's: these have a dot
	} {
		if got := p.do(t, args...); got != want {
			t.Errorf("%.50q: %s, want %s", args, got, want)
		}
	}
}

// TestLongEcho: a long string that comes back has its place among other answers.
func TestLongEcho(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, -1} {
		dial, _ := start(t, Options{Options: door.Options{Loops: loops}})
		p := dial()
		for _, n := range []int{chunkBytes, chunkBytes + 1, 5 * chunkBytes} {
			long := strings.Repeat("x", n)
			go p.Write(slices.Concat(request("PING", "a"), request("ECHO", long), request("PING", "b")))
			for _, want := range []string{"a", long, "b"} {
				if got := p.read(t); got != `$"`+want+`"` {
					t.Fatalf("%.50s of %d bytes, want %.20q", got, len(got), want)
				}
			}
		}
	}
}
