package app

import (
	"context"
	"errors"
	"slices"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/env"
)

// consumed are the variables that a transport has read when the server is up.
var consumed = []string{"IRIS_SLACK_APP_TOKEN", "IRIS_SLACK_BOT_TOKEN", "TELEGRAM_BOT_TOKEN"}

// scrub takes keys out of the environment of the process once nobody needs them
// there: what a transport has read, and what the store or the broker holds. What
// lies only in the environment stays and is named in the log.
func (s *secrets) scrub(ctx context.Context, environ []string) {
	gone := []string{"IRIS_WEBUI_PASSWORD", "IRIS_SMTP_PASSWORD"}
	if s.cfg.Secrets.Mode != config.SecretsEnv || s.cfg.Secrets.BrokerURL != "" {
		var kept []string
		for _, name := range s.sensitive() {
			switch {
			case lookup(environ, name) == "":
			case slices.Contains(consumed, name) || s.holds(ctx, name):
				gone = append(gone, name)
			default:
				kept = append(kept, name)
			}
		}
		if len(kept) > 0 {
			s.log.Warn("keys stay in the environment because they are not in the store: iris secret set stores them", "variables", kept)
		}
	}
	gone = slices.DeleteFunc(gone, func(name string) bool { return lookup(environ, name) == "" })
	if err := env.Scrub(gone); err != nil {
		s.log.Warn("the environment was cleaned for commands; what /proc shows of it was not", "err", err)
	}
}

// holds reports whether the store or the broker, and not the environment, has a
// secret.
func (s *secrets) holds(ctx context.Context, variable string) bool {
	src := s.source
	if s.store != nil {
		src = s.store
	}
	_, err := src.Meta(ctx, variable)
	// What may not be read is there.
	return err == nil || errors.Is(err, secret.ErrForbidden)
}
