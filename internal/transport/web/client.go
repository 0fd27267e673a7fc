package web

import (
	"sync"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/chat"
)

// A client is one open socket.
type client struct {
	site   *Site
	conn   *websocket.Conn
	conv   chat.Address
	runner string // of its messages; empty: routing decides
	since  int64  // where the socket begins

	// busy holds a place for each command that has not returned; commands
	// counts them.
	busy     chan struct{}
	commands sync.WaitGroup
}
