package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/secret"
)

// A document is a JSON object whose members stay in their order and whose values
// stay as they were written until they are set.
type document []member

type member struct {
	key   string
	value json.RawMessage
}

// parse reads one JSON object. A key that is there twice is refused: programs
// differ in which one they take.
func parse(data []byte) (document, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty: write {} into it, or remove it")
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("begins with %v and not with {", t)
	}
	doc := document{}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok || seen[key] {
			return nil, fmt.Errorf("the key %q is there twice", t)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		doc = append(doc, member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the object")
	}
	return doc, nil
}

// text writes the document the way people read it.
func (d document) text() ([]byte, error) {
	var flat, out bytes.Buffer
	flat.WriteByte('{')
	for i, m := range d {
		if i > 0 {
			flat.WriteByte(',')
		}
		key, err := encode(m.key)
		if err != nil {
			return nil, err
		}
		flat.Write(key)
		flat.WriteByte(':')
		flat.Write(m.value)
	}
	flat.WriteByte('}')
	if err := json.Indent(&out, flat.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func (d document) get(key string) (json.RawMessage, bool) {
	i := d.index(key)
	if i < 0 {
		return nil, false
	}
	return d[i].value, true
}

func (d document) index(key string) int {
	return slices.IndexFunc(d, func(m member) bool { return m.key == key })
}

// set changes a value in its place, or adds it at the end.
func (d *document) set(key string, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	if i := d.index(key); i >= 0 {
		(*d)[i].value = raw
		return nil
	}
	*d = append(*d, member{key, raw})
	return nil
}

// agents reads the entries, by name. odd are the keys that cannot be agents; a
// key that begins with "_" or "$" is somebody's note and is not mentioned.
func (d document) agents() (all []Agent, odd []string, err error) {
	for _, m := range d {
		object := len(m.value) > 0 && m.value[0] == '{'
		if !object || CheckName(m.key) != nil {
			if !strings.HasPrefix(m.key, "_") && !strings.HasPrefix(m.key, "$") {
				odd = append(odd, m.key)
			}
			continue
		}
		a, err := entry(m.key, m.value)
		if err != nil {
			return nil, nil, fmt.Errorf("agent %s: %w", m.key, err)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	return all, odd, nil
}

// entry reads one agent. Keys count as they are written: encoding/json would
// take "Token" for "token" as well.
func entry(name string, raw json.RawMessage) (Agent, error) {
	fields, err := parse(raw)
	if err != nil {
		return Agent{}, err
	}
	a := Agent{Name: name}
	var token string
	for _, f := range []struct {
		key string
		to  any
	}{{"bridge_url", &a.BridgeURL}, {"description", &a.Description}, {"secrets", &a.Secrets}, {"token", &token}, {"mode", &a.Mode}} {
		v, ok := fields.get(f.key)
		if !ok {
			continue
		}
		if err := json.Unmarshal(v, f.to); err != nil {
			// The error of encoding/json may quote the value, which may be a token.
			return Agent{}, fmt.Errorf("%s has the wrong type", f.key)
		}
	}
	a.Token = secret.New(token)
	return a, nil
}

// put merges an agent into the document. What a has empty stays as it is.
func (d *document) put(a Agent) error {
	fields := document{}
	if raw, ok := d.get(a.Name); ok {
		var err error
		if fields, err = parse(raw); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		key   string
		value any
		skip  bool
	}{
		{"bridge_url", a.BridgeURL, a.BridgeURL == ""},
		{"description", a.Description, a.Description == ""},
		{"secrets", a.Secrets, len(a.Secrets) == 0},
		{"token", a.Token.Reveal(), a.Token.IsZero()},
		{"mode", a.Mode, a.Mode == ""},
	} {
		if f.skip {
			continue
		}
		if err := fields.set(f.key, f.value); err != nil {
			return err
		}
	}
	raw, err := fields.text()
	if err != nil {
		return err
	}
	return d.set(a.Name, json.RawMessage(raw))
}
