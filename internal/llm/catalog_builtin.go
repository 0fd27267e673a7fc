package llm

import "github.com/iris-operator/iris/internal/secret"

// listed describes a built-in model: its window and greatest output in tokens,
// what it can do, and its price.
type listed struct {
	id, name       string
	window, output int64
	images, thinks bool
	price          Price
}

// builtin returns the providers and models known when this was written. Prices
// are the list prices of that time in US dollars per million tokens; where none
// is certain there is none. models.json overrides every value.
func builtin() map[string]provider {
	all := map[string]provider{}
	add := func(name string, p provider, models []listed) {
		p.entry.Info.Provider = name
		for _, m := range models {
			e := p.entry
			e.Name, e.Known = m.name, true
			e.Info = Info{Provider: name, Model: m.id, Window: m.window, MaxOutput: m.output, Images: m.images, Thinking: m.thinks, Price: m.price}
			p.models = append(p.models, e)
		}
		all[name] = p
	}
	whole := Compat{DeveloperRole: true, ReasoningEffort: true, Store: true}

	add("anthropic", provider{entry: Entry{API: AnthropicMessages, BaseURL: "https://api.anthropic.com"}}, claude)
	add("openai", provider{entry: Entry{API: OpenAIResponses, BaseURL: "https://api.openai.com/v1", Compat: whole}}, gpt)
	add("azure-foundry", provider{open: true, hint: "https://<account>.cognitiveservices.azure.com/openai/v1",
		entry: Entry{API: OpenAICompletions, AuthHeader: true, Compat: whole, APIKey: secret.New("$AZURE_FOUNDRY_KEY"), keyVars: []string{"FOUNDRY_E2_KEY"}}}, unpriced(gpt))
	add("deepseek", provider{entry: Entry{API: OpenAICompletions, BaseURL: "https://api.deepseek.com"}}, deepseek)
	add("mistral", provider{entry: Entry{API: OpenAICompletions, BaseURL: "https://api.mistral.ai/v1"}}, mistral)
	add("openrouter", provider{open: true, entry: Entry{API: OpenAICompletions, BaseURL: "https://openrouter.ai/api/v1"}}, nil)
	// Ollama cuts what does not fit its context without a word, so the window
	// stays below what its models are commonly served with.
	add("ollama", provider{open: true, entry: Entry{API: OpenAICompletions, BaseURL: "http://127.0.0.1:11434/v1", keyless: true, Info: Info{Window: 32_768}}}, nil)
	return all
}

var claude = []listed{
	{"claude-sonnet-4-5", "Claude Sonnet 4.5", 200_000, 64_000, true, true, Price{3, 15, 0.30, 3.75}},
	{"claude-opus-4-5", "Claude Opus 4.5", 200_000, 64_000, true, true, Price{5, 25, 0.50, 6.25}},
	{"claude-opus-4-1", "Claude Opus 4.1", 200_000, 32_000, true, true, Price{15, 75, 1.50, 18.75}},
	{"claude-haiku-4-5", "Claude Haiku 4.5", 200_000, 64_000, true, true, Price{1, 5, 0.10, 1.25}},
	{"claude-sonnet-4-0", "Claude Sonnet 4", 200_000, 64_000, true, true, Price{3, 15, 0.30, 3.75}},
}

var gpt = []listed{
	{"gpt-5", "GPT-5", 400_000, 128_000, true, true, Price{1.25, 10, 0.125, 0}},
	{"gpt-5-mini", "GPT-5 mini", 400_000, 128_000, true, true, Price{0.25, 2, 0.025, 0}},
	{"gpt-5-nano", "GPT-5 nano", 400_000, 128_000, true, true, Price{0.05, 0.40, 0.005, 0}},
	{"gpt-5-codex", "GPT-5 Codex", 400_000, 128_000, true, true, Price{1.25, 10, 0.125, 0}},
	{"gpt-5.1", "GPT-5.1", 400_000, 128_000, true, true, Price{1.25, 10, 0.125, 0}},
	{"gpt-5.1-codex", "GPT-5.1 Codex", 400_000, 128_000, true, true, Price{1.25, 10, 0.125, 0}},
	{"gpt-5.2", "GPT-5.2", 400_000, 128_000, true, true, Price{1.75, 14, 0.175, 0}},
	{"gpt-4.1", "GPT-4.1", 1_047_576, 32_768, true, false, Price{2, 8, 0.50, 0}},
	{"gpt-4.1-mini", "GPT-4.1 mini", 1_047_576, 32_768, true, false, Price{0.40, 1.60, 0.10, 0}},
	{"gpt-4.1-nano", "GPT-4.1 nano", 1_047_576, 32_768, true, false, Price{0.10, 0.40, 0.025, 0}},
	{"gpt-4o", "GPT-4o", 128_000, 16_384, true, false, Price{2.50, 10, 1.25, 0}},
	{"gpt-4o-mini", "GPT-4o mini", 128_000, 16_384, true, false, Price{0.15, 0.60, 0.075, 0}},
	{"o3", "o3", 200_000, 100_000, true, true, Price{2, 8, 0.50, 0}},
	{"o4-mini", "o4-mini", 200_000, 100_000, true, true, Price{1.10, 4.40, 0.275, 0}},
	{"o3-mini", "o3-mini", 200_000, 100_000, false, true, Price{1.10, 4.40, 0.55, 0}},
	{"o1", "o1", 200_000, 100_000, true, true, Price{15, 60, 7.50, 0}},
}

var deepseek = []listed{
	{"deepseek-chat", "DeepSeek Chat", 128_000, 8_192, false, false, Price{0.28, 0.42, 0.028, 0}},
	{"deepseek-reasoner", "DeepSeek Reasoner", 128_000, 65_536, false, true, Price{0.28, 0.42, 0.028, 0}},
}

var mistral = []listed{
	{"mistral-medium-latest", "Mistral Medium", 131_072, 0, true, false, Price{0.40, 2, 0, 0}},
	{"mistral-large-latest", "Mistral Large", 131_072, 0, true, false, Price{}},
	{"mistral-small-latest", "Mistral Small", 131_072, 0, true, false, Price{0.10, 0.30, 0, 0}},
	{"codestral-latest", "Codestral", 256_000, 0, false, false, Price{0.30, 0.90, 0, 0}},
}

// unpriced copies a list without its prices: the same models cost what the
// other provider asks.
func unpriced(models []listed) []listed {
	out := make([]listed, len(models))
	for i, m := range models {
		m.price = Price{}
		out[i] = m
	}
	return out
}
