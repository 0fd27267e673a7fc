package file

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/tool"
)

type edit struct{ *files }

func (e *edit) Spec() tool.Spec { return spec("edit") }

func (e *edit) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	path, oldText, newText := args.String("path"), args.Text("oldText"), args.Text("newText")
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if oldText == "" {
		return tool.Fail(`argument "oldText" is empty: to make a file use write`)
	}
	if ctx.Err() != nil {
		return aborted()
	}
	target, refusal := e.open(ctx, call, policy.Write, path)
	if refusal != "" {
		return tool.Fail(refusal)
	}
	// The diff shows lines around the change, so what may be edited is what
	// may be read.
	if _, refusal := e.open(ctx, call, policy.Read, path); refusal != "" {
		return tool.Fail(refusal)
	}
	release := e.locks.take(ctx, target)
	if release == nil {
		return aborted()
	}
	defer release()
	before, err := e.old(ctx, call, target)
	if err != nil {
		return failed(ctx, err)
	}
	after, wrong := replaced(path, before, oldText, newText)
	if wrong != "" {
		return tool.Fail(wrong)
	}
	if refusal := e.guard(target, before, after); refusal != "" {
		return tool.Fail(refusal)
	}
	if err := e.opts.Sandbox.WriteFile(ctx, call.Request.Conversation, target, []byte(after)); err != nil {
		return failed(ctx, err)
	}
	return tool.Result{
		Text: fmt.Sprintf("Successfully replaced text in %s. Changed %d characters to %d characters.",
			path, utf8.RuneCountInString(oldText), utf8.RuneCountInString(newText)),
		Display: tool.Valid(diff(before, after)),
	}
}

// replaced puts newText in place of oldText, or says why that cannot be.
func replaced(path, before, oldText, newText string) (after, wrong string) {
	switch n := occurrences(before, oldText); {
	case n == 0:
		wrong = fmt.Sprintf("Could not find the exact text in %s: it must match exactly, blanks and line ends included.", path)
		if strings.Contains(before, "\r\n") && !strings.Contains(oldText, "\r") {
			wrong += ` The file ends its lines with \r\n.`
		}
		return "", wrong
	case n > 1:
		return "", fmt.Sprintf("Found %d occurrences of the text in %s: it must be unique, so take more of the lines around it.", n, path)
	case oldText == newText:
		return "", fmt.Sprintf("No changes made to %s: the new text is the old text.", path)
	}
	return strings.Replace(before, oldText, newText, 1), ""
}

// occurrences counts the places where text occurs in s, overlapping ones too,
// for each of them could be meant.
func occurrences(s, text string) (n int) {
	for {
		i := strings.Index(s, text)
		if i < 0 {
			return n
		}
		n++
		_, w := utf8.DecodeRuneInString(s[i:])
		s = s[i+w:]
	}
}
