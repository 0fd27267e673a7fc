// Package background has Iris run for one person in the background: a user unit
// of systemd, or an agent of launchd. It owns the file that says so and asks the
// service manager for the rest; it ends no process itself, and knows nothing of
// what runs.
package background

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled says that there is nothing to start, stop or tell about.
var ErrNotInstalled = errors.New("iris is not installed in the background: iris install does it")

// Options say who runs what.
type Options struct {
	// OS is runtime.GOOS. Only linux and darwin have a service manager here.
	OS string
	// Home is the person's; Config is where their settings are ($XDG_CONFIG_HOME),
	// empty: Home/.config. UID is their number.
	Home, Config string
	UID          int
	// Program is the binary, absolute, and Args what follows it.
	Program string
	Args    []string
	// Path is the PATH of the caller.
	Path string
	// Run runs a program and returns what it wrote.
	Run func(ctx context.Context, name string, args ...string) (string, error)
}

// A Manager is the service manager of a system.
type Manager struct {
	opts Options
	kind manager
}

// manager is what systems differ in.
type manager interface {
	file() string
	text() string
	enable() [][]string
	disable() [][]string
	start() []string
	stop() []string
	state() []string
}

// New finds the service manager.
func New(opts Options) (*Manager, error) {
	if !filepath.IsAbs(opts.Home) || !filepath.IsAbs(opts.Program) || opts.Run == nil {
		return nil, fmt.Errorf("background: home %q and program %q must be absolute", opts.Home, opts.Program)
	}
	if opts.Config == "" {
		opts.Config = filepath.Join(opts.Home, ".config")
	}
	for _, word := range append([]string{opts.Program, opts.Path, opts.Home}, opts.Args...) {
		if strings.ContainsAny(word, "\n\r\x00") {
			return nil, fmt.Errorf("background: %q has a line break", word)
		}
	}
	switch opts.OS {
	case "linux":
		return &Manager{opts, systemd{opts}}, nil
	case "darwin":
		return &Manager{opts, launchd{opts}}, nil
	}
	return nil, fmt.Errorf("there is no background service for %s here: run iris serve", opts.OS)
}

// File is where the service is described.
func (m *Manager) File() string { return m.kind.file() }

