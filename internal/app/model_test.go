package app_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
)

// wires are the configurations of a server under which the same history is
// sent to the model over another wire.
func wires(model *llmtest.Server) [][]string {
	common := []string{
		"ANTHROPIC_API_KEY=" + llmtest.Key, "ANTHROPIC_BASE_URL=" + model.URL(),
		"OPENAI_API_KEY=" + llmtest.Key, "OPENAI_BASE_URL=" + model.URL() + "/v1",
		"MISTRAL_API_KEY=" + llmtest.Key, "MISTRAL_BASE_URL=" + model.URL() + "/v1",
	}
	with := func(more ...string) []string { return append(more, common...) }
	return [][]string{
		with("IRIS_PROVIDER=anthropic", "IRIS_THINKING_TOKENS=1024"),
		with("IRIS_PROVIDER=openai"),
		with("IRIS_PROVIDER=mistral"), // the chat wire
	}
}

// job finds the name of a job in the text of a message, and its number.
var job = regexp.MustCompile(`job ([a-z]+)([0-9]+)`)

// steps are the calls that the model makes for a job before it is done: none,
// one, several at once, and several rounds.
func steps(n int) []int {
	return [][]int{{1}, {3}, {1, 1}, {}, {2, 1}, {1, 2, 1}}[n%6]
}

// worker plays a model that works on jobs. Each call appends a line with its
// own name to the file counter, so that a call which runs twice shows.
func worker(counter string) func(llmtest.Request) llmtest.Answer {
	return func(r llmtest.Request) llmtest.Answer {
		name, n, step := assigned(r)
		plan := steps(n)
		a := llmtest.Answer{Pause: time.Millisecond}
		if r.Thinking {
			a.Parts = append(a.Parts, llmtest.Thinking("what is next?", "signature-"+name))
		}
		if step >= len(plan) {
			a.Parts = append(a.Parts, llmtest.Text("done "+name))
			return a
		}
		if n%2 == 0 {
			a.Parts = append(a.Parts, llmtest.Text(fmt.Sprintf("step %d of %s", step, name)))
		}
		for i := range plan[step] {
			id := fmt.Sprintf("call_%s_%d_%d", name, step, i)
			args := fmt.Sprintf(`{"label":"count","command":"echo %s >> %s; sleep 0.01"}`, id, counter)
			a.Parts = append(a.Parts, llmtest.Call(id, "bash", args))
		}
		return a
	}
}

// assigned returns the newest job of a history and how many answers it has had.
func assigned(r llmtest.Request) (name string, n, step int) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := r.Messages[i]
		if m.Role == llm.Assistant {
			step++
			continue
		}
		for _, p := range slices.Backward(m.Parts) {
			if p.Kind != llm.TextPart {
				continue
			}
			if all := job.FindAllStringSubmatch(p.Text, -1); all != nil {
				last := all[len(all)-1]
				n, _ = strconv.Atoi(last[2]) // the expression lets only digits through
				return last[1] + last[2], n, step
			}
		}
	}
	return "", 3, 0
}

// lines splits a text file.
func lines(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
