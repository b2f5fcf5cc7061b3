package mcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/timetest"
)

// watched is a stand that counts its watchers.
type watched struct {
	stand
	watching atomic.Int32
}

func (w *watched) Watch(ctx context.Context, client, agent string, changed func()) {
	w.watching.Add(1)
	defer w.watching.Add(-1)
	w.stand.Watch(ctx, client, agent, changed)
}

// caller is a client of an older protocol over HTTP.
type caller struct {
	*testing.T
	at, token string
}

func listenFor(t *testing.T, s Sandbox) *caller {
	t.Helper()
	home, at := config.Home(filepath.Join(t.TempDir(), "home")), freeport.Address(t)
	l, err := Listen(home, config.MCP{Listen: config.LoopbackAddress(at)}, Options{Sandbox: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	token, err := os.ReadFile(home.MCPToken())
	if err != nil {
		t.Fatal(err)
	}
	return &caller{t, "http://" + at + Path, strings.TrimSpace(string(token))}
}

// header returns the header of a request in a session, "" for a new one.
func (c *caller) header(session string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if session != "" {
		h.Set("Mcp-Session-Id", session)
		h.Set(versionHeader, "2025-11-25")
	}
	return h
}

// open sends a request in a session. The caller closes the answer.
func (c *caller) open(method, session, body string) *http.Response {
	r, err := http.NewRequestWithContext(c.Context(), method, c.at, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return nil
	}
	r.Header = c.header(session)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Error(err)
		return nil
	}
	return answer
}

// ask sends a request and reads the answer.
func (c *caller) ask(session, body string) (status int, text, of string) {
	answer := c.open(http.MethodPost, session, body)
	if answer == nil {
		return 0, "", ""
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Error(err)
	}
	return answer.StatusCode, string(all), answer.Header.Get("Mcp-Session-Id")
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`

func toolCall(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q}}`, tool)
}

// greet opens a session.
func (c *caller) greet() (session string) {
	c.Helper()
	status, text, session := c.ask("", hello)
	if status != http.StatusOK || session == "" || !strings.Contains(text, "protocolVersion") {
		c.Fatal(status, text)
	}
	if status, text, _ := c.ask(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		c.Fatal(status, text)
	}
	return session
}

// call calls a tool.
func (c *caller) call(session, tool string) (int, string) {
	status, text, _ := c.ask(session, toolCall(tool))
	return status, text
}

// The number of sessions is bounded. Those that are open stay.
func TestSessionsAreBounded(t *testing.T) {
	s := &watched{stand: stand{tools: map[string]func(context.Context, call) (string, error){"quick": fine(`{}`)}}}
	c := listenFor(t, s)
	first := c.greet()
	for range maxSessions - 1 {
		c.greet()
	}
	timetest.Eventually(t, "all have a watcher", func() bool { return s.watching.Load() == maxSessions })
	if status, text, _ := c.ask("", hello); status != http.StatusServiceUnavailable || !strings.Contains(text, "are open") {
		t.Errorf("one too many: %d %s", status, text)
	}
	if status, text := c.call(first, "quick"); status != http.StatusOK || !strings.Contains(text, `\"ok\":true`) {
		t.Errorf("an open session: %d %s", status, text)
	}
	if answer := c.open(http.MethodDelete, first, ""); answer == nil || answer.Body.Close() != nil || answer.StatusCode/100 != 2 {
		t.Errorf("end of a session: %v", answer)
	}
	timetest.Eventually(t, "its watcher ends", func() bool { return s.watching.Load() < maxSessions })
	c.greet()
}

// A cancelled call ends and is not answered.
func TestCancelOverHTTP(t *testing.T) {
	s, begun, ended := endless()
	c := listenFor(t, s)
	session := c.greet()
	answer := make(chan string, 1)
	go func() {
		_, text := c.call(session, "endless")
		answer <- text
	}()
	<-begun
	c.ask(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	<-ended
	if text := <-answer; strings.Contains(text, `"id":2`) {
		t.Errorf("answered with %s", text)
	}
}
