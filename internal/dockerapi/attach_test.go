package dockerapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestAttach: input goes in and ends by half, output that came with the answer's
// head is not lost.
func TestAttach(t *testing.T) {
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.Header.Get("Upgrade") != "tcp" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Content-Type") != "application/json" || string(body) != `{"Tty":false}` {
			t.Errorf("%s %v %q", r.Method, r.Header, body)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s", frame(1, "early "))
		in, err := io.ReadAll(rw)
		if err != nil {
			t.Error(err)
		}
		conn.Write(frame(2, "got "+string(in)))
	})
	a, err := c.Attach(t.Context(), "/exec/x/start", map[string]bool{"Tty": false})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := io.WriteString(a, "input"); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := Demux(a, &out, &errs); err != nil || out.String() != "early " || errs.String() != "got input" {
		t.Errorf("%q, %q, %v", &out, &errs, err)
	}
}

// TestAttachRefused: every answer that gives no connection over is an error.
func TestAttachRefused(t *testing.T) {
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"message":"container x is paused"}`)
		case "/ok":
			fmt.Fprint(w, "fine")
		case "/long":
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nX: ", strings.Repeat("x", maxHead))
		case "/text":
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			fmt.Fprint(conn, "what?\r\n\r\n")
		}
	})
	if _, err := c.Attach(t.Context(), "/gone", nil); !Is(err, 409) || !strings.Contains(err.Error(), "is paused") {
		t.Errorf("409: %v", err)
	}
	for _, path := range []string{"/ok", "/long", "/text", "/a b", "\x00"} {
		if a, err := c.Attach(t.Context(), path, nil); err == nil {
			t.Errorf("%q: no error", path)
			a.Close()
		}
	}
	if _, err := c.Attach(t.Context(), "/x", func() {}); err == nil {
		t.Error("what cannot be JSON is no error")
	}
	none, err := New(Options{Host: filepath.Join(t.TempDir(), "none.sock")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Attach(t.Context(), "/x", nil); err == nil || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("no engine: %v", err)
	}
}

// TestAttachEnds: an engine that takes the request and is silent is given up when
// ctx ends.
func TestAttachEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "engine.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			buf := make([]byte, 1)
			_, err = conn.Read(buf) // the request has come
			cancel()
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
		done <- err
	}()
	c, err := New(Options{Host: socket})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(ctx, "/x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach = %v", err)
	}
	ln.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func frame(stream byte, text string) []byte {
	b := []byte{stream, 0, 0, 0}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

func TestDemux(t *testing.T) {
	all := bytes.Join([][]byte{frame(1, "out "), frame(2, "err"), frame(0, ""), frame(1, "more")}, nil)
	var out, errs bytes.Buffer
	if err := Demux(bytes.NewReader(all), &out, &errs); err != nil || out.String() != "out more" || errs.String() != "err" {
		t.Errorf("Demux = %q, %q, %v", &out, &errs, err)
	}
	if err := Demux(bytes.NewReader(all), nil, nil); err != nil {
		t.Errorf("Demux into nothing: %v", err)
	}
	for name, b := range map[string][]byte{"cut head": all[:3], "cut text": all[:10], "stream 3": frame(3, "x"), "text": []byte("plain text without frames"), "huge": {1, 0, 0, 0, 255, 255, 255, 255}} {
		if err := Demux(bytes.NewReader(b), nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzDemux: whatever comes, what goes out is what frames with whole heads hold,
// in order, and an input is taken to its end without an error only if it is whole.
func FuzzDemux(f *testing.F) {
	f.Add(frame(1, "x"))
	f.Add(append(frame(2, "err"), frame(1, "out")...))
	f.Add(frame(1, "x")[:8])
	f.Fuzz(func(t *testing.T, b []byte) {
		var got bytes.Buffer
		err := Demux(bytes.NewReader(b), &got, &got)
		var want []byte
		rest, whole := b, true
		for len(rest) > 0 && whole {
			if len(rest) < 8 || rest[0] > 2 || rest[1]|rest[2]|rest[3] != 0 || binary.BigEndian.Uint32(rest[4:]) > maxFrame {
				whole = false
				break
			}
			size := int(binary.BigEndian.Uint32(rest[4:]))
			rest = rest[8:]
			n := min(size, len(rest))
			want, rest, whole = append(want, rest[:n]...), rest[n:], n == size
		}
		if !bytes.Equal(got.Bytes(), want) || (err == nil) != whole {
			t.Errorf("%q and %v, want %q and whole %v", got.Bytes(), err, want, whole)
		}
	})
}
