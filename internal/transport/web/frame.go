package web

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A frame is what the server sends. Type decides which fields there are:
//
//	message    ID is the message's own; Text, From, Files: what somebody said;
//	           Origin and Runner of the turn it began, if any; Answers: the id of the
//	           question it answers
//	thinking   Text: reasoning, if any; without it the turn has begun
//	status     Text: one line of progress
//	tool       a call starts or ends; ID is the call's, with the fields of turn.Tool
//	text       Text: a piece of text (Partial), or a whole intermediate text that
//	           takes the place of its pieces
//	update     Text takes the place of the pieces shown so far (the model is
//	           asked again; Text is empty)
//	file       URL, Filename, Title
//	ask        Ask: a question to people
//	final      Text: the reply; Stopped if somebody stopped it; ends the turn
//	delete     ends a turn that has nothing to say
//	error      Message, and Code for a turn that failed, which this ends
//	thread     Text: a line outside of turns
//	truncated  what came between the last seq and the next frame is not kept
//	ack        the message ID had been taken before
//
// Everything that happened in the conversation has Seq; a socket opened with
// since=Seq continues after it. Frames without Seq answer this socket alone;
// thread and error frames among them have the ID of the message they answer. ID
// is the turn's where nothing else is said, so that one placeholder can be
// written over until its final takes its place.
type frame struct {
	Type string  `json:"type"`
	Seq  int64   `json:"seq,omitempty"`
	ID   string  `json:"id,omitempty"`
	Turn turn.ID `json:"turn,omitempty"`
	At   string  `json:"at,omitempty"`

	Text    *string `json:"text,omitempty"`
	Partial bool    `json:"partial,omitempty"`
	Stopped bool    `json:"stopped,omitempty"`

	From  string      `json:"from,omitempty"`
	Files []chat.File `json:"files,omitempty"`

	Origin  turn.Origin `json:"origin,omitempty"`
	Runner  string      `json:"runner,omitempty"`
	Answers string      `json:"answers,omitempty"`

	// Of a tool call.
	ToolName   string          `json:"toolName,omitempty"`
	Label      string          `json:"label,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Result     string          `json:"result,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
	DurationMS int64           `json:"durationMs,omitempty"`
	Phase      turn.Phase      `json:"phase,omitempty"`

	URL      string `json:"url,omitempty"`
	Filename string `json:"filename,omitempty"`
	Title    string `json:"title,omitempty"`

	Ask     *turn.Ask   `json:"ask,omitempty"`
	Message string      `json:"message,omitempty"`
	Code    turn.Code   `json:"code,omitempty"`
	Usage   *turn.Usage `json:"usage,omitempty"`
}

// draw turns a record into a frame. Records that nobody looks at give none.
func draw(channel string, seen transport.Seen) (frame, bool) {
	f := frame{Seq: seen.Seq, Turn: seen.Record.Turn, ID: string(seen.Record.Turn), At: seen.At.UTC().Format(time.RFC3339Nano)}
	switch r := seen.Record; {
	case r.Accepted != nil:
		f.Origin, f.Runner, f.Answers = r.Accepted.Origin, r.Accepted.Runner, r.Accepted.Answers
		return said(f, r.Accepted.Message), true
	case r.Heard != nil:
		return said(f, *r.Heard), true
	case r.Notice != nil:
		f.Type, f.Text = "thread", &r.Notice.Text
		return f, true
	case r.Event != nil:
		return drawEvent(channel, f, *r.Event)
	}
	return frame{}, false
}

func said(f frame, m chat.Message) frame {
	f.Type, f.ID, f.Text, f.From, f.Files = "message", m.ID, &m.Text, m.From.ID, m.Files
	return f
}

func drawEvent(channel string, f frame, e turn.Event) (frame, bool) {
	if f.Turn == "" {
		f.Turn, f.ID = e.Turn, string(e.Turn)
	}
	f.Type = string(e.Kind)
	switch e.Kind {
	case turn.Started:
		f.Type = "thinking"
	case turn.Thinking:
		f.Text = &e.Text
	case turn.Status:
		f.Text = &e.Label
	case turn.ToolUse:
		return drawTool(f, e.Tool)
	case turn.Text:
		f.Text, f.Partial = &e.Text, e.Partial
		if e.Void {
			f.Type, f.Text, f.Partial = "update", new(string), false
		}
	case turn.FileOut:
		f.Filename, f.Title = e.ShownName(), e.Title
		f.URL = "/files/" + url.PathEscape(channel) + "/" + url.PathEscape(f.Filename) + "?seq=" + strconv.FormatInt(f.Seq, 10)
	case turn.AskFor:
		f.Ask = e.Ask
	case turn.Final:
		f.Text, f.Stopped, f.Usage = &e.Text, e.Stopped, e.Usage
		if e.Silent {
			f.Type, f.Text = "delete", nil
		}
	case turn.Failed:
		f.Message, f.Code, f.Stopped, f.Usage = e.Error, e.Code, e.Stopped, e.Usage
		if e.Text != "" {
			f.Text = &e.Text
		}
	default:
		return frame{}, false
	}
	return f, true
}

func drawTool(f frame, t *turn.Tool) (frame, bool) {
	if t == nil {
		return frame{}, false
	}
	f.ID, f.ToolName, f.Label, f.Args = t.ID, t.Name, t.Label, t.Args
	f.Result, f.IsError, f.DurationMS, f.Phase = t.Result, t.IsError, t.DurationMS, t.Phase
	return f, true
}

// A clientFrame is what a page sends.
type clientFrame struct {
	Type string `json:"type"`

	// Of a message. ID makes sending it twice harmless.
	ID          string `json:"id"`
	Text        string `json:"text"`
	Attachments []struct {
		Local string `json:"local"`
	} `json:"attachments"`

	Action string `json:"action"` // of a command: stop, compact, reset

	// Of an answer to a question.
	Ask    string `json:"ask"`
	Yes    bool   `json:"yes"`
	Choice string `json:"choice"`
}
