package openai

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// noOutput stands for a result without text: some servers refuse an empty one,
// and models read emptiness as a fault.
const noOutput = "(no output)"

// unseen stands for an image that the model cannot take.
const unseen = "(an image that this model cannot see)"

// An encoder appends the parts of a request.
type encoder struct {
	info llm.Info
	dst  []byte
	// id maps a call's id to one that the wire accepts.
	id func(string) string
	// ids maps the ids of the last calls to those on the wire; used has all
	// that are on the wire, again counts how often an id came once more.
	ids   []pair
	used  map[string]bool
	again map[string]int
}

type pair struct{ from, to string }

func (e *encoder) raw(s string) *encoder   { e.dst = append(e.dst, s...); return e }
func (e *encoder) text(s string) *encoder  { e.dst = llm.AppendString(e.dst, s); return e }
func (e *encoder) number(n int64) *encoder { e.dst = strconv.AppendInt(e.dst, n, 10); return e }

// comma separates items: nothing after an opening bracket.
func (e *encoder) comma() *encoder {
	if c := e.dst[len(e.dst)-1]; c != '[' && c != '{' {
		e.dst = append(e.dst, ',')
	}
	return e
}

// dataURL appends an image as a JSON string.
func (e *encoder) dataURL(p *llm.Part) *encoder {
	mime := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, p.Mime)
	e.dst = llm.AppendBase64(e.dst, "data:"+mime+";base64,", p.Data)
	return e
}

// parameters appends the schema of a tool.
func (e *encoder) parameters(t llm.ToolSpec) *encoder {
	if len(t.Schema) == 0 {
		return e.raw(`{"type":"object","properties":{}}`)
	}
	e.dst = llm.AppendRaw(e.dst, t.Schema)
	return e
}

// mine reports whether reasoning of that message may be sent back.
func (e *encoder) mine(m *llm.Message) bool {
	return m.Provider == e.info.Provider && m.Model == e.info.Model
}

// callID returns the id of a call on the wire, once per request, whoever made
// it up.
func (e *encoder) callID(id string) string {
	to := e.id(id)
	if e.used == nil {
		e.used, e.again = map[string]bool{}, map[string]int{}
	}
	for e.used[to] {
		e.again[id]++
		to = e.id(id + "\x00" + strconv.Itoa(e.again[id]+1))
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
	return e.id(id)
}

// resultText is the text of a result, which is never empty. An error says that
// it is one: the wires have no field for it.
func (e *encoder) resultText(r *llm.Result) string {
	text := r.Text
	if strings.TrimSpace(text) == "" {
		text = noOutput
		if r.IsError {
			text = "(failed without output)"
		}
	}
	if !e.info.Images && len(r.Images) > 0 {
		text += "\n" + unseen
	}
	return text
}

// limits of the wires.
const (
	maxID   = 40 // of Chat Completions; Responses takes 64
	maxName = 64
	maxKey  = 64 // of prompt_cache_key
)

// wireID keeps an id that the wires accept. One that has to change becomes a
// hash of the whole, so that different ids stay different.
func wireID(id string) string {
	if id != "" && len(id) <= maxID && plain(id) {
		return id
	}
	return "call_" + hash(id)
}

// nineID is what Mistral accepts: nine letters and digits.
func nineID(id string) string {
	const nine = 9
	if len(id) == nine && plain(id) && !strings.ContainsAny(id, "_-") {
		return id
	}
	h := "000000000" + hash(id)
	return h[len(h)-nine:]
}

// wireName maps the name of a tool into the alphabet and length of the wires.
func wireName(name string) string {
	if name != "" && len(name) <= maxName && plain(name) {
		return name
	}
	out := []byte(name[:min(len(name), maxName-14)])
	for i, c := range out {
		if !inAlphabet(c) {
			out[i] = '_'
		}
	}
	return string(out) + "_" + hash(name)
}

// names maps the names on the wire back to those of the tools, where they
// differ.
type names map[string]string

func namesOf(tools []llm.ToolSpec) names {
	var n names
	for _, t := range tools {
		if w := wireName(t.Name); w != t.Name {
			if n == nil {
				n = names{}
			}
			n[w] = t.Name
		}
	}
	return n
}

func (n names) real(name string) string {
	if r, ok := n[name]; ok {
		return r
	}
	return name
}

// cacheKey fits the key into what prompt_cache_key may be.
func cacheKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	return key[:maxKey-14] + "-" + hash(key)
}

func hash(s string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash takes everything
	return strconv.FormatUint(h.Sum64(), 36)
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

// effort translates a budget of tokens into the words of the wires. The steps
// are where the budgets of the other wire are usually set.
func effort(budget int64) string {
	switch {
	case budget <= 2048:
		return "low"
	case budget <= 8192:
		return "medium"
	}
	return "high"
}

// size estimates the body, so that it is allocated once in the usual case.
func size(req llm.Request) int {
	n := 1024 + llm.StringSize(req.System)
	for _, t := range req.Tools {
		n += 128 + len(t.Description) + len(t.Schema)
	}
	for i := range req.Messages {
		n += 64
		for j := range req.Messages[i].Parts {
			p := &req.Messages[i].Parts[j]
			n += 96 + llm.StringSize(p.Text) + len(p.Opaque) + len(p.Data)*4/3
			if p.Call != nil {
				n += 64 + len(p.Call.ID) + len(p.Call.Name) + len(p.Call.Args)*9/8
			}
			if p.Result != nil {
				n += 96 + llm.StringSize(p.Result.Text)
				for k := range p.Result.Images {
					n += 96 + len(p.Result.Images[k].Data)*4/3
				}
			}
		}
	}
	return n
}
