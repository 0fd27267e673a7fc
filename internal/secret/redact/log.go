package redact

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
)

// Handler returns a handler that redacts the message and the attributes of every
// record before next gets it. Values that are neither numbers, times nor texts
// are looked at as they would be printed, and become texts if that holds a
// secret.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &handler{r, next} }

type handler struct {
	r    *Redactor
	next slog.Handler
}

// Enabled asks the next handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle redacts a record.
func (h *handler) Handle(ctx context.Context, rec slog.Record) error {
	clean := slog.NewRecord(rec.Time, rec.Level, h.r.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs redacts the attributes once.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &handler{h.r, h.next.WithAttrs(clean)}
}

// WithGroup passes the group on.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.r, h.next.WithGroup(h.r.String(name))}
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.r.String(v.String()))
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, g := range group {
			clean[i] = h.attr(g)
		}
		v = slog.GroupValue(clean...)
	case slog.KindAny:
		for _, text := range printed(v.Any()) {
			if clean := h.r.String(text); clean != text {
				v = slog.StringValue(clean)
				break
			}
		}
	}
	return slog.Attr{Key: h.r.String(a.Key), Value: v}
}

// printed are the texts that handlers make of a value.
func printed(v any) []string {
	list := []string{fmt.Sprintf("%+v", v)}
	if m, ok := v.(encoding.TextMarshaler); ok {
		if data, err := m.MarshalText(); err == nil {
			list = append(list, string(data))
		}
	}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8 {
		list = append(list, string(rv.Bytes()))
	}
	if _, ok := v.(error); !ok {
		if data, err := json.Marshal(v); err == nil {
			list = append(list, string(data))
		}
	}
	return list
}
