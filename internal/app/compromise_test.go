package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/secret/store"
)

// stolen is all that a compromised agent has.
const stolen = "token-of-the-compromised-agent-0123456789"

// canaries are the values of the secrets; the first is the agent's own.
var canaries = map[string]string{
	"ALLOWED-ONE": "canary-allowed-5f2c", "OTHER-CANARY": "canary-other-91ab", "PROXY-ONE": "canary-proxy-77de", "RUNTIME-ONE": "canary-runtime-03fe",
}

// besieged is a server with secrets, a session, and two agents.
func besieged(t *testing.T) (p *place, session string) {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "secret.key")
	if err := store.NewKey(key); err != nil {
		t.Fatal(err)
	}
	p = newPlace(t, "IRIS_SECRETS_MODE=store", "IRIS_SECRET_KEY_FILE="+key, "IRIS_SECRET_STORE_FILE="+filepath.Join(dir, "secrets.json.enc"))
	p.serve()
	for name, value := range canaries {
		body := fmt.Sprintf(`{"value":%q,"proxyOnly":%v,"agentReadable":%v}`, value, name == "PROXY-ONE", name != "RUNTIME-ONE")
		if a := p.do("PUT", "/secrets/"+name, body); a.status != http.StatusOK {
			t.Fatalf("PUT /secrets/%s = %v", name, a)
		}
	}
	registry := fmt.Sprintf(`{
		"stolen": {"bridge_url": "http://127.0.0.1:1", "token": %q, "secrets": ["ALLOWED_ONE", "PROXY-ONE", "RUNTIME-ONE"]},
		"other": {"bridge_url": "http://127.0.0.1:1", "token": "token-of-the-other-agent-0123456789", "secrets": ["OTHER-CANARY"]}}`, stolen)
	if err := os.WriteFile(filepath.Join(p.workspace, "agents.json"), []byte(registry), 0o600); err != nil {
		t.Fatal(err)
	}
	return p, p.session()
}

// forged are headers that might be believed.
var forged = [][]string{
	nil,
	{"X-Iris-Caller: iris"}, {"X-Iris-Caller: other"}, {"X-Forwarded-User: iris", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1"},
	{"X-Http-Method-Override: GET", "X-Method-Override: GET"}, {"X-Original-Url: /health", "X-Rewrite-Url: /health"},
	{"Cookie: iris_webui_session=" + stolen}, {"Origin: http://127.0.0.1"}, {"X-Api-Key: " + stolen},
	{"Authorization: bearer " + stolen + " " + operatorToken[:8]},
	{"Authorization: Basic " + stolen}, {"Authorization: Bearer"},
}

// open are the routes that the agent may call, or anybody.
var openToAgents = []string{"GET /health", "GET /readyz", "GET /openapi.json", "POST /event", "POST /escalate", "GET /secret/{name}", "GET /secrets/{name}", "GET /meta/{name}"}

// TestACompromisedAgentReachesItsSecretsAlone tries every route that the server
// says it has, so that a new route is tried too.
func TestACompromisedAgentReachesItsSecretsAlone(t *testing.T) {
	p, session := besieged(t)
	if a := p.do("GET", "/secret/ALLOWED-ONE", "", "Authorization: Bearer "+stolen); !strings.Contains(a.body, canaries["ALLOWED-ONE"]) {
		t.Fatalf("its own secret: %v", a)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(p.do("GET", "/openapi.json", "").body), &doc); err != nil || len(doc.Paths) < 20 {
		t.Fatalf("%d routes, %v", len(doc.Paths), err)
	}
	paths := map[string]string{"/metrics": "/metrics"}
	for pattern := range doc.Paths {
		path := strings.NewReplacer("{id}", session, "{name}", "OTHER-CANARY", "{thread}", "SESSION-"+session, "{channel}", "SESSION-"+session, "{file}", "log.jsonl", "{turn}", "0190a0a0-0000-7000-8000-000000000000", "{token}", strings.Repeat("a", 48)).Replace(pattern)
		paths[path] = pattern
	}
	tried := 0
	for path, pattern := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			for _, headers := range forged {
				body := ""
				if method != "GET" && method != "HEAD" && method != "TRACE" {
					body = `{"text":"x","value":"x","answer":"yes","agent":"other","issue":"x","channelId":"SESSION-` + session + `","originChannel":"C","originThreadTs":"1","name":"OTHER-CANARY","channel":"C1"}`
				}
				a := p.do(method, path, body, slices.Concat([]string{"Authorization: Bearer " + stolen}, headers)...)
				tried++
				if holds(a.body) != "" {
					t.Errorf("%s %s with %q gives %v", method, path, headers, a)
				}
				route := strings.Replace(method, "HEAD", "GET", 1) + " " + pattern
				if a.status < 300 && !slices.Contains(openToAgents, route) && a.header.Get("Content-Type") != "text/html; charset=utf-8" {
					t.Errorf("%s with %q = %v: not for an agent", route, headers, a)
				}
				if a.status < 300 && (route == "POST /event" || route == "POST /escalate") {
					t.Errorf("%s with %q = %v: in the name of somebody else", route, headers, a)
				}
			}
		}
	}
	if tried < 2000 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// holds returns the canary that a text gives away, the agent's own excepted.
