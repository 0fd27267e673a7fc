package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// running finds the server at the configured address; unlike a conversation, an
// answer to one that was started for it would make no sense.
func running(ctx context.Context, opts Options) (*terminal.Client, error) {
	token, err := knownToken(opts)
	if err != nil {
		return nil, err
	}
	c := newClient(serverURL(opts.Config.API.Host, opts.Config.API.Port), token)
	if err := c.Probe(ctx); err != nil {
		c.HTTP.CloseIdleConnections()
		if errors.Is(err, terminal.ErrNobody) || errors.Is(err, terminal.ErrNotIris) {
			return nil, fmt.Errorf("no Iris answers at %s; start it with iris serve", c.URL)
		}
		return nil, fmt.Errorf("the server at %s: %w", c.URL, err)
	}
	return c, nil
}

// ListApprovals prints what waits for a person, and how to answer it.
func ListApprovals(ctx context.Context, opts Options) error {
	c, err := running(ctx, opts)
	if err != nil {
		return err
	}
	defer c.HTTP.CloseIdleConnections()
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(opts.Out, "Nothing waits for an answer.")
		return err
	}
	for _, q := range all {
		if _, err := io.WriteString(opts.Out, describeWaiting(q)); err != nil {
			return err
		}
	}
	return nil
}

func describeWaiting(q terminal.Waiting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s, asked for by %s at %s, until %s\n",
		approval.Mark(q.ID), printable(q.Channel), printable(q.Requester), shortTime(q.At), shortTime(q.Until))
	line := func(text string) { b.WriteString("    " + strings.ReplaceAll(printable(text), "\n", "\n    ") + "\n") }
	if q.Waits {
		line(q.Text)
	}
	if q.Command != "" {
		line(q.Command)
	}
	for i, o := range q.Options {
		line(strings.TrimSpace(fmt.Sprintf("%d. %s  %s", i+1, o.Label, o.About)))
	}
	if q.Reason != "" {
		line("held: " + q.Reason)
	}
	line("iris approvals answer " + approval.Mark(q.ID) + " …: " + q.Answers())
	return b.String()
}

func shortTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// printable keeps what a model wrote from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// AnswerApproval answers a question, which may be named by the beginning of its
// id: with yes, no, always, the number of an option or words of one's own.
func AnswerApproval(ctx context.Context, opts Options, id, words string) error {
	if err := personal(opts, "answer for a held command"); err != nil {
		return err
	}
	c, err := running(ctx, opts)
	if err != nil {
		return err
	}
	defer c.HTTP.CloseIdleConnections()
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	var found []terminal.Waiting
	for _, q := range all {
		if id != "" && strings.HasPrefix(q.ID, id) {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("nothing waits under the id %.80q; see iris approvals list", id)
	case 1:
	default:
		return fmt.Errorf("%d questions wait under ids that begin with %q: give more of it", len(found), id)
	}
	q := found[0]
	yes, choice, ok := q.Reply(strings.TrimSpace(words))
	if !ok {
		return fmt.Errorf("%.80q is no answer to it: say %s", words, q.Answers())
	}
	t, err := c.Choose(ctx, q.ID, yes, choice)
	if err != nil {
		return err
	}
	what := q.Command
	if what == "" {
		what = q.Text
	}
	word := "Declined"
	switch {
	case yes && choice == "always":
		word = "Allowed for this session"
	case yes && len(q.Options) > 0:
		word = "Answered"
	case yes:
		word = "Approved, once"
	}
	went := "The answer started turn %s in %s.\n"
	if q.Waits {
		went = "Turn %s in %s goes on.\n"
	}
	_, err = fmt.Fprintf(opts.Out, "%s: %s\n"+went, word, printable(what), t, printable(q.Channel))
	return err
}

// personal refuses what is a person's matter to a command of a turn, which finds
// the same token and the same key where it runs as the same user. It keeps a
// model from doing it by mistake; what means to gets around it.
func personal(opts Options, what string) error {
	if lookup(opts.Environ, "IRIS_TURN_TOKEN") == "" {
		return nil
	}
	return fmt.Errorf("only a person may %s, and this is a command of Iris herself", what)
}
