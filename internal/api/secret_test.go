package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/env"
	"github.com/iris-operator/iris/internal/secret/store"
	"github.com/iris-operator/iris/internal/turn"
)

// vault is a real store with some secrets in it.
func vault(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	if err := store.NewKey(dir + "/key"); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Options{File: dir + "/store", Key: dir + "/key"})
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	for name, p := range map[string]secret.Put{"BILLING-KEY": {}, "OTHER-KEY": {}, "PROXY-KEY": {ProxyOnly: &yes}, "RUNTIME-KEY": {AgentReadable: &no}} {
		if _, err := s.Put(t.Context(), name, secret.New("value-of-"+name), p); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// drops makes links that only remember what was asked for.
type drops struct{ asked []string }

func (d *drops) Drop(_ context.Context, name, channel string, ttl time.Duration, proxyOnly *bool) (Drop, error) {
	if name == "MANY" {
		return Drop{}, ErrTooManyDrops
	}
	d.asked = append(d.asked, fmt.Sprint(name, " ", channel, " ", ttl, " ", proxyOnly != nil))
	token := strings.Repeat("a", 48)
	return Drop{Token: token, Path: "/secret-drop/" + token, Expires: time.Now()}, nil
}

// withSecrets gives the agent billing two names on its list.
func withSecrets(s secret.Source, d Drops) func(*Options) {
	return func(o *Options) {
		o.Secrets, o.Drops = s, d
		o.Allowed = func(agent, name string) bool {
			f := secret.Fold(name)
			return agent == "billing" && (f == "BILLING_KEY" || f == "PROXY_KEY" || f == "RUNTIME_KEY" || f == "MISSING")
		}
	}
}

func TestSecretsInStoreMode(t *testing.T) {
	h := openHouse(t, withSecrets(vault(t), nil))
	h.want(401, "GET", "/secrets", "", "Authorization", "")
	h.want(401, "GET", "/secret/BILLING-KEY", "", "Authorization", "")
	if r := h.want(200, "PUT", "/secrets/NEW-KEY", `{"value":"new-value","agentReadable":false}`); r.str("name") != "NEW-KEY" {
		t.Errorf("PUT: %s", r.raw)
	}
	h.want(403, "GET", "/secrets/NEW-KEY", "")
	h.want(200, "PUT", "/secret/NEW_KEY", `{"value":"newer-value","agentReadable":true,"source":"cli"}`)
	for _, path := range []string{"/secrets/NEW-KEY", "/secret/NEW-KEY", "/secret/NEW_KEY"} {
		if r := h.want(200, "GET", path, ""); r.str("value") != "newer-value" {
			t.Errorf("GET %s: %s", path, r.raw)
		}
	}
	r := h.want(200, "GET", "/secrets", "")
	if strings.Contains(r.raw, "value") || !strings.Contains(r.raw, `"name":"NEW-KEY"`) || !strings.Contains(r.raw, `"source":"cli"`) {
		t.Errorf("list: %s", r.raw)
	}
	h.want(404, "GET", "/secret/NOTHING", "")
	h.want(200, "DELETE", "/secrets/NEW-KEY", "")
	h.want(404, "DELETE", "/secret/NEW-KEY", "")
	if r := h.want(404, "GET", "/secret/NEW-KEY", ""); r.str("error") != "secret not found" {
		t.Errorf("404: %s", r.raw)
	}
	for _, name := range []string{"a.b", "a%20b", strings.Repeat("n", 129), "%C3%A4"} {
		h.want(400, "GET", "/secret/"+name, "")
		h.want(400, "PUT", "/secret/"+name, `{"value":"x"}`)
		h.want(400, "DELETE", "/secret/"+name, "")
		h.want(400, "GET", "/meta/"+name, "")
	}
	h.want(400, "PUT", "/secret/A", `{}`)
	h.want(400, "PUT", "/secret/A", `{"value":7}`)
	h.want(400, "PUT", "/secret/A", `{"value":"`+strings.Repeat("x", secret.MaxValue+1)+`"}`)
}

func TestSecretFlagsAreObeyed(t *testing.T) {
	h := openHouse(t, withSecrets(vault(t), nil))
	for _, auth := range []string{"Bearer " + operatorToken, "Bearer agent-token"} {
		for _, name := range []string{"PROXY-KEY", "PROXY_KEY", "RUNTIME-KEY"} {
			if r := h.want(403, "GET", "/secret/"+name, "", "Authorization", auth); strings.Contains(r.raw, "value-of") {
				t.Errorf("%s: %s", name, r.raw)
			}
		}
		if r := h.want(200, "GET", "/meta/PROXY_KEY", "", "Authorization", auth); r.json["proxyOnly"] != true || strings.Contains(r.raw, "value-of") {
			t.Errorf("meta: %s", r.raw)
		}
	}
}

// Who has a sub-agent's token reaches its list and nothing else, whatever it
// says about itself.
func TestACompromisedAgentReachesItsListAlone(t *testing.T) {
	h := openHouse(t, withSecrets(vault(t), &drops{}))
	as := []string{"Authorization", "Bearer agent-token", "X-Iris-Caller", "iris", "X-Forwarded-For", "127.0.0.1"}
	for _, name := range []string{"BILLING-KEY", "BILLING_KEY"} {
		if r := h.want(200, "GET", "/secret/"+name, "", as...); r.str("value") != "value-of-BILLING-KEY" {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	h.want(404, "GET", "/secret/MISSING", "", as...)
	for _, path := range []string{
		"/secret/OTHER-KEY", "/secret/OTHER_KEY", "/secrets/OTHER-KEY", "/meta/OTHER-KEY", "/secret/NOTHING", "/meta/NOTHING", "/secret/billing-key", "/secrets",
		"/secret/OTHER%2DKEY",
	} {
		if r := h.want(403, "GET", path, "", as...); strings.Contains(r.raw, "value-of") {
			t.Errorf("GET %s: %s", path, r.raw)
		}
	}
	for _, path := range []string{"/secret/../secret/OTHER-KEY", "/secret/BILLING-KEY/../OTHER-KEY", "/secret/BILLING-KEY%2f..%2fOTHER-KEY", "/secret/OTHER-KEY%00"} {
		if r := h.request("GET", path, "", as...); r.status == 200 || strings.Contains(r.raw, "value-of") {
			t.Errorf("GET %s: %d %s", path, r.status, r.raw)
		}
	}
	h.want(403, "PUT", "/secret/BILLING-KEY", `{"value":"mine"}`, as...)
	h.want(403, "DELETE", "/secret/BILLING-KEY", "", as...)
	h.want(403, "POST", "/secret-drops", `{"name":"BILLING-KEY"}`, as...)
}

func TestATurnReadsAndStoresWhatIsNew(t *testing.T) {
	d := &drops{}
	h := openHouse(t, withSecrets(vault(t), d))
	id := h.session("")
	pending := h.say(id, "hold a")
	h.begun("a")
	auth := "Bearer " + h.api.opts.Tokens.Mint(turn.Request{ID: runningTurn(t, h, id), Conversation: chat.Address{Space: chat.Session, ID: id}}).Reveal()
	if r := h.want(200, "GET", "/secret/OTHER-KEY", "", "Authorization", auth); r.str("value") != "value-of-OTHER-KEY" {
		t.Errorf("GET: %s", r.raw)
	}
	h.want(403, "GET", "/secret/PROXY-KEY", "", "Authorization", auth)
	h.want(403, "GET", "/secret/RUNTIME-KEY", "", "Authorization", auth)
	h.want(403, "GET", "/secrets", "", "Authorization", auth)
	h.want(200, "PUT", "/secret/MADE-BY-TURN", `{"value":"made-value","source":"import"}`, "Authorization", auth)
	h.want(403, "PUT", "/secret/MADE_BY_TURN", `{"value":"another"}`, "Authorization", auth)
	h.want(403, "PUT", "/secret/PROXY-KEY", `{"value":"another","proxyOnly":false}`, "Authorization", auth)
	h.want(403, "DELETE", "/secret/MADE-BY-TURN", "", "Authorization", auth)
	if r := h.want(200, "GET", "/meta/MADE-BY-TURN", "", "Authorization", auth); r.str("source") != "api" {
		t.Errorf("meta: %s", r.raw)
	}
	h.want(200, "POST", "/secret-drops", `{"name":"WANTED"}`, "Authorization", auth)
	h.want(403, "POST", "/secret-drops", `{"name":"WANTED","channelId":"C1"}`, "Authorization", auth)
	if len(d.asked) != 1 || d.asked[0] != "WANTED SESSION-"+id+" 0s false" {
		t.Errorf("links: %q", d.asked)
	}
	h.script.release("a")
	<-pending
	h.want(401, "GET", "/secret/OTHER-KEY", "", "Authorization", auth)
}

func TestSecretDrops(t *testing.T) {
	d := &drops{}
	h := openHouse(t, withSecrets(vault(t), d))
	r := h.want(200, "POST", "/secret-drops", `{"name":"STRIPE-KEY","channelId":"WEBUI-main","ttlSeconds":120,"proxyOnly":true}`)
	if !strings.HasPrefix(r.str("path"), "/secret-drop/") || d.asked[0] != "STRIPE-KEY WEBUI-main 2m0s true" {
		t.Errorf("%s, asked %q", r.raw, d.asked)
	}
	h.want(400, "POST", "/secret-drops", `{"name":"a b"}`)
	h.want(400, "POST", "/secret-drops", `{}`)
	h.want(400, "POST", "/secret-drops", `{"name":"A","channelId":"../x"}`)
	h.want(400, "POST", "/secret-drops", `{"name":"A","ttlSeconds":-1}`)
	h.want(429, "POST", "/secret-drops", `{"name":"MANY"}`)
	h.want(401, "POST", "/secret-drops", `{"name":"A"}`, "Authorization", "")
}

// failing is a source without an answer.
type failing struct {
	secret.Source
	err error
}

func (f failing) Get(context.Context, string) (secret.Value, secret.Meta, error) {
	return secret.Value{}, secret.Meta{}, f.err
}
func (f failing) List(context.Context) ([]secret.Meta, error) { return nil, f.err }

func TestSecretsWithoutABackend(t *testing.T) {
	none := openHouse(t, nil)
	vars, err := env.New(env.Options{Lookup: func(string) (secret.Value, bool) { return secret.Value{}, false }})
	if err != nil {
		t.Fatal(err)
	}
	readOnly := openHouse(t, withSecrets(vars, nil))
	for _, h := range []*house{none, readOnly} {
		h.want(503, "PUT", "/secret/A", `{"value":"some-value"}`)
		h.want(503, "DELETE", "/secret/A", "")
		h.want(503, "POST", "/secret-drops", `{"name":"A"}`)
	}
	none.want(503, "GET", "/secrets", "")
	readOnly.want(200, "GET", "/secrets", "")
	for err, status := range map[error]int{secret.ErrUnreachable: 502, secret.ErrCorrupt: 503, secret.ErrDisabled: 503, secret.ErrForbidden: 403, secret.ErrDamaged: 404, errors.New("odd"): 500} {
		h := openHouse(t, withSecrets(failing{err: fmt.Errorf("detail-of-it: %w", err)}, nil))
		if r := h.want(status, "GET", "/secret/A", ""); status >= 500 && strings.Contains(r.raw, "detail-of-it") {
			t.Errorf("%v: %s", err, r.raw)
		}
		if status != 403 && status != 404 {
			h.want(status, "GET", "/secrets", "")
		}
	}
}
