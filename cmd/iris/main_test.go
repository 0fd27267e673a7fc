package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"iris": main, "iris-secret": main, "get-secret": main, "set-secret": main})
}

// brief has a process under the race detector exit without a second of sleep:
// the stories start more than a hundred.
const brief = "atexit_sleep_ms=20"

// patience is how long a story waits for what should take a moment.
const patience = 60 * time.Second

// TestStories runs testdata/*.txtar: what a person types, and sees.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup:               setup,
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitready": waitReady, "occupy": occupy, "closedport": closedPort, "chmodto": chmodTo,
		},
	})
}

// setup gives every story a home, a port of its own and no key of the machine.
func setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("PORT", strconv.Itoa(port))
	env.Setenv("IRIS_API_PORT", strconv.Itoa(port))
	env.Setenv("IRIS_PROVIDER", "rehearsal")
	env.Setenv("USER", "ann")
	env.Setenv("GORACE", brief)
	return nil
}

// freePort returns a port that nobody is given by accident: it lies below those
// the system hands out.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port")
}

// waitReady waits until the story's server is ready.
func waitReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: waitready")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		resp, err := client.Get("http://127.0.0.1:" + ts.Getenv("PORT") + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(20 * time.Millisecond) // between two looks at another process
	}
	ts.Fatalf("the server did not get ready")
}

// occupy takes the story's port for a program that is not Iris.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:"+ts.Getenv("PORT"))
	ts.Check(err)
	var told atomic.Bool
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Store(true)
		}
		fmt.Fprint(w, "hello from another program")
	})}
	go srv.Serve(ln) //nolint:errcheck // ends with Close
	ts.Defer(func() {
		srv.Close()
		if told.Load() {
			ts.Fatalf("a stranger was sent the token")
		}
	})
}

// closedPort writes the file args[0] with @PORT@ replaced by a port on which
// nobody listens.
func closedPort(ts *testscript.TestScript, neg bool, args []string) {
	port, err := freePort()
	ts.Check(err)
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(data, []byte("@PORT@"), []byte(strconv.Itoa(port))), 0o600))
}

// chmodTo sets the mode args[0] of the other arguments.
func chmodTo(ts *testscript.TestScript, neg bool, args []string) {
	mode, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, a := range args[1:] {
		ts.Check(os.Chmod(ts.MkAbs(a), os.FileMode(mode)))
	}
}

// TestHelpFitsATerminal: no line of a help is wider than 100 columns.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(root().Commands(), root()) {
		for line := range strings.Lines(c.UsageString()) {
			if len(strings.TrimSuffix(line, "\n")) > 100 {
				t.Errorf("%s: %q", c.Name(), line)
			}
		}
	}
}
