package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// limit is when a step of a test counts as hanging.
const limit = time.Minute

// stand is a sandbox whose tools are functions of a test.
type stand struct {
	mu      sync.Mutex
	tools   map[string]func(context.Context, call) (string, error)
	names   []string // of those that are listed
	agents  map[string]*controlpb.Agent
	changed []func()
}

// call is a call of a tool.
type call struct {
	*controlpb.CallToolRequest
	tell func(*controlpb.ToolProgress)
}

func (s *stand) Agent(_ context.Context, _, name string) (*controlpb.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.agents[name]; a != nil {
		return a, nil
	}
	return nil, fault.Newf(fault.NotFound, "find agent", name, "there is none").Advise("Make it.")
}

func (s *stand) Create(_ context.Context, _, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents == nil {
		s.agents = map[string]*controlpb.Agent{}
	}
	s.agents[name] = &controlpb.Agent{Id: "id of " + name, Name: name, Home: "/home/" + name}
	return nil
}

func (s *stand) Tools(_ context.Context, _ string, r *controlpb.ListToolsRequest) (list []*controlpb.Tool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range s.names {
		if !r.Lean || i == 0 {
			list = append(list, &controlpb.Tool{Name: name, Title: "T", InputSchema: `{"type":"object"}`, OutputSchema: `{"type":"object"}`})
		}
	}
	return list, nil
}

func (s *stand) Call(ctx context.Context, _ string, r *controlpb.CallToolRequest, tell func(*controlpb.ToolProgress)) (string, error) {
	s.mu.Lock()
	do := s.tools[r.Tool]
	s.mu.Unlock()
	if do == nil {
		return `{"ok":false,"kind":"tool_not_found","message":"there is no such tool","retryable":false}`, nil
	}
	return do(ctx, call{r, tell})
}

func (s *stand) Watch(ctx context.Context, _, _ string, changed func()) {
	s.mu.Lock()
	s.changed = append(s.changed, changed)
	s.mu.Unlock()
	changed()
	<-ctx.Done()
}

// change changes the list of tools and notifies watchers.
func (s *stand) change(names ...string) {
	s.mu.Lock()
	s.names = names
	watching := s.changed
	s.mu.Unlock()
	for _, changed := range watching {
		changed()
	}
}

// wire is a client that writes and reads lines.
type wire struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Scanner
	said bytes.Buffer // all that the server wrote, once it has ended
	next int
	end  func() error
}

// serve serves a client over a pair of pipes.
func serve(t *testing.T, o Options) *wire {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(context.Background(), inR, outW, o)
		_ = outW.Close()
	}()
	w := &wire{t: t, in: inW}
	said := io.TeeReader(outR, &w.said)
	w.out = bufio.NewScanner(said)
	w.out.Buffer(nil, 8<<20)
	w.end = sync.OnceValue(func() error {
		_ = inW.Close()
		all := make(chan struct{})
		go func() {
			defer close(all)
			_, _ = io.Copy(io.Discard, said)
		}()
		select {
		case err := <-ended:
			<-all
			return err
		case <-time.After(limit):
			return errors.New("the server does not end")
		}
	})
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := fmt.Fprintln(w.in, text); err != nil {
		w.t.Fatal(err)
	}
}

type message struct {
	ID     *int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// read is the next message.
func (w *wire) read() (m message) {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatal("the server has ended: ", w.out.Err())
	}
	if err := json.Unmarshal(w.out.Bytes(), &m); err != nil {
		w.t.Fatalf("%v in %q", err, w.out.Bytes())
	}
	return m
}

// answered are the ids of all that was answered until the end.
func (w *wire) answered() map[int]bool {
	w.t.Helper()
	ids := map[int]bool{}
	for line := range bytes.Lines(w.said.Bytes()) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			w.t.Fatalf("%v in %q", err, line)
		}
		if m.ID != nil && m.Method == "" {
			ids[*m.ID] = true
		}
	}
	return ids
}

// ask sends a request and returns its answer and the notifications before it.
func (w *wire) ask(method, params string) (answer message, told []message) {
	w.t.Helper()
	w.next++
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, w.next, method, params))
	for {
		m := w.read()
		if m.ID != nil && *m.ID == w.next {
			return m, told
		}
		told = append(told, m)
	}
}

// ungreeted returns a request of the protocol of 2026-07-28, which has no initialize.
func ungreeted(id, method, params string) string {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"a script","version":"1"}}`
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,%s}}`, id, method, params, meta)
}

// greet initializes a session of an older protocol.
func (w *wire) greet(client, version string) (hello message) {
	w.t.Helper()
	hello, _ = w.ask(initialize, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}`, version, client))
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return hello
}

func fine(result string) func(context.Context, call) (string, error) {
	return func(context.Context, call) (string, error) {
		return `{"ok":true,"result":` + result + `,"tool":"t"}`, nil
	}
}
