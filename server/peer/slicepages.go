package peer

import (
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
)

// AskPageSums asks for hashes of pages: SliceReplica.PageSums's arguments in a frame.
type AskPageSums struct {
	Spec  bigset.SliceSpec
	After *bigset.PagePlace // nil means the start
	Most  int               // at most bigset.PageSumsMax, which is also what 0 means
}

func (AskPageSums) kind() byte { return kindAskPageSums }

// anyPages is the number of pages of the largest layer.
const anyPages = bloomslice.LayerBytesMax / bloomslice.PageBytes

func (m AskPageSums) appendTo(e *encoder) error {
	if m.Most < 0 || m.Most > bigset.PageSumsMax {
		return fmt.Errorf("%w: %d sums", ErrFrameTooLarge, m.Most)
	}
	if err := e.spec(&m.Spec); err != nil {
		return err
	}
	e.uvarint(uint64(m.Most))
	e.bool(m.After != nil)
	if m.After == nil {
		return nil
	}
	if m.After.Page >= anyPages {
		return fmt.Errorf("%w: page %d", ErrFrame, m.After.Page)
	}
	e.uvarint(uint64(m.After.Page))
	return e.layerID(m.After.Layer)
}

func (d *decoder) askPageSums() AskPageSums {
	m := AskPageSums{Spec: d.spec(), Most: int(d.upTo(bigset.PageSumsMax))}
	if d.bool() {
		m.After = &bigset.PagePlace{Page: uint32(d.upTo(anyPages - 1)), Layer: d.layerID()}
	}
	return m
}

// PageSums are hashes of pages of a slice in a frame: bigset.PageSums.
type PageSums bigset.PageSums

func (PageSums) kind() byte { return kindPageSums }

// pageSumBytesMin is the minimum size of the hash of a page: its distance from the previous page, and the hash.
const pageSumBytesMin = 1 + 8

func (m PageSums) appendTo(e *encoder) error {
	if len(m.Sums) > bigset.PageSumsMax {
		return fmt.Errorf("%w: %d sums", ErrFrameTooLarge, len(m.Sums))
	}
	if err := checkPageSums(&m); err != nil {
		return err
	}
	e.bool(m.Done)
	if err := e.layers(m.Layers); err != nil {
		return err
	}
	return placed(e, m.Layers, m.Sums, func(s *bigset.PageSum) bigset.PagePlace { return s.PagePlace }, func(s *bigset.PageSum) { e.uint64(s.Sum) })
}

func (d *decoder) pageSums() PageSums {
	m := PageSums{Done: d.bool(), Layers: d.layers()}
	d.places(m.Layers, pageSumBytesMin, bigset.PageSumsMax, func(p bigset.PagePlace) {
		m.Sums = append(m.Sums, bigset.PageSum{PagePlace: p, Sum: d.uint64()})
	})
	if err := checkPageSums(&m); d.err == nil && err != nil {
		d.failed("hashes of pages", err)
	}
	return m
}

// checkPageSums checks that layers ascend, and that an answer that is not done has a page to continue after.
func checkPageSums(m *PageSums) error {
	if !m.Done && len(m.Sums) == 0 {
		return fmt.Errorf("%w: hashes of nothing, and not done", ErrFrame)
	}
	return checkLayersInOrder(m.Layers)
}

// AskPages asks for pages: SliceReplica.Pages's arguments in a frame.
type AskPages struct {
	Spec   bigset.SliceSpec
	Places []bigset.PagePlace // in order, at most bigset.PagesMax
}

func (AskPages) kind() byte { return kindAskPages }

// placesBytesMin is the minimum size of the places of a layer: index, owner, number.
const placesBytesMin = 3

func (m AskPages) appendTo(e *encoder) error {
	if len(m.Places) > bigset.PagesMax {
		return fmt.Errorf("%w: %d pages", ErrFrameTooLarge, len(m.Places))
	}
	layers := layersOf(m.Places)
	if err := checkLayersInOrder(layers); err != nil {
		return err
	}
	if err := e.spec(&m.Spec); err != nil {
		return err
	}
	e.uvarint(uint64(len(layers)))
	for i := range layers {
		if err := e.layerID(layers[i].ID); err != nil {
			return err
		}
	}
	return placed(e, layers, m.Places, func(p *bigset.PagePlace) bigset.PagePlace { return *p }, func(*bigset.PagePlace) {})
}

func (d *decoder) askPages() AskPages {
	m := AskPages{Spec: d.spec()}
	n := d.count(placesBytesMin, bigset.PagesMax)
	var layers []bloomslice.Layer
	for len(layers) < n && d.err == nil {
		layers = append(layers, anyLayer(d.layerID()))
	}
	d.places(layers, 1, bigset.PagesMax, func(p bigset.PagePlace) { m.Places = append(m.Places, p) })
	if err := checkLayersInOrder(layers); d.err == nil && err != nil {
		d.failed("pages", err)
	}
	if d.err == nil && !slices.Equal(layersOf(m.Places), layers) {
		d.fail("a layer without pages")
	}
	return m
}

