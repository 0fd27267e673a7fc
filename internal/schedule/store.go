package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/durable"
)

// A Store is the event files of a workspace as people and models handle them. It
// needs no running server: whoever runs the schedule sees the files change.
type Store struct {
	root string
	now  func() time.Time
}

// NewStore returns the store of a workspace.
func NewStore(workspace string) *Store { return &Store{workspace, time.Now} }

// An Item is an event file.
type Item struct {
	// Name is the file's name, File its path below the workspace.
	Name  string `json:"name"`
	File  string `json:"file"`
	Event Event  `json:"event"`
	// Problem says why it cannot run; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Next is when it is due; nil for never or when paused.
	Next *time.Time `json:"next,omitempty"`
}

// Errors of a Store.
var (
	ErrUnknown   = errors.New("no such event")
	ErrPast      = errors.New("its time is over")
	ErrAmbiguous = errors.New("several directories have an event of that name")
	// ErrBroken: the file is there and is no event that could run.
	ErrBroken = errors.New("this event cannot run")
)

// Add checks an event and puts it into events/. The name tells when it was made. A
// one-shot whose time is over is ErrPast.
func (s *Store) Add(e Event) (Item, error) {
	switch next, err := e.Next(s.now(), 1); {
	case err != nil:
		return Item{}, err
	case len(next) == 0:
		return Item{}, fmt.Errorf("%s: %w, it is %s now", e.At, ErrPast, s.now().Format(time.RFC3339))
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return Item{}, err
	}
	dir := filepath.Join(s.root, Dirs()[0])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Item{}, err
	}
	for at := s.now().UnixNano(); ; at++ {
		name := fmt.Sprintf("schedule-%d.json", at)
		err := durable.Create(filepath.Join(dir, name), append(data, '\n'), durable.Exactly(0o600))
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return Item{}, err
		}
		return s.item(Dirs()[0] + "/" + name), nil
	}
}

// List returns every event file, by path; those that were set aside because they
// could not run come with the reason as their Problem.
func (s *Store) List() ([]Item, error) {
	found, err := listIn(s.root, append(Dirs(), failedDir))
	if err != nil {
		return nil, err
	}
	out := []Item{}
	for file := range found {
		out = append(out, s.item(file))
	}
	slices.SortFunc(out, func(a, b Item) int { return strings.Compare(a.File, b.File) })
	return out, nil
}

func (s *Store) item(file string) Item {
	it := Item{Name: path.Base(file), File: file}
	data, _, err := read(s.root, file)
	if err == nil {
		it.Event, err = ParseEvent(data)
	}
	if err != nil {
		it.Problem = err.Error()
	}
	if why := setAsideFor(s.root, file); why != "" {
		it.Problem = why
	}
	if it.Problem != "" {
		return it
	}
	if next, err := it.Event.Next(s.now(), 1); err == nil && len(next) > 0 && !it.Event.Paused {
		it.Next = &next[0]
	}
	return it
}

// Find returns the event of a name: with or without .json, or with its directory.
// One that was set aside is meant when no other has the name.
func (s *Store) Find(name string) (Item, error) {
	all, err := s.List()
	if err != nil {
		return Item{}, err
	}
	var hits []Item
	for _, it := range all {
		if name == it.Name || name == it.File || name+".json" == it.Name {
			hits = append(hits, it)
		}
	}
	if live := slices.DeleteFunc(slices.Clone(hits), func(it Item) bool { return path.Dir(it.File) == failedDir }); len(live) > 0 {
		hits = live
	}
	switch len(hits) {
	case 0:
		return Item{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	case 1:
		return hits[0], nil
	}
	return Item{}, fmt.Errorf("%w: %q; give the path as in the list", ErrAmbiguous, name)
}

// Pause stops an event from running, or lets it run again. Occurrences during the
// pause are not made up for.
func (s *Store) Pause(name string, paused bool) (Item, error) {
	it, err := s.Find(name)
	if err != nil {
		return Item{}, err
	}
	if path.Dir(it.File) == failedDir {
		return Item{}, fmt.Errorf("%s: %w: %s", it.File, ErrBroken, it.Problem)
	}
	data, _, err := read(s.root, it.File)
	if err != nil {
		return Item{}, err
	}
	// Fields of others stay.
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return Item{}, fmt.Errorf("%s: %w: %w", it.File, ErrBroken, err)
	}
	if all == nil {
		return Item{}, fmt.Errorf("%s: %w: the file is no object", it.File, ErrBroken)
	}
	delete(all, "paused")
	if paused {
		all["paused"] = json.RawMessage("true")
	}
	if data, err = json.MarshalIndent(all, "", "  "); err != nil {
		return Item{}, err
	}
	full := filepath.Join(s.root, it.File)
	if err := durable.Replace(full, append(data, '\n'), durable.Keep(0o600)); err != nil {
		return Item{}, err
	}
	return s.item(it.File), nil
}

// Cancel deletes an event.
func (s *Store) Cancel(name string) (Item, error) {
	it, err := s.Find(name)
	if err != nil {
		return Item{}, err
	}
	if err := durable.Remove(filepath.Join(s.root, it.File)); err != nil {
		return Item{}, err
	}
	if path.Dir(it.File) == failedDir {
		err := os.Remove(filepath.Join(s.root, reasonOf(it.File)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Item{}, err
		}
	}
	return it, nil
}

// Run makes an immediate event of what an event says, and leaves that as it is.
func (s *Store) Run(name string) (Item, error) {
	it, err := s.Find(name)
	if err != nil {
		return Item{}, err
	}
	if it.Problem != "" {
		return Item{}, fmt.Errorf("%w: %s", ErrBroken, it.Problem)
	}
	return s.Add(Event{Type: Immediate, ChannelID: it.Event.ChannelID, Text: it.Event.Text, User: it.Event.User})
}
