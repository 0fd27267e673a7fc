package microvm_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/microvm"
	"github.com/iris-operator/iris/internal/microvm/microvmtest"
)

// listen serves h on a socket.
func listen(t *testing.T, h http.Handler) *microvm.API {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(ln)
		close(done)
	}()
	api := microvm.NewAPI(filepath.Join(dir, "s"))
	t.Cleanup(func() {
		api.Close()
		_ = srv.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return api
}

func config(t *testing.T) microvm.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return microvm.Config{
		BootSource: microvm.BootSource{Kernel: file, Args: "quiet"},
		Machine:    microvm.Machine{VCPUs: 1, MemoryMiB: 256},
		Drives:     []microvm.Drive{{ID: "rootfs", Path: file, Root: true}},
		Interfaces: []microvm.Interface{{ID: "eth0", MAC: "AA:FC:00:00:01:02", Tap: "vmtap1"}},
	}
}

func TestAPI(t *testing.T) {
	var booted microvm.Config
	api := listen(t, &microvmtest.Server{ID: "x", Boot: func(c microvm.Config) error { booted = c; return nil }})
	if err := api.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	if err := api.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if booted.BootSource != c.BootSource || booted.Machine != c.Machine || booted.Drives[0] != c.Drives[0] || booted.Interfaces[0] != c.Interfaces[0] {
		t.Errorf("booted %+v, want %+v", booted, c)
	}
	info, err := api.Info(t.Context())
	if err != nil || info.State != "Running" || info.ID != "x" || info.App != "Firecracker" {
		t.Errorf("Info = %+v, %v", info, err)
	}
	if err := api.Await(t.Context()); err == nil {
		t.Error("Await accepts a microVM that runs already")
	}
}

// TestAPIRefusals shows that the fake is strict, and that its refusals arrive
// as they are.
func TestAPIRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*microvm.Config)
		want   string
	}{
		"no kernel":   {func(c *microvm.Config) { c.BootSource.Kernel = "/no/such/file" }, "/boot-source with 400: The kernel file cannot be opened"},
		"no vcpu":     {func(c *microvm.Config) { c.Machine.VCPUs = 0 }, "The vCPU number is invalid"},
		"no drive":    {func(c *microvm.Config) { c.Drives[0].Path = "/no/such/file" }, "/drives/rootfs with 400: Unable to create the virtio block device"},
		"no mac":      {func(c *microvm.Config) { c.Interfaces[0].MAC = "x" }, "/network-interfaces/eth0 with 400"},
		"boot failed": {nil, "out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			api := listen(t, &microvmtest.Server{Boot: func(microvm.Config) error { return errors.New("out of memory") }})
			cfg := config(t)
			if c.change != nil {
				c.change(&cfg)
			}
			err := api.Configure(t.Context(), cfg)
			if err == nil {
				err = api.Start(t.Context())
			}
			var fault *microvm.Fault
			if !errors.As(err, &fault) || fault.Status != 400 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	t.Run("start before the kernel", func(t *testing.T) {
		api := listen(t, &microvmtest.Server{})
		if err := api.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "Cannot start microvm without kernel configuration") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("configured after the start", func(t *testing.T) {
		api := listen(t, &microvmtest.Server{})
		if err := errors.Join(api.Configure(t.Context(), config(t)), api.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := api.Configure(t.Context(), config(t)); err == nil || !strings.Contains(err.Error(), "not supported after starting") {
			t.Errorf("error %v", err)
		}
	})
}

// TestAPIStrictAnswers refuses what Firecracker does not say.
func TestAPIStrictAnswers(t *testing.T) {
	answer := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for name, c := range map[string]struct {
		h    http.Handler
		want string
	}{
		"200 where 204 is due": {answer(200, "{}"), "with 200"},
		"500":                  {answer(500, "oops"), `with 500: "oops"`},
		"no JSON":              {answer(200, "<html>"), "read firecracker's answer"},
		"no state":             {answer(200, `{"id":"x"}`), "names no state"},
		"endless":              {answer(200, strings.Repeat("x", 1<<17)), "more than"},
		"cut":                  {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }), "EOF"},
		"not running":          {startedBut("Paused"), `"Paused" after the start`},
	} {
		t.Run(name, func(t *testing.T) {
			api := listen(t, c.h)
			var err error
			switch name {
			case "not running":
				err = api.Start(t.Context())
			case "no JSON", "no state", "endless", "cut":
				err = api.Await(t.Context())
			default:
				err = api.Configure(t.Context(), config(t))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func startedBut(state string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(`{"state":"` + state + `"}`))
	})
}

func TestAwaitIsBounded(t *testing.T) {
	api := microvm.NewAPI(filepath.Join(t.TempDir(), "none"))
	defer api.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := api.Await(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
