package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// spoilTable flips a bit in the middle of the largest table of a node, which is closed for that.
func (n *node) spoilTable(t testing.TB) {
	t.Helper()
	must(t, n.store.Close(), "close")
	names, err := n.disk.List("db")
	must(t, err, "list")
	path, data := "", []byte(nil)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := n.disk.Open("db/" + name)
		must(t, err, "open table")
		b, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()), "read table")
		if len(b) > len(data) {
			path, data = "db/"+name, b
		}
	}
	data[len(data)/2] ^= 4
	f, err := n.disk.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err, "create table")
	_, err = f.Write(data)
	must(t, errors.Join(err, f.Sync(), f.Close()), "write table")
	n.open(t)
}

// TestPullOverDamage pulls into a replica that can't read some of its stored pages: they are reported, and all others come.
func TestPullOverDamage(t *testing.T) {
	a, node := newSlices(t, "a"), newNode(t, "b")
	spec := specOf("f", 0, 5, largeFilter)
	pages := fillSlice(t, a, spec, "\x01", 1)
	fillSlice(t, node.local, spec, "\x01", 2)
	node.spoilTable(t)
	if _, _, err := node.local.PageSums(bg, spec, nil, 0); !errors.Is(err, bigset.ErrCorrupt) {
		t.Fatalf("nothing is damaged: %v", err)
	}
	r, err := transfer.PullSlice(bg, a, node.local, spec)
	if !errors.Is(err, bigset.ErrCorrupt) || !strings.Contains(err.Error(), `of layer 0 of seat 1`) {
		t.Errorf("%v", err)
	}
	if r.Pages >= uint64(pages) || r.Pages < uint64(pages)-40 {
		t.Errorf("%d of %d pages came", r.Pages, pages)
	}
	must(t, node.store.Close(), "close")
}

// undigested is a sender that has no digest of a slice, for damage.
type undigested struct {
	*end
	name string
	gone bool // and says that its generation has ended
}

func (u undigested) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return func(yield func(bigset.SliceDigest, error) bool) {
		for d, err := range u.end.SliceDigests(ctx, first, last) {
			if string(d.Name) == u.name {
				err = fmt.Errorf("%w: %s", bigset.ErrCorrupt, u.name)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

func (u undigested) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	if u.gone && string(spec.Name) == u.name {
		return bigset.PageSums{}, u.end.Member(), bigset.ErrNoFilter
	}
	return u.end.PageSums(ctx, spec, after, most)
}

// TestCopyUndigested: a slice without a digest is reported, though nothing is to come of it any more; but not where it came whole.
func TestCopyUndigested(t *testing.T) {
	a := newSource(t)
	r, err := copyAll(undigested{a, "large", false}, newEnd(t, "b"), transfer.Options{})
	if err != nil || r.Slices != 3 {
		t.Errorf("it came whole: %+v, %v", r, err)
	}
	r, err = copyAll(undigested{a, "large", true}, newEnd(t, "b"), transfer.Options{})
	if !errors.Is(err, handoff.ErrIncomplete) || !errors.Is(err, bigset.ErrCorrupt) || r.Slices != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// away is a receiver that has not excised an older copy of a slice yet.
type away struct {
	*end
	name string
}

func (a away) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	if string(p.Name) == a.name {
		return a.end.Member(), fmt.Errorf("%w: %w", peer.ErrUnavailable, bigset.ErrSliceAway)
	}
	return a.end.MergePages(ctx, p)
}

// TestCopyAway: a slice that the receiver can't take now is reported, and the others come.
func TestCopyAway(t *testing.T) {
	r, err := copyAll(newSource(t), away{newEnd(t, "b"), "small"}, transfer.Options{})
	if !errors.Is(err, handoff.ErrIncomplete) || !errors.Is(err, bigset.ErrSliceAway) || r.Slices != 1 || r.Dropped != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
