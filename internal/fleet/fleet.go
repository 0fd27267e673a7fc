// Package fleet is the registry of sub-agents: agents.json in the workspace. It
// owns who they are, where their bridge is, which token proves who calls, and
// which secrets each may have. It does not create them (fleet/spawn does), does
// not talk to them (runner/subagent does) and decides nothing about routes: the
// API asks it whose token it got.
//
// The file belongs to people and other programs too. It is read again whenever
// it has changed; a broken edit keeps the last good state and says so; what we
// do not know in it stays as it is; a file that is no registry is refused and
// never overwritten.
package fleet

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// FileName is the name of the registry in a workspace.
const FileName = "agents.json"

// maxFile bounds the registry. A thousand agents take less than 1 MiB.
const maxFile = 8 << 20

// An Agent is an entry of the registry.
type Agent struct {
	// Name is what people write after @. See CheckName.
	Name string
	// BridgeURL is where its bridge listens, without a path.
	BridgeURL string
	// Description is one line that says what it is for.
	Description string
	// Secrets are the names it may read. Empty: none.
	Secrets []string
	// Token is what it proves itself with. Zero: it has no identity of its own.
	Token secret.Value
	// Mode is how it was spawned: service, docker. Empty: it was not.
	Mode string
}

// Errors that callers test for.
var (
	// ErrUnknown: there is no such agent.
	ErrUnknown = errors.New("no such agent")
	// ErrTaken: the name or the token belongs to somebody else.
	ErrTaken = errors.New("taken")
	// ErrCorrupt: the file is no registry. It is left as it is; repair it by hand.
	ErrCorrupt = errors.New("not a registry of agents")
)

// Options are what Open needs.
type Options struct {
	// Path is the registry. Required. A missing file is an empty registry.
	Path string
	// Reserved are names that no agent may have, besides "iris", which is what
	// the operator's own calls go by.
	Reserved []string
	// Others lists further names that are reserved, those of things that come and
	// go. It is called for each registration; its error refuses that. nil: none.
	Others func() ([]string, error)
	Logger *slog.Logger // nil: slog.DiscardHandler
}

// A Registry is agents.json. Its methods look at the file every time and parse
// it when it has changed. It is safe for concurrent use, by processes too.
type Registry struct {
	opts Options
	log  *slog.Logger

	// mu guards the fields below.
	mu      sync.Mutex
	agents  []Agent // by name
	digests [][sha256.Size]byte
	seen    stamp
	broken  error
}

