package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/iris-operator/iris/internal/api"
)

const (
	// doorName is the socket for commands, below state/.
	doorName = "api.sock"
	// socketVariable tells a command where it is.
	socketVariable = "IRIS_API_SOCKET"
)

// serveDoor answers commands that have no network at a socket in the state of the
// workspace, which the sandbox shows to them. It knows the tokens of turns and no
// other: whoever else has a token has the network too.
func (s *server) serveDoor(ctx context.Context, ready func()) error {
	at := s.house.box.door
	if at == "" {
		ready()
		<-ctx.Done()
		return nil
	}
	ln, closeDoor, err := openDoor(at)
	if err != nil {
		return fmt.Errorf("a socket for commands: %w", err)
	}
	defer closeDoor()
	return s.serveHTTP(ln, onlyTurns(s.gate))(ctx, ready)
}

// openDoor listens at a path, which may be longer than the address of a socket.
func openDoor(at string) (net.Listener, func(), error) {
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed: the workspace is ours
		return nil, nil, err
	}
	dir, err := os.Open(filepath.Dir(at))
	if err != nil {
		return nil, nil, err
	}
	ln, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(at)))
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	closeDoor := func() { _ = errors.Join(ln.Close(), os.Remove(at), dir.Close()) } // a socket that stays is removed at the next start
	if err := os.Chmod(at, 0o600); err != nil {
		closeDoor()
		return nil, nil, err
	}
	return ln, closeDoor, nil
}

// onlyTurns lets through what claims to be of a turn, without anything else that
// could say who asks.
func onlyTurns(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !api.IsTurnToken(r) {
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "this socket is for commands of a turn: send IRIS_TURN_TOKEN"})
			return
		}
		r.Header.Del("Cookie")
		next.ServeHTTP(w, r)
	})
}

// throughDoor asks at the socket that a command was told of, nil where there is
// none.
func throughDoor(environ []string) *http.Client {
	at := lookup(environ, socketVariable)
	if at == "" {
		return nil
	}
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", at)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
