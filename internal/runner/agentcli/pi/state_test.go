package pi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// say plays lines of Pi and returns what the state says and wants then.
func say(t *testing.T, s *state, lines ...string) string {
	t.Helper()
	var b strings.Builder
	for _, text := range lines {
		l, err := parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s.hear(l)
		short(&b, s)
	}
	return b.String()
}

// short writes events and commands in a few letters.
func short(b *strings.Builder, s *state) {
	for _, e := range s.events {
		fmt.Fprintf(b, "%s %s%s%v %s;", e.Kind, e.ID, e.Text, e.Prompts, e.Failure)
	}
	for _, c := range s.out {
		switch c := c.(type) {
		case command:
			fmt.Fprintf(b, "!%s %s;", c.Type, c.ID)
		case uiAnswer:
			value := ""
			if c.Value != nil {
				value = *c.Value
			}
			if c.Confirmed != nil {
				value = fmt.Sprint(*c.Confirmed)
			}
			fmt.Fprintf(b, "!answer %s %s %v;", c.ID, value, c.Cancelled)
		}
	}
	s.events, s.out = nil, nil
}

func drain(s *state) { s.events, s.out = nil, nil }

const (
	started = `{"type":"agent_start"}`
	user    = `{"type":"message_start","message":{"role":"user","content":"x"}}`
	ended   = `{"type":"agent_end"}`
	settled = `{"type":"response","id":"iris-settle","command":"get_state","success":true,"data":{}}`
	bad     = `{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"529 busy"}}`
	good    = `{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"yes"}]}}`
	aborted = `{"type":"message_end","message":{"role":"assistant","stopReason":"aborted","content":[]}}`
	retry   = `{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"529 busy"}`
)

// TestTurnEndsOnAgentEnd: a good end is told at once, a bad one when no other try
// follows; agent_settled, which Pi never sends, is not waited for.
func TestTurnEndsOnAgentEnd(t *testing.T) {
	begin := func() *state {
		s := newState()
		s.send(agentcli.Prompt{ID: "p"})
		say(t, s, started, user)
		return s
	}
	s := begin()
	if got, want := say(t, s, good, ended, settled), "text yes[] ;result [p] ;!get_state iris-settle;"; got != want {
		t.Errorf("a good end: %s, want %s", got, want)
	}
	s = begin()
	if got, want := say(t, s, bad, ended, settled), "!get_state iris-settle;result [p] Pi reports: 529 busy;"; got != want {
		t.Errorf("a bad end: %s, want %s", got, want)
	}
	s = begin()
	if got, want := say(t, s, bad, ended, retry, settled), "!get_state iris-settle;notice The model's provider failed (529 busy); trying again in 2s, 1 of 3.[] ;"; got != want {
		t.Errorf("a retry: %s, want %s", got, want)
	}
	if got, want := say(t, s, started, good, `{"type":"auto_retry_end","success":true,"attempt":1}`, ended), "text yes[] ;result [p] ;!get_state iris-settle;"; got != want {
		t.Errorf("a good retry: %s, want %s", got, want)
	}
	s = begin()
	say(t, s, bad, ended, retry, settled)
	if got, want := say(t, s, started, bad, ended, `{"type":"auto_retry_end","success":false,"attempt":1,"finalError":"529 busy"}`, settled), "!get_state iris-settle;result [p] Pi reports: 529 busy;"; got != want {
		t.Errorf("the last try: %s, want %s", got, want)
	}
	s = begin()
	say(t, s, bad, ended, retry, settled)
	s.interrupt()
	if got, want := say(t, s, `{"type":"auto_retry_end","success":false,"attempt":1,"finalError":"Retry cancelled"}`), "!abort iris-abort;result [p] ;"; strings.Replace(got, "!abort iris-abort;", "", 1) != strings.Replace(want, "!abort iris-abort;", "", 1) {
		t.Errorf("stopped while it waits: %s, want %s", got, want)
	}
}

