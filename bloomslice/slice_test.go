package bloomslice

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bigset/internal/testkit/tier"
)

// disk is a Source in memory, with what a store does with dirty pages.
type disk struct {
	mu    sync.Mutex
	pages map[string][]byte
	fail  error
}

func newDisk() *disk { return &disk{pages: map[string][]byte{}} }

func pageKey(id LayerID, page uint32) string { return fmt.Sprint(id, page) }

func (d *disk) Page(id LayerID, page uint32) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pages[pageKey(id, page)], d.fail
}

// store stores what is dirty, some pages at a time.
func (d *disk) store(t testing.TB, s *Slice, some int) (layers []Layer) {
	t.Helper()
	for taking := s.Take(); ; {
		dirty := taking.Next(some)
		if dirty.Empty() {
			return s.Layers()
		}
		for _, p := range dirty.Pages {
			key := pageKey(p.ID, p.Page)
			d.mu.Lock()
			d.pages[key] = p.Value
			if _, err := DecodePage(nil, d.pages[key]); err != nil {
				t.Error(err)
			}
			d.mu.Unlock()
		}
	}
}

func slice(t testing.TB, o Options, layers []Layer, source Source) *Slice {
	t.Helper()
	s, err := New(o, layers, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds a key and reports whether it was new.
func add(t testing.TB, s *Slice, key string) bool {
	t.Helper()
	h := Sum([]byte(key))
	_, added, err := s.Admit(&h, "")
	if err != nil {
		t.Fatal(err)
	}
	if added {
		s.Commit()
	}
	return added
}

func has(t testing.TB, s *Slice, key string) bool {
	t.Helper()
	h := Sum([]byte(key))
	ok, err := s.Check(&h)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func options(capacity uint64, p float64) Options {
	o := DefaultOptions()
	o.Capacity, o.Probability = capacity, p
	return o
}

// allBits returns the places of all bits of one layer.
func allBits(s *Slice, i int) (places []uint64) {
	l := (*s.layers.Load())[i]
	for page := range l.pages {
		if w := l.pages[page].Load(); w != nil {
			for _, p := range w.places(nil, pageBits) {
				places = append(places, uint64(page)*pageBits+uint64(p))
			}
		}
	}
	return places
}

// TestPlaces compares the places of one key's bits with those in data files of a bloomd.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []uint64
	}{
		{options(20000, 0.01), []uint64{13807, 55735, 69391, 101482, 126381, 146487, 190459, 210565, 254537, 274643}},
		{options(10001, 0.0999999), []uint64{4022, 18341, 36881, 45354, 66393, 72453, 90419}},
	} {
		s := slice(t, c.o, nil, nil)
		add(t, s, "zipzab")
		if got := allBits(s, 0); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, got, c.want)
		}
	}
}

// TestLikeBloomd adds keys and compares answers and figures with those of a bloomd, down to its false positives. The slice is stored
// and emptied of pages now and then, which must make no difference.
func TestLikeBloomd(t *testing.T) {
	d := newDisk()
	s := slice(t, options(10001, 0.05), nil, d)
	var no int
	for i := range 30_000 {
		if !add(t, s, fmt.Sprint("q", i)) {
			no++
		}
		if i%7000 == 0 {
			d.store(t, s, 5)
			s.Evict(1 << 30)
		}
	}
	f := FiguresOf(s.Layers())
	if no != 98 || f != (Figures{Capacity: 50005, Size: 29902, Storage: 71052}) {
		t.Errorf("%d times no, %+v", no, f)
	}
	var found []string
	sum := 0
	for i := range 20_000 {
		if has(t, s, fmt.Sprint("z", i)) {
			found, sum = append(found, fmt.Sprint("z", i)), sum+i
		}
	}
	first := "z345 z506 z609 z841 z948 z1331 z1499 z1906 z1957 z2152"
	if len(found) != 80 || sum != 745435 || strings.Join(found[:10], " ") != first {
		t.Errorf("%d false positives, their sum %d, the first %v", len(found), sum, found[:min(10, len(found))])
	}
}

// TestLayers has four layers.
func TestLayers(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, nil)
	no := 0
	for i := range 230_387 {
		if !add(t, s, fmt.Sprint("k", i)) {
			no++
		}
	}
	if f := FiguresOf(s.Layers()); f.Size != 229970 || no != 417 || f.Storage != 1592326 || len(s.Layers()) != 4 {
		t.Errorf("%d times no, %+v", no, f)
	}
}

// TestFalsePositives measures the probability over the whole slice, at its first capacity and ten times past it.
func TestFalsePositives(t *testing.T) {
	const p, asked = 0.01, 200_000
	s := slice(t, options(10001, p), nil, nil)
	n := 0
	for _, size := range []int{10_001, 100_010} {
		for ; n < size; n++ {
			add(t, s, fmt.Sprint("in", n))
		}
		found := 0
		for i := range asked {
			if has(t, s, fmt.Sprint("out", i)) {
				found++
			}
		}
		if rate := float64(found) / asked; rate > 1.1*p {
			t.Errorf("%d keys: %.4f of others are found, want at most %.4f", size, rate, 1.1*p)
		}
	}
}

