package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"net/smtp"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/config"
)

// mailTimeout bounds all of sending one mail.
const mailTimeout = 30 * time.Second

// mailEscalation sends e to the configured person. It is nil when the server has
// taken the mail.
func mailEscalation(ctx context.Context, cfg config.Mail, e api.Escalation, at time.Time) error {
	if cfg.Server == "" || cfg.From == "" || cfg.To == "" {
		return errors.New("mail: set IRIS_SMTP_SERVER, IRIS_EMAIL_FROM and IRIS_EMAIL_TO")
	}
	from, err := mail.ParseAddress(cfg.From)
	if err != nil {
		return fmt.Errorf("mail: IRIS_EMAIL_FROM %q: %w", cfg.From, err)
	}
	rcpt, err := mail.ParseAddress(cfg.To)
	if err != nil {
		return fmt.Errorf("mail: IRIS_EMAIL_TO %q: %w", cfg.To, err)
	}
	if err := send(ctx, cfg, from.Address, rcpt.Address, letter(from, rcpt, e, at)); err != nil {
		return fmt.Errorf("mail to %s: %w", rcpt.Address, err)
	}
	return nil
}

// letter is the mail. Whatever an agent says of itself is text of the body, or a
// subject in one line.
func letter(from, to *mail.Address, e api.Escalation, at time.Time) []byte {
	subject := strings.Join(strings.Fields(fmt.Sprintf("[%s] %s: %s", e.Severity, e.Agent, e.Issue)), " ")
	if len(subject) > 200 {
		subject = strings.ToValidUTF8(subject[:200], "") + "…"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\n", from, to, mime.QEncoding.Encode("utf-8", subject), at.Format(time.RFC1123Z))
	b.WriteString("Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(e.Text(at)))
	for len(text) > 76 {
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	b.WriteString(text + "\r\n")
	return b.Bytes()
}

// send speaks SMTP with the server. A password goes over TLS, or to this machine,
// and nowhere else.
func send(ctx context.Context, cfg config.Mail, from, to string, text []byte) error {
	host, port, err := net.SplitHostPort(cfg.Server)
	if err != nil {
		return fmt.Errorf("IRIS_SMTP_SERVER: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cfg.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever waits for it returns
	defer stop()
	secure := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if port == "465" {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if ok, _ := c.Extension("STARTTLS"); ok && port != "465" {
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if cfg.User != "" {
		if err := c.Auth(smtp.PlainAuth("", cfg.User, cfg.Password.Reveal(), host)); err != nil {
			return err
		}
	}
	if err := c.Mail(from); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has the mail
	return nil
}
