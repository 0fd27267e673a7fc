package deliverytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A Bench is one platform with its fake server, which must be strict: whatever
// the real one refuses, it refuses.
type Bench struct {
	Platform transport.Platform
	// Conversation is one that the platform shows, Accepted a message in it, and
	// Foreign one of another platform.
	Conversation, Foreign chat.Address
	Accepted              *turn.Accepted
	// Shown returns what people see where Accepted is answered, oldest first; ID
	// and Text are used, and File for an upload.
	Shown func() []Shown
	// Limit makes the next call be told to wait for d. Lose makes the next call
	// have its effect and the connection break before the answer. nil: the fake
	// cannot do that.
	Limit func(d time.Duration)
	Lose  func()
}

// Run runs the suite. open returns a new platform for every test.
func Run(t *testing.T, open func(t *testing.T) Bench) {
	for _, c := range []struct {
		name string
		test func(b *bench)
	}{
		{"places", places},
		{"every view is rendered", views},
		{"a long text arrives whole", whole},
		{"smaller and plainer on demand", smaller},
		{"bodies survive the disk", bodies},
		{"post, edit, delete", life},
		{"what is gone is gone", gone},
		{"a repeat is labelled", repeat},
		{"what was sent is found", find},
		{"files", files},
		{"questions", questions},
		{"a context that ends", cancelled},
		{"limits", limits},
		{"a lost answer", lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{T: t, Bench: open(t)}
			place, ok := b.Platform.Place(b.Conversation, b.Accepted)
			if !ok {
				t.Fatalf("Place(%v) says that it is not shown", b.Conversation)
			}
			b.place = place
			c.test(b)
		})
	}
}

type bench struct {
	*testing.T
	Bench
	place transport.Place
	n     int
}

// patience bounds one call.
const patience = 10 * time.Second

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

func (b *bench) mark() transport.Mark {
	b.n++
	return transport.Mark{Turn: "019abc00-0000-7000-8000-000000000001", Part: fmt.Sprintf("file.%d/1", b.n)}
}

func (b *bench) post(m transport.Outgoing) string {
	b.Helper()
	id, err := b.Platform.Post(b.ctx(), b.place, m)
	if err != nil || id == "" {
		b.Fatalf("Post(%.60q) = %q, %v", m.Body.Text, id, err)
	}
	return id
}

// text is what a message says, "" if it is not there.
func (b *bench) text(id string) string {
	for _, s := range b.Shown() {
		if s.ID == id {
			return s.Text
		}
	}
	return ""
}

func (b *bench) body(text string) transport.Body {
	b.Helper()
	all := b.Platform.Render(transport.View{Show: transport.ShowReply, Text: text})
	if len(all) != 1 {
		b.Fatalf("Render(%q) has %d parts", text, len(all))
	}
	return all[0]
}

// fault checks that err is a *SendError of a kind.
func (b *bench) fault(what string, err error, want ...transport.Fault) *transport.SendError {
	b.Helper()
	var e *transport.SendError
	if !errors.As(err, &e) {
		b.Fatalf("%s = %v, want a *SendError", what, err)
	}
	for _, f := range want {
		if e.Fault == f {
			return e
		}
	}
	b.Fatalf("%s = %v, want %v", what, e, want)
	return nil
}

func places(b *bench) {
	if p, ok := b.Platform.Place(b.Conversation, nil); !ok || p.Chat != b.place.Chat {
		b.Errorf("Place(%v, nil) = %v, %v, want the chat %q", b.Conversation, p, ok, b.place.Chat)
	}
	if p, ok := b.Platform.Place(b.Foreign, nil); ok {
		b.Errorf("Place(%v) = %v: it belongs to others", b.Foreign, p)
	}
	if b.Platform.Name() == "" || b.Platform.Traits().MaxChars <= 0 {
		b.Errorf("name %q, traits %+v", b.Platform.Name(), b.Platform.Traits())
	}
}

var ask = &turn.Ask{ID: "0123456789abcdef", Text: "Remove it?", Command: "rm -r `x` <y> & *z*", Until: time.Now().Add(time.Hour)}

func views(b *bench) {
	closed := *ask
	closed.Outcome = "approved"
	for _, v := range []transport.View{
		{Show: transport.ShowProgress, Note: "Thinking"},
		{Show: transport.ShowProgress, Note: "→ a_b *c* <d> & `e`", Text: "so **far"},
		{Show: transport.ShowReply, Text: "hello **you** <there> & `code`"},
		{Show: transport.ShowReply, Note: "(no response)"},
		{Show: transport.ShowReply, Text: "half an answ", Note: "Stopped"},
		{Show: transport.ShowReply, Text: "```\nopen fence"},
		{Show: transport.ShowReply, Text: " \n\n "},
		{Show: transport.ShowReply},
		{Show: transport.ShowNotice, Text: "_Context cleared — starting fresh_"},
		{Show: transport.ShowDetail, Text: "**✓ bash**: list (0.1s)\n```\n{\"command\":\"ls\"}\n```\n"},
		{Show: transport.ShowQuestion, Text: ask.Text, Ask: ask},
		{Show: transport.ShowQuestion, Text: ask.Text, Ask: &closed, Note: "Approved, once by ann"},
	} {
		all := b.Platform.Render(v)
		if len(all) == 0 {
			b.Errorf("Render(%+v) is nothing", v)
		}
		for _, body := range all {
			if id := b.post(transport.Outgoing{Body: body, Mark: b.mark()}); v.Note != "" && len(all) == 1 && b.text(id) == "" {
				b.Errorf("%+v shows nothing", v)
			}
		}
	}
}

