package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
)

// session makes a session and returns its id.
func (p *place) session() string {
	p.t.Helper()
	a := p.do("POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.1"}`)
	id := a.field(p, "sessionId")
	if a.status != http.StatusCreated || id == "" {
		p.t.Fatalf("POST /sessions = %v", a)
	}
	return id
}

// field returns a field of a JSON answer as text, "" if there is none.
func (a answer) field(p *place, name string) string {
	p.t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil {
		p.t.Errorf("%v is not JSON: %v", a, err)
		return ""
	}
	text, _ := fields[name].(string)
	return text
}

// login returns a cookie of the page.
func (p *place) login() string {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"password": pagePassword})
	if err != nil {
		p.t.Fatal(err)
	}
	a := p.do("POST", "/login", string(body), "Authorization: ")
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if a.status != http.StatusOK || cookie == "" {
		p.t.Fatalf("POST /login = %v", a)
	}
	return cookie
}
