package turn

import "testing"

func TestShownName(t *testing.T) {
	for _, c := range []struct {
		e    Event
		want string
	}{
		{Event{Filename: "plan.png", Local: "out/x.png"}, "plan.png"},
		{Event{Local: "out/deep/x.png"}, "x.png"},
		{Event{Filename: "../../etc/passwd"}, "passwd"},
		{Event{Filename: `C:\\temp\\a.txt`}, "a.txt"},
		{Event{Filename: ".."}, "file"},
		{Event{}, "file"},
		{Event{Filename: "計画 a.png"}, "計画 a.png"},
	} {
		if got := c.e.ShownName(); got != c.want {
			t.Errorf("ShownName of %+v = %q, want %q", c.e, got, c.want)
		}
	}
}