// document is long Markdown of every sort with numbered words in it.
func document(words int) string {
	var s strings.Builder
	for i := range words {
		fmt.Fprintf(&s, "w%05d ", i)
		switch i % 97 {
		case 7:
			s.WriteString("**bold** and _thin_ <tag> & ")
		case 19:
			s.WriteString("\n\n```go\nif a < b && c > d {\n")
		case 38:
			s.WriteString("\n}\n```\n\n")
		case 51:
			s.WriteString("\n\n- a [link](https://example.org/?a=1&b=2)\n- `co de`\n\n")
		case 63:
			s.WriteString("\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n")
		case 80:
			s.WriteString("报告 🙂 ")
		}
	}
	return s.String()
}

func whole(b *bench) {
	const words = 3000
	all := b.Platform.Render(transport.View{Show: transport.ShowReply, Text: document(words), Note: "Stopped"})
	if len(all) < 2 {
		b.Fatalf("%d parts", len(all))
	}
	var said, sources strings.Builder
	for i, body := range all {
		id := b.post(transport.Outgoing{Body: body, Mark: transport.Mark{Turn: "019abc00-0000-7000-8000-000000000001", Part: fmt.Sprint(i + 1)}, Repeat: i == 1})
		said.WriteString(b.text(id) + "\n")
		sources.WriteString(body.Source)
		if (body.Note != "") != (i == len(all)-1) {
			b.Errorf("part %d of %d has the note %q", i+1, len(all), body.Note)
		}
	}
	for what, text := range map[string]string{"what is shown": said.String(), "the sources": sources.String()} {
		at := 0
		for i := range words {
			word := fmt.Sprintf("w%05d", i)
			k := strings.Index(text[at:], word)
			if k < 0 {
				b.Fatalf("%s lacks %s, or has it out of order", what, word)
			}
			at += k + len(word)
		}
		if n := strings.Count(text, "w00"); n != 1000 {
			b.Errorf("%s: %d words w00…, want 1000: something is there twice", what, n)
		}
	}
}

func smaller(b *bench) {
	text := document(400)
	max := b.Platform.Traits().MaxChars
	n := len(b.Platform.Render(transport.View{Show: transport.ShowReply, Text: text}))
	last := n
	for _, limit := range []int{max / 2, max / 4} {
		all := b.Platform.Render(transport.View{Show: transport.ShowReply, Text: text, Limit: limit})
		if len(all) < last || limit == max/4 && len(all) <= n {
			b.Errorf("%d parts at %d characters, %d before", len(all), limit, last)
		}
		last = len(all)
	}
	for _, body := range b.Platform.Render(transport.View{Show: transport.ShowReply, Text: text, Plain: true}) {
		b.post(transport.Outgoing{Body: body, Mark: b.mark()})
	}
}

func bodies(b *bench) {
	for _, v := range []transport.View{{Show: transport.ShowReply, Text: document(200), Note: "Stopped"}, {Show: transport.ShowQuestion, Text: ask.Text, Ask: ask}} {
		all := b.Platform.Render(v)
		if !reflect.DeepEqual(all, b.Platform.Render(v)) {
			b.Error("Render is not pure")
		}
		data, err := json.Marshal(all)
		var back []transport.Body
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || !reflect.DeepEqual(all, back) {
			b.Errorf("bodies change on disk (%v):\n%+v\n%+v", err, all, back)
		}
	}
}

func life(b *bench) {
	id := b.post(transport.Outgoing{Body: b.body("first"), Mark: b.mark()})
	m := transport.Outgoing{Body: b.body("second"), Mark: b.mark()}
	for range 2 {
		if err := b.Platform.Edit(b.ctx(), b.place, id, m); err != nil {
			b.Fatalf("Edit = %v, also when it says this already", err)
		}
	}
	if got := b.text(id); !strings.Contains(got, "second") || strings.Contains(got, "first") {
		b.Errorf("after Edit it says %q", got)
	}
	if err := b.Platform.Delete(b.ctx(), b.place, id); err != nil {
		b.Fatalf("Delete = %v", err)
	}
	if got := b.text(id); got != "" {
		b.Errorf("after Delete it says %q", got)
	}
}

func gone(b *bench) {
	id := b.post(transport.Outgoing{Body: b.body("x"), Mark: b.mark()})
	if err := b.Platform.Delete(b.ctx(), b.place, id); err != nil {
		b.Fatal(err)
	}
	if err := b.Platform.Delete(b.ctx(), b.place, id); err != nil {
		b.fault("Delete again", err, transport.Gone)
	}
	err := b.Platform.Edit(b.ctx(), b.place, id, transport.Outgoing{Body: b.body("y"), Mark: b.mark()})
	if e := b.fault("Edit of what is gone", err, transport.Gone); e.Maybe {
		b.Error("an edit that was refused may not have happened")
	}
}

