package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/llm/rehearsal"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// Free space below which a workspace is in danger (the journal alone may take a
// gibibyte), and below which nothing can be promised.
const (
	lowDisk = 2 << 30
	noDisk  = 64 << 20
)

func examineConfig(opts DoctorOptions) []finding {
	f := finding{what: "configuration", result: opts.Config.File}
	if f.result == "" {
		f.result = "no file: the defaults and the environment count"
	}
	all := []finding{f}
	for _, w := range opts.Warnings {
		what, fix, ok := strings.Cut(w, ": ")
		if !ok {
			fix = "follow the advice"
		}
		about := "permissions"
		if strings.HasPrefix(w, "the environment ") {
			about = "environment"
		}
		all = append(all, finding{what: about, result: what, fix: fix})
	}
	return all
}

func examineWorkspace(root string) finding {
	f := finding{what: "workspace", result: root}
	info, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = canMake(root); err == nil {
			f.result += " (not there yet: the first start makes it)"
			return f
		}
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", root)
	case err == nil:
		if err = session.CheckWorkspace(root); err == nil {
			err = probeWrite(root)
		}
	}
	if err != nil {
		f.result, f.bad = err.Error(), true
		f.fix = "make the directory usable for this user, or choose another one with IRIS_WORKSPACE"
		return f
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		f.fix = fmt.Sprintf("other users can look into it (mode %04o): chmod 700 %s", mode, root)
	}
	return f
}

// canMake reports what would keep a directory from being made.
func canMake(dir string) error {
	for {
		parent := filepath.Dir(dir)
		info, err := os.Stat(parent)
		if errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		switch {
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", parent)
		}
		if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("nothing can be made in %s: %w", parent, err)
		}
		return nil
	}
}

// probeWrite writes a file into dir and removes it.
func probeWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", dir, errors.Unwrap(err))
	}
	_, err = f.WriteString("probe\n")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func examineDisk(dir string) finding {
	f := finding{what: "disk"}
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			break
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent // what is to be made will lie there
			continue
		}
		f.result, f.bad, f.fix = err.Error(), true, "check the file system of the workspace"
		return f
	}
	return judgeDisk(int64(st.Bavail)*st.Bsize, int64(st.Ffree), st.Files > 0)
}

// judgeDisk says what so many free bytes and files are worth. Some file systems
// do not count files.
func judgeDisk(free, files int64, counted bool) finding {
	f := finding{what: "disk", result: fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))}
	switch {
	case free < lowDisk:
		f.fix = "free some space: with less than 2 GiB the journal may not find room"
		f.bad = free < noDisk
	case counted && files < 1000:
		f.result += fmt.Sprintf(", room for %d files", files)
		f.fix, f.bad = "remove files: the file system can hardly take new ones", files < 10
	}
	return f
}

func examineAudit(cfg *config.Config) finding {
	path := cfg.Bash.AuditFile
	f := finding{what: "audit", result: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !strings.HasPrefix(path, cfg.Workspace+string(filepath.Separator)) {
			err = canMake(path)
		} else {
			err = nil // a matter of the workspace
		}
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a directory", path)
	case err == nil:
		if werr := unix.Access(path, unix.W_OK); werr != nil {
			err = fmt.Errorf("%s cannot be written: %w", path, werr)
		}
	}
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "let this user write it, or choose another file with IRIS_BASH_AUDIT_FILE"
	}
	if f.fix == "" && cfg.Bash.Policy == "off" {
		f.fix = "IRIS_BASH_POLICY=off: every command passes and is only recorded"
	}
	return f
}

