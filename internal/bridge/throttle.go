package bridge

import "time"

// A Throttle thins out progress: the first text is shown at once, then at most
// one per Gap, the newest; a text that repeats the last one is dropped. It has
// no clock and no timer of its own: the owner says what time it is and comes
// back when something is due. It is for one goroutine.
type Throttle struct {
	// Gap is the least time between two texts; zero or less shows all of them.
	Gap time.Duration

	shown   string
	at      time.Time // of shown; zero before the first
	pending string
	waits   bool
}

// Add takes a text. It returns true when the text is to be shown now; otherwise
// it may be later.
func (t *Throttle) Add(now time.Time, text string) (show bool) {
	switch {
	case !t.at.IsZero() && text == t.shown:
		t.waits = false // what waited was replaced by what people see
		return false
	case t.at.IsZero() || now.Sub(t.at) >= t.Gap:
		t.shown, t.at, t.waits = text, now, false
		return true
	}
	t.pending, t.waits = text, true
	return false
}

// Due returns when the text that waits is to be shown; ok is false if none does.
func (t *Throttle) Due() (at time.Time, ok bool) { return t.at.Add(t.Gap), t.waits }

// Take returns the text that waits, if it is due.
func (t *Throttle) Take(now time.Time) (text string, ok bool) {
	if !t.waits || now.Sub(t.at) < t.Gap {
		return "", false
	}
	t.shown, t.at, t.waits = t.pending, now, false
	return t.shown, true
}

// Cancel forgets the text that waits. It is called before the end is shown.
func (t *Throttle) Cancel() { t.waits = false }
