package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/tool"
)

// maxEdit is the largest file whose old content is looked at.
const maxEdit = 32 << 20

// redacted is what stands in a text where a secret was. Written back, it would
// destroy the secret.
const redacted = "[REDACTED-SECRET]"

type write struct{ *files }

func (w *write) Spec() tool.Spec { return spec("write") }

func (w *write) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	path, content := args.String("path"), args.Text("content")
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if ctx.Err() != nil {
		return aborted()
	}
	target, refusal := w.open(ctx, call, policy.Write, path)
	if refusal != "" {
		return tool.Fail(refusal)
	}
	release := w.locks.take(ctx, target)
	if release == nil {
		return aborted()
	}
	defer release()
	if isMemory(target) || strings.Contains(content, redacted) {
		old, err := w.old(ctx, call, target)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(ctx, err)
		}
		if refusal := w.guard(target, old, content); refusal != "" {
			return tool.Fail(refusal)
		}
	}
	if err := w.opts.Sandbox.WriteFile(ctx, call.Request.Conversation, target, []byte(content)); err != nil {
		return failed(ctx, err)
	}
	return tool.Result{Text: fmt.Sprintf("Successfully wrote %d bytes to %s", len(content), path)}
}

// old returns the content of a file that is about to change.
func (f *files) old(ctx context.Context, call tool.Call, target string) (string, error) {
	data, size, err := f.opts.Sandbox.ReadFile(ctx, call.Request.Conversation, target, 0, maxEdit)
	if err != nil {
		return "", err
	}
	if size > int64(len(data)) {
		return "", fmt.Errorf("%s is %s large, more than the %s that can be edited: use bash", target, tool.Size(size), tool.Size(maxEdit))
	}
	return string(data), nil
}

// isMemory reports whether a file is one of those that carry what Iris knows
// from one turn to the next.
func isMemory(path string) bool {
	switch filepath.Base(path) {
	case "MEMORY.md", "CONSTITUTION.md", "SYSTEM.md":
		return true
	}
	return false
}

// guard returns why a file may not change from old to new, or "".
func (f *files) guard(target, old, new string) string {
	if strings.Count(new, redacted) > strings.Count(old, redacted) {
		return fmt.Sprintf("The new text holds %s where the file has something else: that mark stands for a secret, which writing it would destroy. Leave that part of the file alone.", redacted)
	}
	if isMemory(target) && f.opts.Memory != nil {
		if err := f.opts.Memory(target, old, new); err != nil {
			return tool.Valid(err.Error())
		}
	}
	return ""
}