// Install describes the service, has it started at every login, and starts it. What
// was installed before is replaced and runs anew.
func (m *Manager) Install(ctx context.Context) error {
	file, text := m.kind.file(), []byte(m.kind.text())
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !bytes.Equal(old, text) {
		// Errors do not matter: it may not run.
		for _, c := range m.kind.disable() {
			_, _ = m.opts.Run(ctx, c[0], c[1:]...)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := replace(file, text); err != nil {
		return err
	}
	for _, c := range m.kind.enable() {
		if err := m.run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall stops the service and forgets it. What Iris has written stays.
func (m *Manager) Uninstall(ctx context.Context) error {
	if !m.installed() {
		return ErrNotInstalled
	}
	for _, c := range m.kind.disable() {
		if err := m.run(ctx, c); err != nil {
			return err
		}
	}
	if err := os.Remove(m.kind.file()); err != nil {
		return err
	}
	if m.opts.OS == "linux" {
		return m.run(ctx, []string{"systemctl", "--user", "daemon-reload"})
	}
	return nil
}

// Start starts what is installed, Stop ends it until the next login.
func (m *Manager) Start(ctx context.Context) error { return m.installedRun(ctx, m.kind.start()) }

// Stop is the other one.
func (m *Manager) Stop(ctx context.Context) error { return m.installedRun(ctx, m.kind.stop()) }

// Status is what the service manager says of it. running is false also when it
// cannot be asked.
func (m *Manager) Status(ctx context.Context) (text string, running bool, err error) {
	if !m.installed() {
		return "", false, ErrNotInstalled
	}
	c := m.kind.state()
	out, err := m.opts.Run(ctx, c[0], c[1:]...)
	return strings.TrimSpace(out), err == nil, nil
}

func (m *Manager) installed() bool {
	_, err := os.Stat(m.kind.file())
	return err == nil
}

func (m *Manager) installedRun(ctx context.Context, c []string) error {
	if !m.installed() {
		return ErrNotInstalled
	}
	return m.run(ctx, c)
}

func (m *Manager) run(ctx context.Context, c []string) error {
	out, err := m.opts.Run(ctx, c[0], c[1:]...)
	if err == nil {
		return nil
	}
	if out = strings.TrimSpace(out); out != "" {
		return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
	}
	return fmt.Errorf("%s: %w", strings.Join(c, " "), err)
}

// replace writes a file whole, or not at all.
func replace(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".iris-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// path is the PATH of the service: what the caller has, where programs usually are,
// and where Iris is. With launchd the usual places come first: there it is often
// the short PATH of a program that was clicked on.
func (o Options) path() string {
	usual := []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", filepath.Dir(o.Program)}
	own := filepath.SplitList(o.Path)
	all := slices.Concat(own, usual)
	if o.OS == "darwin" {
		all = slices.Concat([]string{"/opt/homebrew/bin"}, usual, own)
	}
	var dirs []string
	for _, dir := range all {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// unit is the name of the service in systemd.
const unit = "iris.service"

type systemd struct{ o Options }

func (s systemd) file() string { return filepath.Join(s.o.Config, "systemd", "user", unit) }

func (s systemd) text() string {
	words := []string{quote(s.o.Program, "$", "$$")}
	for _, a := range s.o.Args {
		words = append(words, quote(a, "$", "$$"))
	}
	return `# Written by iris install.
[Unit]
Description=Iris, an AI operator and teammate
Documentation=https://github.com/iris-operator/iris

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=60
WorkingDirectory=%h
Environment=` + quote("PATH="+s.o.path()) + `
ExecStart=` + strings.Join(words, " ") + `
Restart=always
RestartSec=10
TimeoutStopSec=40
KillMode=mixed

[Install]
WantedBy=default.target
`
}

// quote makes one word of systemd; more are further replacements.
func quote(word string, more ...string) string {
	return `"` + strings.NewReplacer(append([]string{`\`, `\\`, `"`, `\"`, "%", "%%"}, more...)...).Replace(word) + `"`
}

func (s systemd) enable() [][]string {
	return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", unit}, {"systemctl", "--user", "restart", unit}}
}

func (s systemd) disable() [][]string {
	return [][]string{{"systemctl", "--user", "disable", "--now", unit}}
}
func (s systemd) start() []string { return []string{"systemctl", "--user", "start", unit} }
func (s systemd) stop() []string  { return []string{"systemctl", "--user", "stop", unit} }
func (s systemd) state() []string {
	return []string{"systemctl", "--user", "--no-pager", "--lines=0", "status", unit}
}

// label is the name of the service in launchd.
const label = "io.github.iris-operator.iris"

type launchd struct{ o Options }

func (l launchd) file() string {
	return filepath.Join(l.o.Home, "Library", "LaunchAgents", label+".plist")
}

func (l launchd) text() string {
	logs := filepath.Join(l.o.Home, "Library", "Logs", "iris")
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	entry := func(key, value string) {
		fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", key, value)
	}
	entry("Label", text(label))
	args := text(l.o.Program)
	for _, a := range l.o.Args {
		args += text(a)
	}
	entry("ProgramArguments", "<array>"+args+"</array>")
	entry("EnvironmentVariables", "<dict><key>PATH</key>"+text(l.o.path())+"</dict>")
	entry("WorkingDirectory", text(l.o.Home))
	entry("RunAtLoad", "<true/>")
	entry("KeepAlive", "<true/>")
	entry("ThrottleInterval", "<integer>10</integer>")
	entry("StandardOutPath", text(filepath.Join(logs, "out.log")))
	entry("StandardErrorPath", text(filepath.Join(logs, "err.log")))
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}

func text(s string) string {
	return "<string>" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s) + "</string>"
}

func (l launchd) domain() string { return "gui/" + strconv.Itoa(l.o.UID) }
func (l launchd) target() string { return l.domain() + "/" + label }

func (l launchd) enable() [][]string {
	return [][]string{{"mkdir", "-p", filepath.Join(l.o.Home, "Library", "Logs", "iris")}, {"launchctl", "bootstrap", l.domain(), l.file()}}
}
func (l launchd) disable() [][]string { return [][]string{{"launchctl", "bootout", l.target()}} }

// KeepAlive brings back what ends, so a stop takes it out until the next login.
func (l launchd) start() []string { return []string{"launchctl", "bootstrap", l.domain(), l.file()} }
func (l launchd) stop() []string  { return l.disable()[0] }
func (l launchd) state() []string { return []string{"launchctl", "print", l.target()} }
