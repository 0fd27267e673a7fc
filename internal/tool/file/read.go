package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/iris-operator/iris/internal/picture"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/tool"
)

const (
	sniffed  = 4100     // bytes that tell what a file is
	piece    = 4 << 20  // read at once
	maxImage = 64 << 20 // larger image files are not loaded
	maxJSON  = 10 << 20 // larger JSON is paged like text
)

type read struct{ *files }

func (r *read) Spec() tool.Spec { return spec("read") }

func (r *read) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	path := args.String("path")
	offset, _ := args.Whole("offset")
	limit, limited := args.Whole("limit")
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if limited && limit < 1 {
		return tool.Fail(`argument "limit" must be at least 1`)
	}
	if ctx.Err() != nil {
		return aborted()
	}
	target, refusal := r.open(ctx, call, policy.Read, path)
	if refusal != "" {
		return tool.Fail(refusal)
	}
	head, size, err := r.opts.Sandbox.ReadFile(ctx, call.Request.Conversation, target, 0, sniffed)
	if err != nil {
		return failed(ctx, err)
	}
	if mime := picture.Sniff(head); mime != "" {
		return r.image(ctx, call, target, mime, size)
	}
	return r.text(ctx, call, target, path, head, size, max(offset, 1)-1, limit)
}

// text returns a page, or the summary of a JSON file that is too long for one
// page when no page was asked for.
func (r *read) text(ctx context.Context, call tool.Call, target, path string, head []byte, size int64, from, limit int) tool.Result {
	p := pager{from: from, limit: limit}
	_, _ = p.Write(head) // a pager takes everything
	for at := int64(len(head)); at < size; {
		data, _, err := r.opts.Sandbox.ReadFile(ctx, call.Request.Conversation, target, at, piece)
		if err != nil {
			return failed(ctx, err)
		}
		if len(data) == 0 {
			break // it became shorter
		}
		_, _ = p.Write(data)
		at += int64(len(data))
	}
	result, cut := p.page(path)
	start := bytes.TrimLeft(head, " \t\r\n")
	if !cut || from > 0 || limit > 0 || size > maxJSON || len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return result
	}
	data, _, err := r.opts.Sandbox.ReadFile(ctx, call.Request.Conversation, target, 0, maxJSON)
	if err != nil {
		return failed(ctx, err)
	}
	if s, ok := tool.Summarize(tool.Valid(string(data))); ok {
		return tool.Result{Text: fmt.Sprintf("%s\n\n[JSON of %s in %d lines, summarized. Use offset and limit to read its text]", s, tool.Size(size), p.total())}
	}
	return result
}

func (r *read) image(ctx context.Context, call tool.Call, target, mime string, size int64) tool.Result {
	if !call.Images {
		return tool.Result{Text: fmt.Sprintf("The file is an image (%s), and the active model cannot take images.", mime)}
	}
	if size > maxImage {
		return tool.Fail(fmt.Sprintf("The image is %s large, more than the %s that can be read. Make a smaller one first.", tool.Size(size), tool.Size(maxImage)))
	}
	data, _, err := r.opts.Sandbox.ReadFile(ctx, call.Request.Conversation, target, 0, maxImage)
	if err != nil {
		return failed(ctx, err)
	}
	text := fmt.Sprintf("Read image file [%s]", mime)
	p, err := r.opts.Pictures.Reduce(ctx, data)
	switch {
	case errors.Is(err, picture.ErrUndecodable): // the model's own decoder may know better
		p = picture.Picture{Mime: mime, Data: data}
		if p.Encoded() > picture.MaxEncoded {
			return tool.Fail(fmt.Sprintf("The file says it is an image (%s), but it cannot be decoded and is too large to be sent as it is: %v", mime, err))
		}
	case err != nil:
		return failed(ctx, err)
	case p.Encoded() > picture.MaxEncoded:
		return tool.Fail(fmt.Sprintf("The image (%s, %s) is too large for a model. %s Take a frame of it, or make a smaller one.", mime, tool.Size(size), p.Note))
	}
	if p.Note != "" {
		text += "\n" + p.Note
	}
	return tool.Result{Text: text, Images: []tool.Image{{Mime: p.Mime, Data: p.Data}}}
}
