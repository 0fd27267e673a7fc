// Package observe is what an operator sees from outside: the log on standard
// error and the figures of /metrics. It owns names and units; what is worth
// telling is decided where it happens. Nothing here can make a turn fail.
package observe

import (
	"fmt"
	"io"
	"log/slog"
)

// LogOptions configures a logger.
type LogOptions struct {
	Out io.Writer
	// Level is debug, info, warn or error; Format text or json.
	Level, Format string
	// Wrap, if not nil, returns what records go through before they are
	// written.
	Wrap func(slog.Handler) slog.Handler
}

// NewLogger returns a logger that writes one line per record to Out.
func NewLogger(opts LogOptions) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(opts.Level)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", opts.Level, err)
	}
	if opts.Wrap == nil {
		opts.Wrap = func(h slog.Handler) slog.Handler { return h }
	}
	h := &slog.HandlerOptions{Level: level}
	if opts.Format == "json" {
		return slog.New(opts.Wrap(slog.NewJSONHandler(opts.Out, h))), nil
	}
	h.ReplaceAttr = shortTime
	return slog.New(opts.Wrap(slog.NewTextHandler(opts.Out, h))), nil
}

// shortTime keeps the text log readable: the date is on every journald line
// already, and a person at a terminal knows it.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
	}
	return a
}
