// Package file holds the tools that read, write, edit and attach files. Bytes
// go through the sandbox and never through a shell; every path is judged by the
// policy first, under its own name and under the name of the file that links
// lead to. What a sandbox can reach and what the policy refuses is decided
// there and not here.
package file

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/picture"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/tool"
)

//go:embed spec
var specs embed.FS

// A Judge decides about a path before it is used. It must be safe for
// concurrent use.
type Judge interface {
	Path(access policy.Access, path, cwd string) policy.Verdict
}

// A Recorder keeps refusals. *audit.Log is one.
type Recorder interface {
	Append(audit.Entry)
}

// Options are the parts of the file tools.
type Options struct {
	Sandbox sandbox.Sandbox // required
	Judge   Judge           // required, see PolicyOff
	Audit   Recorder        // required
	// Workspace is the directory, on the host, that attach is confined to.
	// Required, absolute.
	Workspace string
	// Dir is what relative paths are relative to, as the sandbox calls it.
	// Empty means the workspace.
	Dir string
	// Pictures makes images smaller. nil means one of our own.
	Pictures *picture.Reducer
	// Memory is asked before MEMORY.md, CONSTITUTION.md or SYSTEM.md changes
	// from old to new; path is the file as the sandbox calls it. Its error is
	// what the model is told, and the file stays as it was. nil allows all.
	Memory func(path, old, new string) error
	// PolicyOff lets every path through unjudged.
	PolicyOff bool
}

// files is what the tools share.
type files struct {
	opts  Options
	locks locks
}

// New returns read, write, edit and attach.
func New(opts Options) ([]tool.Tool, error) {
	switch {
	case opts.Sandbox == nil:
		return nil, errors.New("file tools need a sandbox")
	case opts.Judge == nil:
		return nil, errors.New("file tools need a policy")
	case opts.Audit == nil:
		return nil, errors.New("file tools need an audit record")
	case !filepath.IsAbs(opts.Workspace):
		return nil, fmt.Errorf("workspace %q is not an absolute path", opts.Workspace)
	}
	if opts.Dir == "" {
		opts.Dir = opts.Sandbox.Path(opts.Workspace)
	}
	if opts.Pictures == nil {
		opts.Pictures = picture.NewReducer(0)
	}
	f := &files{opts: opts, locks: locks{held: map[string]*lock{}}}
	return []tool.Tool{&read{f}, &write{f}, &edit{f}, &attach{f}}, nil
}

// spec reads the description and schema of a tool.
func spec(name string) tool.Spec {
	text, errText := specs.ReadFile("spec/" + name + ".md")
	schema, errSchema := specs.ReadFile("spec/" + name + ".json")
	if err := errors.Join(errText, errSchema); err != nil {
		panic(err) // the binary was built without its own files
	}
	return tool.Spec{Name: name, Description: strings.TrimSpace(string(text)), Schema: schema}
}

// aborted is the result of a call whose turn has ended.
func aborted() tool.Result { return tool.Fail("Aborted") }

// failed words an error of the sandbox.
func failed(ctx context.Context, err error) tool.Result {
	if ctx.Err() != nil {
		return aborted()
	}
	return tool.Fail(tool.Valid(err.Error()))
}

// open judges the path of a call and returns the file it names, with its links
// followed. refusal is not empty when it may not be used.
func (f *files) open(ctx context.Context, call tool.Call, access policy.Access, path string) (target, refusal string) {
	clean := filepath.Clean(path)
	if !filepath.IsAbs(clean) {
		clean = filepath.Join(f.opts.Dir, clean)
	}
	if refusal := f.judge(call, access, clean); refusal != "" {
		return "", refusal
	}
	r, ok := f.opts.Sandbox.(sandbox.Resolver)
	if !ok {
		return clean, ""
	}
	real, err := r.Resolve(ctx, call.Request.Conversation, clean)
	if err != nil {
		return "", tool.Valid(err.Error())
	}
	if real != clean {
		if refusal := f.judge(call, access, real); refusal != "" {
			return "", refusal
		}
	}
	return real, ""
}

func (f *files) judge(call tool.Call, access policy.Access, path string) string {
	if f.opts.PolicyOff {
		return ""
	}
	v := f.opts.Judge.Path(access, path, f.opts.Dir)
	entry := audit.Entry{
		Channel:  call.Request.Conversation.Channel(),
		Command:  fmt.Sprintf("%s %s", access, path),
		Decision: audit.Denied,
		Turn:     string(call.Request.ID),
		Origin:   string(call.Request.Origin),
		User:     call.Request.Message.From.ID,
		Rule:     v.Rule,
		Sandbox:  f.opts.Sandbox.Name(),
	}
	switch v.Decision {
	case policy.Allow:
		return ""
	case policy.Confirm:
		entry.Decision = audit.ConfirmationRequired
		f.opts.Audit.Append(entry)
		return tool.Valid(fmt.Sprintf("Path held by policy: %s. A file tool cannot ask for consent: do it with a bash command, which can.", v.Reason))
	}
	f.opts.Audit.Append(entry)
	return tool.Valid(fmt.Sprintf("Path refused by policy: %s. Do it without this file, or tell the user what you need and why.", v.Reason))
}

// locks let one call at a time change a file.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	turn    chan struct{} // holds a token while the file is being changed
	waiting int           // calls that hold or wait; guarded by locks.mu
}

// take waits for the file and returns how to give it back; nil if ctx ended
// first.
func (l *locks) take(ctx context.Context, path string) (release func()) {
	l.mu.Lock()
	k := l.held[path]
	if k == nil {
		k = &lock{turn: make(chan struct{}, 1)}
		l.held[path] = k
	}
	k.waiting++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		if k.waiting--; k.waiting == 0 {
			delete(l.held, path)
		}
		l.mu.Unlock()
	}
	select {
	case k.turn <- struct{}{}:
		return func() {
			<-k.turn
			leave()
		}
	case <-ctx.Done():
		leave()
		return nil
	}
}
