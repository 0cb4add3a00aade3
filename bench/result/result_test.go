package result

import (
	"reflect"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("%v: got %v", c.values, got)
		}
	}
}

// TestNamed: each figure has the name that it has in JSON, and one that is not known is none.
func TestNamed(t *testing.T) {
	var f Figures
	figures := reflect.ValueOf(&f).Elem()
	for i := range figures.NumField() {
		name, _, _ := strings.Cut(figures.Type().Field(i).Tag.Get("json"), ",")
		if v, known := f.Named(name); known || v != 0 {
			t.Errorf("%s: %v, and it is not known", name, v)
		}
		if p := figures.Field(i); p.Kind() == reflect.Pointer {
			p.Set(reflect.New(p.Type().Elem()))
		}
		if v := reflect.Indirect(figures.Field(i)); v.CanFloat() {
			v.SetFloat(float64(i + 1))
		} else {
			v.SetUint(uint64(i + 1))
		}
		if v, known := f.Named(name); !known || v != float64(i+1) {
			t.Errorf("%s: %v, %v, want %d", name, v, known, i+1)
		}
	}
	if _, known := f.Named("other"); known {
		t.Error("a figure that there is not is known")
	}
}