// layersOf returns the layers of pages. A place does not contain the shape of its layer, so each layer may have as many pages as possible.
func layersOf(places []bigset.PagePlace) (layers []bloomslice.Layer) {
	for i := range places {
		if i == 0 || places[i].Layer != places[i-1].Layer {
			layers = append(layers, anyLayer(places[i].Layer))
		}
	}
	return layers
}

func anyLayer(id bloomslice.LayerID) bloomslice.Layer {
	return bloomslice.Layer{ID: id, Shape: bloomslice.Shape{Bytes: bloomslice.LayerBytesMax}}
}

// SlicePages are pages of a slice in a frame, and the argument of SliceReplica.MergePages: bigset.SlicePages. The contents of the pages are
// checked by the engine that merges them.
type SlicePages bigset.SlicePages

func (SlicePages) kind() byte { return kindSlicePages }

const (
	pageValueBytesMax = bloomslice.PageBytes + 1 // its form, and its bits
	pageBytesMin      = 3                        // the distance from the previous page, length, form
)

func (m SlicePages) appendTo(e *encoder) error {
	if len(m.Pages) > bigset.PagesMax {
		return fmt.Errorf("%w: %d pages", ErrFrameTooLarge, len(m.Pages))
	}
	if err := checkSlicePages(&m); err != nil {
		return err
	}
	if err := e.spec(&m.SliceSpec); err != nil {
		return err
	}
	if err := e.layers(m.Layers); err != nil {
		return err
	}
	return placed(e, m.Layers, m.Pages, func(p *bigset.SlicePage) bigset.PagePlace { return p.PagePlace }, func(p *bigset.SlicePage) { e.bytes(p.Value) })
}

func (d *decoder) slicePages() SlicePages {
	m := SlicePages{SliceSpec: d.spec(), Layers: d.layers()}
	d.places(m.Layers, pageBytesMin, bigset.PagesMax, func(p bigset.PagePlace) {
		m.Pages = append(m.Pages, bigset.SlicePage{PagePlace: p, Value: d.bytes(pageValueBytesMax)})
	})
	if err := checkSlicePages(&m); d.err == nil && err != nil {
		d.failed("pages", err)
	}
	return m
}

// checkSlicePages checks that layers ascend, and that each page is valid.
func checkSlicePages(m *SlicePages) error {
	for i := range m.Pages {
		if n := len(m.Pages[i].Value); n < 1 || n > pageValueBytesMax {
			return fmt.Errorf("%w: a page of %d bytes", ErrFrame, n)
		}
	}
	return checkLayersInOrder(m.Layers)
}

// placed writes pages, in order, of layers that are already in the frame: for each layer, in order, the number of its pages, and then for
// each page the number of pages between it and the previous one, and what say writes.
func placed[T any](e *encoder, layers []bloomslice.Layer, pages []T, place func(*T) bigset.PagePlace, say func(*T)) error {
	i := 0
	for l := range layers {
		first := i
		for i < len(pages) && place(&pages[i]).Layer == layers[l].ID {
			i++
		}
		e.uvarint(uint64(i - first))
		next := uint64(0)
		for ; first < i; first++ {
			page := uint64(place(&pages[first]).Page)
			if page < next || page >= pagesOf(layers[l].Shape) {
				return fmt.Errorf("%w: page %d out of order, or after the last of its layer", ErrFrame, page)
			}
			e.uvarint(page - next)
			say(&pages[first])
			next = page + 1
		}
	}
	if i < len(pages) {
		return fmt.Errorf("%w: page %d is in no order, or of a layer that does not come", ErrFrame, place(&pages[i]).Page)
	}
	return nil
}

// places reads at most most pages of layers, which take at least size bytes each, and lets add read the data of each.
func (d *decoder) places(layers []bloomslice.Layer, size, most int, add func(bigset.PagePlace)) {
	for l := range layers {
		n, next := d.count(size, most), uint64(0)
		most -= n
		for ; n > 0 && d.err == nil; n-- {
			skipped, pages := d.uvarint(), pagesOf(layers[l].Shape)
			if skipped >= pages-next {
				d.fail("a page after the last of its layer")
				return
			}
			add(bigset.PagePlace{Layer: layers[l].ID, Page: uint32(next + skipped)})
			next += skipped + 1
		}
	}
}

// pagesOf returns how many pages a layer has.
func pagesOf(s bloomslice.Shape) uint64 {
	return (s.Bytes + bloomslice.PageBytes - 1) / bloomslice.PageBytes
}
