package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

type attach struct{ *files }

func (a *attach) Spec() tool.Spec { return spec("attach") }

func (a *attach) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	path, title := args.String("path"), args.Optional("title")
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if ctx.Err() != nil {
		return aborted()
	}
	target, refusal := a.open(ctx, call, policy.Read, path)
	if refusal != "" {
		return tool.Fail(refusal)
	}
	local, refusal := a.local(path, target)
	if refusal != "" {
		return tool.Fail(tool.Valid(refusal))
	}
	name := oneLine(filepath.Base(filepath.Clean(path)))
	err := call.Emit(turn.Event{Kind: turn.FileOut, Filename: name, Title: oneLine(title), Local: local})
	if err != nil {
		return failed(ctx, fmt.Errorf("attach %s: %w", name, err))
	}
	if title = oneLine(title); title != "" {
		name = title
	}
	return tool.Result{Text: "Attached file: " + name}
}

// local returns where the file lies in the workspace, links followed, with
// forward slashes; refusal says why it cannot be attached.
func (a *attach) local(path, target string) (local, refusal string) {
	outside := fmt.Sprintf("%s is outside of the workspace. Copy it to %s and attach the copy.", path, a.opts.Sandbox.Path(a.opts.Workspace))
	host, ok := a.opts.Sandbox.Host(target)
	if !ok {
		// The workspace may itself be reached through a link.
		ws, err := filepath.EvalSymlinks(a.opts.Workspace)
		if err != nil || target != ws && !strings.HasPrefix(target, ws+"/") {
			return "", outside
		}
		host = filepath.Join(a.opts.Workspace, strings.TrimPrefix(target, ws))
	}
	rel, err := filepath.Rel(a.opts.Workspace, host)
	if err != nil || !filepath.IsLocal(rel) {
		return "", outside
	}
	root, err := os.OpenRoot(a.opts.Workspace)
	if err != nil {
		return "", err.Error()
	}
	defer root.Close()
	// The root refuses whatever leads out of it, also a link that a sandbox
	// without Resolve could not follow.
	info, err := root.Stat(rel)
	switch {
	case err != nil && os.IsNotExist(err):
		return "", fmt.Sprintf("%s: no such file", path)
	case err != nil:
		return "", outside
	case !info.Mode().IsRegular():
		return "", fmt.Sprintf("%s is not a regular file. Pack a directory into an archive and attach that.", path)
	case info.Size() == 0:
		return "", fmt.Sprintf("%s is empty, and empty files cannot be sent.", path)
	}
	return filepath.ToSlash(rel), ""
}

// oneLine makes a name of one line of printable characters.
func oneLine(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, tool.Valid(name)))
}
