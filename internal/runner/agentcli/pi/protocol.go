package pi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// A line is what Pi said, as far as anybody here wants to know.
type line struct {
	Type string `json:"type"`

	// A response.
	ID      string          `json:"id"`
	Command string          `json:"command"`
	Success bool            `json:"success"`
	Error   string          `json:"error"`
	Data    json.RawMessage `json:"data"`

	// Messages and their pieces.
	Message message `json:"message"`
	Piece   piece   `json:"-"`

	// Tools.
	CallID   string          `json:"toolCallId"`
	ToolName string          `json:"toolName"`
	Args     json.RawMessage `json:"args"`
	Result   json.RawMessage `json:"result"`
	IsError  bool            `json:"isError"`

	// Retries and compactions.
	Attempt      int    `json:"attempt"`
	MaxAttempts  int    `json:"maxAttempts"`
	DelayMs      int64  `json:"delayMs"`
	ErrorMessage string `json:"errorMessage"`
	FinalError   string `json:"finalError"`
	WillRetry    bool   `json:"willRetry"`
	Aborted      bool   `json:"aborted"`
	Reason       string `json:"reason"`

	// What an extension asks. Message is text there.
	Method      string   `json:"method"`
	Title       string   `json:"title"`
	Ask         string   `json:"-"`
	Options     []string `json:"options"`
	Placeholder string   `json:"placeholder"`
	StatusKey   string   `json:"statusKey"`
}

// A message is one of the conversation.
type message struct {
	Role         string `json:"role"`
	Content      parts  `json:"content"`
	Provider     string `json:"provider"`
	Model        string `json:"model"`
	StopReason   string `json:"stopReason"`
	ErrorMessage string `json:"errorMessage"`
	Usage        struct {
		Input      int64 `json:"input"`
		Output     int64 `json:"output"`
		CacheRead  int64 `json:"cacheRead"`
		CacheWrite int64 `json:"cacheWrite"`
		Cost       struct {
			Total float64 `json:"total"`
		} `json:"cost"`
	} `json:"usage"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// parts are a message's content, which may also be a plain text.
type parts []part

func (p *parts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		err := json.Unmarshal(data, &text)
		*p = parts{{"text", text}}
		return err
	}
	var list []part
	err := json.Unmarshal(data, &list)
	*p = list
	return err
}

// A piece is what a message_update adds.
type piece struct {
	Type    string
	Delta   string
	Content string // the whole text, at text_end
}

// errSkip says that a line says nothing that matters.
var errSkip = errors.New("nothing to know")

// parse reads one line. What is not wanted is errSkip, what is no JSON object
// another error. Lines that repeat the whole answer so far (message_update) or
// the whole output (tool_execution_update, agent_end, turn_end) are not read to
// their end: with those a long answer would cost the square of its length.
func parse(data []byte) (l line, err error) {
	kind, err := typeOf(data)
	if err != nil {
		return l, err
	}
	switch kind {
	case "message_update":
		l.Type = kind
		l.Piece, err = readPiece(data)
		if err == nil && l.Piece.Type == "" {
			err = errSkip
		}
		return l, err
	case "agent_start", "agent_end":
		l.Type = kind
		return l, nil
	case "extension_ui_request":
		// The message of this one is a text.
		type plain line
		var p struct {
			plain
			Message string `json:"message"`
		}
		err = json.Unmarshal(data, &p)
		l = line(p.plain)
		l.Ask = p.Message
		return l, err
	case "response", "message_start", "message_end", "tool_execution_start", "tool_execution_end",
		"auto_retry_start", "auto_retry_end", "compaction_start", "compaction_end", "extension_error":
		err = json.Unmarshal(data, &l)
		return l, err
	}
	return l, errSkip
}

// fields goes through the keys of the object that dec is about to read. each
// reads the value, or says that it has seen enough.
func fields(dec *json.Decoder, each func(key string) (enough bool, err error)) error {
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return errors.New("no object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		enough, err := each(name)
		if err != nil || enough {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func skip(dec *json.Decoder) error {
	var v json.RawMessage
	return dec.Decode(&v)
}

func typeOf(data []byte) (kind string, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	err = fields(dec, func(key string) (bool, error) {
		if key == "type" {
			return true, dec.Decode(&kind)
		}
		return false, skip(dec)
	})
	return kind, err
}

// readPiece reads the head of assistantMessageEvent, up to its partial.
func readPiece(data []byte) (p piece, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	err = fields(dec, func(key string) (bool, error) {
		if key != "assistantMessageEvent" {
			return false, skip(dec)
		}
		return true, fields(dec, func(key string) (bool, error) {
			switch key {
			case "type":
				return false, dec.Decode(&p.Type)
			case "delta":
				return false, dec.Decode(&p.Delta)
			case "content":
				return false, dec.Decode(&p.Content)
			case "partial", "toolCall", "message", "error":
				if p.Type != "" && (p.Type != "text_delta" && p.Type != "thinking_delta" || p.Delta != "") && (p.Type != "text_end" || p.Content != "") {
					return true, nil
				}
			}
			return false, skip(dec)
		})
	})
	return p, err
}

// outcome is what a tool said, as text.
func outcome(result json.RawMessage) string {
	var r struct {
		Content parts `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	return r.Content.text()
}

func (p parts) text() string {
	var out []string
	for _, x := range p {
		if x.Type == "text" {
			out = append(out, x.Text)
		}
	}
	return strings.Join(out, "\n")
}

// tool describes a call.
func tool(id, name string, input json.RawMessage) agentcli.Tool {
	t := agentcli.Tool{ID: id, Name: name, Input: input, What: agentcli.Other}
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
	}
	if json.Unmarshal(input, &in) != nil {
		return t
	}
	switch name {
	case "bash":
		t.What, t.Command = agentcli.Execute, in.Command
		return t
	case "read", "grep", "find", "ls":
		t.What = agentcli.Read
	case "write", "edit":
		t.What = agentcli.Edit
	default:
		return t
	}
	path := plainPath(in.Path)
	// Pi takes a leading ~ for the home directory.
	t.Outside = strings.HasPrefix(path, "~")
	if path == "" {
		path = "."
	}
	t.Paths = []string{path}
	return t
}

// plainPath is what Pi makes of a path before it uses it: every space is a plain
// one, and an @ at the start says nothing.
func plainPath(path string) string {
	space := func(r rune) rune {
		switch {
		case r == 0xa0, r >= 0x2000 && r <= 0x200a, r == 0x202f, r == 0x205f, r == 0x3000:
			return ' '
		}
		return r
	}
	return strings.TrimPrefix(strings.Map(space, path), "@")
}
