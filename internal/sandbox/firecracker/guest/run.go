package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// A run is one command of a Client.
type run struct {
	client *Client
	id     string
	cmd    sandbox.Command
	began  time.Time

	// streaming is set when the guest has taken the command and sends frames.
	streaming atomic.Bool
}

// maxAnswer bounds a plain answer: two streams, each byte escaped.
const maxAnswer = 128 << 20

// do sends the request and sees the command to its end. The end of ctx is told
// to the guest, which ends the command and tells how; only a guest that does not
// do so in time is hung up on.
func (r *run) do(ctx context.Context, body io.Reader) (sandbox.Exit, error) {
	hard, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hangUp(nil)
	if r.cmd.Timeout > 0 {
		after := r.cmd.Timeout + r.client.opts.Grace
		t := time.AfterFunc(after, func() { hangUp(fmt.Errorf("the guest did not end the command within %v", after)) })
		defer t.Stop()
	}
	over, aborted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(aborted)
		select {
		case <-over:
		case <-ctx.Done():
			r.abort(hard, hangUp, over)
		}
	}()
	exit, err := r.exchange(hard, body, hangUp)
	close(over)
	<-aborted
	if err != nil && hard.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(hard), err)
	}
	if errors.Is(err, errPlainAbort) {
		return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true, Duration: time.Since(r.began)}, nil
	}
	return exit, err
}

// errPlainAbort is the cause when a command was left by hanging up, which is all
// that an old server understands.
var errPlainAbort = errors.New("hung up on the command")

// oldServer is the part of the grace for which a server may not know of a command
// that it was sent before it is taken for one that knows only the plain protocol:
// 2 s of 5. A slow guest has more grace, and needs more of it here too: hung up on
// too early, it would still be at the command.
func (c *Client) oldServer() time.Duration { return c.opts.Grace * 2 / 5 }

// abort asks the guest to end the command until the exchange is over.
func (r *run) abort(hard context.Context, hangUp context.CancelCauseFunc, over <-chan struct{}) {
	give := time.NewTimer(sandbox.KillDelay + r.client.opts.Grace)
	defer give.Stop()
	old := time.NewTimer(r.client.oldServer())
	defer old.Stop()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(hard, connectTime)
		resp, err := r.client.do(ctx, http.MethodDelete, "/exec/"+r.id, nil, nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		cancel()
		// The command may not have arrived yet, so 404 is no end.
		select {
		case <-over:
			return
		case <-old.C:
			if !r.streaming.Load() {
				hangUp(errPlainAbort)
				return
			}
		case <-give.C:
			hangUp(errors.New("the guest did not end the command in time"))
			return
		case <-time.After(pause):
		}
	}
}

// exchange is the request and its answer.
func (r *run) exchange(ctx context.Context, body io.Reader, hangUp context.CancelCauseFunc) (sandbox.Exit, error) {
	head := http.Header{"Content-Type": {"application/json"}, "Accept": {streamType + ", application/json"}}
	resp, err := r.client.do(ctx, http.MethodPost, "/exec", body, head)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && isStream(resp) {
		return r.frames(resp.Body, hangUp)
	}
	return r.plain(resp)
}

// frames passes on what comes and waits for the end, as long as the guest shows
// that it is alive.
func (r *run) frames(body io.Reader, hangUp context.CancelCauseFunc) (sandbox.Exit, error) {
	r.streaming.Store(true)
	quiet := time.AfterFunc(silence, func() { hangUp(fmt.Errorf("the guest was silent for %v", silence)) })
	defer quiet.Stop()
	e, err := copyFrames(body, r.cmd.Stdout, r.cmd.Stderr, func() { quiet.Reset(silence) })
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("the exec-server at %s: %w: %w", r.client.opts.Addr, ErrBroken, err)
	}
	if e.Error != "" {
		return e.exit(), errors.New(e.Error)
	}
	return e.exit(), nil
}

// plain takes the answer of a server that knows no frames.
func (r *run) plain(resp *http.Response) (sandbox.Exit, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("read the answer of the exec-server: %w", err)
	}
	exit := sandbox.Exit{Duration: time.Since(r.began)}
	if resp.StatusCode != http.StatusOK {
		exit.Code = 1
		r.write(r.cmd.Stderr, fmt.Sprintf("Firecracker exec HTTP %d: %s\n", resp.StatusCode, bytes.TrimSpace(text[:min(len(text), 4<<10)])))
		return exit, nil
	}
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return sandbox.Exit{}, fmt.Errorf("read the answer of the exec-server: %w", err)
	}
	r.write(r.cmd.Stdout, a.Stdout)
	r.write(r.cmd.Stderr, a.Stderr)
	exit.Code = a.Code
	exit.TimedOut = a.Code == timedOutCode && r.cmd.Timeout > 0 && exit.Duration >= r.cmd.Timeout
	return exit, nil
}

func (r *run) write(w io.Writer, text string) {
	if w != nil {
		_, _ = io.WriteString(w, text) // a full disk of ours does not change how it ended
	}
}
