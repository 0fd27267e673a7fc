package schedule

import (
	"fmt"
	"strings"
	"time"
)

// quiet is a span of the day, in minutes since midnight. from == to is none.
type quiet struct{ from, to int }

// parseQuiet reads "22:00-07:00", "off" or nothing.
func parseQuiet(s string) (quiet, error) {
	if s == "" || s == "off" {
		return quiet{}, nil
	}
	a, b, ok := strings.Cut(s, "-")
	from, errA := time.Parse("15:04", strings.TrimSpace(a))
	to, errB := time.Parse("15:04", strings.TrimSpace(b))
	if !ok || errA != nil || errB != nil || from.Equal(to) {
		return quiet{}, fmt.Errorf("quiet hours are %q and must be two different times such as 22:00-07:00, or off", s)
	}
	return quiet{minuteOf(from), minuteOf(to)}, nil
}

func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

// CheckQuiet says what is wrong with quiet hours as written in a configuration.
func CheckQuiet(s string) error {
	_, err := parseQuiet(s)
	return err
}

// end returns when the quiet hours around t are over by the clock of loc; t
// itself if it is in none.
func (q quiet) end(t time.Time, loc *time.Location) time.Time {
	local := t.In(loc)
	now, over := minuteOf(local), 0
	switch {
	case q.from < q.to && (now < q.from || now >= q.to), q.from > q.to && now < q.from && now >= q.to, q.from == q.to:
		return t
	case q.from > q.to && now >= q.from:
		over = 1 // tomorrow
	}
	year, month, day := local.Date()
	return moment(time.Date(year, month, day+over, 0, 0, 0, 0, time.UTC), q.to/60, q.to%60, loc)
}
