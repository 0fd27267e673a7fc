package subagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/runner"
)

// pollWait is how long a server may keep a poll until there is something to
// say: short enough for proxies, and for one that lost its connection silently.
const pollWait = 20 * time.Second

// recover asks for the job until it has an end. again says that the agent does
// not know this turn, so that the request is to be posted once more. original is
// what is returned when there is nothing to be had. It asks at least once.
func (c *call) recover(ctx context.Context, original *runner.Error) (reply string, again bool, err error) {
	last := time.Now() // of the last new line
	for {
		asked := time.Now()
		job, status, text, err := c.poll(ctx)
		if context.Cause(ctx) != nil {
			return "", false, context.Cause(ctx)
		}
		switch {
		case err != nil, status >= 500:
			// It may be on its way back.
		case status == http.StatusNotFound && text == bridge.SaidUnknownJob && c.turns && c.posts < maxPosts:
			return "", true, nil
		case status != http.StatusOK:
			return "", false, original
		case job.Turn != "" && job.Turn != c.req.Turn:
			if c.turns && c.posts < maxPosts {
				return "", true, nil
			}
			return "", false, original
		default:
			for _, l := range job.Events {
				if reply, done, err := c.line(l); done {
					return reply, false, err
				}
			}
			if job.Done {
				return "", false, original
			}
			if len(job.Events) > 0 {
				last = time.Now()
				continue
			}
		}
		if limit := c.a.opts.Idle; limit > 0 && time.Since(last) >= limit {
			return "", false, original
		}
		if !sleep(ctx, c.a.opts.Poll-time.Since(asked)) {
			return "", false, context.Cause(ctx)
		}
	}
}

// poll reads the job log behind the last line that was taken. text is what the
// body of an error says.
func (c *call) poll(ctx context.Context) (job bridge.Job, status int, text string, err error) {
	wait := pollWait
	if limit := c.a.opts.Idle; limit > 0 {
		wait = min(wait, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+dialTimeout)
	defer cancel()
	r, err := c.request(ctx, http.MethodGet, fmt.Sprintf("%s?since=%d&wait=%d", c.jobs, c.seq.Load(), wait.Milliseconds()), nil)
	if err != nil {
		return job, 0, "", err
	}
	resp, err := c.a.http.Do(r)
	if err != nil {
		return job, 0, "", err
	}
	defer resp.Body.Close()
	c.learn(resp)
	if resp.StatusCode != http.StatusOK {
		return job, resp.StatusCode, said(resp), nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, bridge.MaxAnswer+1))
	if err == nil && len(data) > bridge.MaxAnswer {
		err = errors.New("the answer of the job log is too large")
	}
	if err != nil {
		return job, 0, "", err
	}
	job, err = bridge.ParseJob(data)
	if err != nil {
		return job, http.StatusBadRequest, "", nil // no job log speaks like this
	}
	return job, resp.StatusCode, "", nil
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A timer of a limit that may be none.
type timer struct {
	C <-chan time.Time
	t *time.Timer
}

func newTimer(d time.Duration) timer {
	if d <= 0 {
		return timer{}
	}
	t := time.NewTimer(d)
	return timer{t.C, t}
}

func (t timer) restart(d time.Duration) {
	if t.t != nil {
		t.t.Reset(d)
	}
}

// Stop stops it.
func (t timer) Stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
