package lifetime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary notes what happens in which order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, s)
}

func (d *diary) part(name string) Part {
	return Part{Name: name, Serve: func(ctx context.Context, ready func()) error {
		d.add("+" + name)
		ready()
		<-ctx.Done()
		d.add("-" + name)
		return nil
	}}
}

func TestStartsInOrderStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		g := New(d.part("a"), d.part("b"), d.part("c"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		if !g.Ready() {
			t.Errorf("States() = %v, want all ready", g.States())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if want := []string{"+a", "+b", "+c", "-c", "-b", "-a"}; !slices.Equal(d.lines, want) {
			t.Errorf("order %v, want %v", d.lines, want)
		}
	})
}

func TestNextWaitsForReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		release := make(chan struct{})
		slow := Part{Name: "slow", Serve: func(ctx context.Context, ready func()) error {
			<-release
			d.add("+slow")
			ready()
			<-ctx.Done()
			return nil
		}}
		g := New(slow, d.part("b"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		if s := g.States(); s[0].Err != errStarting || s[1].Err != errWaiting {
			t.Errorf("States() = %v", s)
		}
		close(release)
		synctest.Wait()
		cancel()
		<-done
		if !slices.Equal(d.lines, []string{"+slow", "+b", "-b"}) {
			t.Errorf("order %v", d.lines)
		}
	})
}

func TestFailureStopsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		boom := errors.New("boom")
		for name, serve := range map[string]func(context.Context, func()) error{
			"before ready": func(context.Context, func()) error { return boom },
			"after ready":  func(_ context.Context, ready func()) error { ready(); time.Sleep(time.Second); return boom },
			"panic":        func(context.Context, func()) error { panic("boom") },
		} {
			d.lines = nil
			err := New(d.part("a"), Part{Name: "bad", Serve: serve}).Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "bad: ") || !strings.Contains(err.Error(), "boom") {
				t.Errorf("%s: Run() = %v", name, err)
			}
			if !slices.Equal(d.lines, []string{"+a", "-a"}) {
				t.Errorf("%s: order %v", name, d.lines)
			}
		}
	})
}

func TestGraceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := Part{Name: "stuck", Grace: time.Second, Serve: func(_ context.Context, ready func()) error {
			ready()
			<-release
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		err := New(stuck).Run(ctx)
		if err == nil || !strings.Contains(err.Error(), "stuck did not stop within 1s") {
			t.Errorf("Run() = %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Run took %v", took)
		}
		close(release)
	})
}

func TestCheckIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		p := d.part("a")
		down := errors.New("the platform does not answer")
		p.Check = func() error { return down }
		g := New(p)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		if s := g.States(); s[0].Err != down || g.Ready() {
			t.Errorf("States() = %v", s)
		}
		cancel()
		<-done
	})
}
