package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
)

// A new app may only read until a person allows more, and is notified of that. What it
// cancels ends. On streams and over HTTP.
func TestApp(t *testing.T) {
	w := newWorld(t, &hosttest.Backend{})
	for name, transport := range map[string]sdk.Transport{"app-on-streams": w.piped(), "app-over-http": nil} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, home: w.home, api: w.api}
			if transport == nil {
				transport = w.web(w.listen())
			}
			a := w.open(name, transport)
			before := a.names()
			if !slices.IsSorted(before) || slices.Contains(before, "sandbox_exec") || !slices.Contains(before, "sandbox_read_file") {
				t.Errorf("%v", before)
			}
			a.want("sandbox_exec", "true", "agent set "+name+" autonomousExec.enabled=true")

			w.set(name, "autonomousExec.enabled", "true")
			select {
			case <-a.changed:
			case <-time.After(limit):
				t.Fatal("no notification of more tools")
			}
			if after := a.names(); !slices.Contains(after, "sandbox_exec") {
				t.Errorf("%v", after)
			}
			a.want("sandbox_exec", "echo it works", `"stdout":"it works\n"`)

			pid := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := a.call(ctx, "sandbox_exec", map[string]any{"command": fmt.Sprintf("echo $$ >%s.new; mv %[1]s.new %[1]s; exec sleep 1000", pid), "timeout": 300, "cwd": "/"})
				done <- err
			}()
			var process int
			timetest.Eventually(w, "the command runs", func() bool {
				text, err := os.ReadFile(pid)
				if err == nil {
					process, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				}
				return err == nil
			})
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			timetest.Eventually(w, "the command has ended", func() bool { return errors.Is(syscall.Kill(process, 0), syscall.ESRCH) })
		})
	}
	w.do(func(c *control.Client) error {
		r, err := c.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
		if err != nil || len(r.Agents) != 2 {
			t.Errorf("%v %v", r, err)
		}
		i := slices.IndexFunc(r.Agents, func(a *controlpb.Agent) bool { return a.Name == "app-over-http" })
		audit, err := c.ListAudit(t.Context(), &controlpb.ListAuditRequest{Agent: r.Agents[i].Id})
		if err != nil || !audit.Receive() || audit.Msg().Client != "app-over-http over MCP" {
			t.Errorf("%v %v", audit.Msg(), err)
		}
		return audit.Close()
	})
}

// Two new apps become two agents, and one app twice becomes one.
func TestTwoApps(t *testing.T) {
	w := newWorld(t, &hosttest.Backend{})
	var all sync.WaitGroup
	for _, name := range []string{"First App", "second", "second", "second!"} {
		transport := w.piped()
		all.Go(func() {
			client := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, nil)
			s, err := client.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	all.Wait()
	w.do(func(c *control.Client) error {
		r, err := c.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
		if err != nil {
			return err
		}
		var names []string
		for _, a := range r.Agents {
			names = append(names, a.Name)
		}
		if len(names) != 3 || names[0] != "first-app" || names[1] != "second" || !strings.HasPrefix(names[2], "second-") {
			t.Errorf("%v", names)
		}
		return nil
	})
}

// slow is a backend whose guests wait to be released before they start.
type slow struct {
	*hosttest.Backend
	begun, released chan bool
}

func (s slow) Boot(ctx context.Context, c config.Settings, tracker *progress.Tracker) (g machine.Guest, m boot.Machine, err error) {
	close(s.begun)
	select {
	case <-s.released:
	case <-ctx.Done():
		return nil, m, context.Cause(ctx)
	}
	return s.Backend.Boot(ctx, c, tracker)
}

// A call waits while the guest starts, with progress. A session outlives the daemon.
func TestFirstCall(t *testing.T) {
	backend := slow{&hosttest.Backend{}, make(chan bool), make(chan bool)}
	w := newWorld(t, backend)
	a := w.open("app", w.piped())
	w.set("app", "autonomousExec.enabled", "true")
	done := make(chan string)
	go func() {
		text, err := a.call(t.Context(), "sandbox_exec", map[string]any{"command": "echo at last", "cwd": "/"})
		done <- fmt.Sprint(text, err)
	}()
	<-backend.begun
	select {
	case text := <-a.progress:
		if !strings.HasPrefix(text, "the sandbox is starting") {
			t.Errorf("%q", text)
		}
	case <-time.After(limit):
		t.Fatal("no progress of the start")
	}
	close(backend.released)
	if got := <-done; !strings.Contains(got, "at last") {
		t.Error(got)
	}

	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	a.want("sandbox_exec", "echo nobody", `"kind":"unavailable"`)
	w.start(&hosttest.Backend{})
	a.want("sandbox_exec", "echo again", `"stdout":"again\n"`)
	w.set("app", "autonomousExec.enabled", "false")
	select {
	case <-a.changed:
	case <-time.After(limit):
		t.Fatal("no notification from the new daemon")
	}
}

// Requests over HTTP need the token, and are refused from web pages and under other host
// names.
func TestWhoMayNot(t *testing.T) {
	w := newWorld(t, &hosttest.Backend{})
	at := w.listen()
	token := "Bearer " + string(w.token())
	if info, err := os.Stat(w.home.MCPToken()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	var id string
	w.do(func(c *control.Client) error {
		r, err := c.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "alice"})
		if err == nil {
			id = r.Agent.Id
		}
		return err
	})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	for _, tc := range []struct {
		name, path string
		header     map[string]string
		status     int
	}{
		{"who may", "", nil, http.StatusOK},
		{"no token", "", map[string]string{"Authorization": ""}, http.StatusUnauthorized},
		{"another token", "", map[string]string{"Authorization": token + "x"}, http.StatusUnauthorized},
		{"another name", "", map[string]string{"Host": "evil.example"}, http.StatusForbidden},
		{"a web page", "", map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		{"a file", "", map[string]string{"Origin": "null"}, http.StatusForbidden},
		{"elsewhere", "/../other", nil, http.StatusNotFound},
		{"no agent's name", "?agent=..", nil, http.StatusBadRequest},
		{"an agent's id", "?agent=" + id, nil, http.StatusOK},
		{"no profile", "?profile=fat", nil, http.StatusBadRequest},
		{"lean", "?profile=lean", nil, http.StatusOK},
		{"a session that is none", "", map[string]string{"Mcp-Session-Id": "guess"}, http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+tc.path, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Authorization": token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(key, value)
		}
		for key, value := range tc.header {
			r.Header.Set(key, value)
			if key == "Host" {
				r.Host = value
			}
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != tc.status {
			t.Errorf("%s: %d %s", tc.name, answer.StatusCode, text)
		}
		if asked := answer.Header.Get("WWW-Authenticate") == "Bearer"; asked != (tc.status == http.StatusUnauthorized) {
			t.Errorf("%s: asked for a token: %v", tc.name, asked)
		}
	}
}
