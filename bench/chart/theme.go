package chart

import (
	"fmt"
	"strconv"
	"strings"
)

// theme contains the colours of a light or a dark document. Lines differ from paper and, by hue, lightness or dashes, from one another,
// also for people who see only two primary colours; tests measure both.
type theme struct {
	paper, panel, text, muted, grid, axis, mark string
	good, bad, doubt                            string
	lines                                       [8]string
}

var light = theme{
	paper: "#ffffff", panel: "#f5f6f8", text: "#1b1f24", muted: "#57606a", grid: "#e3e6ea", axis: "#8a939d", mark: "#8a939d",
	good: "#1a7f37", bad: "#c4210f", doubt: "#8a5a00",
	lines: [8]string{"#0068b0", "#d1550a", "#00876a", "#cf5fa6", "#7a5c00", "#3f93d6", "#5b3fa8", "#5f6b76"},
}

var dark = theme{
	paper: "#14171b", panel: "#1d2126", text: "#e8eaed", muted: "#a3acb6", grid: "#2c3239", axis: "#6b747e", mark: "#7d8690",
	good: "#4cc26c", bad: "#ff7b6b", doubt: "#e0b04a",
	lines: [8]string{"#4da6f0", "#f58a4b", "#2fc29b", "#e56cbf", "#d6b13c", "#a3d3ff", "#a991f2", "#aab4be"},
}

// dashPatterns are the dashes of successive lines: neighbours differ also without colour.
var dashPatterns = [4]string{"", "8 3", "3 2", "11 3 3 3"}

// Dashes returns the patterns of dashes. Styles cycle through them and get different ones in each cycle through the colours: line number n,
// from 0, has pattern n + n/8.
func Dashes() []string { return dashPatterns[:] }

// dashOf returns the dashes of a style.
func dashOf(style int) string {
	n := style - 1
	return dashPatterns[(n+n/len(light.lines))%len(dashPatterns)]
}

// Inks returns the light theme's colours by the classes of an SVG with Classes: 0 to 7 for lines, g(rid), a(xis), (mar)k, t(ext), m(uted).
// In the SVG, f before a class fills and s strokes.
func Inks() map[string]string {
	m := map[string]string{"g": light.grid, "a": light.axis, "k": light.mark, "t": light.text, "m": light.muted}
	for i, c := range light.lines {
		m[strconv.Itoa(i)] = c
	}
	return m
}

// Variables declares the colours of the light or the dark theme for a style sheet, as custom properties: --paper, --text and others, --c0
// to --c7 for lines. Some are only for the document around charts.
func Variables(night bool) string { return themeOf(night).variables() }

func themeOf(night bool) *theme {
	if night {
		return &dark
	}
	return &light
}

// variables returns the theme as declarations of a style sheet.
func (t *theme) variables() string {
	var b strings.Builder
	for _, v := range [][2]string{{"paper", t.paper}, {"panel", t.panel}, {"text", t.text}, {"muted", t.muted}, {"grid", t.grid}, {"axis", t.axis},
		{"mark", t.mark}, {"good", t.good}, {"bad", t.bad}, {"doubt", t.doubt}} {
		fmt.Fprintf(&b, "--%s:%s;", v[0], v[1])
	}
	for i, c := range t.lines {
		fmt.Fprintf(&b, "--c%d:%s;", i, c)
	}
	return b.String()
}