func repeat(b *bench) {
	id := b.post(transport.Outgoing{Body: b.body("again"), Mark: b.mark(), Repeat: true})
	label := strings.Trim(transport.RepeatLabel, "(.)")
	if got := b.text(id); !strings.Contains(got, label) || !strings.Contains(got, "again") {
		b.Errorf("a repeat says %q, want the label and the text", got)
	}
}

func find(b *bench) {
	since := time.Now().Add(-time.Minute)
	m := b.mark()
	if _, err := b.Platform.Find(b.ctx(), b.place, m, since); errors.Is(err, transport.ErrCannotTell) {
		return
	} else if !errors.Is(err, transport.ErrNotThere) {
		b.Fatalf("Find of what was not sent = %v", err)
	}
	b.post(transport.Outgoing{Body: b.body("before"), Mark: b.mark()})
	id := b.post(transport.Outgoing{Body: b.body("this"), Mark: m})
	b.post(transport.Outgoing{Body: b.body("after"), Mark: b.mark()})
	if got, err := b.Platform.Find(b.ctx(), b.place, m, since); err != nil || got != id {
		b.Errorf("Find = %q, %v, want %q", got, err, id)
	}
}

func files(b *bench) {
	content := strings.Repeat("0123456789", 5000)
	up := transport.Upload{Name: "報告 [1].txt", Title: "the report", Size: int64(len(content)), Mark: b.mark(),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
	id, err := b.Platform.Upload(b.ctx(), b.place, up)
	if b.Platform.Traits().NoFiles {
		b.fault("Upload", err, transport.Refused)
		return
	}
	if err != nil || id == "" {
		b.Fatalf("Upload = %q, %v", id, err)
	}
	found := false
	for _, s := range b.Shown() {
		found = found || s.File != ""
	}
	if !found {
		b.Error("nobody sees the file")
	}
	broken := errors.New("the disk is on fire")
	up.Mark, up.Open = b.mark(), func() (io.ReadCloser, error) { return nil, broken }
	if _, err = b.Platform.Upload(b.ctx(), b.place, up); !errors.Is(err, broken) {
		b.Errorf("Upload of what cannot be opened = %v", err)
	}
	b.fault("Upload of what cannot be opened", err, transport.Refused)
}

func questions(b *bench) {
	all := b.Platform.Render(transport.View{Show: transport.ShowQuestion, Text: ask.Text, Ask: ask})
	id := b.post(transport.Outgoing{Body: all[0], Mark: b.mark()})
	if got := b.text(id); !strings.Contains(got, "Remove it?") {
		b.Errorf("the question says %q", got)
	}
	over := *ask
	over.Outcome = "declined"
	all = b.Platform.Render(transport.View{Show: transport.ShowQuestion, Text: ask.Text, Ask: &over, Note: "Declined by ann"})
	if err := b.Platform.Edit(b.ctx(), b.place, id, transport.Outgoing{Body: all[0], Mark: b.mark()}); err != nil {
		b.Fatalf("Edit = %v", err)
	}
	if got := b.text(id); !strings.Contains(got, "Declined by ann") {
		b.Errorf("the settled question says %q", got)
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if _, err := b.Platform.Post(ctx, b.place, transport.Outgoing{Body: b.body("x"), Mark: b.mark()}); err == nil {
		b.Error("Post in a context that has ended succeeds")
	}
}

func limits(b *bench) {
	if b.Limit == nil {
		b.Skip("the fake does not limit")
	}
	b.Limit(7 * time.Second)
	_, err := b.Platform.Post(b.ctx(), b.place, transport.Outgoing{Body: b.body("x"), Mark: b.mark()})
	if e := b.fault("Post", err, transport.Limited); e.After != 7*time.Second || e.Maybe {
		b.Errorf("Limited after %v (maybe %v), want 7s", e.After, e.Maybe)
	}
	if n := len(b.Shown()); n != 0 {
		b.Errorf("%d messages: the platform has retried by itself", n)
	}
}

func lost(b *bench) {
	if b.Lose == nil {
		b.Skip("the fake loses nothing")
	}
	m := b.mark()
	b.Lose()
	_, err := b.Platform.Post(b.ctx(), b.place, transport.Outgoing{Body: b.body("x"), Mark: m})
	if err == nil {
		b.Fatal("Post without an answer succeeds")
	}
	if e := transport.AsSendError(err); e.Fault != transport.Unreachable || !e.Maybe {
		b.Errorf("Post without an answer = %+v, want Unreachable, Maybe", e)
	}
	if n := len(b.Shown()); n != 1 {
		b.Errorf("%d messages, want one", n)
	}
	if _, err := b.Platform.Find(b.ctx(), b.place, m, time.Now().Add(-time.Minute)); err != nil && !errors.Is(err, transport.ErrCannotTell) {
		b.Errorf("Find = %v", err)
	}
}
