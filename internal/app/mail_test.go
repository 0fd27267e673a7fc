package app_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/iris-operator/iris/internal/app"
)

// A mailbox is a mail server that takes what it is told to take.
type mailbox struct {
	refuse string // a command that gets a 550
	ln     net.Listener
	served sync.WaitGroup

	mu    sync.Mutex
	lines []string
	data  string
}

func newMailbox(t *testing.T, refuse string) *mailbox {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{refuse: refuse, ln: ln}
	m.served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			m.talk(c)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		m.served.Wait()
	})
	return m
}

func (m *mailbox) talk(c net.Conn) {
	defer c.Close()
	fmt.Fprint(c, "220 here\r\n")
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		m.mu.Lock()
		m.lines = append(m.lines, line)
		m.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		switch {
		case verb == m.refuse:
			fmt.Fprint(c, "550 no\r\n")
		case verb == "EHLO":
			fmt.Fprint(c, "250-here\r\n250 AUTH PLAIN\r\n")
		case verb == "AUTH":
			fmt.Fprint(c, "235 welcome\r\n")
		case verb == "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			var data strings.Builder
			for line = ""; line != ".\r\n"; {
				data.WriteString(line)
				if line, err = in.ReadString('\n'); err != nil {
					return
				}
			}
			m.mu.Lock()
			m.data = data.String()
			m.mu.Unlock()
			fmt.Fprint(c, "250 taken\r\n")
		case verb == "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}

func (m *mailbox) said() (lines, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.lines, "\n"), m.data
}

// TestSelfHealMailsAPerson: also when Iris cannot be reached, and what the agent
// says is text and no header.
func TestSelfHealMailsAPerson(t *testing.T) {
	m := newMailbox(t, "")
	environ := []string{"AGENT_NAME=billing", "IRIS_SMTP_SERVER=" + m.ln.Addr().String(), "IRIS_EMAIL_FROM=Iris <iris@example.org>", "IRIS_EMAIL_TO=ops@example.org",
		"IRIS_SMTP_USER=iris", "IRIS_SMTP_PASSWORD=mail-canary"}
	so := app.SelfHealOptions{Reason: "the ledger is broken\r\nBcc: all@example.org", Severity: "critical", Context: "line 7 ü", Email: true}
	told, err := selfHeal(t, so, append(environ, "IRIS_EVENTS_DIR="+t.TempDir())...)
	if err != nil || !strings.Contains(told, "left for when Iris is back") || !strings.HasSuffix(told, "mailed\n") {
		t.Fatalf("self-heal = %q, %v", told, err)
	}
	lines, data := m.said()
	for _, want := range []string{"MAIL FROM:<iris@example.org>", "RCPT TO:<ops@example.org>", "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00iris\x00mail-canary"))} {
		if !strings.Contains(lines, want) {
			t.Errorf("the server did not hear %q:\n%s", want, lines)
		}
	}
	letter, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(letter.Header.Get("Subject"))
	if err != nil || subject != "[critical] billing: the ledger is broken Bcc: all@example.org" || letter.Header.Get("Bcc") != "" {
		t.Errorf("subject %q, %v; headers %v", subject, err, letter.Header)
	}
	text, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, letter.Body))
	if err != nil || !strings.Contains(string(text), "the ledger is broken") || !strings.Contains(string(text), "line 7 ü") {
		t.Errorf("the mail says %q, %v", text, err)
	}

	// Nowhere else to: the mail goes out, and the rest is an error.
	told, err = selfHeal(t, so, environ...)
	if err == nil || told != "mailed\n" {
		t.Errorf("without another way: %q, %v", told, err)
	}
	if lines, _ := m.said(); strings.Count(lines, "RCPT TO:<ops@example.org>") != 2 {
		t.Errorf("the second mail did not go out:\n%s", lines)
	}
}

func TestMailThatCannotBeSent(t *testing.T) {
	m, refusing := newMailbox(t, ""), newMailbox(t, "RCPT")
	server, from, to := "IRIS_SMTP_SERVER="+m.ln.Addr().String(), "IRIS_EMAIL_FROM=iris@example.org", "IRIS_EMAIL_TO=ops@example.org"
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"nothing is configured": {nil, "set IRIS_SMTP_SERVER"},
		"no recipient":          {[]string{server, from}, "set IRIS_SMTP_SERVER"},
		"from nobody":           {[]string{server, "IRIS_EMAIL_FROM=nobody", to}, "IRIS_EMAIL_FROM"},
		"an address with lines": {[]string{server, from, "IRIS_EMAIL_TO=a@b\r\nRCPT TO:<c@d>"}, "IRIS_EMAIL_TO"},
		"no port":               {[]string{"IRIS_SMTP_SERVER=localhost", from, to}, "IRIS_SMTP_SERVER"},
		"the server refuses":    {[]string{"IRIS_SMTP_SERVER=" + refusing.ln.Addr().String(), from, to}, "550"},
	} {
		told, err := selfHeal(t, app.SelfHealOptions{Reason: "x", Email: true}, append(c.environ, "AGENT_NAME=billing", "IRIS_EVENTS_DIR="+t.TempDir())...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(told, "left for") {
			t.Errorf("%s: %q, %v, want %q", name, told, err, c.want)
		}
	}
	if lines, data := m.said(); lines != "" || data != "" {
		t.Errorf("the server heard %q", lines)
	}
}
