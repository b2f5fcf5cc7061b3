package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

var alice = bridge.Holder{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice", UID: 2001}

// hostile is a text that needs escaping everywhere.
const hostile = "a \"quoted\" \\ line\nand $(another) 'one' <&>  é 日本 \x7f"

func newClient(t testing.TB, change ...func(*bridge.Options)) (*client.Client, *bridgetest.Bridge) {
	b := bridgetest.New(t, change...)
	c := client.New(client.Options{Socket: b.Listen(t, alice.UID), Token: string(b.Tokens.Mint(alice)), Plugin: "rss"})
	t.Cleanup(c.Close)
	return c, b
}

func TestEveryRequest(t *testing.T) {
	c, b := newClient(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	is := func(got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", fmt.Sprint(got), fmt.Sprint(want))
		}
	}
	b.SetSecret("alice", "rss", "KEY", hostile)
	v, err := c.Secret(ctx, "KEY")
	must(err)
	is(v, hostile)
	must(c.SetConfig(ctx, "last.sync", hostile))
	v, err = c.Config(ctx, "last.sync")
	must(err)
	is(v, hostile)
	answer, err := c.Chat(ctx, wire.Chat{Messages: []wire.ChatMessage{{Role: "user", Content: hostile}}}, nil)
	must(err)
	is(answer, hostile)
	var parts []string
	answer, err = c.Chat(ctx, wire.Chat{Messages: []wire.ChatMessage{{Role: "user", Content: hostile}}}, func(part string) error {
		parts = append(parts, part)
		return nil
	})
	must(err)
	is(answer, hostile)
	if len(parts) < 3 || strings.Join(parts, "") != hostile {
		t.Errorf("the answer came in the parts %q", parts)
	}
	task, err := c.Dispatch(ctx, wire.Dispatch{Task: hostile, AgentID: strings.ToLower(string(alice.Agent)), ExternalSessionKey: "k"})
	must(err)
	is(task.TaskID, "3B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	must(c.Remember(ctx, hostile))
	found, err := c.Recall(ctx, "quoted")
	must(err)
	if len(found.Results) != 1 || found.Results[0].Content != hostile {
		t.Errorf("found %+v", found)
	}
	must(c.Emit(ctx, "rss.new", nil))
	must(c.Emit(ctx, "rss.new", json.RawMessage(`{"a": [1]}`)))
	created, err := c.CreatePlugin(ctx, json.RawMessage(`{"name":"x"}`))
	must(err)
	is(string(created), `{"status":"installed","plugin_id":"x","plugin_name":"x","tools":[]}`)
	must(c.Log(ctx, "warn", hostile))
	want := []string{"alice dispatch " + hostile + " k", "alice emit rss.new ", `alice emit rss.new {"a":[1]}`, "alice create x", "alice log warn " + hostile}
	if got := b.Told(); !slices.Equal(got, want) {
		t.Errorf("the services were told %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	c, b := newClient(t, func(o *bridge.Options) {
		o.Services.Memory = nil
		few := o.Limits()
		few[config.LogCalls] = 1
		o.Limits = func() config.BridgeLimits { return few }
	})
	ctx := t.Context()
	socket := b.Listen(t, alice.UID)
	with := func(o client.Options) *client.Client {
		k := client.New(o)
		t.Cleanup(k.Close)
		return k
	}
	if err := c.Log(ctx, "info", "first"); err != nil {
		t.Fatal(err)
	}
	config := func(c *client.Client) error { _, err := c.Config(ctx, "k"); return err }
	for what, tc := range map[string]struct {
		err    error
		kind   fault.Kind
		advice string
	}{
		"a value that is not there":      {config(c), fault.NotFound, "Set it first."},
		"a key that is none":             {c.SetConfig(ctx, "../k", "v"), fault.InvalidArgs, "letters"},
		"a key with all that is special": {c.SetConfig(ctx, "a/b?c#d%2e e", "v"), fault.InvalidArgs, "letters"},
		"no plugin":                      {config(with(client.Options{Socket: socket, Token: string(b.Tokens.Mint(alice))})), fault.InvalidArgs, wire.HeaderPlugin},
		"a token of before":              {config(c), fault.Rejected, ""},
		"no token":                       {config(with(client.Options{Socket: socket})), fault.Rejected, ""},
		"a token that is no header":      {config(with(client.Options{Socket: socket, Token: "a\r\nX: y"})), fault.InvalidArgs, ""},
		"no bridge":                      {config(with(client.Options{Socket: socket + "x"})), fault.Unavailable, "agent's room"},
	} {
		if tc.err == nil || fault.KindOf(tc.err) != tc.kind || !strings.Contains(fault.AdviceOf(tc.err), tc.advice) {
			t.Errorf("%s: %v (%s), advice %q", what, tc.err, fault.KindOf(tc.err), fault.AdviceOf(tc.err))
		}
	}
	c = with(client.Options{Socket: socket, Token: string(b.Tokens.Mint(alice))})
	if err := c.Remember(ctx, "x"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a service that is not there: %v", err)
	}
	if err := c.Log(ctx, "info", "second"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("over a limit: %v", err)
	}
	if _, err := c.Dispatch(ctx, wire.Dispatch{Task: "x", AgentID: "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}); fault.KindOf(err) != fault.Rejected {
		t.Errorf("another's agent: %v", err)
	}
	if err := c.Remember(ctx, strings.Repeat("x", wire.MaxBody)); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "less at a time") {
		t.Errorf("more than the bridge takes: %v", err)
	}
	if _, err := c.CreatePlugin(ctx, json.RawMessage(`{"name":`)); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a recipe that is no JSON: %v", err)
	}
	var parts []string
	_, err := c.Chat(ctx, wire.Chat{Model: inferencetest.Sorry, Messages: []wire.ChatMessage{{Role: "user", Content: "a b"}}}, func(part string) error {
		parts = append(parts, part)
		return nil
	})
	if !slices.Equal(parts, []string{"a ", "b"}) || err == nil || !strings.Contains(err.Error(), "it grew too hot") {
		t.Errorf("after %q: %v", parts, err)
	}
}

// TestConnectionsAreKept checks that requests share connections, and that nothing leaks.
func TestConnectionsAreKept(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	t.Run("", func(t *testing.T) {
		c, _ := newClient(t)
		if err := c.SetConfig(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					if v, err := c.Config(t.Context(), "k"); v != "v" || err != nil {
						t.Errorf("%q, %v", v, err)
					}
					if _, err := c.Config(t.Context(), "absent"); fault.KindOf(err) != fault.NotFound {
						t.Errorf("absent: %v", err)
					}
					if _, err := c.Chat(t.Context(), wire.Chat{Messages: []wire.ChatMessage{{Role: "user", Content: "a b"}}}, func(string) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
	timetest.Eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestLeaving checks that the bridge sees when a caller gives up.
func TestLeaving(t *testing.T) {
	c, b := newClient(t)
	ctx, leave := context.WithCancel(t.Context())
	n := 0
	_, err := c.Chat(ctx, wire.Chat{Model: inferencetest.Endless, Messages: []wire.ChatMessage{{Role: "user", Content: "on and on"}}}, func(string) error {
		if n++; n == 5 {
			leave()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	timetest.Eventually(t, "the model ends", func() bool { return b.Endpoint.Left.Load() > 0 })
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Chat(late, wire.Chat{Model: inferencetest.Slow, Messages: []wire.ChatMessage{{Role: "user", Content: "?"}}}, nil); fault.KindOf(err) != fault.Timeout {
		t.Errorf("over its time: %v", err)
	}
}

// TestWrongAnswers checks invalid answers.
func TestWrongAnswers(t *testing.T) {
	for what, tc := range map[string]struct {
		answer string
		kind   fault.Kind
	}{
		"nothing":           {"", fault.Unavailable},
		"a part":            {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"val", fault.Unavailable},
		"another protocol":  {"SSH-2.0-x\r\n", fault.Unavailable},
		"no JSON":           {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", fault.Execution},
		"too much":          {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 33<<20), fault.Unavailable},
		"a refusal in HTML": {"HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>", fault.Unavailable},
		"an unknown kind":   {"HTTP/1.1 404 No\r\nContent-Length: 27\r\n\r\n{\"error\":\"x\",\"kind\":\"odd\"}  ", fault.Unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var serving sync.WaitGroup
			defer serving.Wait()
			serving.Go(func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = conn.Write([]byte(tc.answer)) // the client may close early
			})
			c := client.New(client.Options{Socket: socket, Token: "t", Plugin: "p"})
			defer c.Close()
			if v, err := c.Config(t.Context(), "k"); err == nil || fault.KindOf(err) != tc.kind {
				t.Errorf("it is taken for %q, %v (%s)", v, err, fault.KindOf(err))
			}
		})
	}
}
