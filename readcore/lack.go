package readcore

import (
	"bytes"

	"bigset/clock"
	"bigset/fold"
)

// Lack says what is missing at the replica of one stream, of what a result covers. It describes the moments of the reads. The
// receiver decides by its own state what of it to apply, and no clock is joined.
type Lack struct {
	Stream int
	// Missing are elements with surviving dots that the replica has not seen: key and dot are sent together.
	Missing []fold.Element
	// Suspects are elements with dots that are live at the replica but did not survive.
	Suspects []Suspect
}

// Suspect is an element with dots that are live in a stream, although the stream Witness has seen them and does not show them. If
// the Dead of the witness names such a dot, that death is sent. If it does not, the witness has lost the key: that is damage there,
// and proves nothing about the dot.
type Suspect struct {
	Witness int
	Element fold.Element
}

// lackOf records which replicas lack a dot of the current element or still have it live, and advances past that dot.
func (m *Merge) lackOf(name []byte, dot clock.Dot, witness int) {
	for i := range m.streams {
		l := &m.lacks[i]
		switch shown := m.shows(i, dot); {
		case shown:
			m.at[i]++
			if witness >= 0 {
				m.suspect(l, witness, name, dot)
			}
		case witness < 0 && !m.streams[i].notFound:
			m.missing(l, name, dot)
		}
	}
}

func (m *Merge) missing(l *Lack, name []byte, dot clock.Dot) {
	if n := len(l.Missing); n > 0 && bytes.Equal(l.Missing[n-1].Name, name) {
		l.Missing[n-1].Dots = append(l.Missing[n-1].Dots, dot)
		return
	}
	l.Missing = append(l.Missing, fold.Element{Name: name, Dots: m.one(dot)})
}

func (m *Merge) suspect(l *Lack, witness int, name []byte, dot clock.Dot) {
	for k := len(l.Suspects) - 1; k >= 0 && bytes.Equal(l.Suspects[k].Element.Name, name); k-- {
		if l.Suspects[k].Witness == witness {
			l.Suspects[k].Element.Dots = append(l.Suspects[k].Element.Dots, dot)
			return
		}
	}
	l.Suspects = append(l.Suspects, Suspect{witness, fold.Element{Name: name, Dots: m.one(dot)}})
}

// one returns a dot in memory of the result, to which more may be appended.
func (m *Merge) one(dot clock.Dot) []clock.Dot {
	at := len(m.arena)
	m.arena = append(m.arena, dot)
	return m.arena[at : at+1 : at+1]
}