// TestModel goes through random lives of a slice: marks, checks, passes that store, evictions, reopenings from what is stored, and
// two replicas that send each other pages and layers. No key that was added is ever denied, and the replicas end with equal bits.
func TestModel(t *testing.T) {
	for seed := range uint64(tier.Pick(8, 12, 60)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := options(10001, 0.01)
		disks := []*disk{newDisk(), newDisk()}
		replicas := []*Slice{slice(t, o, nil, disks[0]), slice(t, o, nil, disks[1])}
		added := []map[string]bool{{}, {}}
		for range 40 {
			i := rng.IntN(2)
			s, d := replicas[i], disks[i]
			switch rng.IntN(6) {
			case 0, 1:
				for range rng.IntN(3000) {
					key := fmt.Sprint(rng.IntN(20_000))
					h := Sum([]byte(key))
					_, is, err := s.Admit(&h, fmt.Sprint("owner", i))
					if err != nil {
						t.Fatal(err)
					}
					if is {
						s.Commit()
					}
					added[i][key] = true
				}
			case 2:
				d.store(t, s, 1+rng.IntN(20))
			case 3:
				s.Evict(rng.Int64N(1 << 18))
			case 4:
				replicas[i] = slice(t, o, d.store(t, s, 7), d)
			case 5:
				send(t, s, replicas[1-i], disks[i])
				for key := range added[i] {
					added[1-i][key] = true
				}
			}
			for key := range added[i] {
				if !has(t, replicas[i], key) {
					t.Fatalf("seed %d: %s is denied", seed, key)
				}
			}
		}
		send(t, replicas[0], replicas[1], disks[0])
		send(t, replicas[1], replicas[0], disks[1])
		for i := range 2 {
			disks[i].store(t, replicas[i], 100)
			for _, l := range replicas[i].Layers() {
				for page := range uint32(l.Shape.pages()) {
					a, b := disks[0].pages[pageKey(l.ID, page)], disks[1].pages[pageKey(l.ID, page)]
					if !slices.Equal(merged(a), merged(b)) {
						t.Fatalf("seed %d: page %d of %v differs", seed, page, l.ID)
					}
				}
			}
		}
	}
}

func merged(value []byte) []byte {
	if value == nil {
		return emptyPage()
	}
	return joined(value)
}

// joined joins values that are not damaged.
func joined(values ...[]byte) []byte {
	var w words
	for _, v := range values {
		if err := w.orValue(v); err != nil {
			panic(err)
		}
	}
	return w.append(nil)
}

// emptyPage is the value of a page without bits.
func emptyPage() []byte { return (&words{}).append(nil) }

