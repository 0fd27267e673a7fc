// Package microvmtest stands in for Firecracker in tests: a server of its API
// that is as strict as the original, a jailer that checks its command line, and
// a boot of Debian's kernel in QEMU behind that API. It holds no test itself.
//
// A test binary becomes firecracker or the jailer when it is started with
// [Variable] in its environment and calls [Main] first thing in TestMain.
package microvmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/microvm"
)

// A Server is Firecracker's API of one microVM.
type Server struct {
	// ID is what GET / tells.
	ID string
	// Root is what paths in requests are relative to, empty for the host's.
	Root string
	// Boot starts the guest. nil starts nothing and succeeds.
	Boot func(microvm.Config) error

	mu     sync.Mutex // guards the fields below
	config microvm.Config
	state  string
}

// ServeHTTP answers as Firecracker does: 204 without a body to a PUT, 400 with
// fault_message to whatever is wrong.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == "" {
		s.state = "Not started"
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet && r.URL.Path == "/" {
		_ = json.NewEncoder(w).Encode(microvm.Info{ID: s.ID, State: s.state, Version: "1.9.0", App: "Firecracker"})
		return
	}
	if err := s.put(r); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"fault_message": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// A fault is a refusal in Firecracker's words.
type fault string

func (f fault) Error() string { return string(f) }

func refuse(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

func (s *Server) put(r *http.Request) error {
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPut {
		return refuse("Invalid request method and/or path: %s %s.", r.Method, r.URL.Path)
	}
	if s.state != "Not started" {
		return refuse("The requested operation is not supported after starting the microVM.")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 51200))
	if err != nil {
		return err
	}
	switch kind {
	case "machine-config":
		return s.machine(body)
	case "boot-source":
		return s.bootSource(body)
	case "drives":
		return s.drive(id, body)
	case "network-interfaces":
		return s.iface(id, body)
	case "actions":
		return s.action(body)
	}
	return refuse("Invalid request method and/or path: %s %s.", r.Method, r.URL.Path)
}

// strict reads a body of known fields, all of which are required but those
// named.
func strict(body []byte, into any, optional ...string) error {
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return refuse("An error occurred when deserializing the json body of a request: %v.", err)
	}
	var got, want map[string]json.RawMessage
	whole, _ := json.Marshal(into)
	if json.Unmarshal(body, &got) != nil || json.Unmarshal(whole, &want) != nil {
		return refuse("An error occurred when deserializing the json body of a request.")
	}
	for _, o := range optional {
		delete(want, o)
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			return refuse("An error occurred when deserializing the json body of a request: missing field `%s`.", name)
		}
	}
	return nil
}

func (s *Server) machine(body []byte) error {
	var m microvm.Machine
	if err := strict(body, &m, "smt"); err != nil {
		return err
	}
	if m.VCPUs < 1 || m.VCPUs > 32 || m.MemoryMiB < 1 {
		return refuse("The vCPU number is invalid! The vCPU number can only be 1 or an even number when SMT is enabled.")
	}
	s.config.Machine = m
	return nil
}

func (s *Server) bootSource(body []byte) error {
	var b microvm.BootSource
	if err := strict(body, &b, "boot_args", "initrd_path"); err != nil {
		return err
	}
	for _, path := range []string{b.Kernel, b.Initrd} {
		if path == "" {
			continue
		}
		if err := s.exists(path, os.O_RDONLY); err != nil {
			return refuse("The kernel file cannot be opened: %v", err)
		}
	}
	s.config.BootSource = b
	return nil
}

func (s *Server) drive(id string, body []byte) error {
	var d microvm.Drive
	if err := strict(body, &d, "is_read_only"); err != nil {
		return err
	}
	if d.ID != id {
		return refuse("The id from the path [%s] does not match the id from the body [%s]!", id, d.ID)
	}
	if err := s.exists(d.Path, os.O_RDWR); err != nil {
		return refuse("Unable to create the virtio block device: %v", err)
	}
	s.config.Drives = append(s.config.Drives, d)
	return nil
}

func (s *Server) iface(id string, body []byte) error {
	var i microvm.Interface
	if err := strict(body, &i); err != nil {
		return err
	}
	if i.ID != id {
		return refuse("The id from the path [%s] does not match the id from the body [%s]!", id, i.ID)
	}
	if _, err := net.ParseMAC(i.MAC); err != nil || len(i.Tap) == 0 || len(i.Tap) > 15 {
		return refuse("Could not create the network device: %q on %q", i.MAC, i.Tap)
	}
	s.config.Interfaces = append(s.config.Interfaces, i)
	return nil
}

func (s *Server) action(body []byte) error {
	var a struct {
		Type string `json:"action_type"`
	}
	if err := strict(body, &a); err != nil {
		return err
	}
	switch {
	case a.Type != "InstanceStart":
		return refuse("unknown variant `%s`", a.Type)
	case s.config.BootSource.Kernel == "":
		return refuse("Cannot start microvm without kernel configuration.")
	case s.config.Machine.VCPUs == 0: // the original has a default, we always say
		return refuse("machine-config was not put")
	}
	if s.Boot != nil {
		if err := s.Boot(s.config); err != nil {
			return err
		}
	}
	s.state = "Running"
	return nil
}

// exists opens a path as the request means it.
func (s *Server) exists(path string, flag int) error {
	if s.Root != "" && !filepath.IsAbs(path) {
		return refuse("%s: not below /", path)
	}
	f, err := os.OpenFile(filepath.Join(s.Root, path), flag, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
