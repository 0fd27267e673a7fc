package claude

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

var update = flag.Bool("update", false, "write what the recorded lines mean into testdata")

var entry = regexp.MustCompile(`^ *\d+ (->|<-|e-|!!) (.*)$`)

// A said is one entry of a recording.
type said struct{ mark, text string }

// recorded reads the conversations of a file, by their names.
func recorded(t testing.TB, file string) (names []string, cases map[string][]said) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cases = map[string][]said{}
	name := "only"
	for line := range strings.Lines(string(text)) {
		m := entry.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			t.Fatalf("%s: not a line of a recording: %.80q", file, line)
		}
		if n, ok := strings.CutPrefix(m[2], "case: "); ok && m[1] == "!!" {
			name = n
			continue
		}
		if cases[name] == nil {
			names = append(names, name)
		}
		cases[name] = append(cases[name], said{m[1], m[2]})
	}
	return names, cases
}

// A sentLine is what the recorded client wrote.
type sentLine struct {
	Type    string `json:"type"`
	UUID    string `json:"uuid"`
	Message struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"message"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		RequestID string `json:"request_id"`
		Response  struct {
			Interrupt bool `json:"interrupt"`
		} `json:"response"`
	} `json:"response"`
}

// A replay does with a state what the recorded client did.
type replay struct {
	s     *state
	n     int
	texts map[string]string // of prompts that had no uuid, by the one made up
}

// wrote takes a line of the client.
func (r *replay) wrote(text string) {
	var l sentLine
	if json.Unmarshal([]byte(text), &l) != nil {
		return
	}
	switch l.Type {
	case "user":
		if l.UUID == "" {
			r.n++
			l.UUID = fmt.Sprintf("prompt-%d", r.n)
			r.texts[l.UUID] = l.Message.Content.text()
		}
		r.s.sent = append(r.s.sent, l.UUID)
	case "control_request":
		if l.Request.Subtype == "interrupt" {
			r.s.stop = r.s.working || len(r.s.sent) > 0
		}
	case "control_response":
		delete(r.s.open, l.Response.RequestID)
		r.s.stop = r.s.stop || l.Response.Response.Interrupt
	}
}

// printed takes a line of the program. A replay without a uuid of ours gets the one
// that was made up for its text.
func (r *replay) printed(line string) heard {
	m, ok := parse([]byte(line))
	if !ok {
		return heard{}
	}
	if m.Type == "user" && m.Replay {
		for _, id := range append([]string{}, r.s.sent...) {
			text, own := r.texts[id]
			if own && strings.Contains(m.Message.Content.text(), text) {
				m.UUID = id
				if !strings.HasSuffix(m.Message.Content.text(), text) { // merged: the others' ids are lost
					r.s.take(m)
				}
			}
		}
	}
	return r.s.take(m)
}

// TestRecordings compares what every recorded line means with testdata/*.events,
// which were read by people.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/claude-*.txt")
	if err != nil || len(files) != 12 {
		t.Fatalf("recordings: %d, %v; want 12", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var out bytes.Buffer
			names, cases := recorded(t, file)
			for _, name := range names {
				fmt.Fprintf(&out, "== %s\n", name)
				setup := agentcli.Setup{WorkDir: "/home/user/project"}
				r := replay{texts: map[string]string{}}
				for _, e := range cases[name] {
					if strings.Contains(e.text, `"--resume"`) {
						setup.Session = "some"
					}
					if r.s == nil {
						r.s = newState(setup)
					}
					switch e.mark {
					case "->":
						fmt.Fprintf(&out, "-> %s\n", short(e.text))
						r.wrote(e.text)
					case "e-":
						failure, lost := (&Claude{}).Explain(e.text)
						fmt.Fprintf(&out, "   stderr: %q, lost %v\n", failure, lost)
					case "<-":
						h := r.printed(e.text)
						if h.refuse != "" {
							fmt.Fprintf(&out, "   refuse %s\n", h.refuse)
						}
						if h.settled != nil {
							fmt.Fprintf(&out, "   settled %s %s\n", h.settled.RequestID, h.settled.Subtype)
						}
						for _, e := range h.events {
							fmt.Fprintf(&out, "   %s\n", drawn(e))
						}
					}
				}
			}
			golden := strings.TrimSuffix(file, ".txt") + ".events"
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("events (-want +got); look at each, then go test -update:\n%s", diff)
			}
		})
	}
}

func short(s string) string {
	if len(s) > 150 {
		return s[:150] + "…"
	}
	return s
}

// drawn is an event in one line.
func drawn(e agentcli.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Kind)
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%q", name, short(value))
		}
	}
	add("id", e.ID)
	add("parent", e.Parent)
	add("text", e.Text)
	if e.Tool.ID != "" {
		add("tool", e.Tool.Name)
		add("what", string(e.Tool.What))
		add("command", e.Tool.Command)
		add("paths", strings.Join(e.Tool.Paths, ", "))
		add("result", e.Tool.Result)
		if e.Tool.Failed {
			b.WriteString(" failed")
		}
		if e.Tool.Outside {
			b.WriteString(" outside")
		}
		if e.Tool.Always {
			b.WriteString(" always")
		}
	}
	for _, c := range e.Choices {
		fmt.Fprintf(&b, " %+v", c)
	}
	if e.Kind == agentcli.Result {
		add("prompts", strings.Join(e.Prompts, ", "))
		add("failure", e.Failure)
		add("reason", e.Reason)
		if e.Interrupted {
			b.WriteString(" interrupted")
		}
		if e.NoSession {
			b.WriteString(" no session")
		}
		if u := e.Usage; u != nil {
			fmt.Fprintf(&b, " %s %d/%d/%d/%d $%.4f %v of %d", u.Model, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Cost, u.Took, u.Window)
		}
	}
	return b.String()
}
