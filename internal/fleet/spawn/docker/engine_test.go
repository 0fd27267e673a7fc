package docker

import (
	"archive/tar"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/iris-operator/iris/internal/dockerapi"
)

// made is the body of a request that makes a container, as the engine takes it.
type made struct {
	Image, User, WorkingDir string
	Cmd, Env                []string
	Labels                  map[string]string
	HostConfig              struct {
		Mounts []struct {
			Type, Source, Target string
			ReadOnly             bool
		}
		PortBindings   map[string][]struct{ HostIp, HostPort string }
		RestartPolicy  struct{ Name string }
		NetworkMode    string
		ExtraHosts     []string
		CapDrop        []string
		SecurityOpt    []string
		ReadonlyRootfs bool
	}

	status string
	log    []string
	raw    string
}

// engine is a small Docker engine: it keeps containers, networks and images and
// answers as the real one does.
type engine struct {
	mu         sync.Mutex
	containers map[string]*made
	networks   map[string]bool
	images     map[string]bool
	built      map[string]string // files of the last build
	buildFails string
}

func newEngine(t *testing.T) (*engine, *dockerapi.Client) {
	t.Helper()
	e := &engine{containers: map[string]*made{}, networks: map[string]bool{}, images: map[string]bool{DefaultImage: true}}
	socket := filepath.Join(t.TempDir(), "engine.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: e.handler()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	c, err := dockerapi.New(dockerapi.Options{Host: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return e, c
}

func say(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}

// with finds the container of a request.
func (e *engine) with(do func(w http.ResponseWriter, r *http.Request, c *made)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c := e.containers[r.PathValue("name")]
		if c == nil {
			say(w, 404, "No such container: "+r.PathValue("name"))
			return
		}
		do(w, r, c)
	}
}

func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /networks/{name}", func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.networks[r.PathValue("name")] {
			say(w, 404, "network not found")
		}
	})
	mux.HandleFunc("POST /networks/create", func(w http.ResponseWriter, r *http.Request) {
		var n struct{ Name string }
		json.NewDecoder(r.Body).Decode(&n)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.networks[n.Name] = true
		w.WriteHeader(201)
	})
	mux.HandleFunc("POST /containers/create", e.create)
	mux.HandleFunc("GET /containers/{name}/json", e.with(func(w http.ResponseWriter, _ *http.Request, c *made) {
		json.NewEncoder(w).Encode(map[string]any{
			"RestartCount": 3, "Config": map[string]any{"Labels": c.Labels},
			"State": map[string]any{"Status": c.status, "StartedAt": "2026-01-02T03:04:05Z", "FinishedAt": "0001-01-01T00:00:00Z", "OOMKilled": c.status == "dead", "Error": ""},
		})
	}))
	mux.HandleFunc("GET /containers/{name}/stats", e.with(func(w http.ResponseWriter, _ *http.Request, _ *made) {
		fmt.Fprint(w, `{"memory_stats":{"usage":4096}}`)
	}))
	for verb, status := range map[string]string{"start": "running", "restart": "running", "stop": "exited"} {
		mux.HandleFunc("POST /containers/{name}/"+verb, e.with(func(w http.ResponseWriter, _ *http.Request, c *made) {
			if c.status == status && verb != "restart" {
				w.WriteHeader(304)
				return
			}
			c.status = status
			w.WriteHeader(204)
		}))
	}
	mux.HandleFunc("DELETE /containers/{name}", e.with(func(w http.ResponseWriter, r *http.Request, _ *made) {
		delete(e.containers, r.PathValue("name"))
		w.WriteHeader(204)
	}))
	mux.HandleFunc("GET /containers/{name}/logs", e.with(func(w http.ResponseWriter, r *http.Request, c *made) {
		var n int
		fmt.Sscan(r.URL.Query().Get("tail"), &n)
		for i, line := range c.log[max(0, len(c.log)-n):] {
			head := []byte{byte(1 + i%2), 0, 0, 0}
			w.Write(binary.BigEndian.AppendUint32(head, uint32(len(line)+1)))
			io.WriteString(w, line+"\n")
		}
	}))
	mux.HandleFunc("POST /build", e.build)
	return mux
}

func (e *engine) create(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	c := &made{status: "created", raw: string(raw)}
	if err := json.Unmarshal(raw, c); err != nil {
		say(w, 400, err.Error())
		return
	}
	name := r.URL.Query().Get("name")
	switch {
	case e.containers[name] != nil:
		say(w, 409, "Conflict. The container name is already in use")
	case !e.images[c.Image]:
		say(w, 404, "No such image: "+c.Image)
	default:
		e.containers[name] = c
		w.WriteHeader(201)
	}
}

func (e *engine) build(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.built = map[string]string{}
	for in := tar.NewReader(r.Body); ; {
		h, err := in.Next()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(in)
		e.built[h.Name] = fmt.Sprintf("%o %s", h.Mode, data)
	}
	if e.buildFails != "" {
		fmt.Fprintf(w, `{"stream":"Step 1"}{"error":%q}`, e.buildFails)
		return
	}
	e.images[r.URL.Query().Get("t")] = true
	fmt.Fprint(w, `{"stream":"Step 1\n"}`+"\n"+`{"stream":"Successfully built\n"}`)
}

func (e *engine) container(t *testing.T, name string) *made {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[Container(name)]
	if c == nil {
		t.Fatalf("no container of %s", name)
	}
	return c
}

func (c *made) vars() map[string]string {
	out := map[string]string{}
	for _, kv := range c.Env {
		k, v, _ := strings.Cut(kv, "=")
		out[k] = v
	}
	return out
}
