package acp

import "encoding/json"

// What is sent.

type (
	initialize struct {
		Version      int          `json:"protocolVersion"`
		Capabilities capabilities `json:"clientCapabilities"`
		Info         info         `json:"clientInfo"`
	}
	capabilities struct {
		FS struct {
			Read  bool `json:"readTextFile"`
			Write bool `json:"writeTextFile"`
		} `json:"fs"`
		Terminal bool `json:"terminal"`
	}
	info struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	authenticate struct {
		Method string `json:"methodId"`
	}
	// openSession is new, load and resume; ID is empty for a new one.
	openSession struct {
		ID      string         `json:"sessionId,omitempty"`
		Cwd     string         `json:"cwd"`
		Servers []any          `json:"mcpServers"`
		Meta    map[string]any `json:"_meta,omitempty"`
	}
	prompt struct {
		ID     string  `json:"sessionId"`
		Blocks []block `json:"prompt"`
	}
	cancel struct {
		ID string `json:"sessionId"`
	}
	setMode struct {
		ID   string `json:"sessionId"`
		Mode string `json:"modeId"`
	}
	setModel struct {
		ID    string `json:"sessionId"`
		Model string `json:"modelId"`
	}
	setOption struct {
		ID     string `json:"sessionId"`
		Option string `json:"configId"`
		Value  string `json:"value"`
	}
	outcome struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId,omitempty"`
		} `json:"outcome"`
	}
)

// A block is a piece of content.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"` // base64 on the wire
	Mime string `json:"mimeType,omitempty"`
	URI  string `json:"uri,omitempty"`
	Name string `json:"name,omitempty"`
}

// textBlock keeps the field of an empty text, which block would leave out.
func textBlock(s string) block {
	if s == "" {
		s = " "
	}
	return block{Type: "text", Text: s}
}

// What is received. Everything may be missing, and what is not named here is
// passed over.

type (
	initialized struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load   bool `json:"loadSession"`
			Prompt struct {
				Image bool `json:"image"`
			} `json:"promptCapabilities"`
			Session struct {
				Resume json.RawMessage `json:"resume"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
		Auth []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"authMethods"`

		// What a session added.
		mode    string
		modes   []string
		options []option
	}
	session struct {
		ID    string `json:"sessionId"`
		Modes *struct {
			Current string `json:"currentModeId"`
			All     []struct {
				ID string `json:"id"`
			} `json:"availableModes"`
		} `json:"modes"`
		Models *struct {
			Current string `json:"currentModelId"`
			All     []struct {
				ID   string `json:"modelId"`
				Name string `json:"name"`
			} `json:"availableModels"`
		} `json:"models"`
		Options []option `json:"configOptions"`
	}
	// An option of a session. Its values may come in groups.
	option struct {
		ID       string          `json:"id"`
		Category string          `json:"category"`
		Current  json.RawMessage `json:"currentValue"`
		Values   []optionValue   `json:"options"`
	}
	optionValue struct {
		Value  string        `json:"value"`
		Name   string        `json:"name"`
		Values []optionValue `json:"options"`
	}
	prompted struct {
		Stop  string `json:"stopReason"`
		Usage *usage `json:"usage"`
	}
	usage struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cachedReadTokens"`
		CacheWrite int64 `json:"cachedWriteTokens"`
	}
	notification struct {
		Session string `json:"sessionId"`
		Update  update `json:"update"`
	}
	update struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage `json:"content"` // a block, or the list of a tool call
		Message string          `json:"messageId"`
		toolCall
		Options []option `json:"configOptions"`
		Mode    string   `json:"currentModeId"`
		Used    int64    `json:"used"`
		Size    int64    `json:"size"`
		Cost    *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
	}
	toolCall struct {
		ID        string          `json:"toolCallId"`
		Title     string          `json:"title"`
		ToolKind  string          `json:"kind"`
		Status    string          `json:"status"`
		Input     json.RawMessage `json:"rawInput"`
		Output    json.RawMessage `json:"rawOutput"`
		Locations []struct {
			Path string `json:"path"`
		} `json:"locations"`
		Meta struct {
			Claude struct {
				Tool   string `json:"toolName"`
				Parent string `json:"parentToolUseId"`
			} `json:"claudeCode"`
		} `json:"_meta"`
	}
	permission struct {
		Session string `json:"sessionId"`
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
		Call struct {
			toolCall
			Content json.RawMessage `json:"content"`
		} `json:"toolCall"`
	}
	readFile struct {
		Session string `json:"sessionId"`
		Path    string `json:"path"`
		Line    *int   `json:"line"`
		Limit   *int   `json:"limit"`
	}
	writeFile struct {
		Session string `json:"sessionId"`
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	createTerminal struct {
		Session string   `json:"sessionId"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Cwd     string   `json:"cwd"`
		Limit   *int     `json:"outputByteLimit"`
		Env     []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"env"`
	}
	terminalRef struct {
		Session  string `json:"sessionId"`
		Terminal string `json:"terminalId"`
	}
)

// The answers to what an agent asks of us.

type (
	fileText struct {
		Content string `json:"content"`
	}
	terminalID struct {
		Terminal string `json:"terminalId"`
	}
	exitStatus struct {
		Code   *int    `json:"exitCode"`
		Signal *string `json:"signal"`
	}
	terminalOutput struct {
		Output    string      `json:"output"`
		Truncated bool        `json:"truncated"`
		Exit      *exitStatus `json:"exitStatus,omitempty"`
	}
	empty struct{}
)
