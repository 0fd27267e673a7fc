// Package schedule wakes Iris at the right time: it watches the event files of a
// workspace and submits what is due to the [transport.Inbox]. It owns the file
// format ([Event]), the meaning of a cron line where clocks change ([Rule]), the
// claims by which an occurrence runs once whatever crashes, and the way people
// and models put files there ([Store]).
//
// It does not decide who answers or where the answer is shown: the channel id in
// the file does, whichever directory the file lies in. A command that needs an
// approval while nobody is there is parked by package approval; the next
// occurrence comes all the same.
//
// Other programs write a file under another name and rename it into the
// directory. Nothing is deleted that has not run: what cannot run is moved to
// events/failed/ with the reason beside it.
package schedule