func holds(text string) string {
	for name, value := range canaries {
		if name != "ALLOWED-ONE" && strings.Contains(text, value) {
			return name
		}
	}
	return ""
}

// TestACompromisedAgentTriesOtherNames: spellings, encodings, and requests that
// no client library sends.
func TestACompromisedAgentTriesOtherNames(t *testing.T) {
	p, _ := besieged(t)
	for _, base := range []string{"/secret/", "/secrets/", "/meta/"} {
		for _, name := range []string{
			"OTHER-CANARY", "OTHER_CANARY", "other-canary", "OTHER%2DCANARY", "OTHER%5FCANARY", "%4fTHER-CANARY", "OTHER-CANARY%00", "OTHER-CANARY%20", "OTHER-CANARY?name=ALLOWED-ONE",
			"OTHER-CANARY;ALLOWED-ONE", "OTHER-CANARY#ALLOWED-ONE", "ALLOWED-ONE/../OTHER-CANARY", "ALLOWED-ONE%2F..%2FOTHER-CANARY", "ALLOWED-ONE%2fOTHER-CANARY", "..%2fsecret%2fOTHER-CANARY",
			"ALLOWED-ONE,OTHER-CANARY", "*", "%2a", ".", "..", "", "OTHER%252DCANARY", "ALLOWED-ONE&name=OTHER-CANARY", "PROXY-ONE", "RUNTIME-ONE", "PROXY_ONE", "IRIS_API_TOKEN", "IRIS-API-TOKEN", "HOME", "PATH",
		} {
			raw := "GET " + base + name + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + stolen + "\r\nX-Iris-Caller: iris\r\nConnection: close\r\n\r\n"
			if answer := p.wire(t, raw); holds(answer) != "" || strings.Contains(answer, operatorToken) || strings.HasPrefix(answer, "HTTP/1.1 200") && base != "/meta/" {
				t.Errorf("%s%s gives\n%s", base, name, answer)
			}
		}
	}
	for name, raw := range map[string]string{
		"two tokens":    "GET /secrets HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + stolen + "\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n",
		"smuggled":      "POST /escalate HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + stolen + "\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /secrets HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + stolen + "\r\nConnection: close\r\n\r\n",
		"absolute":      "GET http://127.0.0.1/secret/OTHER-CANARY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + stolen + "\r\nConnection: close\r\n\r\n",
		"double slash":  "GET //secret//OTHER-CANARY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + stolen + "\r\nConnection: close\r\n\r\n",
		"token in URL":  "GET /secret/OTHER-CANARY?access_token=" + stolen + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		"folded header": "GET /secret/OTHER-CANARY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n " + stolen + "\r\nConnection: close\r\n\r\n",
	} {
		if answer := p.wire(t, raw); holds(answer) != "" || strings.Contains(answer, `"secrets"`) {
			t.Errorf("%s gives\n%s", name, answer)
		}
	}
}

// wire sends bytes as they are and returns what comes back.
func (p *place) wire(t *testing.T, raw string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(p.url(""), "http://"), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil && len(b) == 0 {
		return ""
	}
	return string(b)
}
