package claude

import (
	"encoding/json"
	"errors"
	"strings"
)

// A message is one line that Claude Code printed. Which fields are set depends on
// Type and Subtype; what is not known is left alone.
type message struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`
	UUID      string `json:"uuid"`
	Parent    string `json:"parent_tool_use_id"`
	Replay    bool   `json:"isReplay"`
	Timestamp string `json:"timestamp"`

	// assistant and user
	Message struct {
		ID      string  `json:"id"`
		Model   string  `json:"model"`
		Content content `json:"content"`
	} `json:"message"`
	// Error is a word for what went wrong, on system/api_retry and on an assistant
	// line that stands for an error.
	Error string `json:"error"`

	// stream_event
	Event event `json:"event"`

	// control_request, control_cancel_request, control_response
	RequestID string   `json:"request_id"`
	Request   request  `json:"request"`
	Response  response `json:"response"`

	// system
	Model       string  `json:"model"`
	Status      string  `json:"status"`
	Compacted   string  `json:"compact_result"`
	CompactErr  string  `json:"compact_error"`
	Compact     compact `json:"compact_metadata"`
	Attempt     int     `json:"attempt"`
	MaxRetries  int     `json:"max_retries"`
	RetryDelay  float64 `json:"retry_delay_ms"`
	ErrorStatus int     `json:"error_status"`
	TaskID      string  `json:"task_id"`
	ToolUseID   string  `json:"tool_use_id"`

	// result
	IsError   bool                `json:"is_error"`
	Result    string              `json:"result"`
	Errors    []string            `json:"errors"`
	Duration  float64             `json:"duration_ms"`
	Turns     int                 `json:"num_turns"`
	Terminal  string              `json:"terminal_reason"`
	APIStatus int                 `json:"api_error_status"`
	Cost      float64             `json:"total_cost_usd"`
	Usage     tokens              `json:"usage"`
	Models    map[string]modelUse `json:"modelUsage"`
}

// tokens are those of one turn, modelUse those of one model since the process began.
type tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type modelUse struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheCreationInputTokens"`
	Window     int64 `json:"contextWindow"`
}

type compact struct {
	Trigger string `json:"trigger"`
	Before  int64  `json:"pre_tokens"`
}

// An event is a piece of an answer that is still being written.
type event struct {
	Type  string `json:"type"`
	Delta struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"delta"`
}

// A request is what Claude asks of its host.
type request struct {
	Subtype    string          `json:"subtype"`
	Tool       string          `json:"tool_name"`
	Input      json.RawMessage `json:"input"`
	Blocked    string          `json:"blocked_path"`
	Reason     string          `json:"decision_reason"`
	ReasonType string          `json:"decision_reason_type"`
	ToolUseID  string          `json:"tool_use_id"`
	AgentID    string          `json:"agent_id"`
}

// A response is Claude's answer to a request of ours, or the echo of one of our
// answers: only the id tells which.
type response struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
	Error     string          `json:"error"`
}

// A part is a block of a message.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
}

// content is a list of parts; a string on the wire is one part of text.
type content []part

// UnmarshalJSON accepts a string, a list whose parts may be odd, and whatever else
// as nothing.
func (c *content) UnmarshalJSON(data []byte) error {
	switch data[0] { // there is one, see json.Unmarshaler
	case '"':
		var text string
		if json.Unmarshal(data, &text) == nil {
			*c = content{{Type: "text", Text: text}}
		}
	case '[':
		var list []part
		if lenient(json.Unmarshal(data, &list)) == nil {
			*c = list
		}
	}
	return nil
}

// text joins the text parts and names the others that people would miss.
func (c content) text() string {
	var all []string
	for _, p := range c {
		switch p.Type {
		case "text":
			all = append(all, p.Text)
		case "image":
			all = append(all, "[image]")
		}
	}
	return strings.Join(all, "\n")
}

// parse understands a line. Lines that are no JSON object are none of ours: Claude's
// own tools, hooks and libraries may print such; ok is false then. A field of an
// unexpected type is left empty.
func parse(line []byte) (m message, ok bool) {
	if err := lenient(json.Unmarshal(line, &m)); err != nil || m.Type == "" {
		return message{}, false
	}
	return m, true
}

// lenient forgives a value of an unexpected type: the rest has been decoded.
func lenient(err error) error {
	var odd *json.UnmarshalTypeError
	if errors.As(err, &odd) {
		return nil
	}
	return err
}