// TestCompactionHoldsPromptsBack: Pi would run them into the summary.
func TestCompactionHoldsPromptsBack(t *testing.T) {
	s := newState()
	s.send(agentcli.Prompt{ID: "p"})
	say(t, s, started, user, good, ended, `{"type":"compaction_start","reason":"threshold"}`)
	s.send(agentcli.Prompt{ID: "q"})
	if got := say(t, s, settled); got != "" {
		t.Errorf("while it compacts it says %s", got)
	}
	if got, want := say(t, s, `{"type":"compaction_end","willRetry":false}`), "!prompt q;"; got != want {
		t.Errorf("after it: %s, want %s", got, want)
	}
	s = newState()
	s.send(agentcli.Prompt{ID: "p"})
	say(t, s, started, user, bad, ended, `{"type":"compaction_start","reason":"overflow"}`, settled, `{"type":"compaction_end","willRetry":true}`)
	if got, want := say(t, s, started, good, ended), "text yes[] ;result [p] ;!get_state iris-settle;"; got != want {
		t.Errorf("after an overflow: %s, want %s", got, want)
	}
	s = newState()
	s.send(agentcli.Prompt{ID: "c", Text: "/compact"})
	if got, want := say(t, s, `{"type":"compaction_start"}`, `{"type":"compaction_end"}`, `{"type":"response","id":"c","command":"compact","success":false,"error":"Nothing to compact"}`),
		"taken up c[] ;notice Pi is summarising what was said so far.[] ;!compact c;result [c] Pi reports: Nothing to compact;"; got != want {
		t.Errorf("/compact: %s, want %s", got, want)
	}
}

// TestStopBeforeTheStart: an abort that comes too early does nothing, so it waits
// for the prompt to be taken up.
func TestStopBeforeTheStart(t *testing.T) {
	s := newState()
	s.send(agentcli.Prompt{ID: "p"})
	s.send(agentcli.Prompt{ID: "q"})
	drain(s)
	s.interrupt()
	if got := say(t, s, started); got != "" {
		t.Errorf("before the prompt is taken up: %s", got)
	}
	if got, want := say(t, s, user, aborted, ended, settled), "taken up p[] ;!abort iris-abort;result [p] ;!get_state iris-settle;!prompt q;"; got != want {
		t.Errorf("then: %s, want %s", got, want)
	}
}

// TestPromptThatIsNoWork: an extension may take a word as its command, and Pi may
// refuse one.
func TestPromptThatIsNoWork(t *testing.T) {
	s := newState()
	s.send(agentcli.Prompt{ID: "p", Text: "/mine"})
	drain(s)
	if got, want := say(t, s, `{"type":"response","id":"p","command":"prompt","success":true}`, `{"type":"response","id":"iris-probe","command":"get_state","success":true,"data":{}}`), "!get_state iris-probe;result [p] ;"; got != want {
		t.Errorf("a command: %s, want %s", got, want)
	}
	s.send(agentcli.Prompt{ID: "p"})
	s.send(agentcli.Prompt{ID: "q"})
	drain(s)
	if got, want := say(t, s, `{"type":"response","id":"p","command":"prompt","success":false,"error":"No API key found for x.\nmore"}`), "result [p] Pi reports: No API key found for x.;!prompt q;"; got != want {
		t.Errorf("a refusal: %s, want %s", got, want)
	}
}

