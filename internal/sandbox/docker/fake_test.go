package docker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox"
)

// A fakeEngine has one container, "box", and answers as an engine does; a request
// that no engine would take is an error of the test. What a program does in the
// container is up to the test.
type fakeEngine struct {
	t         *testing.T
	container string // the answer to an inspection
	// program is what runs. What it leaves unsaid ends with the connection.
	program func(p program, out io.Writer, in io.Reader)
	after   string // the answer to an inspection of the program

	mu    sync.Mutex
	asked []program
}

// frames writes as the engine does for a program without a terminal.
type frames struct {
	to     io.Writer
	stream byte
}

func (f frames) Write(p []byte) (int, error) {
	head := binary.BigEndian.AppendUint32([]byte{f.stream, 0, 0, 0}, uint32(len(p)))
	if _, err := f.to.Write(append(head, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// strict decodes what has no field too many.
func (e *fakeEngine) strict(r *http.Request, v any) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || r.Header.Get("Content-Type") != "application/json" {
		e.t.Errorf("%s %s: %v, %v", r.Method, r.URL, err, r.Header)
	}
}

func (e *fakeEngine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	mux.HandleFunc("GET /containers/box/json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, e.container) })
	mux.HandleFunc("POST /containers/box/exec", func(w http.ResponseWriter, r *http.Request) {
		var p program
		e.strict(r, &p)
		if len(p.Cmd) == 0 || !p.AttachStdout || !p.AttachStderr {
			e.t.Errorf("exec %+v", p)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.asked = append(e.asked, p)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id":"%d"}`, len(e.asked)-1)
	})
	mux.HandleFunc("GET /exec/{id}/json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, e.after) })
	mux.HandleFunc("POST /exec/{id}/start", func(w http.ResponseWriter, r *http.Request) {
		var how struct{ Detach, Tty *bool }
		e.strict(r, &how)
		if how.Detach == nil || how.Tty == nil || *how.Detach || *how.Tty || r.Header.Get("Upgrade") != "tcp" {
			e.t.Errorf("start %+v %v", how, r.Header)
		}
		var i int
		fmt.Sscan(r.PathValue("id"), &i)
		e.mu.Lock()
		p := e.asked[i]
		e.mu.Unlock()
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			e.t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		e.program(p, conn, rw)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"no such thing: %s"}`, r.URL.Path)
	})
	return mux
}

const running = `{"State":{"Running":true},"HostConfig":{}}`

// open makes a Docker of it, whose first look inside is answered.
func (e *fakeEngine) open(name string) (*Docker, error) {
	socket := filepath.Join(e.t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		e.t.Fatal(err)
	}
	srv := &http.Server{Handler: e.handler()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	e.t.Cleanup(func() { srv.Close(); <-done })
	then := e.program
	e.program = func(p program, out io.Writer, in io.Reader) {
		switch script := strings.Join(p.Cmd, " "); {
		case strings.Contains(script, "command -v bash"):
			fmt.Fprint(frames{out, 1}, "bash\nworkspace\nproc\n")
			sign(p, out, "0 0")
		case p.User == "0": // the ender: nothing is left
		default:
			then(p, out, in)
		}
	}
	d, err := New(e.t.Context(), Options{Container: name, Host: socket, Workspace: e.t.TempDir(), KillDelay: 20 * time.Millisecond, CallTime: 20 * time.Second})
	if err == nil {
		e.t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// sign says the supervisor's last words.
func sign(p program, out io.Writer, words string) {
	fmt.Fprintf(frames{out, 2}, "\n%s %s\n", nonceOf(p.Cmd), words)
}

func TestNewAsksTheEngine(t *testing.T) {
	for name, c := range map[string]struct{ box, container, want string }{
		"fits":       {"box", running, ""},
		"no such":    {"other", running, "no such thing"},
		"privileged": {"box", `{"State":{"Running":true},"HostConfig":{"Privileged":true}}`, "is privileged"},
		"stopped":    {"box", `{"State":{"Running":false},"HostConfig":{}}`, "docker start"},
		"paused":     {"box", `{"State":{"Running":true,"Paused":true},"HostConfig":{}}`, "docker unpause"},
		"says less":  {"box", `{}`, "does not tell"},
		"nonsense":   {"box", `{`, "look for the container"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&fakeEngine{t: t, container: c.container}).open(c.box)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("New = %v, want %q", err, c.want)
			}
		})
	}
}

// TestRunOverTheEngine: what the engine and the supervisor can say about the end
// of a command, and what becomes of it.
func TestRunOverTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		program   func(p program, out io.Writer, in io.Reader)
		after     string
		code      int
		left      int
		out, errs string
		want      string // of the error
	}{
		"input, two outputs and a code": {program: func(p program, out io.Writer, in io.Reader) {
			text, _ := io.ReadAll(in)
			fmt.Fprintf(frames{out, 1}, "got %s", text)
			fmt.Fprint(frames{out, 2}, "warning\n")
			sign(p, out, "3 2")
		}, code: 3, left: 2, out: "got input", errs: "warning\n"},
		"no shell": {program: func(_ program, out io.Writer, _ io.Reader) {
			fmt.Fprint(frames{out, 1}, "OCI runtime exec failed: no sh")
		}, after: `{"Running":false,"ExitCode":127}`, out: "OCI runtime exec failed: no sh", want: "cannot start a shell: OCI runtime"},
		"killed from outside": {program: func(program, io.Writer, io.Reader) {}, after: `{"Running":false,"ExitCode":137}`, code: 137},
		"the engine hangs up": {program: func(program, io.Writer, io.Reader) {}, after: `{"Running":true,"ExitCode":null}`, want: "hung up while the command ran"},
		"no directory":        {program: func(p program, out io.Writer, _ io.Reader) { sign(p, out, "dir") }, want: "no directory"},
		"strange last words":  {program: func(p program, out io.Writer, _ io.Reader) { sign(p, out, "what") }, want: `ended with "what"`},
		"no frames": {program: func(_ program, out io.Writer, _ io.Reader) { fmt.Fprint(out, "HTTP/1.1 500 oh no") },
			after: `{"Running":true}`, want: "does not begin a frame"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fakeEngine{t: t, container: running, program: c.program, after: c.after}
			d, err := e.open("box")
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			exit, err := d.Run(t.Context(), sandbox.Command{Script: "x", Env: []string{"A=b"}, Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
			if exit.Code != c.code || exit.Background != c.left || out.String() != c.out || errs.String() != c.errs {
				t.Errorf("%+v, %q, %q", exit, &out, &errs)
			}
			asked := e.asked[1]
			if !slices.Equal(asked.Cmd[:3], []string{"env", "-i", "A=b"}) || !strings.HasPrefix(asked.Cmd[3], process.MarkName+"=") || !asked.AttachStdin {
				t.Errorf("asked for %q", asked.Cmd)
			}
		})
	}
}
