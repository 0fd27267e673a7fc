package acp

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

var updateGolden = flag.Bool("update", false, "write the goldens")

// A recorded line, and which way it went.
type recorded struct {
	way string
	message
	raw string
}

func transcript(t *testing.T, name string) (list []recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^ *\d+ (->|<-|e-|!!) (.*)$`)
	for s := range strings.SplitSeq(string(text), "\n") {
		m := line.FindStringSubmatch(s)
		if m == nil || m[1] == "e-" || m[1] == "!!" {
			continue
		}
		r := recorded{way: m[1], raw: m[2]}
		if err := json.Unmarshal([]byte(m[2]), &r.message); err != nil {
			t.Fatalf("%s: %v in %s", name, err, m[2])
		}
		list = append(list, r)
	}
	return list
}

// TestReplay plays every recorded conversation to the driver, which is asked to
// do what the recorded client did, and compares the events with the goldens. Where
// that client was wrong on purpose the driver is right instead.
func TestReplay(t *testing.T) {
	for file, preset := range map[string]Preset{
		"acp-claude-01.txt": ClaudeCode(), "acp-claude-02-bad-answers-cancel.txt": ClaudeCode(),
		"acp-copilot-01.txt": Copilot(), "acp-copilot-02-load-replay.txt": Copilot(), "acp-gemini-handshake.txt": Gemini(),
	} {
		t.Run(strings.TrimSuffix(file, ".txt"), func(t *testing.T) {
			r := &replay{t: t, preset: preset, ids: map[string]string{}, skip: map[string]bool{}, asks: map[string]string{}}
			for _, line := range transcript(t, file) {
				r.step(line)
			}
			r.p.hangUp()
			got := r.p.log()
			golden := filepath.Join("testdata", strings.TrimSuffix(file, ".txt")+".events")
			if *updateGolden {
				if err := os.WriteFile(golden, []byte(r.log.String()+got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), r.log.String()+got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

type replay struct {
	t      *testing.T
	preset Preset
	p      *peer
	log    strings.Builder // of the agents before this one
	hello  string          // the recorded answer to initialize
	opened chan error
	// ids are those of the recorded client and what the driver chose; skip holds
	// those of requests that a driver does not make; asks the open questions by
	// the agent's id.
	ids  map[string]string
	skip map[string]bool
	asks map[string]string
}

func (r *replay) start(session string) {
	if r.p != nil {
		r.p.hangUp()
		r.log.WriteString(r.p.log() + "---\n")
	}
	r.p = join(r.t, Options{Preset: r.preset}, agentcli.Setup{Session: session, WorkDir: "/home/user/project"})
	r.opened = make(chan error, 1)
	go func() { r.opened <- r.p.agent.Open(context.Background()) }()
}

func (r *replay) step(l recorded) {
	ctx, id := context.Background(), string(l.ID)
	switch {
	case l.way == "->" && l.Method == "initialize":
		if r.hello != "" { // the recorded client tried a wrong version
			r.skip[id] = true
			return
		}
		r.start(r.sessionToLoad())
		r.ids[id] = string(r.p.next("initialize").ID)
	case l.way == "->" && (l.Method == "session/load" || l.Method == "session/resume"):
		if r.opened == nil || len(r.p.log()) > 0 { // one agent, one session: another agent
			var s openSession
			if err := json.Unmarshal(l.Params, &s); err != nil {
				r.t.Fatal(err)
			}
			if l.Method == "session/load" { // the driver would take resume where there is a choice
				r.hello = strings.Replace(r.hello, `"resume":{}`, `"resume":null`, 1)
			} else {
				r.hello = strings.Replace(r.hello, `"resume":null`, `"resume":{}`, 1)
			}
			r.start(s.ID)
			r.p.line(strings.Replace(r.hello, "%ID%", string(r.p.next("initialize").ID), 1))
		}
		r.ids[id] = string(r.p.next(l.Method).ID)
	case l.way == "->" && l.Method == "authenticate":
		// This agent would have worked without; one that does not answers so.
		m := r.p.next("session/new")
		r.p.feed(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Authentication required"}}`, m.ID)
		r.ids[id] = string(r.p.next("authenticate").ID)
	case l.way == "->" && l.Method == "session/new":
		if !r.expectAuth(l) {
			r.ids[id] = string(r.p.next("session/new").ID)
		}
	case l.way == "->" && l.Method == "session/prompt":
		var p prompt
		if err := json.Unmarshal(l.Params, &p); err != nil {
			r.t.Fatal(err)
		}
		if p.ID == "nope" {
			r.skip[id] = true
			return
		}
		if err := r.p.agent.Send(ctx, agentcli.Prompt{ID: id, Text: p.Blocks[0].Text}); err != nil {
			r.t.Fatal(err)
		}
		if r.busy() { // the driver sends it when the one before is answered
			return
		}
		r.ids[id] = string(r.p.next("session/prompt").ID)
	case l.way == "->" && l.Method == "session/cancel":
		if err := r.p.agent.Interrupt(ctx); err != nil {
			r.t.Fatal(err)
		}
		if r.busy() {
			r.p.next("session/cancel")
		}
	case l.way == "->" && l.Method != "":
		r.skip[id] = true
	case l.way == "->":
		r.answer(l)
	case l.Method == "session/request_permission":
		r.p.feed("%s", l.raw)
		r.asks[id] = r.p.await(agentcli.Permission).ID
	case l.Method != "":
		r.p.feed("%s", l.raw)
	default:
		r.response(l)
	}
}

