package file

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/iris-operator/iris/internal/journal"
	"testing"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		j, err := New(Options{Dir: dir, SegmentBytes: 4096, RecentBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for i := range 200 {
			s := fmt.Sprintf("S-%d", i%7)
			if _, err := j.Append(ctx, s, journal.Any, journal.Entry{Data: json.RawMessage(`{"a":1}`), Key: fmt.Sprint(round, "k", i)}, journal.Entry{Data: json.RawMessage(`2`)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		n := 0
		var last int64
		for i := range 7 {
			last = 0
			for r, err := range j.Read(ctx, fmt.Sprintf("S-%d", i), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Seq <= last {
					t.Fatal(r)
				}
				last = r.Seq
				n++
			}
		}
		if n != 400*(round+1) {
			t.Fatal(n)
		}
		if s, q, ok := j.Lookup("0k0"); !ok || s != "S-0" || q != 1 {
			t.Fatal(s, q, ok, len(j.keys))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
