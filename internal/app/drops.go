package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret/drop"
	"github.com/iris-operator/iris/internal/secret/gateway"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// drops makes and serves the links over which people hand secrets over.
type drops struct {
	links *drop.Drops
	// domain is where people reach the page, "" where only this machine does.
	domain string
	// proxied says whether a gateway uses a name.
	proxied func(name string) bool
	// writable is asked before a link is made that would lead nowhere.
	writable func() error
}

func (s *server) openDrops(h *house) error {
	cfg := s.opts.Config
	d := &drops{domain: cfg.BaseDomain, writable: s.secrets.writable, proxied: func(string) bool { return false }}
	if cfg.Secrets.BrokerURL != "" {
		bundled := gateway.Bundled(cfg.Broker.FoundryAccount)
		d.proxied = func(name string) bool { return gateway.ServiceFor(bundled, name) != "" }
	}
	var trusted []string
	for _, host := range append(cfg.Web.AllowedHosts, cfg.BaseDomain) {
		if host != "" {
			trusted = append(trusted, "https://"+host)
		}
	}
	links, err := drop.New(drop.Options{
		Dir: filepath.Join(cfg.Workspace, "state", "drops"), Trusted: trusted, Logger: s.log,
		Store: s.secrets.source.Put,
		Stored: func(ctx context.Context, d drop.Drop, name string) error {
			if d.Channel == "" {
				return nil
			}
			conv, err := chat.Parse(d.Channel)
			if err != nil {
				return err
			}
			id := turn.NewID()
			_, err = h.engine.Submit(ctx, transport.Submission{
				Address: conv, Origin: turn.FromEvent, Turn: id, Direct: true,
				Message: chat.Message{ID: string(id), At: time.Now(), From: chat.Person{ID: "secret-drop", Bot: true},
					Text: fmt.Sprintf("The secret %s was handed over and is in the store. Its value is not shown; commands get it with $(get-secret %s). Go on with what needed it.", name, name)},
			})
			return err
		},
	})
	d.links, h.drops = links, d
	return err
}

// Drop makes a link. Without a place to store there is none.
func (d *drops) Drop(_ context.Context, name, channel string, ttl time.Duration, proxyOnly *bool) (api.Drop, error) {
	if err := d.writable(); err != nil {
		return api.Drop{}, err
	}
	hidden := d.proxied(name)
	if proxyOnly != nil {
		hidden = *proxyOnly
	}
	token, link, err := d.links.Create(name, channel, ttl, hidden)
	if errors.Is(err, drop.ErrTooMany) {
		err = api.ErrTooManyDrops
	}
	if err != nil {
		return api.Drop{}, err
	}
	out := api.Drop{Token: token, Path: drop.Prefix + token, Expires: link.Expires}
	if d.domain != "" {
		out.URL = "https://" + d.domain + out.Path
	}
	return out, nil
}

// before puts the links before rest, where they need no login.
func (d *drops) before(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, drop.Prefix) {
			d.links.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}
