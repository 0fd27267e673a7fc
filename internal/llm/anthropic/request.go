package anthropic

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/iris-operator/iris/internal/llm"
)

const marker = `,"cache_control":{"type":"ephemeral"}`

// noOutput stands for a result without text: the API refuses an error result
// that is empty, and models read emptiness as a fault.
const noOutput = "(no output)"

// minBudget is the smallest thinking budget the API accepts.
const minBudget = 1024

// encode returns the body of a request. What does not change between turns
// comes first and is the same byte for byte; only the cache marker in the
// messages moves.
func (m *Model) encode(req llm.Request) []byte {
	e := encoder{info: m.opts.Info, dst: make([]byte, 0, size(req))}
	limit := req.MaxTokens
	if limit <= 0 {
		limit = m.opts.Info.MaxOutput
	}
	if limit <= 0 {
		limit = fallbackMaxTokens
	}
	e.raw(`{"model":`).text(m.opts.Info.Model)
	e.raw(`,"max_tokens":`).number(limit)
	e.raw(`,"stream":true`)
	m.thinking(&e, req, limit)
	e.tools(req.Tools)
	if req.System != "" {
		e.raw(`,"system":[{"type":"text","text":`).text(req.System).raw(marker).raw(`}]`)
	}
	e.raw(`,"messages":[`)
	for i := range req.Messages {
		e.message(&req.Messages[i], i == len(req.Messages)-1)
	}
	if e.role != "" {
		e.raw(`]}`)
	}
	e.raw(`]}`)
	if e.userEnd > 0 {
		e.mark()
	}
	return e.dst
}

// size estimates the body, so that it is allocated once in the usual case.
func size(req llm.Request) int {
	n := 1024 + llm.StringSize(req.System)
	for _, t := range req.Tools {
		n += 64 + len(t.Description) + len(t.Schema)
	}
	for i := range req.Messages {
		n += 32
		for j := range req.Messages[i].Parts {
			p := &req.Messages[i].Parts[j]
			n += 48 + llm.StringSize(p.Text) + len(p.Opaque) + len(p.Data)*4/3
			if p.Call != nil {
				n += 32 + len(p.Call.ID) + len(p.Call.Name) + len(p.Call.Args)
			}
			if p.Result != nil {
				n += 64 + len(p.Result.ID) + llm.StringSize(p.Result.Text)
				for k := range p.Result.Images {
					n += 96 + len(p.Result.Images[k].Data)*4/3
				}
			}
		}
	}
	return n
}

// thinking asks for reasoning. A budget has to leave room for the answer. It is
// left out while the model works through calls that it made without thinking
// (or that another model made): the API refuses to begin in the middle.
func (m *Model) thinking(e *encoder, req llm.Request, limit int64) {
	switch budget := max(req.Thinking, minBudget); {
	case req.Thinking <= 0 || !m.opts.Info.Thinking:
	case m.opts.Adaptive:
		e.raw(`,"thinking":{"type":"adaptive"}`)
	case e.midway(req.Messages):
	default:
		if budget >= limit {
			budget = limit / 2
		}
		if budget >= minBudget {
			e.raw(`,"thinking":{"type":"enabled","budget_tokens":`).number(budget).raw(`}`)
		}
	}
}

// midway reports whether the history ends with results of calls, and the
// assistant's side of it does not begin with thinking that this model may see
// again.
func (e *encoder) midway(messages []llm.Message) bool {
	end := len(messages)
	for end > 0 && messages[end-1].Role != llm.Assistant {
		end--
	}
	if end == 0 || end == len(messages) || !slices.ContainsFunc(messages[end-1].Parts, isCall) {
		return false
	}
	first := end - 1
	for first > 0 && messages[first-1].Role == llm.Assistant {
		first--
	}
	for _, m := range messages[first:end] {
		for i := range m.Parts {
			if m.Parts[i].Kind != llm.ThinkingPart {
				return true
			}
			if e.keepsThinking(&m) && m.Parts[i].Opaque != "" {
				return false
			}
		}
	}
	return true
}

func isCall(p llm.Part) bool { return p.Kind == llm.CallPart }

// An encoder appends the parts of a request.
type encoder struct {
	info llm.Info
	dst  []byte
	// role is the side whose message is open, "" before the first.
	role llm.Role
	// userEnd is where the last block of the user ends: the place of its
	// closing brace.
	userEnd int
	// ids maps the ids of the last message with calls to those on the wire;
	// used has all that are on the wire.
	ids  []pair
	used map[string]bool
}

type pair struct{ from, to string }

func (e *encoder) raw(s string) *encoder    { e.dst = append(e.dst, s...); return e }
func (e *encoder) text(s string) *encoder   { e.dst = llm.AppendString(e.dst, s); return e }
func (e *encoder) number(n int64) *encoder  { e.dst = strconv.AppendInt(e.dst, n, 10); return e }
func (e *encoder) object(r []byte) *encoder { e.dst = llm.AppendRaw(e.dst, r); return e }
func (e *encoder) base64(b []byte) *encoder { e.dst = llm.AppendBase64(e.dst, "", b); return e }
func (e *encoder) keepsThinking(m *llm.Message) bool {
	return m.Provider == e.info.Provider && m.Model == e.info.Model
}

