package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

// A journalled turn is what the journal says of one.
type journalled struct {
	channel, message string
	ends             []turn.Event
	attempts         int
	started, ended   map[string]int // tool calls
	afterEnd         int
}

// accounts is everything the journal and the readable log say.
type accounts struct {
	t       testing.TB
	p       *place
	turns   map[string]*journalled
	ends    map[string]int    // by channel
	streams map[string][]seen // what an event stream shows, by channel
	sockets map[string][]seen // what a socket shows, by channel
	pins    int
}

// journalOf reads the journal that a server has left.
func journalOf(t testing.TB, p *place) *accounts {
	t.Helper()
	a := &accounts{t: t, p: p, turns: map[string]*journalled{}, ends: map[string]int{}, streams: map[string][]seen{}, sockets: map[string][]seen{}}
	j, err := file.New(file.Options{Dir: filepath.Join(p.workspace, "state", "journal")})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a.pins = len(j.Pins())
	for channel := range j.Streams() {
		for r, err := range j.Read(t.Context(), channel, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var rec turn.Record
			if err := json.Unmarshal(r.Data, &rec); err != nil {
				t.Fatalf("record %d: %v", r.Seq, err)
			}
			a.record(channel, r.Seq, rec)
		}
	}
	return a
}

func (a *accounts) record(channel string, seq int64, rec turn.Record) {
	id := string(rec.Turn)
	j := a.turns[id]
	if rec.Accepted != nil {
		if j != nil {
			a.t.Errorf("turn %s was accepted twice", id)
		}
		a.turns[id] = &journalled{channel: channel, message: rec.Accepted.Message.ID, started: map[string]int{}, ended: map[string]int{}}
		a.sockets[channel] = append(a.sockets[channel], seen{seq: seq, kind: "message", turn: id, id: rec.Accepted.Message.ID})
		return
	}
	if j == nil {
		a.t.Errorf("record %d of %s belongs to turn %q, which was never accepted", seq, channel, id)
		return
	}
	if len(j.ends) > 0 {
		j.afterEnd++
	}
	if rec.Begun != nil {
		j.attempts++
	}
	e := rec.Event
	if e == nil {
		return
	}
	kind := string(e.Kind)
	if e.Kind == turn.Started {
		kind = "thinking"
	}
	a.streams[channel] = append(a.streams[channel], seen{seq: seq, kind: kind, turn: id})
	if e.Kind == turn.Text && e.Void {
		kind = "update"
	}
	a.sockets[channel] = append(a.sockets[channel], seen{seq: seq, kind: kind, turn: id})
	switch {
	case e.Terminal():
		j.ends = append(j.ends, *e)
		a.ends[channel]++
	case e.Kind == turn.ToolUse && e.Tool.Phase == turn.Start:
		j.started[e.Tool.ID]++
	case e.Kind == turn.ToolUse && !e.Tool.IsError:
		j.ended[e.Tool.ID]++
	}
}

