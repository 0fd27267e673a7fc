package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestDaylightSavingPolicy(t *testing.T) {
	for _, c := range []struct {
		about, zone, rule, from string
		want                    []string // in UTC
	}{
		{"a skipped time is due right after the gap", "America/New_York", "30 2 * * *", "2027-03-13T12:00:00Z",
			[]string{"2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"}},
		{"several skipped times are due once", "America/New_York", "*/10 2 * * *", "2027-03-14T00:00:00Z",
			[]string{"2027-03-14T07:00:00Z", "2027-03-15T06:00:00Z"}},
		{"a repeated time is due the first time", "America/New_York", "30 1 * * *", "2027-11-06T12:00:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z"}},
		{"every hour is every hour that passes", "America/New_York", "30 * * * *", "2027-11-07T04:45:00Z",
			[]string{"2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z", "2027-11-07T07:30:00Z"}},
		{"every hour over a gap", "Europe/London", "0 * * * *", "2027-03-28T00:30:00Z",
			[]string{"2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z"}},
		{"half an hour of gap", "Australia/Lord_Howe", "15 2 * * *", "2027-10-02T12:00:00Z",
			[]string{"2027-10-02T15:30:00Z", "2027-10-03T15:15:00Z"}},
		{"half an hour shown twice", "Australia/Lord_Howe", "45 1 * * *", "2027-04-03T00:00:00Z",
			[]string{"2027-04-03T14:45:00Z", "2027-04-04T15:15:00Z"}},
		{"midnight that does not exist", "America/Santiago", "0 0 * * *", "2027-09-04T12:00:00Z",
			[]string{"2027-09-05T04:00:00Z", "2027-09-06T03:00:00Z"}},
		{"midnight after a repeated hour", "America/Santiago", "0 0 * * *", "2027-04-03T12:00:00Z",
			[]string{"2027-04-04T04:00:00Z", "2027-04-05T04:00:00Z"}},
		{"a date that a zone left out", "Pacific/Apia", "0 8 30 12 *", "2011-12-28T00:00:00Z",
			[]string{"2011-12-30T10:00:00Z", "2012-12-29T18:00:00Z"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			r, err := ParseRule(c.rule, location(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range c.want {
				at = r.Next(at)
				got = append(got, at.UTC().Format(time.RFC3339))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for _, expr := range []string{
		"", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
		"TZ=UTC * * * * *", "CRON_TZ=Europe/Paris 0 0 * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "a b c d e", "*/0 * * * *", "5-1 * * * *",
	} {
		if _, err := ParseRule(expr, time.UTC); err == nil {
			t.Errorf("ParseRule(%q) accepts", expr)
		} else if len(err.Error()) < 20 {
			t.Errorf("ParseRule(%q) = %q says little", expr, err)
		}
	}
}

func TestSundayIsSevenToo(t *testing.T) {
	from := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, pair := range [][2]string{{"0 9 * * 7", "0 9 * * 0"}, {"0 9 * * 5-7", "0 9 * * 5,6,0"}, {"0 9 * * 1,7", "0 9 * * sun,mon"}} {
		a, err := ParseRule(pair[0], time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseRule(pair[1], time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		x, y := from, from
		for range 20 {
			if x, y = a.Next(x), b.Next(y); !x.Equal(y) {
				t.Fatalf("%v: %v, %v", pair, x, y)
			}
		}
	}
}

func TestRareDates(t *testing.T) {
	r, err := ParseRule("0 0 29 2 *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2104 {
		t.Errorf("after 2096: %v", got)
	}
}

// zones are 60, with every kind of change there is in 2027.
var zones = strings.Fields(`UTC Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon Europe/Athens Europe/Kyiv Europe/Moscow
Europe/Istanbul Europe/Chisinau Atlantic/Azores America/New_York America/Chicago America/Denver America/Phoenix America/Los_Angeles
America/Anchorage America/Adak America/Halifax America/St_Johns America/Havana America/Nuuk America/Sao_Paulo America/Santiago
America/Asuncion America/Bogota America/Mexico_City America/Tijuana America/Port-au-Prince America/Argentina/Buenos_Aires
Pacific/Easter Pacific/Auckland Pacific/Chatham Pacific/Apia Pacific/Kiritimati Pacific/Honolulu Pacific/Norfolk Pacific/Tongatapu
Australia/Sydney Australia/Adelaide Australia/Lord_Howe Australia/Eucla Australia/Brisbane Australia/Perth Asia/Tokyo Asia/Kolkata
Asia/Kathmandu Asia/Tehran Asia/Jerusalem Asia/Beirut Asia/Gaza Asia/Dubai Asia/Almaty Asia/Yangon Asia/Shanghai Africa/Cairo
Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Antarctica/Troll`)

// A face is every minute around a change of the clocks with what the clock shows:
// an oracle that knows no transitions and shares no code with Rule.
type face struct {
	from, to time.Time
	loc      *time.Location
	shown    map[string]time.Time // clock time → when it is first shown
	order    []string             // the clock times, sorted
}

func faceOf(loc *time.Location, from, to time.Time) face {
	f := face{from: from, to: to, loc: loc, shown: map[string]time.Time{}}
	for at := from.Add(-72 * time.Hour); at.Before(to.Add(72 * time.Hour)); at = at.Add(time.Minute) {
		s := at.In(loc).Format("2006-01-02 15:04")
		if _, ok := f.shown[s]; !ok {
			f.shown[s] = at
			f.order = append(f.order, s)
		}
	}
	slices.Sort(f.order)
	return f
}

// due lists when a rule is due between from and to.
func (f face) due(minutes, hours []int, days func(time.Time) bool, named bool) []time.Time {
	due := map[int64]bool{}
	if !named {
		for at := f.from; at.Before(f.to); at = at.Add(time.Minute) {
			if l := at.In(f.loc); slices.Contains(minutes, l.Minute()) && days(l) {
				due[at.Unix()] = true
			}
		}
	}
	for d := f.from.Add(-36 * time.Hour).Truncate(24 * time.Hour); named && d.Before(f.to.Add(36*time.Hour)); d = d.Add(24 * time.Hour) {
		if !days(d) {
			continue
		}
		for _, h := range hours {
			for _, m := range minutes {
				s := fmt.Sprintf("%s %02d:%02d", d.Format(time.DateOnly), h, m)
				at, ok := f.shown[s]
				if !ok { // the next clock time that is shown at all
					i, _ := slices.BinarySearch(f.order, s)
					at = f.shown[f.order[i]]
				}
				if !at.Before(f.from) && at.Before(f.to) {
					due[at.Unix()] = true
				}
			}
		}
	}
	var out []time.Time
	for s := range due {
		out = append(out, time.Unix(s, 0))
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// changes are the moments of 2027 at which the clocks of loc change, found by
// looking at every hour; without any, two arbitrary days.
func changes(loc *time.Location) []time.Time {
	var out []time.Time
	_, last := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).In(loc).Zone()
	for at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2027; at = at.Add(time.Hour) {
		if _, now := at.In(loc).Zone(); now != last {
			out, last = append(out, at), now
		}
	}
	if len(out) == 0 {
		out = append(out, time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC), time.Date(2027, 10, 31, 1, 0, 0, 0, time.UTC))
	}
	return out
}

// random makes a rule and what the oracle needs to know of it.
func random(rng *rand.Rand) (expr string, minutes, hours []int, days func(time.Time) bool, named bool) {
	pick := func(n, most int) []int {
		out := rng.Perm(n)[:1+rng.IntN(most)]
		slices.Sort(out)
		return out
	}
	list := func(v []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") }
	minutes = pick(60, 4)
	hour, dom, dow := "*", "*", "*"
	if named = rng.IntN(4) > 0; named {
		if hours = pick(24, 3); rng.IntN(2) == 0 {
			hours = []int{rng.IntN(4)} // where clocks change
		}
		hour = list(hours)
	}
	var inMonth, inWeek []int
	if rng.IntN(4) == 0 {
		for _, d := range pick(31, 20) {
			inMonth = append(inMonth, d+1)
		}
		dom = list(inMonth)
	}
	if rng.IntN(4) == 0 {
		inWeek = pick(7, 6)
		dow = list(inWeek)
	}
	days = func(t time.Time) bool {
		m, w := slices.Contains(inMonth, t.Day()), slices.Contains(inWeek, int(t.Weekday()))
		switch {
		case dom == "*" && dow == "*":
			return true
		case dom == "*":
			return w
		case dow == "*":
			return m
		}
		return m || w
	}
	return fmt.Sprintf("%s %s %s * %s", list(minutes), hour, dom, dow), minutes, hours, days, named
}

// compare checks count random rules against the oracle around the changes of the
// clocks in every zone.
func compare(t *testing.T, seed uint64, count int) {
	rng := rand.New(rand.NewPCG(seed, 27))
	for _, name := range zones {
		loc := location(t, name)
		var faces []face
		for _, change := range changes(loc) {
			faces = append(faces, faceOf(loc, change.Add(-26*time.Hour), change.Add(26*time.Hour)))
		}
		for range count {
			expr, minutes, hours, days, named := random(rng)
			r, err := ParseRule(expr, loc)
			if err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
			for _, f := range faces {
				want := f.due(minutes, hours, days, named)
				var got []time.Time
				for at := r.Next(f.from.Add(-time.Second)); !at.IsZero() && at.Before(f.to); at = r.Next(at) {
					got = append(got, at)
				}
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Fatalf("%s in %s between %v and %v:\n got %v\nwant %v", expr, name, f.from, f.to, got, want)
				}
			}
		}
	}
}

func TestRulesAgreeWithAnOracleInEveryZone(t *testing.T) { compare(t, 1, 20) }

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 9-17 * * mon-fri", "0 0 29 2 7", "1,2 3 4 5 6"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		r, err := ParseRule(expr, time.UTC)
		if err != nil {
			return
		}
		at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := r.Next(at); !next.IsZero() && !next.After(at) {
			t.Errorf("%q: %v is not after %v", expr, next, at)
		}
	})
}
