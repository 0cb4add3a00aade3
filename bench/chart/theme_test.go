package chart

import (
	"math"
	"strings"
	"testing"
)

// rgb returns a colour as three numbers from 0 to 1.
func rgb(t *testing.T, s string) [3]float64 {
	t.Helper()
	var c [3]float64
	for i := range c {
		n := 0
		for _, d := range strings.ToLower(s[1+2*i : 3+2*i]) {
			n = n*16 + strings.IndexRune("0123456789abcdef", d)
		}
		c[i] = float64(n) / 255
	}
	return c
}

func linear(c [3]float64) [3]float64 {
	for i, v := range c {
		if v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// contrast is that of the Web Content Accessibility Guidelines.
func contrast(t *testing.T, a, b string) float64 {
	light := func(s string) float64 {
		c := linear(rgb(t, s))
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05
	}
	x, y := light(a), light(b)
	return max(x, y) / min(x, y)
}

// lab returns linear light in CIE's L*a*b*, in which distances are about as eyes see them.
func lab(c [3]float64) [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x, y, z := f((0.4124*c[0]+0.3576*c[1]+0.1805*c[2])/0.9505), f(0.2126*c[0]+0.7152*c[1]+0.0722*c[2]), f((0.0193*c[0]+0.1192*c[1]+0.9505*c[2])/1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// eyes are what is left of linear light for eyes that lack a kind of cone (Machado, Oliveira and Fernandes 2009).
var eyes = map[string][3][3]float64{
	"all cones": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"no red":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"no green":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"no blue":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func seen(t *testing.T, s string, eye [3][3]float64) [3]float64 {
	c := linear(rgb(t, s))
	var out [3]float64
	for i := range out {
		for j := range c {
			out[i] += eye[i][j] * c[j]
		}
		out[i] = min(1, max(0, out[i]))
	}
	return lab(out)
}

func TestColours(t *testing.T) {
	t.Parallel()
	for name, th := range map[string]*theme{"light": &light, "dark": &dark} {
		for _, paper := range []string{th.paper, th.panel} {
			for _, text := range []string{th.text, th.muted, th.good, th.bad, th.doubt} {
				if c := contrast(t, text, paper); c < 4.5 {
					t.Errorf("%s: text %s on %s has a contrast of %.2f, want 4.5", name, text, paper, c)
				}
			}
		}
		for _, line := range append(th.lines[:], th.axis, th.mark) {
			if c := contrast(t, line, th.paper); c < 3 {
				t.Errorf("%s: line %s has a contrast of %.2f, want 3", name, line, c)
			}
		}
		checkApart(t, name, th)
	}
}

// checkApart: any two of the first eight styles differ to any eyes, by colour or else by dashes, and the first four by colour.
func checkApart(t *testing.T, name string, th *theme) {
	t.Helper()
	for who, eye := range eyes {
		for i := range th.lines {
			for j := range i {
				a, b := seen(t, th.lines[i], eye), seen(t, th.lines[j], eye)
				distance := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
				if distance < 12 && (dashOf(i+1) == dashOf(j+1) || i < 4) {
					t.Errorf("%s, %s: lines %d and %d look alike: %.1f", name, who, i, j, distance)
				}
			}
		}
	}
}