// sessionToLoad is what the conversation begins with, in a recording of a load.
func (r *replay) sessionToLoad() string {
	if strings.Contains(r.t.Name(), "load-replay") {
		return "012f6592-3ab1-4fe2-98f4-45d74ff3f7f8"
	}
	return ""
}

// expectAuth reports that a session/new came with the login already.
func (r *replay) expectAuth(l recorded) bool {
	if !strings.Contains(r.t.Name(), "gemini") {
		return false
	}
	r.ids[string(l.ID)] = string(r.p.next("session/new").ID)
	return true
}

func (r *replay) busy() bool {
	r.p.agent.mu.Lock()
	defer r.p.agent.mu.Unlock()
	return r.p.agent.running != nil && (len(r.p.agent.queue) > 0 || r.p.agent.running.interrupted)
}

// answer has a person answer as the recorded client did, or meant to.
func (r *replay) answer(l recorded) {
	id := strings.Trim(string(l.ID), `"`)
	ask, ok := r.asks[id]
	if !ok {
		return // answered before, at the second try
	}
	delete(r.asks, id)
	var o outcome
	_ = json.Unmarshal(l.Result, &o)
	if o.Outcome.Outcome != "cancelled" {
		a := agentcli.Answer{ID: ask, Allow: strings.HasPrefix(o.Outcome.Option, "allow"), Always: o.Outcome.Option == "allow_always"}
		if err := r.p.agent.Answer(context.Background(), a); err != nil {
			r.t.Fatal(err)
		}
	}
	got := r.p.next("")
	if string(got.ID) != id {
		r.t.Errorf("the driver answered the request %s as %s", id, got.ID)
	}
	var mine outcome
	if err := json.Unmarshal(got.Result, &mine); err != nil {
		r.t.Fatal(err)
	}
	if l.Error == nil && !strings.Contains(l.raw, "option_id") && r.valid(o) && mine != o {
		r.t.Errorf("the driver answered %s with %+v, the recorded client with %+v", id, mine, o)
	}
}

// valid says that an answer of the recorded client was one that counts for the
// driver too, which remembers by itself what the claude adapter would keep in a
// file.
func (r *replay) valid(o outcome) bool {
	return !strings.Contains(r.t.Name(), "claude") || !strings.HasPrefix(o.Outcome.Option, "allow_")
}

func (r *replay) response(l recorded) {
	id := string(l.ID)
	if r.skip[id] {
		return
	}
	if r.hello == "" {
		r.hello = strings.Replace(l.raw, `"id":`+id, `"id":%ID%`, 1)
	}
	if r.ids[id] == "" { // a prompt that waited in the driver
		r.ids[id] = string(r.p.next("session/prompt").ID)
	}
	r.p.feed("%s", strings.Replace(l.raw, `"id":`+id, `"id":`+r.ids[id], 1))
	switch {
	case strings.Contains(l.raw, `"stopReason"`) || l.Error != nil:
		r.p.await(agentcli.Result)
	case strings.Contains(l.raw, `"sessionId"`) || strings.Contains(l.raw, `"modes"`): // the session is open
		r.p.await(agentcli.Session)
		if err := <-r.opened; err != nil {
			r.t.Fatal(err)
		}
	}
}
