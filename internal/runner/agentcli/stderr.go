package agentcli

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Limits of what a program's standard error may bring into the log: what a line
// shows, and how many lines of one process are logged as more than debug.
const (
	maxErrLine  = 500
	maxErrLines = 200
)

// overhear logs what the program says on its standard error, by what it calls it;
// nobody else sees it. It ends with the program's last descendant.
func (p *proc) overhear(f *os.File) {
	defer f.Close()
	go func() { // a descendant that got away may hold it open
		<-p.over
		f.Close()
	}()
	log := p.c.r.pool.log.With("project", p.c.r.project.Name, "conversation", p.c.addr, "instance", p.instance)
	lines := 0
	readLines(f, maxErrLine, func(line string) {
		if line = oneLine(line); line == "" {
			return
		}
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
