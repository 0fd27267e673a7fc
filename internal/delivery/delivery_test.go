package delivery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
)

type noticed struct {
	err  error
	conv chat.Address
	text string
}

func (n *noticed) Notice(_ context.Context, conv chat.Address, text string) error {
	if n.err == nil {
		n.conv, n.text = conv, text
	}
	return n.err
}

func TestPost(t *testing.T) {
	conv := chat.Address{Space: chat.Telegram, ID: "1"}
	n := &noticed{}
	d, err := New(Options{Noticer: n})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Post(context.Background(), conv, "hi"); err != nil || n.conv != conv || n.text != "hi" {
		t.Errorf("Post: %v, noticed %+v", err, n)
	}
	n.err = errors.New("disk full")
	if err := d.Post(context.Background(), conv, "x"); !errors.Is(err, n.err) || !strings.Contains(err.Error(), "tg-1") {
		t.Errorf("Post = %v, want the error and the place", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without a noticer")
	}
}

func TestTellReachesTheOperatorOrTheLog(t *testing.T) {
	place := chat.Address{Space: chat.Web, ID: "op"}
	for name, c := range map[string]struct {
		operator chat.Address
		err      error
		logged   bool
	}{
		"a place":         {place, nil, false},
		"no place":        {chat.Address{}, nil, true},
		"a broken place ": {place, errors.New("disk full"), true},
	} {
		var log bytes.Buffer
		n := &noticed{err: c.err}
		d, err := New(Options{Noticer: n, Operator: c.operator, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		d.Tell(context.Background(), "parked")
		if got := strings.Contains(log.String(), "parked"); got != c.logged {
			t.Errorf("%s: logged = %v: %s", name, got, log.String())
		}
		if !c.logged && (n.conv != place || n.text != "parked") {
			t.Errorf("%s: noticed %+v", name, n)
		}
	}
}
