// Package client asks the bridge, from inside the guest: HTTP/1.1 over a Unix socket, and no more of it than the bridge speaks.
package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxIdle is how many connections are kept for the next request: as many as one
	// program has use for at once. It leaves a third of those that the relay lets an
	// agent have (96, guest/relay maxOpen) to the agent's other programs.
	maxIdle = 64
	// idleFor is how long one is kept. It is less than the bridge's own patience, so
	// that a request never meets a connection that is just being closed.
	idleFor = 5 * time.Second
	// maxAnswer bounds an answer in memory: some times the largest that a tool gives.
	maxAnswer = 32 << 20
)

// Options are who asks, and where.
type Options struct {
	Socket string // the bridge's; wire.Socket if empty
	Token  string
	Plugin string // the name space for secrets and config; may be empty
	// Dial, if not nil, connects in place of the socket.
	Dial func() (net.Conn, error)
}

// Client asks the bridge. It may be used by many goroutines at once.
type Client struct {
	options Options

	mu   sync.Mutex
	idle []*conversation // the last one used last
}

// New returns a client. It does not connect before the first request.
func New(o Options) *Client {
	if o.Socket == "" {
		o.Socket = wire.Socket
	}
	if o.Dial == nil {
		// It waits for nothing: a Unix socket answers at once.
		o.Dial = func() (net.Conn, error) {
			return net.DialUnix("unix", nil, &net.UnixAddr{Name: o.Socket, Net: "unix"})
		}
	}
	return &Client{options: o}
}

// Close closes the connections that are kept for the next request.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.idle {
		k.conn.Close()
	}
	c.idle = nil
}

// Secret returns the plugin's or the agent's secret of a name.
func (c *Client) Secret(ctx context.Context, name string) (string, error) {
	return c.value(ctx, wire.PathSecrets, name)
}

// Config returns what the plugin keeps under a key.
func (c *Client) Config(ctx context.Context, key string) (string, error) {
	return c.value(ctx, wire.PathConfig, key)
}

func (c *Client) value(ctx context.Context, path, name string) (string, error) {
	var v wire.Value
	err := c.ask(ctx, "GET", path+url.PathEscape(name), nil, &v)
	return v.Value, err
}

// SetConfig has the plugin keep a value under a key.
func (c *Client) SetConfig(ctx context.Context, key, value string) error {
	return c.ask(ctx, "POST", wire.PathConfig+url.PathEscape(key), wire.Value{Value: value}, nil)
}

// Dispatch hands a task to whoever serves the agent.
func (c *Client) Dispatch(ctx context.Context, task wire.Dispatch) (wire.Dispatched, error) {
	var d wire.Dispatched
	err := c.ask(ctx, "POST", wire.PathDispatch, task, &d)
	return d, err
}

// Recall finds what the agent keeps in mind.
func (c *Client) Recall(ctx context.Context, text string) (wire.Results, error) {
	var r wire.Results
	err := c.ask(ctx, "POST", wire.PathMemoryQuery, wire.Query{Query: text}, &r)
	return r, err
}

// Remember has the agent keep something in mind.
func (c *Client) Remember(ctx context.Context, content string) error {
	return c.ask(ctx, "POST", wire.PathMemoryStore, wire.Store{Content: content}, nil)
}

// Emit tells an event. A nil payload is {}.
func (c *Client) Emit(ctx context.Context, topic string, payload json.RawMessage) error {
	return c.ask(ctx, "POST", wire.PathEmit, wire.Emit{Type: topic, Payload: payload}, nil)
}

// CreatePlugin makes a plugin of a recipe and returns what the bridge says of it.
func (c *Client) CreatePlugin(ctx context.Context, recipe json.RawMessage) (json.RawMessage, error) {
	var created json.RawMessage
	err := c.ask(ctx, "POST", wire.PathPlugin, recipe, &created)
	return created, err
}

// Log writes a line of the log.
func (c *Client) Log(ctx context.Context, level, message string) error {
	return c.ask(ctx, "POST", wire.PathLog, wire.Line{Level: level, Message: message}, nil)
}

// ask makes one request whose answer is one JSON document.
func (c *Client) ask(ctx context.Context, method, path string, body, answer any) error {
	x, err := c.begin(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer x.end()
	text, err := x.all()
	if err != nil {
		return x.failed(err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fault.New(fault.Execution, "read the bridge's answer", path, err)
	}
	return nil
}

// begin sends a request and returns its exchange when a success is being
// answered. What is answered else is its error.
func (c *Client) begin(ctx context.Context, method, path string, body any) (*exchange, error) {
	request, err := c.write(method, path, body)
	if err != nil {
		return nil, err
	}
	k := c.kept()
	if k == nil {
		conn, err := c.options.Dial()
		if err != nil {
			return nil, unreachable(c.options.Socket, err)
		}
		k = &conversation{conn: conn, r: bufio.NewReaderSize(conn, maxLine)}
	}
	x := &exchange{client: c, conversation: k, ctx: ctx}
	x.stop = context.AfterFunc(ctx, func() { k.conn.SetDeadline(time.Unix(1, 0)) })
	if err := x.send(request); err != nil {
		defer x.end()
		return nil, x.failed(err)
	}
	if x.head.status >= 300 {
		defer x.end()
		return nil, x.refusal()
	}
	return x, nil
}

// kept returns a connection of an earlier request, or nil.
func (c *Client) kept() *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if time.Since(k.used) < idleFor {
			return k
		}
		k.conn.Close()
	}
	return nil
}

// keep takes a connection back, for the next request.
func (c *Client) keep(k *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == maxIdle {
		k.conn.Close()
		return
	}
	k.used = time.Now()
	c.idle = append(c.idle, k)
}

// unreachable says why there is no connection.
func unreachable(socket string, err error) error {
	advice := "The host may be restarting: try again in a moment."
	switch {
	case errors.Is(err, os.ErrNotExist):
		advice = "It is there in an agent's sandbox only. In one, this means that its host has no bridge."
	case errors.Is(err, syscall.EACCES):
		advice = "Run it as the agent whose sandbox this is."
	}
	return fault.New(fault.Unavailable, "connect to the bridge", socket, err).Advise(advice)
}
