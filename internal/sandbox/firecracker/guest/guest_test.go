package guest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve is an exec-server on loopback over dir.
func serve(t *testing.T, dir string, change func(*Options)) *httptest.Server {
	t.Helper()
	box, err := host.New(host.Options{Workspace: dir, KillDelay: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Box: box, Env: []string{"PATH=" + os.Getenv("PATH"), "DEFAULT=yes"}}
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

func client(t *testing.T, url string) *Client {
	t.Helper()
	c := NewClient(ClientOptions{Addr: strings.TrimPrefix(url, "http://"), Grace: 3 * time.Second})
	t.Cleanup(c.Close)
	return c
}

// ask is a plain client.
func ask(t *testing.T, srv *httptest.Server, method, path, body string, head ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// TestPlainProtocol is what any exec-server does.
func TestPlainProtocol(t *testing.T) {
	srv := serve(t, t.TempDir(), nil)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want               string // the whole body, or a part of a refusal
	}{
		"health":            {"GET", "/health", "", 200, `{"status":"ok"}`},
		"command":           {"POST", "/exec", `{"command":"echo out; echo err >&2; exit 3"}`, 200, `{"stdout":"out\n","stderr":"err\n","exit_code":3}`},
		"unknown fields":    {"POST", "/exec", `{"command":"echo $DEFAULT","label":"x"}`, 200, `{"stdout":"yes\n","stderr":"","exit_code":0}`},
		"timeout":           {"POST", "/exec", `{"command":"echo a; sleep 300","timeout":0.2}`, 200, `{"stdout":"a\n","stderr":"command timed out after 200ms\n","exit_code":124}`},
		"signal":            {"POST", "/exec", `{"command":"kill -KILL $$"}`, 200, `{"stdout":"","stderr":"","exit_code":137}`},
		"no such place":     {"POST", "/exec", `{"command":"true","dir":"/no/such/dir"}`, 200, `no such file or directory`},
		"bytes":             {"POST", "/exec", `{"command":"printf 'a\\377b'"}`, 200, `{"stdout":"a` + "\uFFFD" + `b","stderr":"","exit_code":0}`},
		"no JSON":           {"POST", "/exec", `command=true`, 400, "read the request"},
		"cut JSON":          {"POST", "/exec", `{"command":"tr`, 400, "read the request"},
		"empty body":        {"POST", "/exec", ``, 400, "read the request"},
		"empty command":     {"POST", "/exec", `{"command":" "}`, 400, "the command is empty"},
		"no command":        {"POST", "/exec", `{}`, 400, "the command is empty"},
		"command no text":   {"POST", "/exec", `{"command":5}`, 400, "read the request"},
		"timeout zero":      {"POST", "/exec", `{"command":"true","timeout":0}`, 400, "not a number of seconds"},
		"timeout huge":      {"POST", "/exec", `{"command":"true","timeout":1e300}`, 400, "not a number of seconds"},
		"two requests":      {"POST", "/exec", `{"command":"true"}{"command":"false"}`, 400, "something follows"},
		"too long":          {"POST", "/exec", `{"command":"` + strings.Repeat("#", maxRequest) + `"}`, 400, "more than"},
		"exec by GET":       {"GET", "/exec", "", 404, "there is no GET /exec"},
		"other path":        {"GET", "/", "", 404, "there is no GET /"},
		"other path below":  {"POST", "/exec/x/y", "", 404, "there is no POST"},
		"nothing to abort":  {"DELETE", "/exec/x", "", 404, "no command"},
		"file, no number":   {"GET", "/file?path=/x&offset=-1&limit=x", "", 400, "no number of bytes"},
		"file is not there": {"GET", "/file?path=/no/such&offset=0&limit=1", "", 404, `"code":"not_exist"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := ask(t, srv, c.method, c.path, c.body)
			if status != c.status || body != c.want && (strings.HasPrefix(c.want, "{") || !strings.Contains(body, c.want)) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.want)
			}
		})
	}
}

func TestPlainOutputIsBounded(t *testing.T) {
	srv := serve(t, t.TempDir(), nil)
	_, body := ask(t, srv, "POST", "/exec", `{"command":"head -c 30000000 /dev/zero | tr '\\0' x; echo end"}`)
	var a Answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Stdout) > maxPlain+100 || !strings.HasPrefix(a.Stdout, "[19514244 bytes before this were cut]\nx") || !strings.HasSuffix(a.Stdout, "xend\n") {
		t.Errorf("%d bytes, beginning %.60q", len(a.Stdout), a.Stdout)
	}
}

func TestToken(t *testing.T) {
	srv := serve(t, t.TempDir(), func(o *Options) { o.Token = secret.New("right") })
	for name, c := range map[string]struct {
		path, head string
		want       int
	}{
		"health needs none": {"/health", "", 200},
		"none":              {"/resolve?path=/", "", 401},
		"wrong":             {"/resolve?path=/", "Bearer wrong", 401},
		"not bearer":        {"/resolve?path=/", "right", 401},
		"right":             {"/resolve?path=/", "Bearer right", 200},
	} {
		if status, body := ask(t, srv, "GET", c.path, "", "Authorization", c.head); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
	}
	c := NewClient(ClientOptions{Addr: strings.TrimPrefix(srv.URL, "http://"), Token: secret.New("right")})
	defer c.Close()
	if exit, err := c.Run(t.Context(), sandbox.Command{Script: "exit 7"}); err != nil || exit.Code != 7 {
		t.Errorf("with the token: %+v, %v", exit, err)
	}
	var errs bytes.Buffer
	if exit, err := client(t, srv.URL).Run(t.Context(), sandbox.Command{Script: "true", Stderr: &errs}); err != nil || exit.Code != 1 ||
		!strings.HasPrefix(errs.String(), "Firecracker exec HTTP 401: ") {
		t.Errorf("without: %+v, %v, %q", exit, err, errs.String())
	}
}

// eventually waits for what happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestHangUpEndsTheCommand cuts the connection in every way of running.
func TestHangUpEndsTheCommand(t *testing.T) {
	for name, c := range map[string]struct{ body, accept string }{
		"plain":            {`{"command":"%s"}`, ""},
		"stream":           {`{"command":"%s"}`, streamType},
		"stream and input": {`{"command":"%s","stdin":true}` + "\n", streamType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			srv := serve(t, dir, nil)
			conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			body := fmt.Sprintf(c.body, "trap 'touch ended; exit' TERM; touch started; while :; do sleep 0.05; done")
			length := len(body)
			if strings.Contains(name, "input") {
				length += 100 // that never come
			}
			fmt.Fprintf(conn, "POST /exec HTTP/1.1\r\nHost: x\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s", c.accept, length, body)
			exists := func(name string) func() bool {
				return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
			}
			eventually(t, "started", exists("started"))
			_ = conn.Close()
			eventually(t, "ended", exists("ended"))
		})
	}
}

func TestAbortByID(t *testing.T) {
	srv := serve(t, t.TempDir(), nil)
	c := client(t, srv.URL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exit, err := c.Run(ctx, sandbox.Command{Script: "echo; sleep 300", Stdout: writer(func() { cancel() })})
	if err != nil || !exit.Aborted || exit.Code != 143 || exit.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", exit, err)
	}
	// The same id twice is refused.
	body := `{"command":"echo up; sleep 300","id":"one"}`
	req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/exec", strings.NewReader(body))
	req.Header.Set("Accept", streamType)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if status, text := ask(t, srv, "POST", "/exec", body); status != 409 {
		t.Errorf("a second command of the same name: %d %s", status, text)
	}
	if status, text := ask(t, srv, "DELETE", "/exec/one", ""); status != 204 {
		t.Errorf("DELETE: %d %s", status, text)
	}
	e, err := copyFrames(resp.Body, nil, nil, func() {})
	if err != nil || !e.Aborted {
		t.Errorf("%+v, %v", e, err)
	}
}

type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// TestOldServer runs commands on a server that has only the plain protocol.
func TestOldServer(t *testing.T) {
	gone := make(chan struct{})
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+r.URL.Path != "POST/exec" {
			http.NotFound(w, r)
			return
		}
		var req struct {
			Command string  `json:"command"`
			Timeout float64 `json:"timeout"`
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			w.WriteHeader(400)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		switch req.Command {
		case "slow":
			time.Sleep(time.Duration(req.Timeout * float64(time.Second)))
			_ = json.NewEncoder(w).Encode(Answer{Stderr: "timed out", Code: 124})
		case "long":
			<-r.Context().Done()
			close(gone)
		case "broken":
			http.Error(w, "out of memory", 500)
		case "html":
			fmt.Fprint(w, "<html>")
		default:
			_ = json.NewEncoder(w).Encode(Answer{Stdout: "out", Stderr: "err", Code: 3})
		}
	}))
	defer old.Close()
	c := client(t, old.URL)
	run := func(ctx context.Context, script string, timeout time.Duration) (string, string, sandbox.Exit, error) {
		var out, errs bytes.Buffer
		exit, err := c.Run(ctx, sandbox.Command{Script: script, Timeout: timeout, Stdout: &out, Stderr: &errs})
		exit.Duration = 0
		return out.String(), errs.String(), exit, err
	}
	if out, errs, exit, err := run(t.Context(), "x", 0); out != "out" || errs != "err" || exit != (sandbox.Exit{Code: 3}) || err != nil {
		t.Errorf("command: %q %q %+v %v", out, errs, exit, err)
	}
	if _, errs, exit, err := run(t.Context(), "slow", 50*time.Millisecond); errs != "timed out" || exit != (sandbox.Exit{Code: 124, TimedOut: true}) || err != nil {
		t.Errorf("timeout: %q %+v %v", errs, exit, err)
	}
	if _, errs, exit, err := run(t.Context(), "broken", 0); errs != "Firecracker exec HTTP 500: out of memory\n" || exit != (sandbox.Exit{Code: 1}) || err != nil {
		t.Errorf("HTTP error: %q %+v %v", errs, exit, err)
	}
	if _, _, _, err := run(t.Context(), "html", 0); err == nil {
		t.Error("an answer that is no JSON is no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, exit, err := run(ctx, "long", 0); !exit.Aborted || err != nil {
		t.Errorf("abort: %+v %v", exit, err)
	}
	<-gone
	if _, _, err := c.ReadFile(t.Context(), "/x", 0, 1); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "run iris exec-server") {
		t.Errorf("ReadFile: %v", err)
	}
	if err := c.WriteFile(t.Context(), "/x", nil); err == nil || !strings.Contains(err.Error(), "run iris exec-server") {
		t.Errorf("WriteFile: %v", err)
	}
	if _, err := c.Resolve(t.Context(), "/x"); err == nil {
		t.Error("Resolve is no error")
	}
	if err := c.Health(t.Context()); err == nil {
		t.Error("Health is no error")
	}
}

// TestDeadline gives up on a guest that lets a command run on.
func TestDeadline(t *testing.T) {
	for name, stream := range map[string]bool{"plain": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if stream {
					w.Header().Set("Content-Type", streamType)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			defer srv.Close()
			c := NewClient(ClientOptions{Addr: strings.TrimPrefix(srv.URL, "http://"), Grace: 50 * time.Millisecond})
			defer c.Close()
			_, err := c.Run(t.Context(), sandbox.Command{Script: "x", Timeout: 50 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), "did not end the command within 100ms") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	c := client(t, "http://"+ln.Addr().String())
	if _, err := c.Run(t.Context(), sandbox.Command{Script: "true"}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Run: %v", err)
	}
	if _, _, err := c.ReadFile(t.Context(), "/x", 0, 1); !errors.Is(err, ErrUnreachable) {
		t.Errorf("ReadFile: %v", err)
	}
}

// TestTornAnswers reports a guest that dies or talks nonsense as an error.
func TestTornAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":     "",
		"half a head": "o\x00",
		"half output": "o\x00\x00\x00\x05abc",
		"no end":      "o\x00\x00\x00\x01a",
		"huge":        "o\xff\xff\xff\xff",
		"unknown":     "?\x00\x00\x00\x00",
		"bad end":     "x\x00\x00\x00\x01{",
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", streamType)
				_, _ = io.WriteString(w, body)
			}))
			defer srv.Close()
			if exit, err := client(t, srv.URL).Run(t.Context(), sandbox.Command{Script: "x"}); err == nil {
				t.Errorf("%+v and no error", exit)
			}
		})
	}
}

func TestFilesOverTheWire(t *testing.T) {
	dir := t.TempDir()
	c := client(t, serve(t, dir, nil).URL)
	big := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // more than a piece
	name := filepath.Join(dir, "big")
	if err := c.WriteFile(t.Context(), name, big); err != nil {
		t.Fatal(err)
	}
	got, size, err := c.ReadFile(t.Context(), name, 5, 3_000_000)
	if err != nil || size != int64(len(big)) || !bytes.Equal(got, big[5:3_000_005]) {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	if err := c.WriteFile(t.Context(), name, make([]byte, MaxFile+1)); err == nil {
		t.Error("a file that is too big was sent")
	}
	if _, _, err := c.ReadFile(t.Context(), dir, 0, 1); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if err := os.Symlink("big", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	real, _ := filepath.EvalSymlinks(name)
	if to, err := c.Resolve(t.Context(), filepath.Join(dir, "link")); err != nil || to != real {
		t.Errorf("Resolve = %q, %v, want %q", to, err, real)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(t.Context(), loop); err == nil {
		t.Error("a link to itself was followed")
	}
}

func TestParseBoot(t *testing.T) {
	b, err := ParseBoot("console=ttyS0 quiet guestip=172.20.1.2 hostip=172.20.1.1 exectoken=abc root=/dev/vda rw\n")
	if err != nil || b.Guest.String() != "172.20.1.2" || b.Host.String() != "172.20.1.1" || b.Token != "abc" {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := ParseBoot("quiet"); err != nil || b.Guest.IsValid() || b.Token != "" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, line := range []string{"guestip=", "guestip=x", "hostip=1.2.3", "guestip=::1"} {
		if b, err := ParseBoot(line); err == nil {
			t.Errorf("%q: %+v and no error", line, b)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a server without a sandbox")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameOut, []byte("hello")), frameEnd, []byte(`{"exit_code":3}`)))
	f.Add(appendFrame(appendFrame(nil, frameAlive, nil), frameErr, []byte("x")))
	f.Add([]byte("o\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out, errs bytes.Buffer
		e, err := copyFrames(bytes.NewReader(data), &out, &errs, func() {})
		if err == nil && out.Len()+errs.Len() > len(data) {
			t.Errorf("%d bytes make %d", len(data), out.Len()+errs.Len())
		}
		_ = e
		kind, payload, err := readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, 'o', data))), nil)
		if len(data) <= maxFrame && (err != nil || kind != 'o' || !bytes.Equal(payload, data)) {
			t.Errorf("%q comes back as %q, %v", data, payload, err)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"command":"true","stdin":true}` + "\ninput"))
	f.Add([]byte(`{"command":"x","timeout":1e400}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, rest, err := readRequest(&bounded{from: bytes.NewReader(data), left: maxRequest})
		if err != nil {
			return
		}
		if strings.TrimSpace(req.Command) == "" || *req.Timeout <= 0 || time.Duration(*req.Timeout*float64(time.Second)) < 0 {
			t.Errorf("%q is accepted as %+v", data, req)
		}
		if req.Stdin == (rest == nil) {
			t.Errorf("%q: input %v, reader %v", data, req.Stdin, rest != nil)
		}
	})
}

func FuzzParseBoot(f *testing.F) {
	f.Add("guestip=172.20.1.2 x")
	f.Fuzz(func(t *testing.T, line string) {
		if b, err := ParseBoot(line); err == nil && b.Guest.IsValid() && !b.Guest.Is4() {
			t.Errorf("%q gives %v", line, b.Guest)
		}
	})
}
