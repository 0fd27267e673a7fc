package api

import (
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/iris-operator/iris/internal/schedule"
)

// Schedules are the event files of the workspace; *schedule.Store has them. A
// name is compared with those that are there and never becomes a path.
type Schedules interface {
	List() ([]schedule.Item, error)
	Add(e schedule.Event) (schedule.Item, error)
	// Run makes an immediate event of what an event says.
	Run(name string) (schedule.Item, error)
	Pause(name string, paused bool) (schedule.Item, error)
	Cancel(name string) (schedule.Item, error)
}

// upcoming is how many of its next times a planned event is shown with.
const upcoming = 3

// planned is an event file as callers see it.
type planned struct {
	schedule.Item
	// Upcoming are its next times, in its own zone; none when it is paused.
	Upcoming []time.Time `json:"upcoming"`
}

func (s *Server) plannedOf(it schedule.Item) planned {
	p := planned{it, []time.Time{}}
	if it.Next != nil {
		if next, err := it.Event.Next(s.opts.Now(), upcoming); err == nil {
			p.Upcoming = orEmpty(next)
		}
	}
	return p
}

// zone is the IANA name that times without one are meant in.
func (s *Server) zone() string {
	if s.opts.Zone == "" {
		return "UTC"
	}
	return s.opts.Zone
}

func (s *Server) scheduleList(w http.ResponseWriter, _ *http.Request, _ caller) error {
	all := []planned{}
	if s.opts.Schedules != nil {
		items, err := s.opts.Schedules.List()
		if err != nil {
			return err
		}
		for _, it := range items {
			all = append(all, s.plannedOf(it))
		}
	}
	answer(w, http.StatusOK, map[string]any{"schedules": all, "zone": s.zone()})
	return nil
}

func (s *Server) scheduleAdd(w http.ResponseWriter, r *http.Request, _ caller) error {
	e, err := decode[schedule.Event](s, w, r)
	if err != nil {
		return err
	}
	if e.Type == schedule.Periodic && e.Timezone == "" {
		e.Timezone = s.zone()
	}
	if err := e.Check(); err != nil {
		return bad("%v", err)
	}
	if s.opts.Schedules == nil {
		return noSchedules()
	}
	it, err := s.opts.Schedules.Add(e)
	if errors.Is(err, schedule.ErrPast) {
		return bad("%v", err)
	}
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "a schedule was made", "name", it.Name, "channel", e.ChannelID)
	answer(w, http.StatusCreated, s.plannedOf(it))
	return nil
}

func (s *Server) scheduleChange(w http.ResponseWriter, r *http.Request, _ caller) error {
	b, err := decode[struct {
		Action string `json:"action"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if s.opts.Schedules == nil {
		return noSchedules()
	}
	name, store := r.PathValue("name"), s.opts.Schedules
	var it schedule.Item
	switch b.Action {
	case "run":
		it, err = store.Run(name)
	case "pause", "resume":
		it, err = store.Pause(name, b.Action == "pause")
	case "cancel":
		it, err = store.Cancel(name)
	default:
		return bad("action must be run, pause, resume or cancel")
	}
	switch {
	case errors.Is(err, schedule.ErrUnknown), errors.Is(err, fs.ErrNotExist):
		return missing("there is no such schedule")
	case errors.Is(err, schedule.ErrAmbiguous), errors.Is(err, schedule.ErrBroken):
		return &problem{Status: http.StatusConflict, Text: err.Error()}
	case err != nil:
		return err
	}
	s.log.InfoContext(r.Context(), "a schedule was changed", "action", b.Action, "name", name)
	answer(w, http.StatusOK, s.plannedOf(it))
	return nil
}

func noSchedules() error {
	return &problem{Status: http.StatusServiceUnavailable, Text: "nothing can be planned here: there is no workspace for schedules"}
}
