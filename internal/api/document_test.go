package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/schedule"
)

// document is as much of an OpenAPI document as the tests look at.
type document struct {
	OpenAPI string                          `json:"openapi"`
	Paths   map[string]map[string]operation `json:"paths"`
	Parts   struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID        string                 `json:"operationId"`
	Security  *[]map[string][]string `json:"security"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
	Parameters []struct {
		Name, In string
	} `json:"parameters"`
}

func readDocument(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// schema compiles a schema of the document.
func (d document) schema(t *testing.T, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	whole := map[string]any{"$defs": d.Parts.Schemas, "allOf": []json.RawMessage{raw}}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDocumentAndRoutesAgree(t *testing.T) {
	d := readDocument(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("openapi = %q", d.OpenAPI)
	}
	h := openHouse(t, nil)
	routed, ids := map[string]Route{}, map[string]bool{}
	for _, r := range h.api.Routes() {
		routed[r.Method+" "+r.Pattern] = r
	}
	for path, ops := range d.Paths {
		for method, op := range ops {
			key := strings.ToUpper(method) + " " + path
			r, ok := routed[key]
			if !ok {
				t.Errorf("%s is documented and not routed", key)
			}
			delete(routed, key)
			if ids[op.ID] || op.ID == "" {
				t.Errorf("%s: operationId %q is missing or used twice", key, op.ID)
			}
			ids[op.ID] = true
			if isOpen := op.Security != nil && len(*op.Security) == 0; isOpen != r.Open {
				t.Errorf("%s: open is documented as %v, routed as %v", key, isOpen, r.Open)
			}
			if cookie := op.Security != nil && len(*op.Security) == 2; cookie != r.Page {
				t.Errorf("%s: the cookie is documented as %v, routed as %v", key, cookie, r.Page)
			}
			if _, says401 := op.Responses["401"]; says401 == r.Open {
				t.Errorf("%s: 401 is documented: %v", key, says401)
			}
			for part := range strings.SplitSeq(path, "/") {
				name, isParam := strings.CutPrefix(part, "{")
				if isParam && !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.In == "path" && p.Name+"}" == name }) {
					t.Errorf("%s: the parameter %s is not documented", key, part)
				}
			}
		}
	}
	for key := range routed {
		t.Errorf("%s is routed and not documented", key)
	}
	if r := h.want(200, "GET", "/openapi.json", "", "Authorization", ""); r.raw != string(openAPI) {
		t.Error("the served document is another one")
	}
}

// checked validates every answer it lets through.
type checked struct {
	t    *testing.T
	doc  document
	next http.Handler

	mu   sync.Mutex
	seen map[string]bool
}

// ServeHTTP answers and validates.
func (c *checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &kept{ResponseWriter: w, status: 200}
	c.next.ServeHTTP(rec, r)
	pattern := pathOf(c.doc, r.URL.EscapedPath())
	op, ok := c.doc.Paths[pattern][strings.ToLower(r.Method)]
	if !ok {
		return
	}
	key := r.Method + " " + pattern + " " + http.StatusText(rec.status)
	res, ok := op.Responses[itoa(rec.status)]
	if !ok {
		c.t.Errorf("%s: status %d is not documented (%s)", key, rec.status, rec.body)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[op.ID+" "+itoa(rec.status)] = true
	content, ok := res.Content["application/json"]
	if !ok {
		return
	}
	var v any
	if err := json.Unmarshal(rec.body, &v); err != nil {
		c.t.Errorf("%s: %v", key, err)
		return
	}
	if err := c.doc.schema(c.t, content.Schema).Validate(v); err != nil {
		c.t.Errorf("%s: %s: %v", key, rec.body, err)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// pathOf finds the documented path of a request; exact ones win.
func pathOf(d document, path string) string {
	if d.Paths[path] != nil {
		return path
	}
	parts := strings.Split(path, "/")
	for p := range d.Paths {
		want := strings.Split(p, "/")
		if len(want) == len(parts) && !slices.ContainsFunc(want, func(w string) bool {
			i := slices.Index(want, w)
			return !strings.HasPrefix(w, "{") && w != parts[i]
		}) {
			return p
		}
	}
	return ""
}

// kept remembers an answer.
type kept struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (k *kept) WriteHeader(status int) { k.status = status; k.ResponseWriter.WriteHeader(status) }

func (k *kept) Write(p []byte) (int, error) {
	k.body = append(k.body, p...)
	return k.ResponseWriter.Write(p)
}

func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// Every answer that is shown here must be as documented, and every documented
// success is shown.
func TestAnswersFollowTheDocument(t *testing.T) {
	book, err := approval.New(approval.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := openHouse(t, func(o *Options) {
		o.Rooms = hall{o.Engine}
		o.Engine, o.Approvals = answering{o.Engine.(*engine.Engine), book}, book
		o.Post = func(context.Context, string, string) (string, error) { return "1.2", nil }
		withSecrets(vault(t), &drops{})(o)
		o.Ready = func(context.Context) []Check { return []Check{{Name: "journal", OK: true}} }
		o.About = func() About { return About{Version: "1", Model: "m"} }
		o.Schedules = schedule.NewStore(t.TempDir())
	})
	c := &checked{t: t, doc: readDocument(t), next: h.api.Handler(nil), seen: map[string]bool{}}
	h.serveInstead(c)

	id := h.session(`,"clientEmail":"a@b.c","metadata":{"a":1}`)
	base := "/sessions/" + id
	local := h.want(200, "POST", base+"/attachments", "x", "X-Filename", "a.txt").str("local")
	h.want(200, "POST", base+"/message", `{"text":"work","attachments":[{"local":"`+local+`"}]}`)
	h.want(200, "POST", base+"/message", `{"text":"silent"}`)
	turn := h.want(202, "POST", base+"/message", `{"text":"work"}`, "Prefer", "respond-async").header.Get("Location")
	h.until("end", func() bool { return h.request("GET", turn, "").str("state") == "ended" })
	h.want(502, "POST", base+"/message", `{"text":"model"}`)
	h.want(500, "POST", base+"/message", `{"text":"broken"}`)
	h.want(503, "POST", base+"/message", `{"text":"interrupted"}`)
	h.want(400, "POST", base+"/message", `{}`)
	h.want(400, "PATCH", base, `{"runner":"nobody"}`)
	h.want(401, "GET", base, "", "Authorization", "")
	h.want(403, "GET", base, "", "Authorization", "Bearer agent-token")
	h.want(404, "GET", "/sessions/nobody", "")
	h.want(415, "POST", "/sessions", "x", "Content-Type", "text/plain")
	h.want(200, "PATCH", base, `{"metadata":{"b":2}}`)
	h.want(200, "POST", base+"/inject-turn", `{"text":"x"}`)
	h.want(200, "POST", base+"/stop", "")
	h.want(200, "POST", base+"/reset", "")
	h.want(200, "POST", base+"/compact", "")
	h.want(200, "POST", base+"/command", `{"text":"/status"}`)
	h.want(200, "POST", "/event", `{"channelId":"WEBUI-t","text":"work"}`)
	planned := "/schedules/" + h.want(201, "POST", "/schedules", `{"type":"periodic","channelId":"WEBUI-t","text":"x","schedule":"0 9 * * *"}`).str("name")
	h.want(200, "GET", "/schedules", "")
	h.want(200, "POST", planned, `{"action":"pause"}`)
	h.want(400, "POST", planned, `{}`)
	h.want(400, "POST", "/schedules", `{}`)
	h.want(404, "POST", "/schedules/nobody", `{"action":"run"}`)
	for _, at := range []string{"/secret/", "/secrets/"} {
		h.want(200, "PUT", at+"NEW-KEY", `{"value":"new-value"}`)
		h.want(200, "GET", at+"NEW-KEY", "")
		h.want(200, "DELETE", at+"NEW-KEY", "")
		h.want(404, "GET", at+"NEW-KEY", "")
		h.want(400, "PUT", at+"NEW-KEY", `{}`)
		h.want(403, "GET", at+"PROXY-KEY", "")
	}
	h.want(200, "GET", "/secrets", "")
	h.want(200, "GET", "/meta/PROXY-KEY", "")
	h.want(200, "POST", "/secret-drops", `{"name":"A"}`)
	h.want(429, "POST", "/secret-drops", `{"name":"MANY"}`)
	h.want(200, "POST", "/escalate", `{"agent":"billing","issue":"x"}`)
	h.want(200, "GET", "/rooms", "")
	h.want(201, "POST", "/rooms", `{"id":"x","participants":[{"id":"ana"}]}`)
	h.want(200, "GET", "/rooms/dinner", "")
	h.want(200, "POST", "/rooms/dinner/events", `{"type":"message","text":"work"}`)
	h.want(200, "POST", "/rooms/dinner/steps", `{"op":"start"}`)
	h.want(201, "POST", "/sessions/open", `{"channel":"C1","text":"hi"}`)
	h.want(200, "POST", "/sessions/email-inbound", `{"from":"a@b.c","text":"x"}`)
	h.want(200, "POST", "/upload?channel=WEBUI-t", "x", "X-Filename", "b.txt")
	h.until("event answered", func() bool { return len(h.engine.Conversations()) == 0 })
	ask := hold(t, book, "WEBUI-t", "rm -rf /a")
	h.want(200, "GET", "/approvals", "")
	h.want(200, "GET", "/page/threads/t/history", "")
	h.want(200, "POST", "/approvals/"+ask.ID, `{"answer":"no"}`)
	h.until("answer answered", func() bool { return len(h.engine.Conversations()) == 0 })
	for _, path := range []string{"/health", "/readyz", "/openapi.json", "/mcp/status", "/agents", "/status", "/channels", "/sessions", base, base + "/history", "/page/threads",
		"/page/threads/t/history", "/page/threads/SESSION-" + id + "/history", "/page/status?thread=t", "/files/" + strings.Replace(local, "/attachments", "", 1)} {
		h.want(200, "GET", path, "")
	}
	s := h.stream(base + "/stream?since=0")
	event := c.doc.schema(t, json.RawMessage(`{"$ref":"#/components/schemas/Event"}`))
	for kind := ""; kind != "final"; {
		var data map[string]any
		_, kind, data = s.event()
		if err := event.Validate(data); err != nil {
			t.Errorf("event %v: %v", data, err)
		}
	}
	s.close()
	c.until(h, "stream ended", "stream 200")
	for path, ops := range c.doc.Paths {
		for _, op := range ops {
			for status := range op.Responses {
				if strings.HasPrefix(status, "2") && !c.seen[op.ID+" "+status] {
					t.Errorf("%s %s: status %s was never shown", op.ID, path, status)
				}
			}
		}
	}
}

func (c *checked) until(h *house, what, key string) {
	h.until(what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.seen[key]
	})
}