// Open reads the registry. A file that is broken from the start is not an
// error: the registry is empty, a warning is logged, and Err says why, until
// somebody repairs it.
func Open(opts Options) (*Registry, error) {
	if opts.Path == "" {
		return nil, errors.New("fleet: Path is required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Reserved = append([]string{"iris"}, opts.Reserved...)
	r := &Registry{opts: opts, log: opts.Logger}
	r.refresh()
	return r, nil
}

// agentName is what a mention can name, a unit and a container can be called.
var agentName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`)
})

// CheckName says whether a name can be an agent's: letters, digits, "_" and "-",
// at most 40, the first a letter or digit.
func CheckName(name string) error {
	if !agentName().MatchString(name) {
		if len(name) > 40 {
			name = name[:40] + "…"
		}
		return fmt.Errorf("%q cannot be the name of an agent: use up to 40 of A-Z, a-z, 0-9, _ and -, the first a letter or digit", name)
	}
	return nil
}

// Get returns the agent with exactly this name.
func (r *Registry) Get(name string) (Agent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	i, ok := slices.BinarySearchFunc(r.agents, name, func(a Agent, name string) int { return strings.Compare(a.Name, name) })
	if !ok {
		return Agent{}, false
	}
	return r.agents[i].clone(), true
}

// List returns all agents, by name.
func (r *Registry) List() []Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	all := make([]Agent, len(r.agents))
	for i, a := range r.agents {
		all[i] = a.clone()
	}
	return all
}

// ByToken returns the agent a token belongs to. The time it takes says nothing
// about the tokens there are. An empty token belongs to nobody, and neither does
// one that two agents have: nobody could say who calls.
func (r *Registry) ByToken(token string) (Agent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	digest := sha256.Sum256([]byte(token))
	found, n := -1, 0
	for i := range r.agents {
		same := subtle.ConstantTimeCompare(r.digests[i][:], digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
		n += same
	}
	if n != 1 || token == "" {
		return Agent{}, false
	}
	return r.agents[found].clone(), true
}

// Allows reports whether an agent may read a secret: its allow-list names it, in
// the spelling with hyphens or the one with underscores.
func (r *Registry) Allows(agent, secretName string) bool {
	a, ok := r.Get(agent)
	return ok && a.Allows(secretName)
}

// Allows reports whether the allow-list names a secret, in the spelling with
// hyphens or the one with underscores.
func (a Agent) Allows(secretName string) bool {
	return secretWord().MatchString(secretName) && slices.ContainsFunc(a.Secrets, func(s string) bool {
		return variant(s) == variant(secretName)
	})
}

// secretWord is what the name of a secret can be.
var secretWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
})

// variant is what the spellings of a secret's name have in common.
func variant(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Err says what is wrong with the file as it is now: nil, or an error that wraps
// ErrCorrupt or comes from the file system. The agents are those of the last
// good state then.
func (r *Registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	return r.broken
}

func (a Agent) clone() Agent {
	a.Secrets = slices.Clone(a.Secrets)
	return a
}

// A stamp tells one state of the file from another.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
	// fresh is set when the file had changed so shortly before it was read that
	// the next change could leave the same stamp.
	fresh bool
}

// settle is longer than a tick of any kernel's file times.
const settle = 50 * time.Millisecond

// same compares two states, however old they were when they were read.
func (s stamp) same(o stamp) bool {
	s.fresh, o.fresh = false, false
	return s == o
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{fresh: true}
	}
	return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, fresh: time.Since(info.ModTime()) < settle}
}

func (r *Registry) refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
}

// refreshLocked brings the agents up to what the file says.
func (r *Registry) refreshLocked() {
	info, err := os.Stat(r.opts.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.agents, r.digests, r.seen, r.broken = nil, nil, stamp{}, nil
		return
	case err != nil:
		r.complain(err, r.seen)
		return
	}
	if now := stampOf(info); now == r.seen && !now.fresh {
		return
	}
	doc, seen, err := readFile(r.opts.Path)
	if err != nil {
		r.complain(err, seen)
		return
	}
	agents, odd, err := doc.agents()
	if err != nil {
		r.complain(fmt.Errorf("%s: %w: %w", r.opts.Path, ErrCorrupt, err), seen)
		return
	}
	if r.broken != nil {
		r.log.Info("the registry of agents is good again", "file", r.opts.Path)
	}
	if !seen.same(r.seen) {
		r.warn(info, agents, odd)
	}
	r.agents, r.seen, r.broken = agents, seen, nil
	r.digests = make([][sha256.Size]byte, len(agents))
	for i, a := range agents {
		if !a.Token.IsZero() {
			r.digests[i] = sha256.Sum256([]byte(a.Token.Reveal()))
		}
	}
}

// complain keeps the last good state and says once what is wrong.
func (r *Registry) complain(err error, seen stamp) {
	if r.broken == nil || r.broken.Error() != err.Error() {
		r.log.Warn("agents.json cannot be used; what it said before goes on", "err", err, "agents", len(r.agents))
	}
	r.seen, r.broken = seen, err
}

// warn says what a person should look at, once for each change.
func (r *Registry) warn(info fs.FileInfo, agents []Agent, odd []string) {
	for _, o := range odd {
		r.log.Warn("an entry of agents.json is no agent and is ignored", "entry", o, "file", r.opts.Path)
	}
	tokens := map[[sha256.Size]byte]string{}
	for _, a := range agents {
		if a.Token.IsZero() {
			continue
		}
		digest := sha256.Sum256([]byte(a.Token.Reveal()))
		if other := tokens[digest]; other != "" {
			r.log.Warn("two agents have the same token; it identifies neither", "one", other, "other", a.Name, "file", r.opts.Path)
		}
		tokens[digest] = a.Name
	}
	if len(tokens) > 0 && info.Mode().Perm()&0o077 != 0 {
		r.log.Warn("agents.json holds tokens and can be read by other users: chmod 600 it", "file", r.opts.Path, "mode", info.Mode().Perm())
	}
}

// readFile reads and parses the file. The stamp is that of what was read.
func readFile(path string) (document, stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	seen := stampOf(info)
	if !info.Mode().IsRegular() {
		return nil, seen, fmt.Errorf("%s: %w: not a file", path, ErrCorrupt)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, seen, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, seen, fmt.Errorf("%s: %w: more than %d bytes", path, ErrCorrupt, maxFile)
	}
	doc, err := parse(data)
	if err != nil {
		return nil, seen, fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	return doc, seen, nil
}
