package transport

import (
	"testing"
	"time"
)

func TestStampsNeverRepeat(t *testing.T) {
	var s Stamps
	at := time.Unix(1_700_000_000, 5000)
	for _, step := range []struct {
		at   time.Time
		want string
	}{
		{at, "1700000000.000005"},
		{at, "1700000000.000006"},
		{at.Add(-time.Hour), "1700000000.000007"},
		{at.Add(time.Second), "1700000001.000005"},
	} {
		if got := s.Next(step.at); got != step.want {
			t.Errorf("Next(%v) = %q, want %q", step.at, got, step.want)
		}
	}
}