// send brings all layers and pages of one slice to another.
func send(t *testing.T, from, to *Slice, d *disk) {
	t.Helper()
	d.store(t, from, 50)
	for _, l := range from.Layers() {
		if err := to.Restore(l); err != nil {
			t.Fatal(err)
		}
		for page := range uint32(l.Shape.pages()) {
			if value, _ := d.Page(l.ID, page); value != nil {
				if err := to.MergePage(l.ID, page, value); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestReplay sets what a log says, twice and in any order, and gets the bits of the slice that wrote it.
func TestReplay(t *testing.T) {
	type record struct {
		to Layer
		h  Hash
	}
	s := slice(t, options(10001, 0.01), nil, nil)
	var log []record
	for i := range 12_000 {
		h := Sum(fmt.Append(nil, "r", i))
		if to, added, err := s.Admit(&h, ""); err != nil {
			t.Fatal(err)
		} else if added {
			s.Commit()
			log = append(log, record{to, h})
		}
	}
	again := slice(t, options(10001, 0.01), nil, nil)
	for _, i := range append(rand.Perm(len(log)), rand.Perm(len(log)/2)...) {
		if err := again.Set(log[i].to, &log[i].h); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(allBits(s, 0), allBits(again, 0)) || !slices.Equal(allBits(s, 1), allBits(again, 1)) {
		t.Error("other bits")
	}
	if a, b := FiguresOf(s.Layers()), FiguresOf(again.Layers()); a != b {
		t.Errorf("%+v, want %+v", b, a)
	}
}

// TestConcurrent runs readers concurrently with the writer, which stores pages and evicts them.
func TestConcurrent(t *testing.T) {
	d := newDisk()
	s := slice(t, options(10001, 0.001), nil, d)
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n.Load() < 30_000 {
				if have := n.Load(); have > 0 && !has(t, s, fmt.Sprint("c", rand.Int64N(have))) {
					t.Error("an added key is denied")
				}
			}
		})
	}
	for i := range 30_000 {
		add(t, s, fmt.Sprint("c", i))
		n.Store(int64(i) + 1)
		if i%1000 == 0 {
			d.store(t, s, 10)
		}
		if i%1000 == 500 {
			s.Evict(1 << 16)
		}
	}
	wg.Wait()
}

// TestFaults has a source that fails, and one whose pages are damaged: there is no answer, nothing changes, and everything works
// when the source does again.
func TestFaults(t *testing.T) {
	d := newDisk()
	s := slice(t, options(10001, 0.01), nil, d)
	for i := range 1000 {
		add(t, s, fmt.Sprint(i))
	}
	layers := d.store(t, s, 1000)
	s = slice(t, options(10001, 0.01), layers, d)
	d.fail = errors.New("broken disk")
	h := Sum([]byte("7"))
	if _, err := s.Check(&h); !errors.Is(err, d.fail) {
		t.Errorf("Check: %v", err)
	}
	if _, _, err := s.Admit(&h, ""); !errors.Is(err, d.fail) {
		t.Errorf("Admit: %v", err)
	}
	d.fail = nil
	whole := d.pages
	d.pages = map[string][]byte{}
	for key, value := range whole {
		d.pages[key] = append([]byte{9}, value...)
	}
	if _, err := s.Check(&h); !errors.Is(err, ErrCorruptPage) {
		t.Errorf("Check: %v", err)
	}
	d.pages = whole
	for i := range 1000 {
		if !has(t, s, fmt.Sprint(i)) {
			t.Errorf("%d is denied", i)
		}
	}
}

// TestPutBack stores what could not be stored at first.
func TestPutBack(t *testing.T) {
	d := newDisk()
	s := slice(t, options(10001, 0.01), nil, d)
	for i := range 3000 {
		add(t, s, fmt.Sprint(i))
	}
	taking := s.Take()
	lost := taking.Next(3)
	for more := taking.Next(10); !more.Empty(); more = taking.Next(10) {
		s.PutBack(more)
	}
	s.PutBack(lost)
	layers := d.store(t, s, 4)
	if s.DirtyPages() != 0 {
		t.Errorf("%d pages are dirty", s.DirtyPages())
	}
	s = slice(t, options(10001, 0.01), layers, d)
	for i := range 3000 {
		if !has(t, s, fmt.Sprint(i)) {
			t.Fatalf("%d is denied", i)
		}
	}
	if got := FiguresOf(layers).Size; got < 2900 {
		t.Errorf("size %d", got)
	}
}

// TestAllocates says that checks and repeated marks of pages in memory allocate nothing.
func TestAllocates(t *testing.T) {
	s := slice(t, options(1_000_000, 0.0001), nil, nil)
	for i := range 10_000 {
		add(t, s, fmt.Sprint(i))
	}
	key := []byte("77")
	if n := testing.AllocsPerRun(1000, func() {
		h := Sum(key)
		if has, _ := s.Check(&h); !has {
			t.Fatal("denied")
		}
		if _, added, _ := s.Admit(&h, ""); added {
			t.Fatal("added twice")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLook: it answers as Check does if the pages are in memory, and reports if they are not, in an older layer too.
func TestLook(t *testing.T) {
	d := newDisk()
	s := slice(t, options(10001, 0.01), nil, d)
	const n = 15_000 // two layers
	for i := range n {
		add(t, s, fmt.Sprint(i))
	}
	var unknown, yes int
	look := func() {
		t.Helper()
		unknown, yes = 0, 0
		for i := range 2 * n {
			key := fmt.Sprint(i)
			h := Sum([]byte(key))
			is, known := s.Look(&h)
			if !known {
				unknown++
			}
			if is {
				yes++
			}
			if want := has(t, s, key); known && is != want || !known && is {
				t.Fatalf("%s: %v, known %v, want %v", key, is, known, want)
			}
		}
	}
	look()
	if unknown > 0 || yes < n {
		t.Errorf("all in memory: %d not known, %d there", unknown, yes)
	}
	d.store(t, s, 1000)
	l := (*s.layers.Load())[0]
	for page := range l.pages {
		s.evict(l, page)
	}
	var h Hash
	for i := range n {
		if h = Sum(fmt.Append(nil, i)); s.newestHas(&h) {
			continue
		}
		if is, known := s.Look(&h); is || known {
			t.Fatalf("%d, whose pages are not in memory: %v, known %v", i, is, known)
		}
	}
	look() // which brings them back
	if unknown == 0 || unknown > len(l.pages) {
		t.Errorf("%d not known, of %d pages", unknown, len(l.pages))
	}
}

// newestHas reports whether the newest layer has a key.
func (s *Slice) newestHas(h *Hash) bool {
	has, _ := s.newest("").look(h, 0)
	return has
}

// TestRestoredLayersAreStored: a layer that comes from another replica has to be stored even if it is empty; a layer that came from
// the source does not.
func TestRestoredLayersAreStored(t *testing.T) {
	shape, err := DefaultOptions().Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	old, other := Layer{ID: LayerID{Owner: "a"}, Shape: shape, Count: 1}, Layer{ID: LayerID{Owner: "b"}, Shape: shape}
	s, err := New(DefaultOptions(), []Layer{old}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Take().Next(1); !d.Empty() {
		t.Errorf("%+v of a slice as it is stored", d)
	}
	if err := s.Restore(other); err != nil {
		t.Fatal(err)
	}
	if d := s.Take().Next(1); len(d.Layers) != 1 || d.Layers[0] != other {
		t.Errorf("%+v is to be stored", d)
	}
}
