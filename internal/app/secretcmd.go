package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/broker"
	"github.com/iris-operator/iris/internal/secret/env"
	"github.com/iris-operator/iris/internal/secret/store"
)

// SecretOptions are those of iris secret.
type SecretOptions struct {
	Options
	In *os.File
	// Work is the logarithm of what it costs to try a passphrase of an export;
	// 0: the library's, about a second.
	Work int
}

// place is where the command line keeps secrets: at the broker if one is named,
// else in the file.
func (o SecretOptions) place() (secret.Source, func(), error) {
	if o.Config.Secrets.BrokerURL != "" {
		c, err := newBroker(o.Config)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	s, err := newStore(o.Config, slog.New(slog.NewTextHandler(o.Err, nil)))
	return s, func() {}, err
}

// InitSecrets makes the key of the store. An existing one is kept.
func InitSecrets(o SecretOptions) error {
	key := o.Config.Secrets.KeyFile
	err := store.NewKey(key)
	switch {
	case errors.Is(err, fs.ErrExist):
		if _, err := fmt.Fprintf(o.Out, "There is a key already: %s\n", key); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if _, err := fmt.Fprintf(o.Out, "Made the key %s\nKeep a copy of it apart from backups of the store: without it the secrets are lost.\n", key); err != nil {
			return err
		}
	}
	s, err := newStore(o.Config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return s.Check()
}

// SetSecret stores a value from standard input.
func SetSecret(ctx context.Context, o SecretOptions, name string, p secret.Put) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	v, err := o.ask(ctx, "Value of "+name+": ")
	if err != nil {
		return err
	}
	p.Origin = secret.FromCLI
	m, err := src.Put(ctx, name, v, p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "Stored %s\n", m.Name)
	return err
}

// GetSecret prints a value.
func GetSecret(ctx context.Context, o SecretOptions, name string) error {
	if err := personal(o.Options, "read the store; a command asks with get-secret"); err != nil {
		return err
	}
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	v, m, err := src.Get(ctx, name)
	if err != nil {
		return err
	}
	if m.ProxyOnly {
		return fmt.Errorf("%s is proxy-only: nobody can read it", m.Name)
	}
	_, err = fmt.Fprintln(o.Out, v.Reveal())
	return err
}

// ListSecrets prints names and flags.
func ListSecrets(ctx context.Context, o SecretOptions) error {
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	all, err := src.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		flags := ""
		if m.ProxyOnly {
			flags += "  proxy-only"
		}
		if !m.AgentReadable {
			flags += "  not for agents"
		}
		if _, err := fmt.Fprintf(o.Out, "%-40s %-7s %s%s\n", m.Name, m.Origin, shortTime(m.UpdatedAt), flags); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSecret removes one.
func RemoveSecret(ctx context.Context, o SecretOptions, name string) error {
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	if err := src.Delete(ctx, name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "Removed %s\n", name)
	return err
}

// ImportEnv moves what is known to be secret from a file of variables into the
// store, and out of the file if prune is set.
func ImportEnv(ctx context.Context, o SecretOptions, file string, prune bool) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	src, done, err := o.place()
	if err != nil {
		return err
	}
	defer done()
	known := (&secrets{cfg: o.Config, log: slog.New(slog.DiscardHandler)}).sensitive()
	found, rest, err := env.Split(data, known)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, f := range found {
		name := strings.ReplaceAll(f.Name, "_", "-")
		if _, err := src.Put(ctx, name, f.Value, secret.Put{Origin: secret.FromImport}); err != nil {
			return fmt.Errorf("import %s, with nothing removed from %s: %w", name, file, err)
		}
		if _, err := fmt.Fprintf(o.Out, "Imported %s\n", name); err != nil {
			return err
		}
	}
	if !prune || len(found) == 0 {
		return nil
	}
	if err := rewrite(file, rest); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "Removed %d lines from %s\n", len(found), file)
	return err
}

// rewrite replaces a file, readable by its owner alone. A link stays, so that
// what it leads to does not keep what was taken out.
func rewrite(file string, data []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	return durable.Replace(file, data, durable.Exactly(0o600))
}

