package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/iris-operator/iris/internal/secret"
)

func catalog(t *testing.T, file string) *Catalog {
	t.Helper()
	c, err := ParseCatalog("models.json", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBuiltinModels(t *testing.T) {
	c := catalog(t, "")
	for _, w := range []struct {
		provider, model, wantModel string
		api                        API
		window                     int64
	}{
		{"", "", "claude-sonnet-4-5", AnthropicMessages, 200_000},
		{"anthropic", "claude-opus-4-1", "claude-opus-4-1", AnthropicMessages, 200_000},
		{"anthropic", "claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001", AnthropicMessages, 200_000},
		{"openai", "", "gpt-5", OpenAIResponses, 400_000},
		{"openai", "gpt-4.1-2025-04-14", "gpt-4.1-2025-04-14", OpenAIResponses, 1_047_576},
		{"mistral", "", "mistral-medium-latest", OpenAICompletions, 131_072},
		{"deepseek", "deepseek-chat", "deepseek-chat", OpenAICompletions, 128_000},
		{"openrouter", "some/thing", "some/thing", OpenAICompletions, DefaultWindow},
		{"ollama", "llama3.2", "llama3.2", OpenAICompletions, 32_768},
	} {
		e, err := c.Lookup(w.provider, w.model)
		if err != nil || e.Info.Model != w.wantModel || e.API != w.api || e.Info.Window != w.window || e.BaseURL == "" {
			t.Errorf("Lookup(%q, %q) = %+v, %v", w.provider, w.model, e, err)
		}
		if w.provider != "" && e.Info.Provider != w.provider {
			t.Errorf("Lookup(%q).Info.Provider = %q", w.provider, e.Info.Provider)
		}
	}
	for _, p := range c.Providers() {
		for _, e := range c.Models(p) {
			if e.Info.Window <= 0 || e.Name == "" || !e.Known || e.Info.MaxOutput > e.Info.Window || e.Info.Price.Output < e.Info.Price.Input {
				t.Errorf("%s: %+v", p, e)
			}
		}
	}
	if c.Models("nope") != nil {
		t.Error("models of an unknown provider")
	}
}

func TestModelNotFoundNamesTheNearest(t *testing.T) {
	c := catalog(t, `{"providers":{"local":{"baseUrl":"http://127.0.0.1:8000/v1"}}}`)
	for _, w := range []struct{ provider, model, want string }{
		{"anthropc", "x", `did you mean "anthropic"?`},
		{"anthropic", "claude-sonet-4-5", `did you mean "claude-sonnet-4-5"?`},
		{"openai", "totally-else-entirely", `openai has no model "totally-else-entirely"; add it`},
		{"ollama", "", "choose a model of ollama"},
		{"local", "", "choose a model of local"},
		{"azure-foundry", "gpt-5", "https://<account>.cognitiveservices.azure.com/openai/v1"},
		{"foundry-e2", "gpt-5", "azure-foundry needs a baseUrl"},
		{strings.Repeat("x", 300), "", "not known;"},
	} {
		_, err := c.Lookup(w.provider, w.model)
		if !errors.Is(err, ErrModelNotFound) || !strings.Contains(err.Error(), w.want) {
			t.Errorf("Lookup(%q, %q) = %v, want %q in it", w.provider, w.model, err, w.want)
		}
	}
	e, err := c.Lookup("local", "any-model")
	if err != nil || e.Known || e.Info.Window != DefaultWindow || e.Info.Images || e.API != OpenAICompletions {
		t.Errorf("unknown model behind a base URL = %+v, %v", e, err)
	}
}

func TestModelsFileOverlays(t *testing.T) {
	c := catalog(t, `{"providers":{
		"openai": {"apiKey":"$MY_KEY", "headers":{"X-A":"b"}, "models":[
			{"id":"gpt-4.1","cost":{"input":9}, "contextWindow": 1000},
			{"id":"gpt-9","name":"GPT-9","reasoning":true,"input":["text","image"],"contextWindow":5,"maxTokens":4,"cost":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4}}]},
		"azure-foundry": {"baseUrl":"https://acme.cognitiveservices.azure.com/openai/v1", "compat":{"supportsStore":false}},
		"mine": {"baseUrl":"http://10.0.0.1/v1","api":"openai-responses","authHeader":true,"compat":{"supportsDeveloperRole":true},"models":[{"id":"m","input":["text"]}]}
	}}`)
	got, err := c.Lookup("openai", "gpt-9")
	want := Info{Provider: "openai", Model: "gpt-9", Window: 5, MaxOutput: 4, Images: true, Thinking: true, Price: Price{1, 2, 3, 4}}
	if err != nil || got.Info != want || got.Name != "GPT-9" || got.API != OpenAIResponses || got.APIKey.Reveal() != "$MY_KEY" || got.BaseURL != "https://api.openai.com/v1" {
		t.Errorf("gpt-9 = %+v, %v", got, err)
	}
	if v := got.Headers["X-A"]; v.Reveal() != "b" {
		t.Errorf("headers = %v", got.Headers)
	}
	got, err = c.Lookup("openai", "gpt-4.1")
	if err != nil || got.Info.Price != (Price{9, 8, 0.5, 0}) || got.Info.Window != 1000 || got.Info.MaxOutput != 32_768 || !got.Info.Images {
		t.Errorf("a built-in model keeps what is not said: %+v, %v", got, err)
	}
	if got, err = c.Lookup("openai", "gpt-5"); err != nil || got.APIKey.Reveal() != "$MY_KEY" {
		t.Errorf("a model that is not listed gets its provider's key: %+v, %v", got, err)
	}
	if first := c.Models("openai")[0].Info.Model; first != "gpt-4.1" {
		t.Errorf("the default is %q, want the first of the file", first)
	}
	if got, err = c.Lookup("azure-foundry", "my-deployment"); err != nil || got.Compat != (Compat{true, true, false}) || !got.AuthHeader {
		t.Errorf("azure = %+v, %v", got, err)
	}
	if got, err = c.Lookup("foundry-e2", "gpt-5"); err != nil || got.Info.Provider != "azure-foundry" {
		t.Errorf("the old name = %+v, %v", got, err)
	}
	if got, err = c.Lookup("mine", "m"); err != nil || got.API != OpenAIResponses || !got.AuthHeader || !got.Compat.DeveloperRole || got.Compat.Store || got.Info.Window != DefaultWindow {
		t.Errorf("mine = %+v, %v", got, err)
	}
	if fresh := catalog(t, ""); fresh.Models("openai")[0].Info.Model != "gpt-5" {
		t.Error("a file changed the built-in table")
	}
	if s := fmt.Sprintf("%+v", got); strings.Contains(s, "MY_KEY") {
		t.Errorf("an entry prints its key: %s", s)
	}
}

func TestModelsFileUnderTheOldName(t *testing.T) {
	c := catalog(t, `{"providers":{"foundry-e2":{"baseUrl":"https://acme.cognitiveservices.azure.com/openai/v1"}}}`)
	if e, err := c.Lookup("foundry-e2", "gpt-5"); err != nil || e.Info.Provider != "foundry-e2" || !e.Info.Images || e.BaseURL == "" {
		t.Errorf("Lookup = %+v, %v", e, err)
	}
}

func TestModelsFileIsRefused(t *testing.T) {
	for name, w := range map[string]struct{ file, want string }{
		"corrupt":        {`{"providers":{`, "unexpected end"},
		"empty":          {" \n", "the file is empty"},
		"null":           {`null`, "want an object"},
		"list":           {`[]`, "array"},
		"top":            {`{"provider":{}}`, `unknown key "provider" (did you mean "providers"?)`},
		"case":           {`{"providers":{"openai":{"baseURL":"http://x"}}}`, `providers.openai: unknown key "baseURL" (did you mean "baseUrl"?)`},
		"model key":      {`{"providers":{"openai":{"models":[{"id":"a","contextWindows":1}]}}}`, `models[0]: unknown key "contextWindows" (did you mean "contextWindow"?)`},
		"cost key":       {`{"providers":{"openai":{"models":[{"id":"a","cost":{"inputs":1}}]}}}`, `cost: unknown key "inputs"`},
		"compat key":     {`{"providers":{"openai":{"compat":{"supportStore":true}}}}`, `compat: unknown key "supportStore" (did you mean "supportsStore"?)`},
		"far key":        {`{"providers":{"openai":{"zzzzzzzzzz":1}}}`, `unknown key "zzzzzzzzzz"`},
		"api":            {`{"providers":{"openai":{"api":"openai-completion"}}}`, `did you mean "openai-completions"?`},
		"url":            {`{"providers":{"openai":{"baseUrl":"user:hunter2@x"}}}`, "baseUrl: not an http or https URL"},
		"no url":         {`{"providers":{"mine":{}}}`, "baseUrl is missing"},
		"no id":          {`{"providers":{"openai":{"models":[{}]}}}`, "id is missing"},
		"twice":          {`{"providers":{"openai":{"models":[{"id":"a"},{"id":"a"}]}}}`, `"a" is listed twice`},
		"input":          {`{"providers":{"openai":{"models":[{"id":"a","input":["audio"]}]}}}`, `not "audio"`},
		"negative":       {`{"providers":{"openai":{"models":[{"id":"a","maxTokens":-1}]}}}`, "negative"},
		"negative price": {`{"providers":{"openai":{"models":[{"id":"a","cost":{"output":-1}}]}}}`, "negative"},
		"type":           {`{"providers":{"openai":{"models":[{"id":7}]}}}`, "number"},
		"name":           {`{"providers":{"a b":{}}}`, "only letters"},
	} {
		_, err := ParseCatalog("/ws/models.json", []byte(w.file))
		if err == nil || !strings.HasPrefix(err.Error(), "/ws/models.json: ") || !strings.Contains(err.Error(), w.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: err = %v, want %q in it", name, err, w.want)
		}
	}
}

func TestWithBaseURL(t *testing.T) {
	c := catalog(t, "")
	d, err := c.WithBaseURL("openai", "http://127.0.0.1:9/v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"gpt-5", "fake-1"} {
		if e, err := d.Lookup("openai", model); err != nil || e.BaseURL != "http://127.0.0.1:9/v1" {
			t.Errorf("Lookup(%q) = %+v, %v", model, e, err)
		}
	}
	if e, err := c.Lookup("openai", "gpt-5"); err != nil || e.BaseURL != "https://api.openai.com/v1" {
		t.Errorf("the first catalog changed: %+v, %v", e, err)
	}
	for _, w := range [][2]string{{"nope", "http://x"}, {"openai", "x"}, {"openai", "http://[::1"}} {
		if _, err := c.WithBaseURL(w[0], w[1]); err == nil {
			t.Errorf("WithBaseURL(%q) is accepted", w)
		}
	}
}

// store is a lookup that remembers what it was asked.
type store struct {
	values map[string]string
	asked  []string
}

func (s *store) lookup(name string) (secret.Value, bool) {
	s.asked = append(s.asked, name)
	v, ok := s.values[name]
	return secret.New(v), ok
}

func TestResolveKeyOrder(t *testing.T) {
	all := map[string]string{"MY_KEY": "mine", "AZURE-FOUNDRY-API-KEY": "secret", "AZURE_FOUNDRY_API_KEY": "env", "FOUNDRY_E2_KEY": "old"}
	e := Entry{APIKey: secret.New("$MY_KEY"), keyVars: []string{"FOUNDRY_E2_KEY"}}
	for _, w := range []struct{ drop, want string }{{"", "mine"}, {"MY_KEY", "secret"}, {"AZURE-FOUNDRY-API-KEY", "env"}, {"AZURE_FOUNDRY_API_KEY", "old"}} {
		delete(all, w.drop)
		v, err := ResolveKey(t.Context(), "azure-foundry", e, (&store{values: all}).lookup)
		if err != nil || v.Reveal() != w.want {
			t.Errorf("without %q: %q, %v, want %q", w.drop, v.Reveal(), err, w.want)
		}
	}
	s := &store{}
	if _, err := ResolveKey(t.Context(), "azure-foundry", e, s.lookup); err == nil || !strings.Contains(err.Error(), "set MY_KEY in") {
		t.Errorf("err = %v, want it to name MY_KEY", err)
	}
	want := []string{"MY_KEY", "AZURE-FOUNDRY-API-KEY", "AZURE_FOUNDRY_API_KEY", "FOUNDRY_E2_KEY"}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
}

func TestKeyTemplatedNameThatFailsFallsBackToSecret(t *testing.T) {
	s := &store{values: map[string]string{"DEEPSEEK-API-KEY": "k"}}
	v, err := ResolveKey(t.Context(), "deepseek", Entry{APIKey: secret.New("$NOPE")}, s.lookup)
	if err != nil || v.Reveal() != "k" {
		t.Errorf("ResolveKey = %q, %v", v.Reveal(), err)
	}
}

func TestKeyEchoedNameFallsBackToSecret(t *testing.T) {
	for _, echo := range []string{"MY_KEY", "$MY_KEY"} {
		s := &store{values: map[string]string{"MY_KEY": echo, "DEEPSEEK-API-KEY": "k"}}
		v, err := ResolveKey(t.Context(), "deepseek", Entry{APIKey: secret.New("$MY_KEY")}, s.lookup)
		if err != nil || v.Reveal() != "k" {
			t.Errorf("ResolveKey = %q, %v", v.Reveal(), err)
		}
	}
}

func TestLiteralKeyIsUntouched(t *testing.T) {
	for written, want := range map[string]string{
		"sk-literal": "sk-literal", "$$dollar": "$dollar", "$1 odd": "$1 odd", "UPPER": "UPPER", "a_b": "a_b", "$$": "$",
	} {
		s := &store{}
		e := catalog(t, fmt.Sprintf(`{"providers":{"deepseek":{"apiKey":%q,"headers":{"X-Team":"a"}}}}`, written))
		entry, err := e.Lookup("deepseek", "")
		if err != nil {
			t.Fatal(err)
		}
		v, err := ResolveKey(t.Context(), "deepseek", entry, s.lookup)
		if team := entry.Headers["X-Team"]; err != nil || v.Reveal() != want || len(s.asked) != 0 || team.Reveal() != "a" {
			t.Errorf("%q: %q, %v, asked %q, headers %v", written, v.Reveal(), err, s.asked, entry.Headers)
		}
	}
}

func TestBareVariableNameMeansTheVariable(t *testing.T) {
	for _, written := range []string{"CUSTOM_API_KEY", "$CUSTOM_API_KEY", "${CUSTOM_API_KEY}"} {
		e := Entry{APIKey: secret.New(written), BaseURL: "https://x"}
		v, err := ResolveKey(t.Context(), "c", e, (&store{values: map[string]string{"CUSTOM_API_KEY": "k"}}).lookup)
		if err != nil || v.Reveal() != "k" || e.APIKey.Reveal() != written {
			t.Errorf("%q: %q, %v", written, v.Reveal(), err)
		}
		v, err = ResolveKey(t.Context(), "c", e, (&store{}).lookup)
		if err == nil || !strings.Contains(err.Error(), "CUSTOM_API_KEY") || !v.IsZero() {
			t.Errorf("%q unresolved: %q, %v, want an error and never the name", written, v.Reveal(), err)
		}
	}
}

func TestKeyErrorNamesTheVariable(t *testing.T) {
	for provider, want := range map[string]string{"anthropic": "ANTHROPIC_API_KEY", "my-own.host": "MY_OWN_HOST_API_KEY"} {
		_, err := ResolveKey(t.Context(), provider, Entry{BaseURL: "https://x"}, (&store{}).lookup)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want %s in it", provider, err, want)
		}
	}
}

func TestKeyIsConfigured(t *testing.T) {
	c := catalog(t, "")
	for name, w := range map[string]struct {
		provider string
		values   map[string]string
		want     bool
	}{
		"store":          {"openai", map[string]string{"OPENAI-API-KEY": "k"}, true},
		"env":            {"openai", map[string]string{"OPENAI_API_KEY": "k"}, true},
		"empty":          {"openai", map[string]string{"OPENAI_API_KEY": ""}, false},
		"nothing":        {"openai", nil, false},
		"needs none":     {"ollama", nil, true},
		"own variable":   {"azure-foundry", map[string]string{"AZURE_FOUNDRY_KEY": "k"}, true},
		"other provider": {"openai", map[string]string{"ANTHROPIC_API_KEY": "k"}, false},
	} {
		var e Entry
		for _, m := range append(c.Models(w.provider), c.providers[w.provider].entry) {
			e = m
			break
		}
		if _, err := ResolveKey(t.Context(), w.provider, e, (&store{values: w.values}).lookup); (err == nil) != w.want {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestLocalServerNeedsNoKey(t *testing.T) {
	for base, want := range map[string]bool{
		"http://127.0.0.1:8000/v1": true, "http://localhost:1": true, "http://a.localhost": true, "http://[::1]:80": true,
		"http://10.0.0.1": false, "https://api.example.com": false, "::": false, "http://localhost.example.com": false,
	} {
		if _, err := ResolveKey(t.Context(), "p", Entry{BaseURL: base}, (&store{}).lookup); (err == nil) != want {
			t.Errorf("%s: err = %v", base, err)
		}
	}
}

func TestResolveKeyEndsWithCtx(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := ResolveKey(ctx, "openai", Entry{}, (&store{}).lookup); !errors.Is(err, stopped) {
		t.Errorf("err = %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, w := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}, {"ab", "ba", 2}} {
		if got := distance(w.a, w.b); got != w.want {
			t.Errorf("distance(%q, %q) = %d, want %d", w.a, w.b, got, w.want)
		}
	}
}

func FuzzParseCatalog(f *testing.F) {
	for _, s := range []string{`{}`, `{"providers":{"openai":{"models":[{"id":"a","cost":{"input":1}}]}}}`, `{"providers":{"x":{"baseUrl":"http://x","compat":{}}}}`, `{"providers":{"x":null}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCatalog("p", data)
		if err != nil {
			return
		}
		for _, p := range c.Providers() {
			for _, e := range c.Models(p) {
				got, err := c.Lookup(p, e.Info.Model)
				if c.providers[p].entry.BaseURL == "" {
					continue
				}
				if err != nil || cmp.Diff(got.Info, e.Info) != "" || e.Info.Window <= 0 {
					t.Fatalf("Lookup(%q, %q) = %+v, %v", p, e.Info.Model, got, err)
				}
			}
		}
	})
}
