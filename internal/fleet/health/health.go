// Package health asks agents how they are. An agent's API, which is
// fleet.APIOffset above its bridge, answers /health to everybody and /status to
// who has its token. [Ask] asks once; a [Monitor] goes on asking, notices within
// a minute when one has stopped answering, and says so.
//
// It does not know how an agent is run: who wires it passes in what its service
// manager knows and how to start it again.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/fleet"
)

// maxAnswer bounds what is read of an agent's answer.
const maxAnswer = 64 << 10

// A Report is what an agent says of itself. What it does not say is zero: an
// agent of another make answers /health alone.
type Report struct {
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Running are the conversations in which a turn runs.
	Running []Turn `json:"running,omitempty"`
	// Last is the last turn that ended.
	Last *Ended `json:"last,omitempty"`
	// Turns and Cost, in US dollars, are those since it started.
	Turns int64   `json:"turns"`
	Cost  float64 `json:"cost"`
	// Memory is what its process takes, in bytes.
	Memory int64 `json:"memory"`
}

// A Turn is one that runs.
type Turn struct {
	Channel string    `json:"channel"`
	Since   time.Time `json:"since"`
}

// An Ended is a turn that has ended.
type Ended struct {
	Channel string    `json:"channel"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
}

// NewClient returns a client for Ask. It follows no redirects: an agent is where
// the registry says.
func NewClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// URL is where an agent's API is; empty if the agent has no bridge.
func URL(a fleet.Agent) string {
	u, err := url.Parse(a.BridgeURL)
	port := a.Port()
	if err != nil || port == 0 {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(u.Hostname(), strconv.Itoa(port+fleet.APIOffset))}).String()
}

// Ask asks an agent how it is. An error means that it does not answer /health as
// a healthy one does.
func Ask(ctx context.Context, client *http.Client, a fleet.Agent) (Report, error) {
	base := URL(a)
	if base == "" {
		return Report{}, errors.New("it has no bridge")
	}
	if err := get(ctx, client, base+"/health", "", nil); err != nil {
		return Report{}, err
	}
	var r Report
	if a.Token.IsZero() {
		return r, nil
	}
	if err := get(ctx, client, base+"/status", a.Token.Reveal(), &r); err != nil {
		return Report{}, nil // it is well, and does not say more
	}
	return r, nil
}

func get(ctx context.Context, client *http.Client, address, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, maxAnswer)
	if res.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
		return fmt.Errorf("%s answers %s", address, res.Status)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, body)
		return err
	}
	return json.NewDecoder(body).Decode(into)
}

// pause is the time between two questions while an agent starts.
const pause = 200 * time.Millisecond

// WaitFor asks until the agent answers, or returns the last error when ctx ends.
func WaitFor(ctx context.Context, client *http.Client, a fleet.Agent) error {
	for {
		_, err := Ask(ctx, client, a)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