// check compares the accounts with what clients were told and saw, and with
// what the tools did.
func (a *accounts) check(l *load, counter string, transcripts map[string][]seen) {
	a.t.Helper()
	if a.pins != 0 {
		a.t.Errorf("%d turns are still open", a.pins)
	}
	messages := map[string]string{}
	for id, j := range a.turns {
		key := j.channel + "/" + j.message
		if messages[key] != "" {
			a.t.Errorf("message %s was accepted as %s and as %s", key, messages[key], id)
		}
		messages[key] = id
		if len(j.ends) != 1 || j.afterEnd > 0 {
			a.t.Errorf("turn %s of %s has %d ends, and %d records after one", id, key, len(j.ends), j.afterEnd)
		}
	}
	for name, id := range l.turns {
		j := a.turns[id]
		if j == nil || j.message != name || len(j.ends) == 0 {
			a.t.Errorf("job %s was accepted as turn %s, of which the journal knows %+v", name, id, j)
			continue
		}
		text, over := l.texts[name]
		switch end := j.ends[0]; {
		case !over:
			a.t.Errorf("nobody was told the end of job %s", name)
		case end.Kind == turn.Final && (end.Text != text || text != "done "+name):
			a.t.Errorf("job %s: the client was told %q, the journal says %q", name, text, end.Text)
		case end.Kind == turn.Failed && (end.Code != turn.CodeInterrupted || j.attempts < 5):
			a.t.Errorf("job %s failed after %d attempts: %+v", name, j.attempts, end)
		}
	}
	if len(a.turns) != len(l.turns) {
		a.t.Errorf("%d turns for %d jobs", len(a.turns), len(l.turns))
	}
	a.checkTools(counter)
	for channel := range a.streams {
		a.checkLog(channel)
	}
	for channel, got := range transcripts {
		want := a.streams[channel]
		if strings.HasPrefix(channel, "WEBUI-") {
			want = a.sockets[channel]
			for i := range got { // ids of anything but messages are not compared
				if got[i].kind != "message" {
					got[i].id = ""
				}
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); diff != "" {
			a.t.Errorf("what a watcher of %s saw (-journal +watcher):\n%.4000s", channel, diff)
		}
	}
}

// checkTools compares the lines that tools wrote with the calls.
func (a *accounts) checkTools(counter string) {
	data, err := os.ReadFile(counter)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.t.Error(err)
	}
	ran := map[string]int{}
	for _, line := range lines(string(data)) {
		ran[line]++
		if ran[line] > 1 {
			a.t.Errorf("call %s ran %d times", line, ran[line])
		}
	}
	for id, j := range a.turns {
		for call, n := range j.started {
			if n > 1 {
				a.t.Errorf("turn %s: call %s was started %d times", id, call, n)
			}
			if j.ended[call] > 0 && ran[call] == 0 {
				a.t.Errorf("turn %s: call %s is said to have run", id, call)
			}
			delete(ran, call)
		}
	}
	for call := range ran {
		a.t.Errorf("call %s ran without having been announced", call)
	}
}

// replies counts the lines of Iris in the logs of conversations. It asks nobody:
// whoever asked would bring them up to date.
func (p *place) replies(channels []string) (n int) {
	for _, c := range channels {
		data, _ := os.ReadFile(filepath.Join(p.workspace, c, "log.jsonl")) // none yet is none
		n += strings.Count(string(data), `"isBot":true`)
	}
	return n
}

// checkLog looks for exactly one line of a message and of a reply per turn.
func (a *accounts) checkLog(channel string) {
	addr, err := chat.Parse(channel)
	if err != nil {
		a.t.Error(err)
		return
	}
	data, err := os.ReadFile(filepath.Join(a.p.workspace, addr.Dir(), "log.jsonl"))
	if err != nil {
		a.t.Error(err)
	}
	people, bot := map[string]int{}, map[string][]string{}
	for _, text := range lines(string(data)) {
		var line session.Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			a.t.Errorf("%s/log.jsonl: %q: %v", channel, text, err)
		}
		if line.IsBot {
			bot[line.Turn] = append(bot[line.Turn], line.Text)
		} else {
			people[line.Turn]++
		}
	}
	for id, j := range a.turns {
		if j.channel != channel {
			continue
		}
		if people[id] != 1 || len(bot[id]) != 1 {
			a.t.Errorf("%s/log.jsonl has %d lines of the message of turn %s and the replies %q", channel, people[id], id, bot[id])
			continue
		}
		if end := j.ends[0]; end.Kind == turn.Final && bot[id][0] != end.Text {
			a.t.Errorf("%s/log.jsonl: reply %q, the turn ended with %q", channel, bot[id][0], end.Text)
		}
	}
}

func (a *accounts) summary() string {
	attempts := map[int]int{}
	replies, interrupted, calls, lost := 0, 0, 0, 0
	for _, j := range a.turns {
		attempts[j.attempts]++
		calls += len(j.started)
		for call := range j.started {
			if j.ended[call] == 0 {
				lost++
			}
		}
		if slices.ContainsFunc(j.ends, func(e turn.Event) bool { return e.Kind == turn.Final }) {
			replies++
		} else {
			interrupted++
		}
	}
	return fmt.Sprintf("%d turns: %d replies, %d interrupted visibly, attempts %v; %d tool calls, %d of them cut off and told", len(a.turns), replies, interrupted, attempts, calls, lost)
}
