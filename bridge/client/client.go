// Package client calls the bridge from programs in the guest.
package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxIdle leaves a third of the agent's relay connections to its other programs.
	maxIdle = 64
	// idleTimeout is shorter than the bridge's, so that no request is sent on a connection that
	// the bridge is closing.
	idleTimeout = 5 * time.Second
	// maxAnswer bounds an answer in memory. It is several times the largest answer of a tool.
	maxAnswer = 32 << 20
	// maxEvent bounds one event of a stream.
	maxEvent = 1 << 20
)

const (
	opAsk  = "ask the bridge"
	opRead = "read the bridge's answer"
)

// Options says how to reach the bridge and on whose behalf.
type Options struct {
	Socket string // wire.Socket if empty
	Token  string
	Plugin string // whose secrets and config to use; may be empty
	// Dial, if not nil, replaces dialing the socket.
	Dial func() (net.Conn, error)
}

// Client calls the bridge. Its methods may be called from any goroutine.
type Client struct {
	options   Options
	transport *http.Transport
}

// New returns a client. It connects on the first request.
func New(o Options) *Client {
	if o.Socket == "" {
		o.Socket = wire.Socket
	}
	if o.Dial == nil {
		o.Dial = func() (net.Conn, error) { return net.Dial("unix", o.Socket) }
	}
	return &Client{options: o, transport: &http.Transport{
		DialContext:  func(context.Context, string, string) (net.Conn, error) { return o.Dial() },
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, DisableCompression: true,
	}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Secret returns a secret of the plugin or, if it has none of that name, of the agent.
func (c *Client) Secret(ctx context.Context, name string) (string, error) {
	return c.value(ctx, wire.PathSecrets, name)
}

// Config returns the plugin's value for a key.
func (c *Client) Config(ctx context.Context, key string) (string, error) {
	return c.value(ctx, wire.PathConfig, key)
}

func (c *Client) value(ctx context.Context, path, name string) (string, error) {
	var v wire.Value
	err := c.ask(ctx, http.MethodGet, path+url.PathEscape(name), nil, &v)
	return v.Value, err
}

// SetConfig sets the plugin's value for a key.
func (c *Client) SetConfig(ctx context.Context, key, value string) error {
	return c.post(ctx, wire.PathConfig+url.PathEscape(key), wire.Value{Value: value}, nil)
}

// Dispatch submits a task.
func (c *Client) Dispatch(ctx context.Context, task wire.Dispatch) (d wire.Dispatched, err error) {
	err = c.post(ctx, wire.PathDispatch, task, &d)
	return d, err
}

// Recall searches the agent's memory.
func (c *Client) Recall(ctx context.Context, text string) (r wire.Results, err error) {
	err = c.post(ctx, wire.PathMemoryQuery, wire.Query{Query: text}, &r)
	return r, err
}

// Remember stores a fact in the agent's memory.
func (c *Client) Remember(ctx context.Context, content string) error {
	return c.post(ctx, wire.PathMemoryStore, wire.Store{Content: content}, nil)
}

// Emit publishes an event. A nil payload is {}.
func (c *Client) Emit(ctx context.Context, topic string, payload json.RawMessage) error {
	return c.post(ctx, wire.PathEmit, wire.Emit{Type: topic, Payload: payload}, nil)
}

// CreatePlugin creates a plugin from a recipe and returns the bridge's answer.
func (c *Client) CreatePlugin(ctx context.Context, recipe json.RawMessage) (created json.RawMessage, err error) {
	err = c.post(ctx, wire.PathPlugin, recipe, &created)
	return created, err
}

// Log writes a line to the log.
func (c *Client) Log(ctx context.Context, level, message string) error {
	return c.post(ctx, wire.PathLog, wire.Line{Level: level, Message: message}, nil)
}

// Chat asks a model and returns its answer. If tell is not nil, it receives each part of the
// answer; an error from tell cancels the request.
func (c *Client) Chat(ctx context.Context, chat wire.Chat, tell func(part string) error) (string, error) {
	if chat.Stream = tell != nil; !chat.Stream {
		var a wire.Answer
		err := c.post(ctx, wire.PathChat, chat, &a)
		return a.Content, err
	}
	r, err := c.send(ctx, http.MethodPost, wire.PathChat, chat)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var answer strings.Builder
	events := bufio.NewScanner(r.Body)
	events.Buffer(nil, maxEvent)
	for events.Scan() {
		data, ok := bytes.CutPrefix(events.Bytes(), []byte("data:"))
		if !ok {
			continue // a separator or a comment
		}
		if data = bytes.TrimSpace(data); string(data) == wire.Done {
			_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxEvent)) // so that the connection can be reused
			return answer.String(), nil
		}
		var part struct {
			wire.Answer
			wire.Failure
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return "", fault.New(fault.Execution, opRead, wire.PathChat, err)
		}
		if part.Error != "" {
			return "", refusal(part.Failure)
		}
		if answer.Len()+len(part.Content) > maxAnswer {
			return "", fault.Newf(fault.Execution, opRead, wire.PathChat, "larger than %d MiB", maxAnswer>>20)
		}
		answer.WriteString(part.Content)
		if err := tell(part.Content); err != nil {
			return "", err
		}
	}
	return "", broken(ctx, cmp.Or(events.Err(), io.ErrUnexpectedEOF))
}

