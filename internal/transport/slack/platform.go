package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/mrkdwn"
	"github.com/iris-operator/iris/internal/turn"
)

// Traits implements transport.Platform.
func (s *Slack) Traits() transport.Traits {
	return transport.Traits{MaxChars: s.opts.MaxChars, RestInThread: true}
}

// Place implements transport.Platform. A session is shown in its thread; what
// somebody else than Iris answers, in the thread of its message.
func (s *Slack) Place(conv chat.Address, a *turn.Accepted) (p transport.Place, ok bool) {
	switch conv.Space {
	case chat.Slack:
		p.Chat = conv.ID
		if a != nil {
			p.Thread = a.Message.Thread
			if p.Thread == "" && a.Runner != s.opts.Runner && chat.IsSlackTime(a.Message.ID) {
				p.Thread = a.Message.ID
			}
		}
	case chat.Session:
		p.Chat, p.Thread, ok = chat.ThreadOf(conv)
		if !ok && s.opts.Thread != nil {
			p.Chat, p.Thread, ok = s.opts.Thread(conv)
		}
		if !ok || !chat.IsSlackTime(p.Thread) {
			return transport.Place{}, false
		}
	default:
		return transport.Place{}, false
	}
	if !s.listens(p.Chat) {
		return transport.Place{}, false
	}
	return p, true
}

// markType is the type of the metadata that Iris's messages carry.
const markType = "iris_message"

// options are what a message of ours always has.
func options(m transport.Outgoing) ([]slackgo.MsgOption, error) {
	text, blocks := m.Body.Text, []slackgo.Block(nil)
	extra := m.Body.Extra
	if m.Repeat {
		text = mrkdwn.Escape(transport.RepeatLabel) + "\n" + text
		if len(extra) > 0 { // people see the blocks and not the text
			label, err := json.Marshal(map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": mrkdwn.Escape(transport.RepeatLabel)}})
			if err != nil {
				return nil, err
			}
			extra = []byte("[" + string(label) + "," + strings.TrimPrefix(string(extra), "["))
		}
	}
	if len(extra) > 0 {
		var b slackgo.Blocks
		if err := json.Unmarshal(extra, &b); err != nil {
			return nil, &transport.SendError{Fault: transport.BadFormat, Err: fmt.Errorf("blocks: %w", err)}
		}
		blocks = b.BlockSet
	}
	opts := []slackgo.MsgOption{
		slackgo.MsgOptionText(text, false), slackgo.MsgOptionBlocks(blocks...), slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(),
		slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: markType, EventPayload: map[string]any{"turn": string(m.Mark.Turn), "part": m.Mark.Part}}),
	}
	if m.Body.Format == plainFormat {
		opts = append(opts, slackgo.MsgOptionDisableMarkdown())
	}
	return opts, nil
}

// Post implements transport.Platform.
func (s *Slack) Post(ctx context.Context, p transport.Place, m transport.Outgoing) (id string, err error) {
	opts, err := options(m)
	if err != nil {
		return "", err
	}
	if p.Thread != "" {
		opts = append(opts, slackgo.MsgOptionTS(p.Thread))
	}
	_, ts, err := s.api.PostMessageContext(ctx, p.Chat, opts...)
	if err == nil && ts == "" {
		err = errors.New("Slack gave the message no id")
	}
	if err != nil {
		return "", sendError(err)
	}
	return ts, nil
}

// Edit implements transport.Platform.
func (s *Slack) Edit(ctx context.Context, p transport.Place, id string, m transport.Outgoing) error {
	opts, err := options(m)
	if err != nil {
		return err
	}
	if _, _, _, err := s.api.UpdateMessageContext(ctx, p.Chat, id, opts...); err != nil {
		return sendError(err)
	}
	return nil
}

// Delete implements transport.Platform.
func (s *Slack) Delete(ctx context.Context, p transport.Place, id string) error {
	if _, _, err := s.api.DeleteMessageContext(ctx, p.Chat, id); err != nil {
		return sendError(err)
	}
	return nil
}

