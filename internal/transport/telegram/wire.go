package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/transport"
)

const (
	// callTime bounds a call that sends no file.
	callTime = 15 * time.Second
	// pollGrace is what an answer to a poll may come late.
	pollGrace = 3 * time.Second
	// maxAnswer bounds an answer of the server.
	maxAnswer = 16 << 20
	// maxFile is what a bot may download, maxUpload what it may send.
	maxFile   = 20 << 20
	maxUpload = 50 << 20
)

// connect makes the client. It calls nobody.
func (t *Telegram) connect() (err error) {
	if t.client = t.opts.HTTP; t.client == nil {
		d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
		t.client = &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, TLSHandshakeTimeout: 5 * time.Second,
				MaxIdleConnsPerHost: 16, IdleConnTimeout: 60 * time.Second, ForceAttemptHTTP2: true,
			},
			// The address holds the token.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	t.api, err = bot.New(t.opts.Token.Reveal(), bot.WithSkipGetMe(), bot.WithServerURL(t.opts.API),
		bot.WithHTTPClient(t.opts.PollTime, bounded{t.client}),
		bot.WithErrorsHandler(func(err error) { t.log.Debug("bot API", "err", err) }))
	return err
}

// bounded cuts answers that are too long.
type bounded struct{ *http.Client }

// Do implements bot.HttpClient.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.Client.Do(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// An answer is what the server says to a call.
type answer struct {
	OK          bool              `json:"ok"`
	Result      []json.RawMessage `json:"result"`
	Code        int               `json:"error_code"`
	Description string            `json:"description"`
	Parameters  struct {
		RetryAfter int `json:"retry_after"`
	} `json:"parameters"`
}

// errConflict: another process polls with the same token, or a webhook does.
var errConflict = errors.New("409: another process, or a webhook, gets the messages of this bot; only one may")

// updates asks for what has come since offset, which confirms all before it. The
// library's own poller confirms what nobody has stored.
func (t *Telegram) updates(ctx context.Context, offset int64, wait time.Duration) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+pollGrace)
	defer cancel()
	body, err := json.Marshal(map[string]any{"offset": offset, "timeout": int(wait / time.Second), "limit": 100,
		"allowed_updates": []string{models.AllowedUpdateMessage, models.AllowedUpdateCallbackQuery}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.opts.API+"/bot"+t.opts.Token.Reveal()+"/getUpdates", bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address of the Bot API server is wrong")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := bounded{t.client}.Do(req)
	if err != nil {
		return nil, masked(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("status %d, and no JSON: %.80q", resp.StatusCode, data)
	}
	switch {
	case a.OK:
		return a.Result, nil
	case a.Code == http.StatusConflict:
		return nil, fmt.Errorf("%w (%.200s)", errConflict, a.Description)
	case a.Code == http.StatusTooManyRequests:
		return nil, &transport.SendError{Fault: transport.Limited, After: time.Duration(a.Parameters.RetryAfter) * time.Second, Err: errors.New(a.Description)}
	case a.Code == http.StatusUnauthorized || a.Code == http.StatusNotFound:
		return nil, &transport.SendError{Fault: transport.Unauthorized, Err: fmt.Errorf("the token is not good: %.200s", a.Description)}
	}
	return nil, fmt.Errorf("status %d: %.200s", a.Code, a.Description)
}

// masked is err without the address, which holds the token.
func masked(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", u.Op, u.Err)
	}
	return err
}

// fault says what a failed call of the library means. Its words are those of the
// Bot API, in the case and with the marks it happens to use.
func fault(err error) *transport.SendError {
	var known *transport.SendError
	if errors.As(err, &known) {
		return known
	}
	var many *bot.TooManyRequestsError
	var moved *bot.MigrateError
	e := &transport.SendError{Fault: transport.Unreachable, Err: short(err)}
	switch {
	case errors.As(err, &many):
		e.Fault, e.After = transport.Limited, time.Duration(many.RetryAfter)*time.Second
	case errors.As(err, &moved):
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound):
		e.Fault = transport.Unauthorized
	case errors.Is(err, bot.ErrorForbidden):
		e.Fault = transport.Gone
	case errors.Is(err, bot.ErrorBadRequest):
		e.Fault = refusal(err.Error())
	case errors.Is(err, bot.ErrorConflict):
	default:
		e.Maybe = !neverSent(err)
	}
	return e
}

// refusal reads the sentence of a bad request.
func refusal(text string) transport.Fault {
	text = strings.ToLower(text)
	for _, c := range []struct {
		words string
		fault transport.Fault
	}{
		{"can't parse entities", transport.BadFormat},
		{"message is too long", transport.TooLong},
		{"message_too_long", transport.TooLong},
		{"caption is too long", transport.TooLong},
		{"message to edit not found", transport.Gone},
		{"message can't be edited", transport.Gone},
		{"message to delete not found", transport.Gone},
		{"message_id_invalid", transport.Gone},
		{"chat not found", transport.Gone},
		{"thread not found", transport.Gone},
		{"topic_closed", transport.Gone},
		{"topic_deleted", transport.Gone},
		{"have no rights to send", transport.Gone},
	} {
		if strings.Contains(text, c.words) {
			return c.fault
		}
	}
	return transport.Refused
}

// short cuts an error that quotes a whole page.
func short(err error) error {
	if s := err.Error(); len(s) > 300 {
		return errors.New(strings.ToValidUTF8(s[:300], "") + "…")
	}
	return masked(err)
}

// neverSent reports that a call cannot have had an effect.
func neverSent(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns)
}

// download opens a file that somebody sent. The caller closes it.
func (t *Telegram) download(ctx context.Context, id string) (io.ReadCloser, error) {
	f, err := t.api.GetFile(ctx, &bot.GetFileParams{FileID: id})
	if err != nil {
		return nil, fault(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.api.FileDownloadLink(f), nil)
	if err != nil {
		return nil, errors.New("the server gave no good address")
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, masked(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Body, nil
}

// pause is how long to wait after the nth failure in a row, from 0.
func pause(n int, err error) time.Duration {
	var e *transport.SendError
	if errors.As(err, &e) && e.Fault == transport.Limited && e.After > 0 {
		return e.After
	}
	most := 5 * time.Second
	switch {
	case errors.Is(err, errConflict):
		// Whoever else it is gets a chance.
		return 5*time.Second + min(time.Duration(n)*time.Second, 10*time.Second)
	case e != nil && e.Fault == transport.Unauthorized:
		most = 30 * time.Second
	}
	return min(200*time.Millisecond<<min(n, 10), most)
}

// sleep waits, and returns an error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
