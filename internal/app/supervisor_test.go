package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that is stuck stops feeding the watchdog, so that systemd restarts
// it.
func TestWatchdogStarvesWithoutAPulse(t *testing.T) {
	dir, err := os.MkdirTemp("", "iris") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	beats := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	part := supervisor(func(context.Context) error {
		select {
		case beats <- struct{}{}:
		case <-ctx.Done():
		}
		return errors.New("stuck")
	}, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- part.Serve(ctx, func() {}) }()
	for range 3 {
		<-beats
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		b := make([]byte, 100)
		n, err := conn.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Errorf("systemd was told %q, %v, want %q", b[:n], err, want)
		}
	}
}
