package rehearsal

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// A plan is what to do next: say something, and call tools when there are any.
type plan struct {
	say   string
	calls []llm.Call
	// path is the file the plan is about, for "… and attach it".
	path string
}

// A box is the set of tools that are offered.
type box struct {
	tools map[string]llm.ToolSpec
	// before is the conversation up to the request.
	before []llm.Message
}

func (b box) has(name string) bool { _, ok := b.tools[name]; return ok }

// call builds a call with the arguments in args; values are strings.
func call(name string, args map[string]string) llm.Call {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(args) != nil { // strings always encode
		return llm.Call{Name: name, Args: json.RawMessage(`{}`)}
	}
	return llm.Call{Name: name, Args: bytes.TrimSpace(buf.Bytes())}
}

// answer decides the next message. A request may have several steps ("… then
// …"); each round of tool calls since the request is one step done.
func answer(req llm.Request) plan {
	b := box{tools: map[string]llm.ToolSpec{}}
	for _, t := range req.Tools {
		b.tools[t.Name] = t
	}
	at := lastAsk(req.Messages)
	if at < 0 {
		return plan{say: "Hello! Write something, and I will see what I can do."}
	}
	b.before = req.Messages[:at]
	done := exchanges(req.Messages[at:])

	var talk []string
	var work []plan
	path := ""
	for _, step := range steps(unwrap(req.Messages[at])) {
		p := understand(refer(step, path), b)
		if p.path != "" {
			path = p.path
		}
		if len(p.calls) == 0 {
			talk = append(talk, p.say)
			continue
		}
		work = append(work, p)
	}
	if len(done) < len(work) && !failed(done) {
		return work[len(done)]
	}
	if len(done) == 0 {
		return plan{say: strings.Join(talk, "\n\n")}
	}
	text := report(done)
	if len(done) < len(work) {
		text += "\n\nI stopped there and left the rest undone."
	} else if len(talk) > 0 {
		text += "\n\n" + strings.Join(talk, "\n\n")
	}
	return plan{say: text}
}

// lastAsk is the index of the last user message with words in it, -1 if none.
func lastAsk(messages []llm.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != llm.User {
			continue
		}
		for _, p := range messages[i].Parts {
			if p.Kind == llm.TextPart && strings.TrimSpace(p.Text) != "" {
				return i
			}
		}
	}
	return -1
}

// An exchange is a call with its result.
type exchange struct {
	call   llm.Call
	result llm.Result
}

// exchanges lists the rounds of tool calls that have results, oldest first.
func exchanges(messages []llm.Message) [][]exchange {
	results := map[string]llm.Result{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == llm.ResultPart && p.Result != nil {
				results[p.Result.ID] = *p.Result
			}
		}
	}
	var rounds [][]exchange
	for _, m := range messages {
		var round []exchange
		for _, p := range m.Parts {
			if p.Kind != llm.CallPart || p.Call == nil {
				continue
			}
			if r, ok := results[p.Call.ID]; ok {
				round = append(round, exchange{*p.Call, r})
			}
		}
		if len(round) > 0 {
			rounds = append(rounds, round)
		}
	}
	return rounds
}

func failed(rounds [][]exchange) bool {
	for _, round := range rounds {
		for _, x := range round {
			if x.result.IsError {
				return true
			}
		}
	}
	return false
}

var (
	dynamicBlock = lazy(`(?s)^\s*<dynamic_context>.*</dynamic_context>\s*`)
	stamp        = lazy(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d\] \[[^\]\n]*\]: ?`)
	event        = lazy(`^\[EVENT:[^\]\n]*\] ?`)
	trailing     = lazy(`(?s)\n\n<(?:unavailable_attachments|dropped_image_attachments|(?:slack|telegram|web)_attachments)[ >].*$`)
)

// unwrap takes the words of a person out of what the runtime puts around them.
func unwrap(m llm.Message) string {
	var parts []string
	for _, p := range m.Parts {
		if p.Kind == llm.TextPart {
			parts = append(parts, p.Text)
		}
	}
	text := dynamicBlock.ReplaceAllString(strings.Join(parts, "\n"), "")
	text = stamp.ReplaceAllString(strings.TrimSpace(text), "")
	text = event.ReplaceAllString(text, "")
	return strings.TrimSpace(trailing.ReplaceAllString(text, ""))
}

var (
	then    = lazy(`(?i)\s*[,;.]?\s+(?:and\s+)?then,?\s+`)
	andIt   = lazy(`(?i)^(.+?),? and (attach|send me|read|show me|run|delete) (it|that|this)((?: file| back| to me)*)[.!]*$`)
	pronoun = lazy(`(?i)^(attach|upload|send me|send|read|show me|show|run|execute|delete|remove) (?:it|that|this)(?: file| back| to me)*[.!?]*$`)
)

// steps splits a request at "then" and before "and attach it". Quoted text may
// hold those words itself, so nothing with quotes is split.
func steps(text string) []string {
	if strings.ContainsAny(text, "\"\n") || strings.Count(text, "`")%2 == 1 {
		return []string{text}
	}
	var all []string
	for _, s := range then.Split(text, -1) {
		if m := andIt.FindStringSubmatch(s); m != nil {
			all = append(all, m[1], m[2]+" "+m[3])
			continue
		}
		if s != "" {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return []string{text}
	}
	return all
}

// refer puts the path of the step before in the place of "it".
func refer(step, path string) string {
	m := pronoun.FindStringSubmatch(step)
	if m == nil || path == "" {
		return step
	}
	return m[1] + " \"" + path + "\""
}
