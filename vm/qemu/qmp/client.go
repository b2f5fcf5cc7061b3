// Package qmp is a client of QEMU's control protocol: one command at a time or many, each with a deadline, and events as they come.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// callTimeout bounds a command whose caller set no earlier deadline. What
	// this client is used for takes QEMU milliseconds; a QEMU that is silent
	// for so long is stopped or swapped out.
	callTimeout = 5 * time.Second
	// startTimeout bounds QEMU's start, until it takes commands: it comes from a disk, and
	// makes its devices and the machine's memory first, on a host that may be busy.
	startTimeout = 30 * time.Second
	// maxMessage bounds a line from QEMU. The longest one here, the list of
	// its commands, is 30 KiB.
	maxMessage = 1 << 20
)

// Client is a connection to one QEMU. Its methods may be called from any
// goroutine.
type Client struct {
	conn net.Conn
	done chan struct{} // the reader has ended

	writing sync.Mutex // one line at a time

	mu      sync.Mutex
	err     error // why the reader ended
	nextID  uint64
	waiting map[uint64]chan message
}

// Connect waits for QEMU's greeting on conn, which the client owns from now on,
// and leaves its negotiation mode. Events are handed to onEvent one by one, in
// order, on a goroutine of the client's: it must not wait for a command.
func Connect(ctx context.Context, conn net.Conn, onEvent func(Event)) (*Client, error) {
	c := &Client{conn: conn, done: make(chan struct{}), waiting: map[uint64]chan message{}}
	greeted := make(chan struct{})
	go c.read(greeted, onEvent)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-greeted:
	case <-c.done:
		c.Close()
		return nil, c.failure("greeting", c.err)
	case <-ctx.Done():
		c.Close()
		return nil, c.failure("greeting", ctx.Err())
	}
	if err := c.do(ctx, "qmp_capabilities", nil, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Do executes a command. Args, if not nil, is a value that encodes to an
// object; the result is decoded into result unless that is nil. It fails with
// fault.Timeout when QEMU does not answer in time; the command may be carried
// out yet. A refusal has an *Error in its chain.
func (c *Client) Do(ctx context.Context, command string, args, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.do(ctx, command, args, result)
}

func (c *Client) do(ctx context.Context, command string, args, result any) error {
	reply := make(chan message, 1)
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.waiting[id] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, request{command, args, id}); err != nil {
		return c.failure(command, err)
	}
	select {
	case m := <-reply:
		if m.Error != nil {
			return c.failure(command, m.Error)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Return, result); err != nil {
			return c.failure(command, err)
		}
		return nil
	case <-ctx.Done():
		return c.failure(command, ctx.Err())
	case <-c.done:
		return c.failure(command, c.err)
	}
}

// failure gives an error its kind.
func (c *Client) failure(command string, err error) error {
	kind := fault.KindOf(err)
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		kind = fault.Unavailable
	}
	e := fault.New(kind, "tell qemu", command, err)
	if kind == fault.Timeout {
		return e.Advise("QEMU does not answer: it is stopped, or the host is short of memory. Kill the machine if it stays so.")
	}
	return e
}

func (c *Client) send(ctx context.Context, r request) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline, _ := ctx.Deadline() // Do always sets one
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = c.conn.Write(append(b, '\n'))
	return err
}

// read takes QEMU's messages until the connection ends or one is broken.
func (c *Client) read(greeted chan<- struct{}, onEvent func(Event)) {
	defer close(c.done)
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		m, err := parse(lines.Bytes())
		if err != nil {
			c.end(err)
			return
		}
		switch {
		case m.Greeting != nil:
			if greeted == nil {
				c.end(errors.New("a second greeting"))
				return
			}
			close(greeted)
			greeted = nil
		case m.Event != "":
			onEvent(Event{m.Event, m.Data})
		case m.ID != nil:
			c.mu.Lock()
			if reply := c.waiting[*m.ID]; reply != nil {
				delete(c.waiting, *m.ID)
				reply <- m // has room for one
			}
			c.mu.Unlock()
		default:
			// A refusal without a number answers a line that QEMU could not
			// read; this client sends none.
			c.end(fmt.Errorf("an answer to nothing: %v", m.Error))
			return
		}
	}
	if err := lines.Err(); err != nil {
		c.end(err)
		return
	}
	c.end(io.EOF)
}

// end notes why nothing more will be read, before done is closed.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("control connection ended: %w", err)
}

// Done is closed when the connection has ended and the last event was handed
// out.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection, and every command that waits.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}
