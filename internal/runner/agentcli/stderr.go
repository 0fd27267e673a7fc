package agentcli

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
)

// Limits of what a program's standard error may bring into the log: what a line
// shows, and how many lines of one process are logged as more than debug.
const (
	maxErrLine  = 500
	maxErrLines = 200
)

// overhear logs what the program says on its standard error, by what it calls it;
// nobody else sees it.
func (p *proc) overhear() {
	defer close(p.heard)
	log := p.c.r.pool.log.With("project", p.c.r.project.Name, "conversation", p.c.addr, "instance", p.instance)
	lines := 0
	readLines(p.errs, maxErrLine, func(line string) {
		if line = oneLine(line); line == "" {
			return
		}
		p.remember(line)
		lines++
		level := levelOf(line)
		if lines > maxErrLines {
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "agent: "+line)
		if lines == maxErrLines {
			log.Warn("agent: it says more than is logged here")
		}
	})
}

// readLines calls each with the lines of r, each cut to max bytes.
func readLines(r io.Reader, max int, each func(string)) {
	b := bufio.NewReaderSize(r, max+1)
	for {
		line, err := b.ReadSlice('\n')
		text := string(line)
		for err == bufio.ErrBufferFull {
			_, err = b.ReadSlice('\n') // the rest of it
		}
		if text != "" {
			each(text)
		}
		if err != nil {
			return
		}
	}
}

// levelOf reads the level off a line.
func levelOf(line string) slog.Level {
	head := strings.ToLower(clip(line, 80))
	switch {
	case strings.Contains(head, "debug"), strings.Contains(head, "trace"):
		return slog.LevelDebug
	case strings.Contains(head, "error"), strings.Contains(head, "fatal"), strings.Contains(head, "panic"):
		return slog.LevelError
	case strings.Contains(head, "warn"):
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// maxTail is what is kept of the standard error to explain an end with.
const maxTail = 4 << 10

// remember keeps the last lines. Nobody but the driver sees them.
func (p *proc) remember(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(append(p.tail, line...), '\n')
	if over := len(p.tail) - maxTail; over > 0 {
		p.tail = append(p.tail[:0], p.tail[over:]...)
	}
}

// explain asks the driver what the program's last words mean. The process has
// ended.
func (p *proc) explain() (failure string, noSession bool) {
	e, ok := p.c.r.project.Driver.(Explainer)
	if !ok {
		return "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	failure, noSession = e.Explain(string(p.tail))
	return clip(oneLine(failure), maxFailure), noSession
}