// TestQuestionsOfOtherExtensions are put to the person in every mode.
func TestQuestionsOfOtherExtensions(t *testing.T) {
	for line, want := range map[string]string{
		`"method":"confirm","title":"Sure?","message":"really"`:  "!answer 1 true false;",
		`"method":"select","title":"Which?","options":["a","b"]`: "!answer 1 b false;",
		`"method":"input","title":"Name?"`:                       "!answer 1 b false;",
		`"method":"editor","title":"Text?"`:                      "!answer 1 b false;",
	} {
		for _, allow := range []bool{true, false} {
			s := newState()
			l, err := parse([]byte(`{"type":"extension_ui_request","id":"1",` + line + `}`))
			if err != nil {
				t.Fatal(err)
			}
			s.hear(l)
			if len(s.events) != 1 || s.events[0].Kind != agentcli.Question {
				t.Fatalf("%s becomes %+v", line, s.events)
			}
			q := s.events[0].Choices[0].Question
			drain(s)
			s.answer(agentcli.Answer{ID: "1", Allow: allow, Picked: map[string]string{q: "b"}})
			var b strings.Builder
			short(&b, s)
			if !allow {
				want = strings.NewReplacer("true", "false", " b false", "  true").Replace(want)
			}
			if b.String() != want {
				t.Errorf("%s, allow=%v: %s, want %s", line, allow, b.String(), want)
			}
		}
	}
	s := newState()
	if got, want := say(t, s, `{"type":"extension_ui_request","id":"1","method":"notify","message":"hello"}`, `{"type":"extension_error","error":"boom"}`, `{"type":"extension_ui_request","id":"2","method":"setTitle","title":"x"}`),
		"notice hello[] ;notice An extension of Pi failed: boom[] ;"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A question for a tool that cannot be understood is refused.
	if got, want := say(t, s, `{"type":"extension_ui_request","id":"3","method":"input","title":"iris-gate","placeholder":"garbage"}`), "!answer 3  true;"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRefusalWithStop ends the work as well.
func TestRefusalWithStop(t *testing.T) {
	s := newState()
	s.send(agentcli.Prompt{ID: "p"})
	say(t, s, started, user, `{"type":"tool_execution_start","toolCallId":"c","toolName":"bash","args":{}}`,
		`{"type":"extension_ui_request","id":"1","method":"input","title":"iris-gate","placeholder":"{\"id\":\"c\",\"tool\":\"bash\",\"input\":{}}"}`)
	s.answer(agentcli.Answer{ID: "1", Stop: true})
	var b strings.Builder
	short(&b, s)
	if want := `!answer 1 {"allow":false,"input":null,"reason":""} false;!abort iris-abort;`; b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
}

// TestOpenWithoutTheGateFails: a Pi that would ask nobody is not used.
func TestOpenWithoutTheGateFails(t *testing.T) {
	fromPi, toUs := io.Pipe()
	fromUs, toPi := io.Pipe()
	a, err := New(Options{}).Attach(agentcli.Setup{}, agentcli.Pipes{In: toPi, Out: fromPi})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() { read <- a.Read(func(agentcli.Event) {}) }()
	go func() {
		in := bufio.NewScanner(fromUs)
		for in.Scan() {
			id := strings.Split(in.Text(), `"`)[3]
			fmt.Fprintf(toUs, `{"type":"response","id":%q,"command":"get_state","success":true,"data":{"sessionId":"s"}}`+"\n", id)
		}
	}()
	if err := a.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "without the extension") {
		t.Errorf("Open says %v", err)
	}
	fromUs.Close()
	toUs.Close()
	if err := <-read; err != nil {
		t.Errorf("Read says %v", err)
	}
	if err := a.Interrupt(t.Context()); !errors.Is(err, agentcli.ErrGone) {
		t.Errorf("Interrupt says %v", err)
	}
}

// TestSilentPi: who waits for an answer gives up in time, and a pipe that breaks is
// said to be one.
func TestSilentPi(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromPi, toUs := io.Pipe()
		fromUs, toPi := io.Pipe()
		a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: toPi, Out: fromPi})
		read := make(chan error, 1)
		go func() { read <- a.Read(func(agentcli.Event) {}) }()
		go func() { _, _ = io.Copy(io.Discard, io.LimitReader(fromUs, 10)) }()
		begun := time.Now()
		if _, _, err := a.Models(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != modelsWait {
			t.Errorf("Models says %v after %s", err, time.Since(begun))
		}
		fromUs.Close()
		synctest.Wait()
		if err := a.Send(t.Context(), agentcli.Prompt{ID: "p"}); !errors.Is(err, agentcli.ErrGone) {
			t.Errorf("Send into a broken pipe says %v", err)
		}
		toUs.Close()
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

// TestLongLines are read whole.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("ü", 3<<20)
	in := `{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":"` + long + `"}}` + "\nnoise\n" + good + "\n" + good
	a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: io.Discard, Out: strings.NewReader(in)})
	var got []string
	if err := a.Read(func(e agentcli.Event) { got = append(got, e.Text) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0] != long {
		t.Errorf("%d texts, the first of %d bytes", len(got), len(got[0]))
	}
	if diff := cmp.Diff([]string{"yes", "yes"}, got[1:]); diff != "" {
		t.Error(diff)
	}
}
