package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoor: the commands of this program go through the socket, however long its
// path; one that a killed process left is no obstacle.
func TestDoor(t *testing.T) {
	at := filepath.Join(t.TempDir(), strings.Repeat("long", 40), doorName)
	if err := os.Mkdir(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ln, closeDoor, err := openDoor(at)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: onlyTurns(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" {
			t.Error("a cookie came through")
		}
		http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
	}))}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	short := filepath.Join(t.TempDir(), "s")
	if err := os.Symlink(at, short); err != nil {
		t.Fatal(err)
	}
	client := throughDoor([]string{socketVariable + "=" + short})
	for token, want := range map[string]int{"irt_x.y.z": http.StatusFound, "operator": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		req, _ := http.NewRequest("GET", "http://127.0.0.1:3000/x", nil)
		req.Header.Set("Cookie", "iris=page")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", token, resp.Status, want)
		}
	}
	if throughDoor(nil) != nil {
		t.Error("a client without a socket")
	}
	_ = srv.Close()
	<-served
	closeDoor()
	if _, err := os.Lstat(at); err == nil {
		t.Error("the socket is left behind")
	}
	if _, _, err := openDoor("/does/not/exist/s"); err == nil {
		t.Error("a door in a directory that is not there")
	}
}