func examineToken(opts DoctorOptions) finding {
	f := finding{what: "token"}
	if !opts.Config.API.Token.IsZero() {
		f.result = "configured (IRIS_API_TOKEN)"
		return f
	}
	path, err := tokenPath(opts.Environ)
	if err == nil {
		f.result = path
		_, err = readToken(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = canMake(path); err == nil {
			f.result += " (not there yet: the first start makes it)"
			return f
		}
	}
	if err != nil {
		f.bad = true
		f.result, f.fix = advice(err, "let this user read and write it, or set IRIS_API_TOKEN")
	}
	return f
}

// advice splits "what is wrong: what to do" where an error of ours says both.
func advice(err error, otherwise string) (result, fix string) {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i > 0 {
		for _, verb := range []string{"chmod ", "delete ", "set "} {
			if strings.HasPrefix(text[i+2:], verb) {
				return text[:i], text[i+2:]
			}
		}
	}
	return text, otherwise
}

func examineModel(ctx context.Context, opts DoctorOptions) finding {
	f := finding{what: "model"}
	cfg := opts.Config
	log := slog.New(slog.DiscardHandler)
	var m *models
	vault, err := openSecrets(cfg, newRedactor(cfg), log)
	if err == nil {
		defer vault.close()
		m, err = newModels(ctx, cfg, vault, log)
	}
	if err != nil {
		f.bad = true
		f.result, f.fix = advice(err, "set the key, or name another model with IRIS_PROVIDER and IRIS_MODEL")
		return f
	}
	f.result = m.describe()
	if provider, _ := m.chosen(); provider == "" {
		if agent := firstCLI(opts.Environ); agent != "" {
			f.result = agent + " answers: it is on PATH, and no model is configured"
			return f
		}
	}
	if m.first().Provider == rehearsal.Name {
		f.result = "none: a rehearsal answers"
		f.fix = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or run an Ollama, to let a model answer"
	}
	return f
}

// examineProgram looks a program up on the PATH that commands will see.
func examineProgram(environ []string, name, why, fix string, needed bool) finding {
	f := finding{what: name}
	for _, dir := range filepath.SplitList(lookup(environ, "PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			f.result = path
			return f
		}
	}
	f.result, f.fix, f.bad = "not found: "+why, fix, needed
	return f
}

func examineZone(cfg *config.Config) finding {
	f := finding{what: "time zone"}
	loc, err := cfg.Location()
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "use an IANA name such as Europe/Berlin"
		return f
	}
	name := loc.String()
	if loc == time.Local {
		name = "the host's"
	}
	f.result = fmt.Sprintf("%s: it is %s", name, time.Now().In(loc).Format("15:04 MST"))
	return f
}

func examineServer(ctx context.Context, opts DoctorOptions) finding {
	cfg := opts.Config
	f := finding{what: "server"}
	token, err := knownToken(Options{Config: cfg, Environ: opts.Environ})
	if err != nil {
		f.result, f.fix = "not asked: there is no token to ask with", "see the token above"
		return f
	}
	c := &terminal.Client{
		URL: serverURL(cfg.API.Host, cfg.API.Port), Token: token,
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	err = c.Probe(ctx)
	var refused *terminal.StatusError
	switch {
	case err == nil:
		f.result = "runs at " + c.URL
	case errors.Is(err, terminal.ErrNobody):
		f.result = "does not run at " + c.URL
		if ln, lerr := net.Listen("tcp", net.JoinHostPort(cfg.API.Host, strconv.Itoa(cfg.API.Port))); lerr == nil {
			ln.Close()
		} else {
			f.result, f.bad, f.fix = lerr.Error(), true, "choose another address with IRIS_API_HOST and IRIS_API_PORT"
		}
	case errors.Is(err, terminal.ErrNotIris):
		f.result, f.bad, f.fix = "another program answers at "+c.URL, true, "choose another port with IRIS_API_PORT, or end that program"
	case errors.As(err, &refused) && refused.Status == http.StatusUnauthorized:
		f.result, f.bad = "runs at "+c.URL+" and does not know this token", true
		f.fix = "set IRIS_API_TOKEN to the one it was started with"
	default:
		f.result, f.bad, f.fix = fmt.Sprintf("runs at %s and is not well: %v", c.URL, err), true, "look at its log, and at GET /readyz"
	}
	return f
}
