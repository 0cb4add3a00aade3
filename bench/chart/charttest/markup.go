package charttest

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
)

// Plot lists all elements that a plot may contain, with their attributes.
var Plot = map[string]string{
	"svg": "xmlns viewBox role aria-label font-family font-size width height", "path": "d class fill stroke stroke-width stroke-dasharray stroke-linecap stroke-linejoin fill-opacity stroke-opacity",
	"title": "", "rect": "x y width height fill class fill-opacity", "text": "x y text-anchor class fill font-size font-weight",
}

// CheckMarkup fails the test for elements and attributes that are not allowed, for malformed markup, and for invalid numbers. It returns
// all texts and attribute values.
func CheckMarkup(t *testing.T, what, text string, elements map[string]string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return texts
		}
		switch e := token.(type) {
		case xml.CharData:
			texts = append(texts, string(e))
		case xml.Comment, xml.ProcInst:
			t.Errorf("%s has %#v", what, e)
		case xml.StartElement:
			allowed, ok := elements[e.Name.Local]
			if !ok {
				t.Errorf("%s has an element %s", what, e.Name.Local)
			}
			for _, a := range e.Attr {
				if !slices.Contains(strings.Fields(allowed), a.Name.Local) {
					t.Errorf("%s has <%s %s=%q>", what, e.Name.Local, a.Name.Local, a.Value)
				}
				if a.Name.Local != "aria-label" && a.Name.Local != "content" && (strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.Contains(a.Value, "e+")) {
					t.Errorf("%s has <%s %s=%q>", what, e.Name.Local, a.Name.Local, a.Value)
				}
				texts = append(texts, a.Value)
			}
		}
	}
}
