package acp

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// FuzzReceive: whatever an agent writes, Read comes to its end, every call starts
// and ends once, and the answers that go out are JSON with the id of the question.
func FuzzReceive(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no transcripts", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var said strings.Builder
		for l := range strings.Lines(string(text)) {
			if _, line, ok := strings.Cut(l, " <- "); ok && len(line) < 1000 {
				said.WriteString(line)
			}
			if said.Len() > 4000 {
				f.Add([]byte(said.String()))
				said.Reset()
			}
		}
	}
	f.Add([]byte(permit(`"x"`, `{"command":["a","b"]}`) + "\n{\"id\":0,\"method\":\"terminal/create\",\"params\":{\"sessionId\":\"\"}}\n\xff{\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		inR, inW := io.Pipe()
		agent, err := d.Attach(agentcli.Setup{WorkDir: "/nowhere"}, agentcli.Pipes{In: inW, Out: strings.NewReader(string(data))})
		if err != nil {
			t.Fatal(err)
		}
		a := agent.(*Agent)
		a.id, a.opened, a.calls[1] = "s", true, func(m message) { a.finish(&running{id: "p"}, m) }
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			r := bufio.NewReader(inR)
			for {
				line, err := r.ReadBytes('\n')
				if err != nil {
					return
				}
				if !json.Valid(line) {
					t.Errorf("the driver wrote %q", line)
				}
			}
		}()
		stuck := time.AfterFunc(patience, func() { panic("Read does not return") })
		defer stuck.Stop()
		calls := map[string]int{}
		err = agent.Read(func(e agentcli.Event) {
			switch e.Kind {
			case agentcli.ToolStart:
				calls[e.ID]++
			case agentcli.ToolEnd:
				calls[e.ID]--
			case agentcli.Permission, agentcli.Plan:
				_ = agent.Answer(t.Context(), agentcli.Answer{ID: e.ID})
			}
			if n := calls[e.ID]; n < 0 || n > 1 {
				t.Errorf("the call %q began %d times more than it ended", e.ID, n)
			}
		})
		if err != nil {
			t.Error(err)
		}
		inR.Close()
		<-drained
	})
}
