package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A Rule says when a periodic event is due: five cron fields in a time zone.
//
// Daylight saving is handled in one of two ways. A rule that names hours
// ("30 2 * * *") means the clock on the wall: a time that the clock skips is due
// at the first moment after the gap, once, and a time that the clock shows twice
// is due the first time only. A rule for every hour ("*/15 * * * *") means time
// that passes: it is due whenever the clock shows a matching minute, both times
// if there are two, and not at all inside a gap.
type Rule struct {
	spec cron.SpecSchedule
	loc  *time.Location
	// wall: the hours are named.
	wall bool
}

// horizon is how far Next looks. Between two 29ths of February lie up to eight
// years.
const horizonYears = 9

// star is the bit by which the parser marks a field that was "*".
const star = 1 << 63

// ParseRule reads "minute hour day-of-month month day-of-week". Names (mon, jan),
// ranges, lists and steps are allowed; 7 is Sunday as well as 0. If both days are
// restricted, either one is enough, as cron has it. A rule that is never due, such
// as one for the 30th of February, is an error.
func ParseRule(expr string, loc *time.Location) (*Rule, error) {
	fields := strings.Fields(expr)
	if len(fields) != 5 || strings.Contains(expr, "=") || strings.HasPrefix(expr, "@") {
		return nil, fmt.Errorf("%q is not a schedule: five fields are needed (minute hour day-of-month month day-of-week)", expr)
	}
	fields[4] = sunday(fields[4])
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("%q is not a schedule: %w", expr, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not a schedule of five fields", expr)
	}
	r := &Rule{spec: *spec, loc: loc, wall: spec.Hour&star == 0}
	if r.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, loc)).IsZero() {
		return nil, fmt.Errorf("%q is never due: there is no such date", expr)
	}
	return r, nil
}

// sunday writes the 7 that many people use for Sunday as 0.
func sunday(field string) string {
	parts := strings.Split(field, ",")
	for i, p := range parts {
		from, isRange := strings.CutSuffix(p, "-7")
		switch {
		case p == "7":
			parts[i] = "0"
		case isRange && from == "7":
			parts[i] = "0"
		case isRange:
			parts[i] = from + "-6,0"
		}
	}
	return strings.Join(parts, ",")
}

// Next returns the first time after t at which the rule is due, in the rule's
// zone; zero if there is none within nine years.
func (r *Rule) Next(t time.Time) time.Time {
	t = t.In(r.loc)
	if r.wall {
		return r.nextWall(t)
	}
	return r.nextPassing(t)
}

// nextWall walks over dates and maps each matching clock time to the moment it
// stands for. The mapping never goes backwards, so the first moment after t is
// the answer.
func (r *Rule) nextWall(t time.Time) time.Time {
	year, month, day := t.Date()
	end := t.AddDate(horizonYears, 0, 0)
	// One day early: a date that a zone leaves out is due on the next one.
	for d := time.Date(year, month, day-1, 0, 0, 0, 0, time.UTC); d.Before(end); d = d.AddDate(0, 0, 1) {
		if !r.day(d) {
			continue
		}
		for h := range 24 {
			if r.spec.Hour&(1<<h) == 0 {
				continue
			}
			for m := range 60 {
				if r.spec.Minute&(1<<m) == 0 {
					continue
				}
				if at := moment(d, h, m, r.loc); at.After(t) {
					return at
				}
			}
		}
	}
	return time.Time{}
}

// nextPassing walks over the minutes that pass.
func (r *Rule) nextPassing(t time.Time) time.Time {
	at := t.Truncate(time.Minute).Add(time.Minute)
	for end := t.AddDate(horizonYears, 0, 0); at.Before(end); {
		if !r.day(at) {
			next := time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, r.loc)
			if !next.After(at) {
				next = at.Add(time.Minute)
			}
			at = next
			continue
		}
		if r.spec.Minute&(1<<at.Minute()) != 0 {
			return at
		}
		at = at.Add(time.Minute)
	}
	return time.Time{}
}

// day reports whether the date of t matches.
func (r *Rule) day(t time.Time) bool {
	if r.spec.Month&(1<<uint(t.Month())) == 0 {
		return false
	}
	inMonth := r.spec.Dom&(1<<uint(t.Day())) != 0
	inWeek := r.spec.Dow&(1<<uint(t.Weekday())) != 0
	if r.spec.Dom&star != 0 || r.spec.Dow&star != 0 {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// moment returns the first moment at which a clock in loc shows that date, hour
// and minute; if it never does, the first moment after the gap.
func moment(date time.Time, hour, minute int, loc *time.Location) time.Time {
	year, month, day := date.Date()
	want := time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	at := time.Date(year, month, day, hour, minute, 0, 0, loc)
	start, end := at.ZoneBounds()
	switch shown := wallClock(at); {
	case shown.After(want): // counted from before the gap
		return start
	case shown.Before(want): // counted from after the gap
		return end
	}
	if start.IsZero() {
		return at
	}
	// Did the clock show this before it was turned back?
	_, before := start.Add(-time.Second).Zone()
	if early := want.Add(-time.Duration(before) * time.Second).In(loc); early.Before(start) && wallClock(early).Equal(want) {
		return early
	}
	return at
}

// wallClock is what the clock shows, as if it were UTC.
func wallClock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// errZone tells of a zone that is missing or unknown.
var errZone = errors.New("an IANA name such as Europe/Berlin is needed")

// zone loads a time zone by its IANA name. "Local" is not one.
func zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("timezone %q: %w", name, errZone)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("timezone %q: %w", name, errZone)
	}
	return loc, nil
}
