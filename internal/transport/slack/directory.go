package slack

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/chat"
)

// An Entry is a person or a channel that Iris may hear of.
type Entry struct {
	ID, Name, Display string
	Channel           bool
}

// A directory is who and what there is in a workspace.
type directory struct {
	// mu guards the fields below.
	mu     sync.Mutex
	users  map[string]chat.Person
	sorted []Entry
	ask    chan struct{}
}

// Bounds of the directory.
const (
	directoryEvery = time.Hour
	// directoryPause keeps a busy day of newcomers from asking all the time.
	directoryPause = time.Minute
	directoryPage  = 200
	maxPeople      = 2000
)

// person returns what is known of somebody.
func (d *directory) person(id string) chat.Person {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.users[id]; ok {
		return p
	}
	return chat.Person{ID: id}
}

// refresh asks for a new list, soon.
func (d *directory) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ask == nil {
		return
	}
	select {
	case d.ask <- struct{}{}:
	default:
	}
}

// Directory lists the people and the channels Iris is in, sorted by id. It does
// not change between two calls unless somebody has come or gone.
func (s *Slack) Directory() []Entry {
	s.people.mu.Lock()
	defer s.people.mu.Unlock()
	return s.people.sorted
}

// keepDirectory reads who there is, now and again.
func (s *Slack) keepDirectory(ctx context.Context) {
	ask := make(chan struct{}, 1)
	s.people.mu.Lock()
	s.people.ask = ask
	s.people.mu.Unlock()
	for ctx.Err() == nil {
		wait := directoryEvery
		if err := s.readDirectory(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("who is in the workspace is not known", "err", err)
			wait = directoryPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-ask:
			select {
			case <-ctx.Done():
			case <-time.After(directoryPause):
			}
		}
	}
}

func (s *Slack) readDirectory(ctx context.Context) error {
	users := map[string]chat.Person{}
	var sorted []Entry
	page := s.api.GetUsersPaginated(slackgo.GetUsersOptionLimit(directoryPage))
	for len(users) < maxPeople {
		var next slackgo.UserPagination
		err := patient(ctx, func() (err error) {
			next, err = page.Next(ctx)
			return err
		})
		if page.Done(err) {
			break
		}
		if err != nil {
			return err
		}
		page = next
		for _, u := range page.Users {
			if u.Deleted {
				continue
			}
			users[u.ID] = chat.Person{ID: u.ID, Name: u.Name, Display: firstOf(u.Profile.RealName, u.RealName, u.Profile.DisplayName), Bot: u.IsBot}
			sorted = append(sorted, Entry{ID: u.ID, Name: u.Name, Display: users[u.ID].Display})
		}
	}
	channels, err := s.channels(ctx)
	if err != nil {
		return err
	}
	for _, c := range channels {
		name := c.Name
		if c.IsIM {
			name = "DM:" + firstOf(users[c.User].Name, c.User)
		}
		sorted = append(sorted, Entry{ID: c.ID, Name: name, Channel: true})
	}
	slices.SortFunc(sorted, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	s.people.mu.Lock()
	defer s.people.mu.Unlock()
	s.people.users, s.people.sorted = users, sorted
	return nil
}

// channels lists those Iris is in. A kind that the token may not see is left out.
func (s *Slack) channels(ctx context.Context) ([]slackgo.Channel, error) {
	var all []slackgo.Channel
	var first error
	for _, kinds := range [][]string{{"public_channel", "private_channel", "mpim", "im"}, {"public_channel"}, {"private_channel"}, {"im"}, {"mpim"}} {
		cursor := ""
		for {
			var part []slackgo.Channel
			err := patient(ctx, func() (err error) {
				part, cursor, err = s.api.GetConversationsForUserContext(ctx, &slackgo.GetConversationsForUserParameters{
					Types: kinds, Limit: directoryPage, ExcludeArchived: true, Cursor: cursor})
				return err
			})
			if err != nil {
				if first == nil {
					first = err
				}
				if word(err) != "missing_scope" {
					return nil, err
				}
				break
			}
			all = append(all, part...)
			if cursor == "" {
				break
			}
		}
		if len(kinds) > 1 && first == nil {
			return all, nil
		}
	}
	if len(all) == 0 {
		return nil, first
	}
	return all, nil
}

// memberOf lists the ids of the channels Iris is in.
func (s *Slack) memberOf(ctx context.Context) ([]string, error) {
	all, err := s.channels(ctx)
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return ids, err
}
