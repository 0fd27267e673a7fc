package llm

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func text(s string) Part { return Part{Kind: TextPart, Text: s} }

func call(id string) Part {
	return Part{Kind: CallPart, Call: &Call{ID: id, Name: "bash", Args: json.RawMessage(`{"command":"ls"}`)}}
}

func result(id string) Part {
	return Part{Kind: ResultPart, Result: &Result{ID: id, Name: "bash", Text: "ok"}}
}

func thinking(s string) Part { return Part{Kind: ThinkingPart, Text: s, Opaque: "sig"} }

func user(parts ...Part) Message { return Message{Role: User, Parts: parts} }

func assistant(parts ...Part) Message {
	return Message{Role: Assistant, Parts: parts, Provider: "p", Model: "m"}
}

// conversation is a valid history with everything a history can hold.
func conversation() []Message {
	image := Part{Kind: ImagePart, Mime: "image/png", Data: []byte{1}}
	seen := result("e")
	seen.Result.Images = []Part{image}
	return []Message{
		user(text("hello"), image),
		assistant(thinking("hm"), text("hi")),
		user(text("do it")),
		assistant(thinking("tools"), text("I will"), call("a"), call("b")),
		user(result("b"), result("a"), text("and hurry")),
		assistant(call("c")),
		user(result("c")),
		assistant(text("done")),
		user(text("one")),
		user(text("two")),
		assistant(call("d"), call("e")),
		user(seen, result("d")),
		assistant(text("bye")),
	}
}

func TestValid(t *testing.T) {
	if err := Valid(conversation()); err != nil {
		t.Fatalf("Valid(conversation) = %v", err)
	}
	u := user(text("x"))
	badArgs := func(args string) Message {
		p := call("a")
		p.Call.Args = json.RawMessage(args)
		return assistant(p)
	}
	for name, c := range map[string]struct {
		history []Message
		want    string // part of the error; "" means valid
	}{
		"nothing":                {nil, ""},
		"one":                    {[]Message{u}, ""},
		"two users":              {[]Message{u, u}, ""},
		"assistant first":        {[]Message{assistant(text("x"))}, "begins with the user"},
		"unknown role":           {[]Message{{Role: "system", Parts: []Part{text("x")}}}, "unknown role"},
		"no parts":               {[]Message{u, assistant()}, "empty message"},
		"thinking only":          {[]Message{u, assistant(thinking("x"))}, "empty message"},
		"blank text":             {[]Message{user(text(" \n"))}, "blank text"},
		"empty thinking":         {[]Message{u, assistant(Part{Kind: ThinkingPart}, text("x"))}, "empty thinking"},
		"thinking of the user":   {[]Message{user(thinking("x"), text("x"))}, "not the assistant's"},
		"image of the assistant": {[]Message{u, assistant(Part{Kind: ImagePart, Mime: "image/png", Data: []byte{1}})}, "not the user's"},
		"image without data":     {[]Message{user(Part{Kind: ImagePart, Mime: "image/png"})}, "image without"},
		"bad image in a result":  {[]Message{u, assistant(call("a")), user(Part{Kind: ResultPart, Result: &Result{ID: "a", Images: []Part{{Kind: ImagePart}}}})}, "image without"},
		"unknown kind":           {[]Message{user(Part{Kind: "video"})}, "unknown kind"},
		"nil call":               {[]Message{u, assistant(Part{Kind: CallPart})}, "not an assistant's call"},
		"nil result":             {[]Message{user(Part{Kind: ResultPart})}, "not a user's result"},
		"call of the user":       {[]Message{user(call("a"))}, "not an assistant's call"},
		"no id":                  {[]Message{u, assistant(call(""))}, "without id"},
		"args list":              {[]Message{u, badArgs(`[]`), user(result("a"))}, "not one JSON object"},
		"args cut":               {[]Message{u, badArgs(`{"a":`), user(result("a"))}, "not one JSON object"},
		"args twice":             {[]Message{u, badArgs(`{}{}`), user(result("a"))}, "not one JSON object"},
		"args spaced":            {[]Message{u, badArgs(" {}\n"), user(result("a"))}, ""},
		"unanswered at the end":  {[]Message{u, assistant(call("a"))}, "no result"},
		"unanswered":             {[]Message{u, assistant(call("a")), u}, "0 results"},
		"answered twice":         {[]Message{u, assistant(call("a")), user(result("a"), result("a"))}, "2 results"},
		"answered late":          {[]Message{u, assistant(call("a")), u, user(result("a"))}, "0 results"},
		"assistant goes on":      {[]Message{u, assistant(call("a")), assistant(text("x"))}, "0 results"},
		"orphan":                 {[]Message{u, assistant(text("x")), user(result("a"))}, "1 results for 0 calls"},
		"wrong id":               {[]Message{u, assistant(call("a")), user(result("b"))}, "0 results"},
		"extra result":           {[]Message{u, assistant(call("a")), user(result("a"), result("b"))}, "2 results for 1 calls"},
		"same id twice":          {[]Message{u, assistant(call("a"), call("a")), user(result("a"))}, "used twice"},
		"same id later":          {[]Message{u, assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))}, ""},
	} {
		err := Valid(c.history)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Valid = %v, want %q", name, err, c.want)
		}
	}
}

