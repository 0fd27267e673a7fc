package rehearsal

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// help is what the stand-in says it can do.
//
//go:embed help.md
var help string

var (
	mention  = lazy(`(?i)^(?:<@[A-Z0-9]+>|@?iris\b)[\s,:!]*`)
	polite   = lazy(`(?i)^(?:please|kindly|(?:can|could|would|will) you(?: please)?|i(?:'d like| would like| want) you to|i(?:'d like| would like| want) to|let'?s|ok(?:ay)?,|so,|now,?|just) `)
	thanks   = lazy(`(?i)(?:,? please|,? for me|,? thanks|,? thank you)[.!?]*$`)
	greeting = lazy(`(?i)^(?:hi|hello|hey|hiya|howdy|yo|moin|hallo|servus|good (?:morning|afternoon|evening|day))(?: (?:there|iris|all|team|everyone))?[\s,!.:)]*`)
	gratias  = lazy(`(?i)^(?:thanks|thank you|thx|ty|great|nice|cool|perfect|awesome|well done|good job)\b[^?]{0,40}$`)
	farewell = lazy(`(?i)^(?:bye|goodbye|good ?night|see you|ciao|cheers)\b[^?]{0,30}$`)
	helping  = lazy(`(?i)^(?:/?help|\?+|commands|what can (?:you|i) do.*|what (?:do|can) you (?:understand|know|support).*|how (?:does this|do you|do i|can i) (?:work|use|start|begin).*|who are you.*|what are you.*|are you (?:a|an|real|human|there).*)[?!.]*$`)
	modelAsk = lazy(`(?i)\b(?:which|what|real|another|change|set|configure|use)\b.*\b(?:model|llm|provider|api ?key)\b`)
	again    = lazy(`(?i)^(?:again|once more|repeat(?: that| it)?|(?:run|do|try) (?:it|that) again|retry)[.!]*$`)
	useTool  = lazy(`(?is)^(?:call|use)(?: the)?(?: tool)? ([\w.:-]+)(?: tool)?(?: with)?:?\s*(\{.*\})?$`)
	toolsAsk = lazy(`(?i)^(?:(?:which|what|list|show)(?: me)?(?: all)?(?: your| the)? tools\b.*|tools)[?.!]*$`)
	sumUp    = lazy(`(?i)^(?:summari[sz]e|summary)\b`)
	yes      = lazy(`(?i)^(?:yes|yep|yeah|y|approved?|confirm(?:ed)?|go ahead|proceed|ok|okay|do it|run it|sure|allowed|granted|lgtm|sounds good)\b|\b(?:is|was|has been|been) (?:approved|granted|confirmed|allowed)\b`)
	no       = lazy(`(?i)^(?:no|nope|n|don'?t|do not|stop|cancel|deny|denied|reject(?:ed)?|decline[d]?)\b|\b(?:is|was|has been|been) (?:denied|rejected|declined|refused)\b`)
	heldText = lazy(`(?i)\b(?:approv\w*|confirm\w*|held|ask (?:the user|a person|first))\b`)
)

// understand turns one sentence into a plan. The order of the rules matters:
// what carries free text (write, schedule) comes before what looks for words.
func understand(text string, b box) plan {
	text = mention.ReplaceAllString(strings.TrimSpace(text), "")
	if rest := greeting.ReplaceAllString(text, ""); rest != text {
		if rest == "" || mention.ReplaceAllString(rest, "") == "" {
			return plan{say: "Hello! Good to see you. Try “what is in this folder and how big is it?”, or say “help”."}
		}
		text = mention.ReplaceAllString(rest, "")
	}
	if p, ok := consent(text, b); ok {
		return p
	}
	if helping.MatchString(text) {
		return plan{say: strings.TrimSpace(help)}
	}
	for cut := polite.ReplaceAllString(text, ""); cut != text; cut = polite.ReplaceAllString(text, "") {
		text = cut
	}
	if gratias.MatchString(text) {
		return plan{say: "You are welcome! Anything else?"}
	}
	text = strings.TrimSpace(thanks.ReplaceAllString(text, ""))
	for _, rule := range []func(string, box) (plan, bool){
		meta, schedule, attach, edit, write, remove, run, read, folder, system,
	} {
		if p, ok := rule(text, b); ok {
			return p
		}
	}
	return plan{say: lost(text)}
}

