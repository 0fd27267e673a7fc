package session

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
)

func TestExpectedFileComesLater(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conv := chat.Address{Space: chat.Slack, ID: "C1"}
	f, here, err := s.Expect(conv, "1700000000000-F1", "../報告.pdf")
	if err != nil || here || strings.Contains(f.Local, "/..") || f.Original != "../報告.pdf" {
		t.Fatalf("Expect = %+v, %v, %v", f, here, err)
	}
	if err := s.Fulfil(t.Context(), conv, f, strings.NewReader(""), 0); !errors.Is(err, ErrBadFile) {
		t.Errorf("an empty file: %v", err)
	}
	if err := s.Fulfil(t.Context(), conv, f, strings.NewReader("abc"), 2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large file: %v", err)
	}
	if _, here, _ := s.Expect(conv, "1700000000000-F1", "../報告.pdf"); here {
		t.Error("what was refused is there")
	}
	if err := s.Fulfil(t.Context(), conv, f, strings.NewReader("abc"), 0); err != nil {
		t.Fatal(err)
	}
	again, here, err := s.Expect(conv, "1700000000000-F1", "../報告.pdf")
	if err != nil || !here || again != f {
		t.Errorf("Expect = %+v, %v, %v, want what came", again, here, err)
	}
	p, err := s.Path(f.Local)
	if data, rerr := os.ReadFile(p); err != nil || rerr != nil || string(data) != "abc" {
		t.Errorf("%q, %v, %v", data, err, rerr)
	}
	if err := s.Fulfil(t.Context(), conv, chat.File{Local: "slack/C2/attachments/x"}, strings.NewReader("abc"), 0); !errors.Is(err, ErrBadFile) {
		t.Errorf("a file of another conversation: %v", err)
	}
	if _, _, err := s.Expect(conv, "../x", "a"); !errors.Is(err, chat.ErrBadID) {
		t.Errorf("a stem that is a path: %v", err)
	}
}
