package api

import (
	_ "embed"
	"net/http"
)

// openAPI describes every route. A test holds it against the table.
//
//go:embed openapi.json
var openAPI []byte

func (s *Server) document(w http.ResponseWriter, _ *http.Request, _ caller) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(openAPI) //nolint:errcheck // the client is gone
	return nil
}