func lost(text string) string {
	if text == "" {
		return "I see no words in that. Say “help” for what I understand."
	}
	return fmt.Sprintf("I do not understand “%s”. I am only a stand-in and know a few plain sentences, such as:\n\n"+
		"- what is in this folder and how big is it?\n- run `df -h`\n- read notes.md\n- write hello to notes.md\n\n"+
		"Say “help” for all of them.", short(text, 80))
}

// consent handles the answer to a command that waits for a yes.
func consent(text string, b box) (plan, bool) {
	rounds := exchanges(b.before)
	if len(rounds) == 0 {
		return plan{}, false
	}
	var held []llm.Call
	for _, x := range rounds[len(rounds)-1] {
		if isHeld(x.result) {
			held = append(held, llm.Call{Name: x.call.Name, Args: x.call.Args})
		}
	}
	switch {
	case len(held) == 0:
		return plan{}, false
	case no.MatchString(text):
		return plan{say: "All right, I leave it alone."}, true
	case yes.MatchString(text):
		return b.offered(plan{say: "Thank you, running it now.", calls: held}), true
	}
	return plan{}, false
}

func isHeld(r llm.Result) bool { return r.IsError && heldText.MatchString(r.Text) }

// offered drops a plan whose tools are not there any more.
func (b box) offered(p plan) plan {
	for _, c := range p.calls {
		if !b.has(c.Name) {
			return plan{say: fmt.Sprintf("I would need the tool %q for that, and it is not offered in this conversation.", c.Name)}
		}
	}
	return p
}

// meta answers what is about the stand-in itself.
func meta(text string, b box) (plan, bool) {
	switch {
	case helping.MatchString(text):
		return plan{say: strings.TrimSpace(help)}, true
	case farewell.MatchString(text):
		return plan{say: "Bye! I am here whenever you write."}, true
	case again.MatchString(text):
		return repeat(b), true
	case toolsAsk.MatchString(text):
		return plan{say: b.list()}, true
	case modelAsk.MatchString(text) && len(text) < 120:
		return plan{say: "None yet. Put ANTHROPIC_API_KEY or OPENAI_API_KEY into the environment, or a provider into iris.config.toml, " +
			"and start Iris again. An agent CLI on PATH or an Ollama on this machine is found by itself."}, true
	case sumUp.MatchString(text) && len(b.tools) == 0:
		return plan{say: recall(b.before)}, true
	}
	m := useTool.FindStringSubmatch(text)
	if m == nil || !b.has(m[1]) {
		return plan{}, false
	}
	args := strings.TrimSpace(m[2])
	if args == "" {
		args = "{}"
	}
	var object map[string]any
	if json.Unmarshal([]byte(args), &object) != nil {
		return plan{say: fmt.Sprintf("The arguments for %s have to be one JSON object, such as {\"label\": \"try\"}.", m[1])}, true
	}
	return plan{say: "Calling " + m[1] + ".", calls: []llm.Call{{Name: m[1], Args: json.RawMessage(args)}}}, true
}

func repeat(b box) plan {
	rounds := exchanges(b.before)
	if len(rounds) == 0 {
		return plan{say: "There is nothing to repeat yet."}
	}
	p := plan{say: "Once more."}
	for _, x := range rounds[len(rounds)-1] {
		p.calls = append(p.calls, llm.Call{Name: x.call.Name, Args: x.call.Args})
	}
	return b.offered(p)
}

// list names the tools in alphabetical order.
func (b box) list() string {
	if len(b.tools) == 0 {
		return "No tools are offered in this conversation."
	}
	s := "These tools are offered here:\n"
	for _, name := range sorted(b.tools) {
		first, _, _ := strings.Cut(strings.TrimSpace(b.tools[name].Description), "\n")
		s += "\n- `" + name + "`"
		if first != "" {
			s += ": " + short(first, 100)
		}
	}
	return s
}

// recall is the summary of a conversation: what was asked.
func recall(messages []llm.Message) string {
	var asked []string
	for _, m := range messages {
		if t := unwrap(m); m.Role == llm.User && t != "" {
			asked = append(asked, "- "+short(t, 120))
		}
	}
	if len(asked) == 0 {
		return "Nothing was asked so far."
	}
	if n := len(asked); n > 20 {
		asked = append([]string{fmt.Sprintf("- (%d earlier requests)", n-20)}, asked[n-20:]...)
	}
	return "Asked so far:\n\n" + strings.Join(asked, "\n")
}
