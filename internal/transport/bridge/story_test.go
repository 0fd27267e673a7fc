package bridge

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/iris-operator/iris/internal/engine/enginetest"
)

var update = flag.Bool("update", false, "write what the server answers into the stories")

// The wire as stories: what clients send and what the server answers, line by
// line. Each file is a txtar archive whose sections are called client and
// server in turn. A client section holds one of these a line:
//
//	stream NAME BODY      POST it, Accept: application/x-ndjson
//	plain NAME BODY       POST it
//	get NAME PATH
//	hangup NAME
//	wait DURATION         of faked time
//	restart               the process is killed and started again
//	raw METHOD PATH BODY
//
// The server section shows what came since: "NAME status" when an answer
// begins, "NAME< line" for each line of its body, "NAME end" at its end. Ids of
// turns are written as <turn>. The runner does what the text says (see obey).
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(t *testing.T) { tell(t, archive) })
			if *update && !t.Failed() {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type story struct {
	t       *testing.T
	dir     string
	journal *enginetest.Journal
	p       *place
	names   []string
	open    map[string]*exchange
	told    map[string]bool // whose end was shown
}

func tell(t *testing.T, archive *txtar.Archive) {
	s := &story{t: t, dir: t.TempDir(), journal: enginetest.NewJournal(), open: map[string]*exchange{}, told: map[string]bool{}}
	s.p = start(t, setup{dir: s.dir, journal: s.journal})
	for i, f := range archive.Files {
		switch f.Name {
		case "client":
			for line := range strings.Lines(string(f.Data)) {
				s.do(strings.TrimSpace(line))
			}
		case "server":
			got := s.news()
			if *update {
				archive.Files[i].Data = []byte(got)
			} else if diff := cmp.Diff(strings.Split(string(f.Data), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("section %d (-want +got):\n%s", i+1, diff)
			}
		default:
			t.Fatalf("a section called %q", f.Name)
		}
	}
	for _, x := range s.open {
		x.leave()
	}
	s.p.engine.Leave()
	s.p.stop()
}

func (s *story) do(line string) {
	s.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	name, body, _ := strings.Cut(rest, " ")
	var x *exchange
	switch word {
	case "", "#":
		return
	case "stream":
		x = s.p.stream(body)
	case "plain":
		x = s.p.plain(body)
	case "get":
		x = s.p.send("GET", body, "")
	case "raw":
		path, data, _ := strings.Cut(body, " ")
		x = s.p.send(name, path, data)
		name = "raw"
	case "hangup":
		s.open[name].leave()
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(d)
	case "restart":
		s.p.engine.Leave()
		s.p.stop()
		s.p = start(s.t, setup{dir: s.dir, journal: s.journal})
	default:
		s.t.Fatalf("no such word: %q", word)
	}
	if x != nil {
		if s.open[name] == nil {
			s.names = append(s.names, name)
		}
		s.open[name], s.told[name] = x, false
	}
	synctest.Wait()
}

// news is what came since it was last asked for.
func (s *story) news() string {
	var b strings.Builder
	for _, name := range s.names {
		x := s.open[name]
		x.mu.Lock()
		if x.shown == 0 && x.status != 0 {
			fmt.Fprintf(&b, "%s %d %s\n", name, x.status, x.header.Get("Content-Type"))
		}
		for line := range strings.Lines(x.body.String()[x.shown:]) {
			fmt.Fprintf(&b, "%s< %s\n", name, uuids.ReplaceAllString(strings.TrimSuffix(line, "\n"), "<turn>"))
		}
		x.shown = x.body.Len()
		x.mu.Unlock()
		select {
		case <-x.ended:
			if !s.told[name] {
				s.told[name] = true
				fmt.Fprintf(&b, "%s end\n", name)
			}
		default:
		}
	}
	return b.String()
}
