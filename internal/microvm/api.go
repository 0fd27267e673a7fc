package microvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

// What is put into Firecracker before the start. The field names are its own.
type (
	// Machine is PUT /machine-config.
	Machine struct {
		VCPUs     int  `json:"vcpu_count"`
		MemoryMiB int  `json:"mem_size_mib"`
		SMT       bool `json:"smt"`
	}
	// BootSource is PUT /boot-source.
	BootSource struct {
		Kernel string `json:"kernel_image_path"`
		Initrd string `json:"initrd_path,omitempty"`
		Args   string `json:"boot_args"`
	}
	// Drive is PUT /drives/<id>.
	Drive struct {
		ID       string `json:"drive_id"`
		Path     string `json:"path_on_host"`
		Root     bool   `json:"is_root_device"`
		ReadOnly bool   `json:"is_read_only"`
	}
	// Interface is PUT /network-interfaces/<id>.
	Interface struct {
		ID  string `json:"iface_id"`
		MAC string `json:"guest_mac"`
		Tap string `json:"host_dev_name"`
	}
	// Config is a whole microVM, in the form of Firecracker's own
	// configuration file.
	Config struct {
		BootSource BootSource  `json:"boot-source"`
		Drives     []Drive     `json:"drives"`
		Machine    Machine     `json:"machine-config"`
		Interfaces []Interface `json:"network-interfaces"`
	}
	// Info is GET /.
	Info struct {
		ID      string `json:"id"`
		State   string `json:"state"` // "Not started", "Running", "Paused"
		Version string `json:"vmm_version"`
		App     string `json:"app_name"`
	}
)

// A Fault is Firecracker's refusal of a request.
type Fault struct {
	Method, Path string
	Status       int
	Message      string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("firecracker refuses %s %s with %d: %s", f.Method, f.Path, f.Status, f.Message)
}

// Bounds of one request: Firecracker answers within milliseconds, and in a line.
const (
	apiTimeout = 5 * time.Second
	maxAnswer  = 64 << 10
)

// API speaks with one Firecracker process. A request waits 5 s at most; any
// answer but the documented one is an error. Close it after use.
type API struct {
	http *http.Transport
}

// NewAPI speaks over the Unix socket; nothing is connected yet.
func NewAPI(socket string) *API {
	return &API{http: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConns: 1,
	}}
}

// Close drops the connection.
func (a *API) Close() { a.http.CloseIdleConnections() }

// Info is GET /.
func (a *API) Info(ctx context.Context) (info Info, err error) {
	body, err := a.call(ctx, http.MethodGet, "/", nil, http.StatusOK)
	if err != nil {
		return Info{}, err
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return Info{}, fmt.Errorf("read firecracker's answer to GET /: %w", err)
	}
	if info.State == "" {
		return Info{}, fmt.Errorf("firecracker's answer to GET / names no state: %.100q", body)
	}
	return info, nil
}

// Await waits until the process answers and has not started anything.
func (a *API) Await(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		info, err := a.Info(ctx)
		switch {
		case err == nil && info.State != "Not started":
			return fmt.Errorf("firecracker is %q before it was told to start", info.State)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for firecracker's socket: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(pause):
		}
	}
}

// Configure puts everything that a start needs.
func (a *API) Configure(ctx context.Context, c Config) error {
	puts := []struct {
		path string
		body any
	}{{"/machine-config", c.Machine}, {"/boot-source", c.BootSource}}
	for _, d := range c.Drives {
		puts = append(puts, struct {
			path string
			body any
		}{"/drives/" + d.ID, d})
	}
	for _, i := range c.Interfaces {
		puts = append(puts, struct {
			path string
			body any
		}{"/network-interfaces/" + i.ID, i})
	}
	for _, p := range puts {
		if _, err := a.call(ctx, http.MethodPut, p.path, p.body, http.StatusNoContent); err != nil {
			return err
		}
	}
	return nil
}

// Start boots the guest and checks that it runs.
func (a *API) Start(ctx context.Context) error {
	action := map[string]string{"action_type": "InstanceStart"}
	if _, err := a.call(ctx, http.MethodPut, "/actions", action, http.StatusNoContent); err != nil {
		return err
	}
	info, err := a.Info(ctx)
	if err != nil {
		return err
	}
	if info.State != "Running" {
		return fmt.Errorf("firecracker is %q after the start", info.State)
	}
	return nil
}

// call makes one request and accepts one status.
func (a *API) call(ctx context.Context, method, path string, in any, want int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s of firecracker: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s of firecracker: %w", method, path, err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("%s %s of firecracker: an answer of more than %d bytes", method, path, maxAnswer)
	}
	if resp.StatusCode != want {
		return nil, &Fault{Method: method, Path: path, Status: resp.StatusCode, Message: faultMessage(answer)}
	}
	return answer, nil
}

// faultMessage finds the reason in a refusal, or shows how the refusal begins.
func faultMessage(body []byte) string {
	var f struct {
		Message string `json:"fault_message"`
	}
	if json.Unmarshal(body, &f) == nil && f.Message != "" {
		return f.Message
	}
	return fmt.Sprintf("%.200q", body)
}