func TestRepair(t *testing.T) {
	lost := func(id string) Part {
		return Part{Kind: ResultPart, Result: &Result{ID: id, Name: "bash", Text: Interrupted, IsError: true}}
	}
	broken := call("a")
	broken.Call.Args = json.RawMessage(`{"command":"l`)
	empty := call("a")
	empty.Call.Args = json.RawMessage(`{}`)
	other := assistant(thinking("old"), text("one"))
	other.Model = "older"
	u := user(text("x"))
	for name, c := range map[string]struct{ in, want []Message }{
		"interrupted call":           {[]Message{u, assistant(call("a"))}, []Message{u, assistant(call("a")), user(lost("a"))}},
		"one of two":                 {[]Message{u, assistant(call("a"), call("b")), user(result("a"), text("go on"))}, []Message{u, assistant(call("a"), call("b")), user(lost("b"), result("a"), text("go on"))}},
		"the user went on":           {[]Message{u, assistant(call("a")), u}, []Message{u, assistant(call("a")), user(lost("a"), text("x"))}},
		"result comes late":          {[]Message{u, assistant(call("a")), u, user(result("a"))}, []Message{u, assistant(call("a")), user(text("x"), result("a"))}},
		"assistant went on":          {[]Message{u, assistant(call("a")), assistant(text("y"))}, []Message{u, assistant(call("a")), user(lost("a")), assistant(text("y"))}},
		"orphan":                     {[]Message{u, assistant(text("y")), user(result("a"), text("z"))}, []Message{u, assistant(text("y")), user(text("z"))}},
		"orphan alone":               {[]Message{u, user(result("a"))}, []Message{u}},
		"answered twice":             {[]Message{u, assistant(call("a")), user(result("a"), result("a"))}, []Message{u, assistant(call("a")), user(result("a"))}},
		"empty assistant":            {[]Message{u, assistant(), u}, []Message{user(text("x"), text("x"))}},
		"thinking only":              {[]Message{u, assistant(thinking("x")), u}, []Message{user(text("x"), text("x"))}},
		"two answers":                {[]Message{u, assistant(text("a")), assistant(), assistant(text("b"))}, []Message{u, assistant(text("a"), text("b"))}},
		"two models":                 {[]Message{u, other, assistant(), assistant(text("b"))}, []Message{u, assistant(text("one"), text("b"))}},
		"broken arguments":           {[]Message{u, assistant(broken), user(result("a"))}, []Message{u, assistant(empty), user(result("a"))}},
		"begins with the assistant":  {[]Message{assistant(call("a")), user(result("a")), u}, []Message{u}},
		"unknown role":               {[]Message{u, {Role: "tool", Parts: []Part{text("x")}}}, []Message{u}},
		"same id twice in a message": {[]Message{u, assistant(call("a"), call("a")), user(result("a"))}, []Message{u, assistant(call("a")), user(result("a"))}},
		"nothing left":               {[]Message{assistant(text("x")), user(text(" "))}, nil},
	} {
		before, _ := json.Marshal(c.in)
		got := Repair(c.in)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: Repair (-want +got):\n%s", name, diff)
		}
		if after, _ := json.Marshal(c.in); string(after) != string(before) {
			t.Errorf("%s: Repair changed its input", name)
		}
	}
}

