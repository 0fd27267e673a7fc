package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Limits of what an agent may leave.
const (
	maxLeftover  = 64 << 10
	maxLeftovers = 50 // in one look; the rest waits for the next
	leftoverLook = 15 * time.Second
)

// serveLeftovers takes what agents left while this process was down, or while it
// did not answer them.
func (s *server) serveLeftovers(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(leftoverLook)
	defer tick.Stop()
	for {
		for _, a := range s.house.fleet.List() {
			if err := s.takeLeftovers(ctx, a); err != nil && ctx.Err() == nil {
				s.log.Warn("take what an agent left", "agent", a.Name, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// takeLeftovers turns the escalations in an agent's own directory into turns.
// Whose directory it is says who speaks; what a file says about that counts for
// nothing. The file's name is the message's id, so that one is never taken
// twice.
func (s *server) takeLeftovers(ctx context.Context, a fleet.Agent) error {
	dir := filepath.Join(s.opts.Config.Agents.Dir, a.Name, "events")
	names, err := filepath.Glob(filepath.Join(dir, "selfheal-*.json"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var errs []error
	for _, path := range names[:min(len(names), maxLeftovers)] {
		text, err := readLeftover(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err), os.Rename(path, path+".bad"))
			continue
		}
		id := turn.NewID()
		_, err = s.house.engine.Submit(ctx, transport.Submission{
			Address: chat.Address{Space: chat.Escalate, ID: a.Name},
			Message: chat.Message{ID: filepath.Base(path), At: time.Now(), Text: text, From: chat.Person{ID: a.Name, Bot: true}},
			Origin:  turn.FromEscalation, Turn: id, Direct: true,
		})
		if err == nil {
			err = os.Remove(path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// readLeftover returns the text of an event file. An agent made it: it may be a
// link, a pipe or endless.
func readLeftover(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("not a file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLeftover+1))
	if err != nil {
		return "", err
	}
	var e struct {
		Text string `json:"text"`
	}
	if len(data) > maxLeftover {
		return "", fmt.Errorf("more than %d bytes", maxLeftover)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	if strings.TrimSpace(e.Text) == "" {
		return "", errors.New("no text")
	}
	return e.Text, nil
}
