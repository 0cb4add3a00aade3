package lsm

import (
	"errors"
	"strings"
	"testing"

	"bigset"
	"bigset/compaction"
)

func FuzzParseFormat(f *testing.F) {
	for _, text := range []string{
		"", "bigset store\n", "bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 1\nrecord set\n",
		"bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 99999999999999999999\nrecord merge\n",
		"bigset store\nformat 2\nrecord delete\n", "bigset store\r\nformat 1\r\nrecord merge\r\n", "bigset store\nformat %d\nrecord %s\n",
	} {
		for _, want := range []byte{0, byte(compaction.Merge), byte(compaction.Set), 'x'} {
			f.Add(text, want)
		}
	}
	f.Fuzz(func(t *testing.T, text string, want byte) {
		record, err := parseFormat("BIGSET", text, compaction.Record(want))
		if err != nil {
			if record != 0 || !errors.Is(err, ErrFormat) && !errors.Is(err, bigset.ErrCorrupt) {
				t.Errorf("parseFormat(%q, %d) = %v, %v", text, want, record, err)
			}
			return
		}
		if record != compaction.Merge && record != compaction.Set || want != 0 && record != compaction.Record(want) {
			t.Errorf("parseFormat(%q, %d) = %v", text, want, record)
		}
		if !strings.Contains(text, record.String()) {
			t.Errorf("parseFormat(%q, %d) = %v, which it does not name", text, want, record)
		}
	})
}