func (e *encoder) tools(tools []llm.ToolSpec) {
	for i, t := range tools {
		if i == 0 {
			e.raw(`,"tools":[`)
		} else {
			e.raw(`,`)
		}
		e.raw(`{"name":`).text(t.Name)
		if t.Description != "" {
			e.raw(`,"description":`).text(t.Description)
		}
		e.raw(`,"input_schema":`)
		if len(t.Schema) == 0 {
			e.raw(`{"type":"object"}`)
		} else {
			e.object(t.Schema)
		}
		if i == len(tools)-1 {
			e.raw(marker).raw(`}]`)
		} else {
			e.raw(`}`)
		}
	}
}

// message appends the blocks of m, to the open message if that is of the same
// side. Results come first, as the API demands.
func (e *encoder) message(m *llm.Message, last bool) {
	if m.Role == llm.Assistant {
		e.ids = e.ids[:0]
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == llm.ResultPart && p.Result != nil {
			e.block(m.Role)
			e.result(p.Result)
			e.close(m.Role)
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case llm.TextPart:
			e.block(m.Role)
			text := p.Text
			if last && m.Role == llm.Assistant && i == len(m.Parts)-1 {
				text = trimEnd(text) // refused there by the API
			}
			e.raw(`{"type":"text","text":`).text(text)
			e.close(m.Role)
		case llm.ThinkingPart:
			if e.keepsThinking(m) && p.Opaque != "" {
				e.block(m.Role)
				e.thought(p)
				e.close(m.Role)
			}
		case llm.ImagePart:
			e.block(m.Role)
			e.image(p)
			e.close(m.Role)
		case llm.CallPart:
			if p.Call != nil {
				e.block(m.Role)
				e.raw(`{"type":"tool_use","id":`).text(e.callID(p.Call.ID))
				e.raw(`,"name":`).text(wireName(p.Call.Name))
				e.raw(`,"input":`).object(p.Call.Args)
				e.close(m.Role)
			}
		}
	}
}

// block begins a block of that side.
func (e *encoder) block(role llm.Role) {
	switch {
	case e.role == role:
		e.raw(`,`)
		return
	case e.role != "":
		e.raw(`]},`)
	}
	e.role = role
	e.raw(`{"role":"`).raw(string(role)).raw(`","content":[`)
}

// close ends a block.
func (e *encoder) close(role llm.Role) {
	if role == llm.User {
		e.userEnd = len(e.dst)
	}
	e.raw(`}`)
}

// mark puts the cache marker into the last block of the user.
func (e *encoder) mark() {
	tail := string(e.dst[e.userEnd:])
	e.dst = append(append(e.dst[:e.userEnd], marker...), tail...)
}

func (e *encoder) result(r *llm.Result) {
	e.raw(`{"type":"tool_result","tool_use_id":`).text(e.resultID(r.ID))
	text := r.Text
	if trimEnd(text) == "" {
		text = ""
		if len(r.Images) == 0 || !e.info.Images {
			text = noOutput
		}
	}
	e.raw(`,"content":[`)
	if text != "" {
		e.raw(`{"type":"text","text":`).text(text).raw(`}`)
	}
	for i := range r.Images {
		if !e.info.Images {
			break
		}
		if i > 0 || text != "" {
			e.raw(`,`)
		}
		e.image(&r.Images[i])
		e.raw(`}`)
	}
	e.raw(`]`)
	if r.IsError {
		e.raw(`,"is_error":true`)
	}
}

// image appends a picture, or says that there is one the model cannot see.
func (e *encoder) image(p *llm.Part) {
	if !e.info.Images {
		e.raw(`{"type":"text","text":"(an image that this model cannot see)"`)
		return
	}
	e.raw(`{"type":"image","source":{"type":"base64","media_type":`).text(p.Mime)
	e.raw(`,"data":`).base64(p.Data).raw(`}`)
}

// thought gives thinking back as it came.
func (e *encoder) thought(p *llm.Part) {
	if data, ok := redacted(p.Opaque); ok {
		e.raw(`{"type":"redacted_thinking","data":`).text(data)
		return
	}
	e.raw(`{"type":"thinking","thinking":`).text(p.Text).raw(`,"signature":`).text(p.Opaque)
}

// callID returns the id of a call on the wire: in the provider's alphabet and
// once per request, whoever made it up.
func (e *encoder) callID(id string) string {
	to := wireID(id)
	if e.used == nil {
		e.used = map[string]bool{}
	}
	for n, base := 2, to; e.used[to]; n++ {
		to = base + "_" + strconv.Itoa(n)
	}
	e.used[to] = true
	e.ids = append(e.ids, pair{id, to})
	return to
}

// resultID returns the id of the call that a result answers.
func (e *encoder) resultID(id string) string {
	for _, p := range e.ids {
		if p.from == id {
			return p.to
		}
	}
	return wireID(id)
}

// maxID is the longest id that is sent as it is.
const maxID = 64

// wireID maps an id to [a-zA-Z0-9_-]{1,64}. One that has to change gets a hash
// of the whole, so that different ids stay different.
func wireID(id string) string {
	if id != "" && len(id) <= maxID && plain(id) {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return cleaned(id, 40) + "_" + strconv.FormatUint(h.Sum64(), 36)
}

// wireName maps the name of a tool in the history likewise. Names of tools that
// exist are in the alphabet already.
func wireName(name string) string {
	if plain(name) && len(name) <= 128 {
		return name
	}
	return cleaned(name, 128)
}

func plain(s string) bool {
	for i := range len(s) {
		if !inAlphabet(s[i]) {
			return false
		}
	}
	return true
}

func inAlphabet(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func cleaned(s string, limit int) string {
	out := []byte(s[:min(len(s), limit)])
	for i, c := range out {
		if !inAlphabet(c) {
			out[i] = '_'
		}
	}
	return string(out)
}
