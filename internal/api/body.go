package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"
)

// decode reads a JSON object of at most MaxBody bytes. Fields that nobody knows
// are ignored: callers written for the predecessor send some.
func decode[T any](s *Server, w http.ResponseWriter, r *http.Request) (T, error) {
	var v T
	if err := jsonType(r.Header.Get("Content-Type")); err != nil {
		return v, err
	}
	data, err := s.read(w, r, MaxBody)
	if err != nil {
		return v, err
	}
	return parse[T](data)
}

// parse is decode without the network.
func parse[T any](data []byte) (T, error) {
	var v T
	err := json.Unmarshal(data, &v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return v, bad("%s must be %s", wrong.Field, kindName(wrong.Type))
	case errors.As(err, &wrong):
		return v, bad("invalid JSON body: it must be an object")
	case err != nil:
		return v, bad("invalid JSON body")
	case strings.HasPrefix(strings.TrimSpace(string(data)), "null"):
		return v, bad("invalid JSON body: it must be an object")
	}
	return v, nil
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

func jsonType(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	if err != nil || media != "application/json" || charset != "" && charset != "utf-8" && charset != "utf8" {
		return &problem{Status: http.StatusUnsupportedMediaType, Text: fmt.Sprintf("content type %.80q is not supported: send application/json", contentType)}
	}
	return nil
}

// read takes the whole body, in time and within its limit.
func (s *Server) read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	data, err := io.ReadAll(s.body(w, r, limit))
	return data, s.bodyError(w, err, limit)
}

// body bounds the size of a body and the time it may take.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64) io.Reader {
	// Writers that have no deadlines, such as recorders in tests, do not matter.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.BodyTimeout))
	return &bounded{Reader: http.MaxBytesReader(w, r.Body, limit), body: r.Body, drain: 4 * limit}
}

// bounded reads on for a while after its limit: a client that is still sending
// when the connection closes sees a broken pipe instead of the refusal.
type bounded struct {
	io.Reader
	body  io.Reader
	drain int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		_, _ = io.CopyN(io.Discard, b.body, b.drain) // whatever ends it, the refusal stands
		b.drain = 0
	}
	return n, err
}

// bodyError says what went wrong with a body. When nothing did it lifts the
// deadline again: the connection is read on to notice that the client left.
func (s *Server) bodyError(w http.ResponseWriter, err error, limit int64) error {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return nil
	case errors.As(err, &large):
		return &problem{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the body is larger than %d MiB", limit>>20)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{Status: http.StatusRequestTimeout, Text: "the body took too long"}
	}
	return err
}
