package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
)

// selfHeal is iris self-heal as an agent's own service would run it.
func selfHeal(t *testing.T, so app.SelfHealOptions, environ ...string) (string, error) {
	t.Helper()
	environ = append(environ, "HOME="+t.TempDir())
	cfg, _, err := config.Load(config.Source{Environ: environ, Dir: t.TempDir(), Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = app.SelfHeal(context.Background(), app.Options{Config: cfg, Out: &out, Environ: environ}, so)
	return out.String(), err
}

// TestEscalationsReachIrisAlsoWhenSheWasDown: over the API, as a file while she is
// down, and through the agent's own API, each in the agent's name.
func TestEscalationsReachIrisAlsoWhenSheWasDown(t *testing.T) {
	iris := newPlace(t)
	agents := filepath.Join(iris.workspace, "agents")
	events := filepath.Join(agents, "billing", "events")
	for _, dir := range []string{iris.workspace, events} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const token = "token-of-billing-0123456789"
	entry := fmt.Sprintf(`{"billing":{"bridge_url":"http://127.0.0.1:1","token":%q}}`, token)
	if err := os.WriteFile(filepath.Join(iris.workspace, "agents.json"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	parent := []string{"AGENT_NAME=billing", "IRIS_API_URL=" + iris.url(""), "IRIS_SECRET_BROKER_TOKEN=" + token, "IRIS_EVENTS_DIR=" + events}

	// She is down.
	told, err := selfHeal(t, app.SelfHealOptions{Reason: "the ledger is broken", Severity: "critical", Context: "line 7"}, parent...)
	if err != nil || !strings.Contains(told, "left for when Iris is back") {
		t.Fatalf("self-heal = %q, %v", told, err)
	}
	left, _ := filepath.Glob(filepath.Join(events, "selfheal-*.json"))
	if len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	// Somebody else's name in the file, a link, and nonsense beside it.
	forged := `{"type":"immediate","channelId":"ESCALATE-other","text":"forged","user":"iris"}`
	if err := os.WriteFile(filepath.Join(events, "selfheal-1-aaaaaaaa.json"), []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(events, "selfheal-2-bbbbbbbb.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(iris.workspace, "agents.json"), filepath.Join(events, "selfheal-3-cccccccc.json")); err != nil {
		t.Fatal(err)
	}
	iris.serve()
	log := filepath.Join(iris.workspace, "ESCALATE-billing", "log.jsonl")
	has := func(text string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(log)
			return strings.Contains(string(b), text)
		}
	}
	until(t, "the escalation that was left", has("[critical/prod]: the ledger is broken"))
	until(t, "the forged one, in the agent's own name", has("forged"))
	if _, err := os.Stat(filepath.Join(iris.workspace, "ESCALATE-other")); err == nil {
		t.Error("a file spoke in another agent's name")
	}
	until(t, "the bad ones are set aside", func() bool {
		bad, _ := filepath.Glob(filepath.Join(events, "*.bad"))
		rest, _ := filepath.Glob(filepath.Join(events, "selfheal-*.json"))
		return len(bad) == 2 && len(rest) == 0
	})

	// She is up: at once, and only for itself.
	told, err = selfHeal(t, app.SelfHealOptions{Reason: "the queue is full"}, parent...)
	if err != nil || !strings.HasPrefix(told, "reported: ") {
		t.Errorf("self-heal = %q, %v", told, err)
	}
	until(t, "the escalation over the API", has("[error/prod]: the queue is full"))
	if a := iris.do("POST", "/escalate", `{"agent":"other","issue":"x"}`, "Authorization: Bearer "+token); a.status != http.StatusForbidden {
		t.Errorf("for another agent: %v", a)
	}
	if _, err := selfHeal(t, app.SelfHealOptions{Reason: "x", Severity: "loud"}, parent...); err == nil {
		t.Error("an unknown severity is taken")
	}

	// Through the agent's own API, which commands of its turns can reach.
	agent := newPlace(t, append(parent, "IRIS_ENV=prod")...)
	agent.serve()
	if a := agent.do("POST", "/escalate", `{"agent":"somebody","issue":"from a turn","severity":"warning"}`); a.status != http.StatusOK {
		t.Errorf("through its own API: %v", a)
	}
	until(t, "the escalation that was passed on", has("[warning/prod]: from a turn"))
}

// TestTheFleetIsSeen: a running agent is well, with its memory; one that is gone
// is not.
func TestTheFleetIsSeen(t *testing.T) {
	agent := newPlace(t)
	s := agent.serve()
	iris := newPlace(t)
	if err := os.MkdirAll(iris.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf(`{"billing":{"bridge_url":"http://127.0.0.1:%s","description":"invoices","token":%q}}`, strconv.Itoa(agent.port-100), operatorToken+"-no")
	if err := os.WriteFile(filepath.Join(iris.workspace, "agents.json"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	iris.serve()
	until(t, "the agent is seen to be well", func() bool { return strings.Contains(iris.do("GET", "/agents", "").body, `"ok":true`) })
	a := agent.do("GET", "/status", "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `"memory":`) || !strings.Contains(a.body, `"turns":0`) {
		t.Errorf("GET /status = %v", a)
	}
	s.stop()
}

// TestSpawnSaysWhatItCannotDo: no agent is registered when none could be made.
func TestSpawnSaysWhatItCannotDo(t *testing.T) {
	home := t.TempDir()
	environ := []string{"HOME=" + home, "IRIS_WORKSPACE=" + filepath.Join(home, "ws"), "DOCKER_HOST=unix://" + filepath.Join(home, "none.sock"), "IRIS_PROVIDER=rehearsal"}
	cfg, _, err := config.Load(config.Source{Environ: environ, Dir: home, Home: home})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	opts := app.Options{Config: cfg, Out: &out, Err: &out, Environ: environ}
	for name, so := range map[string]app.SpawnOptions{
		"no engine":  {Name: "billing", Purpose: "invoices", Mode: "docker"},
		"name":       {Name: "../x", Purpose: "invoices", Mode: "docker"},
		"no purpose": {Name: "billing", Mode: "docker"},
		"mode":       {Name: "billing", Purpose: "x", Mode: "cloud"},
		"skill":      {Name: "billing", Purpose: "x", Mode: "docker", Skills: []string{"nope"}},
		"secrets":    {Name: "billing", Purpose: "x", Mode: "docker", Secrets: "all"},
	} {
		if err := app.SpawnAgent(t.Context(), opts, so); err == nil {
			t.Errorf("%s: spawned", name)
		}
	}
	if text, err := os.ReadFile(cfg.Agents.Registry); err == nil && strings.Contains(string(text), "billing") {
		t.Errorf("an agent that could not be made is registered: %s", text)
	}
}
