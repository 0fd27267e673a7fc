package slack

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// shelf keeps files in memory.
type shelf struct {
	mu   sync.Mutex
	have map[string]string
}

func (s *shelf) Expect(conv chat.Address, stem, name string) (chat.File, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := chat.File{Original: name, Local: conv.Dir() + "/" + stem}
	_, here := s.have[f.Local]
	return f, here, nil
}

func (s *shelf) Fulfil(_ context.Context, _ chat.Address, f chat.File, r io.Reader, _ int64) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have[f.Local] = string(data)
	return err
}

// TestFilesComeInTheBackground: the message is kept and acknowledged first; the
// sign-in page is a missing scope and no file.
func TestFilesComeInTheBackground(t *testing.T) {
	keep := &shelf{have: map[string]string{}}
	c := set(t, slacktest.Options{}, func(o *Options) { o.Files = keep })
	good := c.slack.AddFile(slacktest.File{Name: "a.bin", Content: []byte(strings.Repeat("x", 2000))})
	page := c.slack.AddFile(slacktest.File{Name: "b.pdf", Content: []byte("y"), HTML: true})
	evil := slacktest.File{ID: "F9", Name: "c", Download: "https://example.org/steal"}
	c.say("D1", slacktest.Message{User: "U1", Subtype: "file_share", Text: "see", Files: []slacktest.File{good, page, evil}})
	got := c.box.all()
	if len(got) != 1 || len(got[0].Message.Files) != 3 {
		t.Fatalf("submitted %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	files := got[0].Message.Files
	if err := c.iris.Wait(ctx, files[0].Local); err != nil || len(keep.have[files[0].Local]) != 2000 {
		t.Errorf("a file: %v, %d bytes", err, len(keep.have[files[0].Local]))
	}
	if err := c.iris.Wait(ctx, files[1].Local); err == nil || err.Error() != "download failed" {
		t.Errorf("the sign-in page: %v", err)
	}
	if err := c.iris.Wait(ctx, files[2].Local); err == nil || keep.have[files[2].Local] != "" {
		t.Errorf("a foreign address got the token: %v", err)
	}
	if err := c.iris.Wait(ctx, "nothing/of/ours"); err != nil {
		t.Errorf("what is not on its way: %v", err)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	server := slacktest.New(slacktest.Options{})
	defer server.Close()
	opts := Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: server.URL()}
	bad := func() string {
		var all []string
		for _, f := range Check(t.Context(), opts) {
			if !f.OK {
				all = append(all, f.Text)
			}
		}
		return strings.Join(all, "\n")
	}
	if got := bad(); got != "" {
		t.Errorf("a good app lacks %s", got)
	}
	server.Revoke("files:read", "im:history")
	if got := bad(); !strings.Contains(got, "files:read") || !strings.Contains(got, "im:history") || strings.Contains(got, "chat:write") {
		t.Errorf("missing: %s", got)
	}
	opts.AppToken, opts.BotToken = opts.BotToken, secret.Value{}
	if got := bad(); !strings.Contains(got, "IRIS_SLACK_APP_TOKEN") || !strings.Contains(got, "IRIS_SLACK_BOT_TOKEN") {
		t.Errorf("missing: %s", got)
	}
	if m := string(Manifest("Iris")); !strings.Contains(m, `"socket_mode_enabled": true`) || !strings.Contains(m, "files:write") || !strings.Contains(m, "/verbose") {
		t.Errorf("the manifest lacks something:\n%s", m)
	}
}
