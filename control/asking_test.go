package control

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// daemonOf serves a home whose calls of tools and lists of agents call do.
func daemonOf(t *testing.T, do func(context.Context) error) (*Client, *http.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, remove, err := listen(config.Home(dir))
	if err != nil {
		t.Fatal(err)
	}
	options := connect.WithHandlerOptions(handlerOptions(), connect.WithInterceptors(faultrpc.Interceptor()))
	mux := http.NewServeMux()
	mux.Handle(controlpbconnect.NewToolsHandler(doneTools{do: do}, options))
	mux.Handle(controlpbconnect.NewAgentsHandler(doneAgents{do: do}, options))
	server := &http.Server{Protocols: onlyHTTP2(), Handler: mux}
	t.Cleanup(func() { _, _ = server.Close(), remove() })
	go func() { _ = server.Serve(l) }()
	client, err := Connect(t.Context(), config.Home(dir), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, server
}

type doneTools struct {
	controlpbconnect.UnimplementedToolsHandler
	do func(context.Context) error
}

func (d doneTools) Call(ctx context.Context, _ *controlpb.CallToolRequest, _ *connect.ServerStream[controlpb.CallToolResponse]) error {
	return d.do(ctx)
}

type doneAgents struct {
	controlpbconnect.UnimplementedAgentsHandler
	do func(context.Context) error
}

func (d doneAgents) List(ctx context.Context, _ *controlpb.ListAgentsRequest) (*controlpb.ListAgentsResponse, error) {
	return nil, d.do(ctx)
}

// Errors of tool calls keep their kind, text and advice.
func TestCallToolFails(t *testing.T) {
	said := fault.Newf(fault.NotFound, "find agent", "nosuch", "there is none").Advise("Look elsewhere.")
	client, _ := daemonOf(t, func(context.Context) error { return said })
	for _, tc := range []struct {
		arguments string
		kind      fault.Kind
		text      string
	}{
		{"{}", fault.NotFound, said.Error()},
		{strings.Repeat("x", maxMessage), fault.InvalidArgs, "larger than"},
	} {
		_, err := client.CallTool(t.Context(), &controlpb.CallToolRequest{Tool: "sandbox_exec", Arguments: tc.arguments}, nil)
		if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.text) || fault.AdviceOf(err) == "" {
			t.Errorf("%v of kind %s, with the advice %q", err, fault.KindOf(err), fault.AdviceOf(err))
		}
	}
}

// Calls fail with advice when the daemon ends. A tool may have run then.
func TestDaemonEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind fault.Kind
		ask  func(*Client) error
	}{
		{"Agents/List", fault.Unavailable, func(c *Client) error {
			_, err := c.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
			return err
		}},
		{"Tools/Call", fault.Execution, func(c *Client) error {
			_, err := c.CallTool(t.Context(), &controlpb.CallToolRequest{Tool: "sandbox_exec", Arguments: "{}"}, nil)
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := make(chan bool)
			client, server := daemonOf(t, func(ctx context.Context) error {
				close(asked)
				<-ctx.Done()
				return ctx.Err()
			})
			go func() {
				<-asked
				_ = server.Close()
			}()
			err := tc.ask(client)
			if fault.KindOf(err) != tc.kind || !errors.Is(err, errLost) || !strings.Contains(err.Error(), tc.name) || fault.AdviceOf(err) == "" {
				t.Errorf("%v of kind %s, with the advice %q", err, fault.KindOf(err), fault.AdviceOf(err))
			}
		})
	}
}

// A text that protobuf cannot carry is refused before the daemon sees it.
func TestNotUTF8(t *testing.T) {
	client, _ := daemonOf(t, func(context.Context) error { return nil })
	_, unary := client.Agents.Show(t.Context(), &controlpb.ShowAgentRequest{Agent: "\xff"})
	_, stream := client.Run(t.Context(), RunAs{Agent: "alice"}, engine.Command{Args: []string{"ls"}, Dir: "\xff"})
	for _, err := range []error{unary, stream} {
		if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
			t.Errorf("%v of kind %s", err, fault.KindOf(err))
		}
	}
}

// A call that the transport cancels is not one that the caller has cancelled.
func TestCancelled(t *testing.T) {
	broken := connect.NewError(connect.CodeCanceled, errors.New("broken pipe"))
	if err := decode(t.Context(), connect.Spec{}, broken); fault.KindOf(err) != fault.Unavailable || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := decode(ctx, connect.Spec{}, broken); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