// checkRepair states what Repair promises about any input.
func checkRepair(t *testing.T, in []Message) {
	t.Helper()
	out := Repair(in)
	if err := Valid(out); err != nil {
		data, _ := json.Marshal(in)
		t.Fatalf("Valid(Repair) = %v for %s", err, data)
	}
	if again := Repair(out); len(again) != len(out) || len(out) > 0 && &again[0] != &out[0] {
		t.Fatalf("Repair is not idempotent:\n%s", cmp.Diff(out, again))
	}
}

func TestRepairOfAnyCut(t *testing.T) {
	whole := conversation()
	if got := Repair(whole); !cmp.Equal(got, whole) || &got[0] != &whole[0] {
		t.Errorf("Repair changes a valid history:\n%s", cmp.Diff(whole, got))
	}
	for from := range whole {
		for to := from; to <= len(whole); to++ {
			checkRepair(t, whole[from:to])
		}
	}
}

func TestRepairOfRandomDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		checkRepair(t, damage(r, conversation()))
	}
}

// damage loses, repeats, moves and breaks messages and parts.
func damage(r *rand.Rand, in []Message) []Message {
	for range 1 + r.IntN(6) {
		if len(in) == 0 {
			return in
		}
		i, j := r.IntN(len(in)), r.IntN(len(in))
		switch r.IntN(6) {
		case 0:
			in = slices.Delete(in, i, i+1)
		case 1:
			in = slices.Insert(in, i, in[j])
		case 2:
			in[i], in[j] = in[j], in[i]
		case 3:
			if n := len(in[i].Parts); n > 0 {
				k := r.IntN(n)
				in[i].Parts = slices.Delete(slices.Clone(in[i].Parts), k, k+1)
			}
		case 4:
			in[i].Parts = slices.Concat(in[i].Parts, in[j].Parts)
		case 5:
			in[i].Parts = slices.Clone(in[i].Parts)
			for k := range in[i].Parts {
				if p := &in[i].Parts[k]; p.Call != nil && r.IntN(2) == 0 {
					p.Call = &Call{ID: fmt.Sprint("c", r.IntN(3)), Name: p.Call.Name, Args: p.Call.Args[:r.IntN(len(p.Call.Args))]}
				}
			}
		}
	}
	return in
}

// F27: a context file cut at any byte loads into a history that can be sent.
func TestRepairOfAFileCutAtEveryByte(t *testing.T) {
	var file []byte
	for _, m := range conversation() {
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, line...), '\n')
	}
	for cut := range file {
		var history []Message
		for line := range strings.Lines(string(file[:cut])) {
			var m Message
			if json.Unmarshal([]byte(line), &m) == nil {
				history = append(history, m)
			}
		}
		checkRepair(t, history)
	}
}

func FuzzRepair(f *testing.F) {
	seed, _ := json.Marshal(conversation())
	f.Add(seed)
	f.Add([]byte(`[{"role":"assistant","parts":[{"kind":"call"}]},{"role":"user","parts":[{"kind":"result"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var history []Message
		if json.Unmarshal(data, &history) == nil {
			checkRepair(t, history)
		}
	})
}