func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	return c.ask(ctx, http.MethodPost, path, body, answer)
}

// ask makes one request and decodes the JSON of its answer, unless answer is nil.
func (c *Client) ask(ctx context.Context, method, path string, body, answer any) error {
	r, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := readAll(ctx, r.Body)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fault.New(fault.Execution, opRead, path, err)
	}
	return nil
}

// send makes a request and returns the response. Every status but success is an error.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	const op = "write the request"
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fault.New(fault.InvalidArgs, op, path, err)
		}
		if len(b) > wire.MaxBody { // the bridge's answer can be lost, since it closes the connection
			return nil, fault.Newf(fault.Rejected, op, path, "larger than %d bytes", wire.MaxBody).Advise("Send less at a time; pass files through the workspace.")
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, text)
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, op, path, err)
	}
	for name, value := range map[string]string{wire.HeaderAuthorization: c.options.Token, wire.HeaderPlugin: c.options.Plugin} {
		if strings.ContainsFunc(value, unicode.IsControl) {
			return nil, fault.Newf(fault.InvalidArgs, op, name, "control characters in its value")
		}
		if value != "" && name == wire.HeaderAuthorization {
			value = "Bearer " + value
		}
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	r, err := c.transport.RoundTrip(req)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return nil, unreachable(c.options.Socket, err)
	}
	if err != nil {
		return nil, broken(ctx, err)
	}
	if r.StatusCode < 300 {
		return r, nil
	}
	defer r.Body.Close()
	answer, err := readAll(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	var f wire.Failure
	if json.Unmarshal(answer, &f) != nil || f.Error == "" {
		f = wire.Failure{Error: fmt.Sprintf("the bridge answers with status %d", r.StatusCode)}
	}
	return nil, refusal(f)
}

func readAll(ctx context.Context, body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("larger than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return nil, broken(ctx, err)
	}
	return text, nil
}

// refusal returns the error that the bridge reports.
func refusal(f wire.Failure) error {
	if !slices.Contains(fault.Kinds(), f.Kind) {
		f.Kind = fault.Unavailable
	}
	return fault.New(f.Kind, "", "", errors.New(f.Error)).Advise(f.Advice)
}

// broken returns the error for a connection that broke.
func broken(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fault.Wrap(opAsk, "", cause)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fault.Newf(fault.Unavailable, opAsk, "", "it closed the connection").
			Advise("It answers only the agent whose room this is. If you are that agent, the host may be restarting: try again in a moment.")
	}
	return fault.New(fault.Unavailable, opAsk, "", err)
}

func unreachable(socket string, err error) error {
	advice := "The host may be restarting: try again in a moment."
	switch {
	case errors.Is(err, os.ErrNotExist):
		advice = "The socket exists only in an agent's room. If this is one, its host has no bridge."
	case errors.Is(err, syscall.EACCES):
		advice = "Run it as the agent whose room this is."
	}
	return fault.New(fault.Unavailable, "connect to the bridge", socket, err).Advise(advice)
}
