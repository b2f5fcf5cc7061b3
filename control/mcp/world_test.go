package mcp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// limit is how long anything here may take before it counts as hanging.
const limit = time.Minute

// world is a home with a daemon whose guest is this computer.
type world struct {
	*testing.T
	home config.Home
	api  mcp.API
	end  func() error
}

func newWorld(t *testing.T, backend machine.Backend) *world {
	t.Helper()
	w := &world{T: t, home: config.Home(filepath.Join(t.TempDir(), "home"))}
	if _, err := w.home.Make(string(w.home)); err != nil {
		t.Fatal(err)
	}
	if err := config.Edit(w.home, func(f *config.File) error { return f.Set("autoStart", "false") }); err != nil {
		t.Fatal(err)
	}
	w.api = mcp.API{Connect: w.connect, Find: w.connect}
	w.start(backend)
	return w
}

func (w *world) connect(ctx context.Context, name string) (*control.Client, error) {
	return control.Connect(ctx, w.home, name)
}

// start starts the daemon. It runs until the test ends or end is called.
func (w *world) start(backend machine.Backend) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Home: w.home, Backend: backend, Ready: func(*control.Server) { close(ready) }})
	}()
	end := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(limit):
			return errors.New("the daemon does not end")
		}
	})
	w.end = end
	w.Cleanup(func() {
		if err := end(); err != nil {
			w.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		w.Fatal(err)
	case <-time.After(limit):
		w.Fatal("the daemon does not start")
	}
}

// do calls the daemon.
func (w *world) do(ask func(*control.Client) error) {
	w.Helper()
	client, err := w.connect(w.Context(), "test")
	if err != nil {
		w.Fatal(err)
	}
	defer client.Close()
	if err := ask(client); err != nil {
		w.Fatal(err)
	}
}

func (w *world) set(agent, setting, value string) {
	w.Helper()
	w.do(func(c *control.Client) error {
		_, err := c.Agents.Set(w.Context(), &controlpb.SetAgentRequest{Agent: agent, Settings: map[string]string{setting: value}})
		return err
	})
}

// app is a client of the SDK.
type app struct {
	*world
	*sdk.ClientSession
	changed, progress chan string
}

// open connects an app over a transport.
func (w *world) open(name string, transport sdk.Transport) *app {
	w.Helper()
	a := &app{world: w, changed: make(chan string, 100), progress: make(chan string, 100)}
	client := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { a.changed <- "changed" },
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			w.Error("the app is asked to show a form")
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { a.progress <- r.Params.Message },
	})
	session, err := client.Connect(w.Context(), transport, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = session.Close() })
	a.ClientSession = session
	return a
}

// piped returns a transport to a server on a pair of pipes.
func (w *world) piped() sdk.Transport {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Serve(context.Background(), inR, outW, mcp.Options{Sandbox: w.api, Program: "osaurus-sandbox", Profile: tools.Full, Log: slog.New(slog.DiscardHandler)})
		_ = outW.Close()
	}()
	w.Cleanup(func() {
		_ = inW.Close()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	return &sdk.IOTransport{Reader: outR, Writer: inW}
}

// listen makes the daemon listen for MCP over HTTP, and returns the URL.
func (w *world) listen() string {
	w.Helper()
	at := freeport.Address(w)
	w.configure("mcp.listen", at)
	timetest.Eventually(w, "the listener listens", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + at + mcp.Path
}

func (w *world) configure(key, value string) {
	w.Helper()
	w.do(func(c *control.Client) error {
		_, err := c.SetConfig(w.Context(), &controlpb.SetConfigRequest{Settings: map[string]string{key: value}})
		return err
	})
}

// bearer adds the token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) token() bearer {
	w.Helper()
	text, err := os.ReadFile(w.home.MCPToken())
	if err != nil {
		w.Fatal(err)
	}
	return bearer(strings.TrimSpace(string(text)))
}

func (w *world) web(at string) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: &http.Client{Transport: w.token()}}
}

func (a *app) names() (names []string) {
	a.Helper()
	r, err := a.ListTools(a.Context(), nil)
	if err != nil {
		a.Fatal(err)
	}
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

// call calls a tool and returns its text.
func (a *app) call(ctx context.Context, tool string, arguments any) (string, error) {
	p := &sdk.CallToolParams{Name: tool, Arguments: arguments}
	p.SetProgressToken("token")
	r, err := a.CallTool(ctx, p)
	if err != nil {
		return "", err
	}
	return r.Content[0].(*sdk.TextContent).Text, nil
}

func (a *app) want(tool, command, what string) {
	a.Helper()
	if got, err := a.call(a.Context(), tool, map[string]any{"command": command, "cwd": "/"}); err != nil || !strings.Contains(got, what) {
		a.Errorf("%s: %s %v, want %s", command, got, err, what)
	}
}
