package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// answering is an engine that settles questions as app wires it.
type answering struct {
	*engine.Engine
	book *approval.Book
}

func (a answering) Answer(ctx context.Context, in transport.Answer) (transport.Reply, error) {
	s, err := a.book.Pick(in.Ask, in.Conversation, in.From, in.Yes)
	if err != nil {
		return transport.Reply{}, err
	}
	conv, err := s.Question.Conversation()
	if err != nil {
		return transport.Reply{}, err
	}
	r, err := a.Settled(ctx, conv, chat.Message{ID: approval.AnswerID(in.Ask), From: in.From, Text: "Answered"},
		&engine.Settlement{Question: s.Question.ID, Prompt: s.Prompt, Done: s.Done})
	return transport.Reply{Turn: r.Turn}, err
}

// openBook is a house with a book in which the listed people may answer.
func openBook(t *testing.T, approvers ...string) (*house, *approval.Book) {
	t.Helper()
	book, err := approval.New(approval.Options{
		Dir:     t.TempDir(),
		Allowed: func(_ chat.Address, p chat.Person) bool { return slices.Contains(approvers, p.ID) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := openHouse(t, func(o *Options) {
		o.Engine = answering{o.Engine.(*engine.Engine), book}
		o.Approvals = book
	})
	return h, book
}

func hold(t *testing.T, book *approval.Book, channel, command string) approval.Question {
	t.Helper()
	conv, err := chat.Parse(channel)
	if err != nil {
		t.Fatal(err)
	}
	held, err := book.Hold(approval.Request{Conversation: conv, Command: command, Reason: "it deletes", Dir: "/", Turn: turn.NewID(), Origin: turn.FromChat, Requester: chat.Person{ID: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	return held.Question
}

func TestApprovalsOverTheAPI(t *testing.T) {
	h, book := openBook(t, "api")
	a, b := hold(t, book, "WEBUI-a", "rm -rf /a"), hold(t, book, "WEBUI-b", "rm -rf /b")
	list := func(path string) (ids []string) {
		for _, x := range h.want(200, "GET", path, "").json["approvals"].([]any) {
			ids = append(ids, x.(map[string]any)["id"].(string))
		}
		return ids
	}
	if got := list("/approvals"); !slices.Equal(got, []string{a.ID, b.ID}) && !slices.Equal(got, []string{b.ID, a.ID}) {
		t.Errorf("all: %v", got)
	}
	if got := list("/approvals?channel=WEBUI-b"); !slices.Equal(got, []string{b.ID}) {
		t.Errorf("of one conversation: %v", got)
	}
	h.want(400, "GET", "/approvals?channel=../x", "")
	h.want(400, "POST", "/approvals/"+a.ID, `{"answer":"maybe"}`)
	h.want(400, "POST", "/approvals/"+a.ID, `{}`)
	h.want(404, "POST", "/approvals/0-0", `{"answer":"yes"}`)
	res := h.want(200, "POST", "/approvals/"+a.ID, `{"answer":"yes","user":"somebody else"}`)
	if _, err := turn.ParseID(res.str("turn")); err != nil || res.str("answer") != "yes" {
		t.Errorf("answer: %s", res.raw)
	}
	if text := h.want(404, "POST", "/approvals/"+a.ID, `{"answer":"no"}`).str("error"); !strings.Contains(text, "answered already: approved") {
		t.Errorf("a second answer: %q", text)
	}
	h.want(200, "POST", "/approvals/"+b.ID, `{"answer":"no"}`)
	if got := list("/approvals"); len(got) != 0 {
		t.Errorf("after the answers: %v", got)
	}
}

// TestOnlyTheirTokenSaysWhoAnswers: turn tokens and agents reach neither route,
// and an approver's name in a body is no proof.
func TestOnlyTheirTokenSaysWhoAnswers(t *testing.T) {
	h, book := openBook(t, "U1")
	q := hold(t, book, "WEBUI-a", "rm -rf /a")
	id := h.session("")
	h.want(202, "POST", "/sessions/"+id+"/message", `{"text":"hold token"}`, "Prefer", "respond-async")
	<-h.script.begun
	defer h.script.release("token")
	token := h.api.opts.Tokens.Mint(turn.Request{ID: runningTurn(t, h, id), Conversation: chat.Address{Space: chat.Session, ID: id}}).Reveal()
	for _, auth := range []string{"Bearer agent-token", "Bearer " + token} {
		h.want(403, "GET", "/approvals", "", "Authorization", auth)
		h.want(403, "POST", "/approvals/"+q.ID, `{"answer":"yes"}`, "Authorization", auth)
	}
	h.want(401, "POST", "/approvals/"+q.ID, `{"answer":"yes"}`, "Authorization", "")
	h.want(403, "POST", "/approvals/"+q.ID, `{"answer":"yes","user":"U1"}`)
	if len(book.List(chat.Address{})) != 1 {
		t.Error("the question is not open any more")
	}
}

// TestHistoryShowsWhatWaits: after a reload the page knows which questions are
// open, also those whose events are no longer kept.
func TestHistoryShowsWhatWaits(t *testing.T) {
	h, book := openBook(t, "api", "web")
	conv := chat.Address{Space: chat.Web, ID: "t"}
	asked := hold(t, book, "WEBUI-t", "rm -rf /asked")
	h.script.ask(asked.Ask())
	r, err := h.engine.Submit(t.Context(), transport.Submission{Address: conv, Message: chat.Message{ID: "m", Text: "ask"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.engine.Wait(t.Context(), r.Turn); err != nil {
		t.Fatal(err)
	}
	forgotten := hold(t, book, "WEBUI-t", "rm -rf /forgotten")
	asks := func() map[string]bool {
		open := map[string]bool{}
		for _, x := range h.want(200, "GET", "/page/threads/t/history", "").json["items"].([]any) {
			it := x.(map[string]any)
			if ask, ok := it["ask"].(map[string]any); ok {
				settled, _ := it["settled"].(bool)
				open[ask["command"].(string)] = !settled
			}
		}
		return open
	}
	if got := asks(); len(got) != 2 || !got["rm -rf /asked"] || !got["rm -rf /forgotten"] {
		t.Errorf("open: %v", got)
	}
	answer := h.want(200, "POST", "/approvals/"+asked.ID, `{"answer":"yes"}`)
	if _, err := h.engine.Wait(t.Context(), turn.ID(answer.str("turn"))); err != nil {
		t.Fatal(err)
	}
	if got := asks(); len(got) != 2 || got["rm -rf /asked"] || !got["rm -rf /forgotten"] {
		t.Errorf("after the answer: %v", got)
	}
	raw := h.want(200, "GET", "/page/threads/t/history", "").raw
	if !strings.Contains(raw, `"origin":"approval"`) || !strings.Contains(raw, `"answers":"`+asked.ID+`"`) {
		t.Errorf("history: %s", raw)
	}
	h.want(200, "POST", "/approvals/"+forgotten.ID, `{"answer":"no"}`)
}

// TestEmailAnswersNothing: anybody can write an e-mail in somebody's name.
func TestEmailAnswersNothing(t *testing.T) {
	var proven []bool
	h := openHouse(t, func(o *Options) { o.Engine = spy{o.Engine.(*engine.Engine), &proven} })
	id := h.session(`,"clientEmail":"a@b.c"`)
	h.want(200, "POST", "/sessions/email-inbound", `{"from":"a@b.c","text":"yes"}`)
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"yes"}`)
	if !slices.Equal(proven, []bool{false, true}) {
		t.Errorf("proven: %v", proven)
	}
}

type spy struct {
	*engine.Engine
	proven *[]bool
}

func (s spy) Submit(ctx context.Context, sub transport.Submission) (transport.Receipt, error) {
	*s.proven = append(*s.proven, sub.Proven)
	return s.Engine.Submit(ctx, sub)
}
