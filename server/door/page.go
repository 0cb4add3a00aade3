package door

import (
	"bigset"
	"bigset/clock"
)

// Page makes the parts of one read: it adds the tokens of elements and ends the read at its limit. It is for one goroutine.
type Page struct {
	Read   *Read
	Tokens *bigset.Tokens

	begun bool
	given int    // elements
	last  []byte // the last element; memory of the caller of Add, or kept
	kept  []byte
}

// Ask returns how many elements to request from a store, 0 for no limit: those that the read still needs, and one more, which shows whether
// another page follows.
func (p *Page) Ask() int {
	if p.Read.Limit == 0 {
		return 0
	}
	return p.Read.Limit - p.given + 1
}

// Begin puts the context of the whole set into the first part of the read. For later parts, and for a bare read, it does nothing.
func (p *Page) Begin(part *Part, seen *clock.Clock) (err error) {
	if p.begun || p.Read.Bare {
		return nil
	}
	p.begun = true
	part.Context, err = p.Tokens.Wide(seen)
	return err
}

// Add appends an element, or ends the read if its limit is reached: then the part is Done, and After is where the next page begins. The
// part and the page retain name.
func (p *Page) Add(part *Part, name []byte, dots []clock.Dot) (err error) {
	if p.Read.Limit > 0 && p.given == p.Read.Limit {
		part.Done = true
		part.After, err = p.Tokens.Cursor(p.last, p.Read.Reverse)
		return err
	}
	e := Element{Name: name}
	if p.Read.Contexts {
		if e.Context, err = p.Tokens.Narrow(name, dots); err != nil {
			return err
		}
	}
	part.Elements = append(part.Elements, e)
	p.given++
	p.last = name
	return nil
}

// Keep copies the last element. Call it before the memory of names passed to Add is reused.
func (p *Page) Keep() {
	p.kept = append(p.kept[:0], p.last...)
	p.last = p.kept
}

// Last returns a copy of the last element, or nil if there was none.
func (p *Page) Last() []byte {
	if p.given == 0 {
		return nil
	}
	return append([]byte{}, p.last...)
}
