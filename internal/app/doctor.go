package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/llm/rehearsal"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// DoctorOptions says what to look at.
type DoctorOptions struct {
	// Config is the configuration, or ConfigErr why there is none.
	Config    *config.Config
	ConfigErr error
	Version   string
	Out       io.Writer
	Environ   []string
}

// A finding is the outcome of one check. Fix is empty when there is nothing to
// do; Bad findings make the doctor fail.
type finding struct {
	what, result, fix string
	bad               bool
}

// lowDisk is the free space below which a workspace is in danger: the journal
// alone may take a gibibyte.
const lowDisk = 2 << 30

// Doctor prints one line per check, and what to do where something is not right.
// It changes nothing but a probe file in the workspace, which it removes.
func Doctor(opts DoctorOptions) error {
	var all []finding
	if opts.ConfigErr != nil {
		all = []finding{{what: "configuration", result: opts.ConfigErr.Error(), fix: "correct it; docs/configuration.md lists every setting", bad: true}}
	} else {
		all = examine(opts)
	}
	failed := 0
	for _, f := range all {
		mark := "ok  "
		switch {
		case f.bad:
			mark = "FAIL"
			failed++
		case f.fix != "":
			mark = "note"
		}
		fmt.Fprintf(opts.Out, "%s  %-14s %s\n", mark, f.what, f.result)
		if f.fix != "" {
			fmt.Fprintf(opts.Out, "      %-14s → %s\n", "", f.fix)
		}
	}
	if failed > 0 {
		fmt.Fprintf(opts.Out, "\n%d of %d checks failed.\n", failed, len(all))
		return ErrTold
	}
	return nil
}

func examine(opts DoctorOptions) []finding {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cfg := opts.Config
	file := cfg.File
	if file == "" {
		file = "none (the defaults and the environment count)"
	}
	return []finding{
		{what: "version", result: opts.Version},
		{what: "configuration", result: file},
		examineWorkspace(cfg),
		examineDisk(cfg),
		examineToken(opts),
		examineModel(ctx, cfg),
		examineProgram("bash", "commands run in it", "install bash", true),
		examineProgram("git", "most work needs it", "install git", false),
		examineZone(cfg),
		examineServer(ctx, opts),
	}
}

func examineWorkspace(cfg *config.Config) finding {
	f := finding{what: "workspace", result: cfg.Workspace}
	info, err := os.Stat(cfg.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		f.result += " (not there yet: the first start makes it)"
		return f
	}
	if err == nil {
		err = session.CheckWorkspace(cfg.Workspace)
	}
	if err != nil {
		f.result, f.bad = err.Error(), true
		f.fix = "make the directory usable for this user, or choose another one with IRIS_WORKSPACE"
		return f
	}
	if info.Mode().Perm()&0o077 != 0 {
		f.fix = fmt.Sprintf("other users can look into it (mode %04o): chmod 700 %s", info.Mode().Perm(), cfg.Workspace)
	}
	return f
}

func examineDisk(cfg *config.Config) finding {
	f := finding{what: "disk"}
	dir := cfg.Workspace
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			break
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		f.result, f.bad, f.fix = err.Error(), true, "check the file system of the workspace"
		return f
	}
	free := int64(st.Bavail) * st.Bsize
	f.result = fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	if free < lowDisk {
		f.fix = "free some space: with less than 2 GiB the journal may not find room"
		f.bad = free < 64<<20
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
		f.result += " (not there yet: the first start makes it)"
		return f
	}
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "follow the advice in the message"
	}
	return f
}

func examineModel(ctx context.Context, cfg *config.Config) finding {
	f := finding{what: "model"}
	m, err := newModels(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "set the key, or name another model with IRIS_PROVIDER and IRIS_MODEL"
		return f
	}
	f.result = m.describe()
	if m.first().Provider == rehearsal.Name {
		f.fix = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or run an Ollama, to let a model answer"
	}
	return f
}

func examineProgram(name, why, fix string, needed bool) finding {
	f := finding{what: name}
	path, err := exec.LookPath(name)
	if err != nil {
		f.result, f.fix, f.bad = "not found: "+why, fix, needed
		return f
	}
	f.result = path
	return f
}

func examineZone(cfg *config.Config) finding {
	f := finding{what: "time zone"}
	loc, err := cfg.Location()
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "use an IANA name such as Europe/Berlin"
		return f
	}
	now := time.Now().In(loc)
	f.result = fmt.Sprintf("%s, %s there now", loc, now.Format("15:04 MST"))
	return f
}

func examineServer(ctx context.Context, opts DoctorOptions) finding {
	cfg := opts.Config
	f := finding{what: "server"}
	token, err := knownToken(Options{Config: cfg, Environ: opts.Environ})
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "follow the advice in the message"
		return f
	}
	c := &terminal.Client{
		URL: fmt.Sprintf("http://%s:%d", dialHost(cfg.API.Host), cfg.API.Port), Token: token,
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	err = c.Alive(ctx)
	var status *terminal.StatusError
	switch {
	case err == nil:
		f.result = "running at " + c.URL
	case errors.As(err, &status):
		f.result, f.bad = fmt.Sprintf("something at %s answers: %v", c.URL, err), true
		f.fix = "if it is Iris, set IRIS_API_TOKEN to its token; else choose another IRIS_API_PORT"
	default:
		f.result = "not running at " + c.URL
	}
	return f
}
