package bloomslice

import (
	"fmt"
	"testing"
)

// watchedDisk records that it is asked.
type watchedDisk struct {
	*disk
	asked func()
}

func (d *watchedDisk) Page(id LayerID, page uint32) ([]byte, error) {
	if d.asked != nil {
		d.asked()
	}
	return d.disk.Page(id, page)
}

// TestAdmitNow: its answers are those of Admit, it asks the source for nothing, and in the end it knows everything.
func TestAdmitNow(t *testing.T) {
	d := &watchedDisk{disk: newDisk()}
	o := options(10_001, 0.001)
	a, b := slice(t, o, nil, d), slice(t, o, nil, nil)
	addNow := func(key string) bool {
		h := Sum([]byte(key))
		_, want, err := b.Admit(&h, "")
		if err != nil {
			t.Fatal(err)
		}
		if want {
			b.Commit()
		}
		d.asked = func() { t.Errorf("the source is asked for %s", key) }
		got, known := a.AdmitNow(&h, "")
		d.asked = nil
		if !known {
			if _, got, err = a.Admit(&h, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Fatalf("%s: got %v, known %v, want %v", key, got, known, want)
		}
		if got {
			a.Commit()
		}
		return known
	}
	count := func(what string, from, to, least, most int) {
		t.Helper()
		known := 0
		for i := from; i < to; i++ {
			if addNow(fmt.Sprint("key", i)) {
				known++
			}
		}
		if known < least || known > most {
			t.Errorf("%s: %d of %d are known, want %d to %d", what, known, to-from, least, most)
		}
	}
	if addNow("first") {
		t.Error("a layer was added")
	}
	count("nothing is stored", 0, 9_000, 9_000, 9_000)
	count("the next layer comes", 9_000, 11_000, 1_999, 1_999)
	count("again", 0, 11_000, 11_000, 11_000)
	a = slice(t, o, d.store(t, a, 100), d)
	count("all is stored, none in memory", 11_000, 11_003, 0, 0)
	count("all is in memory", 11_100, 12_000, 600, 900)
	count("still", 12_000, 13_000, 999, 1000)
	a.Evict(1 << 30)
	count("some are in memory", 12_900, 12_902, 0, 2)
	if s := fmt.Sprint(a.Layers()); s != fmt.Sprint(b.Layers()) {
		t.Errorf("got layers %s, want %v", s, b.Layers())
	}
}
