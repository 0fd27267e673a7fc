package dockerapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
)

// maxHead bounds the head of the answer that gives a connection over.
const maxHead = 64 << 10

// A Conn is a connection that the engine has given over to a program: what is
// written is its standard input, what is read are frames for Demux. One goroutine
// may read while another writes.
type Conn struct {
	conn *net.UnixConn
	r    *bufio.Reader
}

// Attach sends in as JSON with POST and takes the connection over. ctx bounds the
// taking over alone; the caller closes what it is given. An engine that answers
// without giving the connection over is an error.
func (c *Client) Attach(ctx context.Context, path string, in any) (*Conn, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker: the engine at %s: %w", c.socket, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	a, err := attach(conn.(*net.UnixConn), path, body)
	if !stop() { // closed already, or about to be
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("docker: POST %s: %w", path, err)
	}
	return a, nil
}

func attach(conn *net.UnixConn, path string, body []byte) (*Conn, error) {
	req, err := http.NewRequest(http.MethodPost, "http://docker"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	head := &io.LimitedReader{R: conn, N: maxHead}
	r := bufio.NewReader(head)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode >= 400:
		return nil, refusal(res)
	case res.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("the engine answers %q and does not give the connection over", res.Status)
	}
	head.N = math.MaxInt64
	return &Conn{conn, r}, nil
}

// Read reads frames.
func (c *Conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Write writes to the program's input.
func (c *Conn) Write(p []byte) (int, error) { return c.conn.Write(p) }

// CloseWrite ends the program's input; its output goes on.
func (c *Conn) CloseWrite() error { return c.conn.CloseWrite() }

// Close cuts the connection off; a Read or Write that waits ends with an error.
func (c *Conn) Close() error { return c.conn.Close() }

// maxFrame bounds a frame of output. Engines write at most 32 KiB.
const maxFrame = 1 << 20

// Demux copies the frames of a program without a terminal to its two outputs
// until r ends. A nil writer drops its output.
func Demux(r io.Reader, stdout, stderr io.Writer) error {
	var head [8]byte
	buf := make([]byte, 32<<10)
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := int64(binary.BigEndian.Uint32(head[4:]))
		if head[0] > 2 || head[1]|head[2]|head[3] != 0 || size > maxFrame {
			return fmt.Errorf("docker: % x does not begin a frame of output", head)
		}
		w := stdout
		if head[0] == 2 {
			w = stderr
		}
		if w == nil {
			w = io.Discard
		}
		n, err := io.CopyBuffer(w, io.LimitReader(r, size), buf)
		if err == nil && n < size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}