// Upload implements transport.Platform. Nothing is seen before its last step.
func (s *Slack) Upload(ctx context.Context, p transport.Place, f transport.Upload) (id string, err error) {
	r, err := f.Open()
	if err != nil {
		return "", &transport.SendError{Fault: transport.Refused, Err: err}
	}
	defer r.Close()
	name := firstOf(f.Name, "file")
	at, err := s.api.GetUploadURLExternalContext(ctx, slackgo.GetUploadURLExternalParameters{FileName: name, FileSize: int(f.Size)})
	if err == nil && !s.trusted(at.UploadURL) {
		err = fmt.Errorf("%q is not an address of Slack", at.UploadURL)
	}
	if err == nil {
		err = s.api.UploadToURL(ctx, slackgo.UploadToURLParameters{UploadURL: at.UploadURL, Reader: r, Filename: name})
	}
	if err != nil {
		e := sendError(err)
		if f.Size == 0 {
			e.Fault = transport.Refused
		}
		e.Maybe = false // nobody sees a file that is not completed
		return "", e
	}
	if err := s.uploads.put(f.Mark, at.FileID); err != nil {
		return "", &transport.SendError{Fault: transport.Unreachable, Err: err}
	}
	comment := ""
	if f.Repeat {
		comment = mrkdwn.Escape(transport.RepeatLabel)
	}
	_, err = s.api.CompleteUploadExternalContext(ctx, slackgo.CompleteUploadExternalParameters{
		Files: []slackgo.FileSummary{{ID: at.FileID, Title: firstOf(f.Title, name)}}, Channel: p.Chat, ThreadTimestamp: p.Thread, InitialComment: comment})
	if err != nil {
		return "", sendError(err)
	}
	return at.FileID, nil
}

// findPages bounds how far a message is looked for.
const findPages = 5

// Find implements transport.Platform.
func (s *Slack) Find(ctx context.Context, p transport.Place, m transport.Mark, since time.Time) (id string, err error) {
	file, err := s.uploads.get(m)
	if err != nil {
		return "", transport.ErrCannotTell
	}
	oldest := stamp(since.Add(-overlap))
	cursor := ""
	for range findPages {
		var part []slackgo.Message
		if p.Thread != "" {
			part, _, cursor, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: p.Chat, Timestamp: p.Thread,
				Oldest: oldest, Limit: backlogPage, Cursor: cursor, IncludeAllMetadata: true})
		} else {
			var r *slackgo.GetConversationHistoryResponse
			r, err = s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{ChannelID: p.Chat,
				Oldest: oldest, Limit: backlogPage, Cursor: cursor, IncludeAllMetadata: true})
			if err == nil {
				part, cursor = r.Messages, r.ResponseMetaData.NextCursor
			}
		}
		if err != nil {
			if word(err) == "missing_scope" {
				return "", transport.ErrCannotTell
			}
			return "", sendError(err)
		}
		for _, x := range part {
			if x.Metadata.EventType == markType && x.Metadata.EventPayload["turn"] == string(m.Turn) && x.Metadata.EventPayload["part"] == m.Part {
				return x.Timestamp, nil
			}
			for _, f := range x.Files {
				if file != "" && f.ID == file {
					return x.Timestamp, nil
				}
			}
		}
		if cursor == "" {
			break
		}
	}
	if cursor != "" { // there is more than was looked at
		return "", transport.ErrCannotTell
	}
	return "", transport.ErrNotThere
}

// word is Slack's own word for an error, "" if it is none of Slack's.
func word(err error) string {
	var e slackgo.SlackErrorResponse
	var p *slackgo.SlackErrorResponse
	switch {
	case errors.As(err, &e):
		return e.Err
	case errors.As(err, &p):
		return p.Err
	}
	return ""
}

// sendError says what an error of the Web API means.
func sendError(err error) *transport.SendError {
	e := &transport.SendError{Fault: transport.Unreachable, Maybe: true, Err: err}
	var known *transport.SendError
	var limited *slackgo.RateLimitedError
	var status slackgo.StatusCodeError
	var op *net.OpError
	switch w := word(err); {
	case errors.As(err, &known):
		return known
	case errors.As(err, &limited):
		e.Fault, e.Maybe, e.After = transport.Limited, false, limited.RetryAfter
	case w != "":
		e.Fault, e.Maybe = fault(w)
	case errors.As(err, &status):
		if status.Code < http.StatusInternalServerError {
			e.Fault, e.Maybe = transport.Refused, false
		}
	case errors.As(err, &op) && op.Op == "dial":
		e.Maybe = false
	}
	return e
}

// fault sorts Slack's words. maybe says that it may have happened all the same.
func fault(w string) (f transport.Fault, maybe bool) {
	switch w {
	case "msg_too_long", "msg_blocks_too_long":
		return transport.TooLong, false
	case "invalid_blocks", "invalid_blocks_format", "invalid_text", "invalid_attachments", "invalid_metadata_format":
		return transport.BadFormat, false
	case "message_not_found", "cant_update_message", "cant_delete_message", "edit_window_closed", "channel_not_found", "not_in_channel", "is_archived",
		"thread_not_found", "user_not_found", "cannot_reply_to_message":
		return transport.Gone, false
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type":
		return transport.Unauthorized, false
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return transport.Limited, false
	case "internal_error", "fatal_error":
		return transport.Unreachable, true
	case "service_unavailable", "request_timeout", "team_added_to_org", "too_many_websockets":
		return transport.Unreachable, false
	}
	return transport.Refused, false
}