// ask reads a value: typed without echo at a terminal, else all of standard
// input without one line end at its end. It never comes from the command line,
// which every process can read.
func (o SecretOptions) ask(ctx context.Context, prompt string) (secret.Value, error) {
	fd := int(o.In.Fd()) //nolint:gosec // a descriptor fits
	if !term.IsTerminal(fd) {
		data, err := io.ReadAll(io.LimitReader(o.In, secret.MaxValue+3))
		if err != nil {
			return secret.Value{}, err
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		return secret.New(text), nil
	}
	state, err := term.GetState(fd)
	if err != nil {
		return secret.Value{}, err
	}
	fmt.Fprint(o.Err, prompt)
	type result struct {
		text []byte
		err  error
	}
	typed := make(chan result, 1)
	go func() { // it ends with the process if the person never types
		text, err := term.ReadPassword(fd)
		typed <- result{text, err}
	}()
	select {
	case r := <-typed:
		fmt.Fprintln(o.Err)
		return secret.New(string(r.text)), r.err
	case <-ctx.Done():
		_ = term.Restore(fd, state) // else the terminal stays without echo
		fmt.Fprintln(o.Err)
		return secret.Value{}, ErrInterrupted
	}
}

// AgentSecret is get-secret and set-secret: the API under the token of the turn,
// or of the operator where there is no turn.
type AgentSecret struct {
	In       *os.File
	Out, Err io.Writer
	Environ  []string
}

func (a AgentSecret) api() (url string, token secret.Value, err error) {
	url = lookup(a.Environ, "IRIS_API_URL")
	if url == "" {
		url = "http://127.0.0.1:3000"
	}
	for _, name := range []string{"IRIS_TURN_TOKEN", "IRIS_API_TOKEN"} {
		if t := lookup(a.Environ, name); t != "" {
			return url, secret.New(t), nil
		}
	}
	path, err := tokenPath(a.Environ)
	if err != nil {
		return "", secret.Value{}, err
	}
	token, err = readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("neither IRIS_TURN_TOKEN nor IRIS_API_TOKEN is set")
	}
	return url, token, err
}

func (a AgentSecret) client() (*broker.Client, error) {
	url, token, err := a.api()
	if err != nil {
		return nil, err
	}
	return broker.New(broker.Options{URL: url, Token: token, HTTP: throughDoor(a.Environ)})
}

// Get prints a value.
func (a AgentSecret) Get(ctx context.Context, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	v, _, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, v.Reveal())
	return err
}

// Set stores a value from standard input.
func (a AgentSecret) Set(ctx context.Context, name string, proxyOnly bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := SecretOptions{Options: Options{Err: a.Err}, In: a.In}.ask(ctx, "Value of "+name+": ")
	if err != nil {
		return err
	}
	p := secret.Put{}
	if proxyOnly {
		p.ProxyOnly = &proxyOnly
	}
	m, err := c.Put(ctx, name, v, p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "Stored %s\n", m.Name)
	return err
}

// Request prints a link over which a person hands a secret over. Without a
// channel the conversation of the turn is told.
func (a AgentSecret) Request(ctx context.Context, name, channel string, ttl time.Duration) error {
	url, token, err := a.api()
	if err != nil {
		return err
	}
	if channel == "" {
		channel = lookup(a.Environ, "IRIS_CHANNEL")
	}
	body, err := json.Marshal(map[string]any{"name": name, "channelId": channel, "ttlSeconds": ttl.Seconds()})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+"/secret-drops", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		api.Drop
		Error string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("%s does not answer as Iris does: %s", url, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(answer.Error)
	}
	link := answer.URL
	if link == "" {
		link = strings.TrimSuffix(url, "/") + answer.Path
	}
	_, err = fmt.Fprintln(a.Out, link)
	return err
}

// SecretFlags says what a command line wants of a secret; what was not said
// stays as it is.
func SecretFlags(saidProxy, proxyOnly, saidPrivate, private bool) (p secret.Put) {
	if saidProxy {
		p.ProxyOnly = &proxyOnly
	}
	if saidPrivate {
		readable := !private
		p.AgentReadable = &readable
	}
	return p
}
