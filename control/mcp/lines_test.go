package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

// A line that is no message is answered with an error, and the session goes on.
func TestBadLines(t *testing.T) {
	w := serve(t, Options{Sandbox: &stand{}})
	w.greet("an app", "2025-06-18")
	for line, code := range map[string]int{
		`{not json`: -32700, `{"jsonrpc":"2.0","id":7,"method":"ping"} {}`: -32700, `{}`: -32600, `7`: -32600, `{"jsonrpc":"1.0","id":7,"method":"ping"}`: -32600,
		`[]`: -32600, `[{"jsonrpc":"2.0","id":7,"method":"ping"}]`: -32600, `[`: -32700,
	} {
		w.send(line)
		if m := w.read(); m.ID != nil || m.Error == nil || m.Error.Code != code {
			t.Errorf("%s: %+v", line, m)
		}
	}
	w.send("")
	if m, _ := w.ask("ping", "{}"); m.Error != nil {
		t.Error(m.Error)
	}
}

// Requests before the end of the input are answered, unless they take too long.
func TestAnswersAfterEnd(t *testing.T) {
	slow := make(chan error, 1)
	s := &stand{tools: map[string]func(context.Context, call) (string, error){
		"short": func(ctx context.Context, c call) (string, error) {
			time.Sleep(100 * time.Millisecond)
			return fine(`"here it is"`)(ctx, c)
		},
		"long": func(ctx context.Context, _ call) (string, error) {
			<-ctx.Done()
			slow <- ctx.Err()
			return "", ctx.Err()
		},
		"cancelled": func(ctx context.Context, _ call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
	}}
	call := func(id, tool string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)
	}
	const (
		greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a script","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
		cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}`
	)
	listener, short := ungreeted(`"2"`, listen, `"notifications":{"toolsListChanged":true}`), ungreeted("2", callTool, `"name":"short"`)
	for what, asked := range map[string]string{
		"a call":                      greeting + call("2", "short"),
		"calls with ids alike":        greeting + call(`"2"`, "short") + "\n" + call("2", "short"),
		"a call that takes too long":  greeting + call("2", "short") + "\n" + call("3", "long"),
		"a call beside one cancelled": greeting + call(`"2"`, "cancelled") + "\n" + call("2", "short") + "\n" + cancel,
		"a call while one listens":    listener + "\n" + short,
		"a call when one listened":    listener + "\n" + short + "\n" + cancel,
	} {
		t.Run(what, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				var out bytes.Buffer
				began := time.Now()
				if err := Serve(t.Context(), strings.NewReader(asked), &out, Options{Sandbox: s, Log: slog.New(slog.DiscardHandler)}); err != nil {
					t.Error(err)
				}
				if text := out.String(); strings.Count(text, "here it is") != 2*strings.Count(asked, `"short"`) || strings.Contains(text, "cancel") {
					t.Errorf("answered %s", text)
				}
				if took := time.Since(began); !strings.Contains(asked, `"long"`) && took >= endGrace {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
	if len(slow) != 1 {
		t.Error("what takes too long did not end")
	}
}

// Every answer is JSON, and the session goes on.
func FuzzLines(f *testing.F) {
	f.Add("2025-03-26", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}},7,[]]`)
	f.Add("2025-11-25", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"none"}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
	f.Add("", `{"jsonrpc":"2.0","id":1.5,"method":""}`+"\r\n"+`{"jsonrpc":"2.0","id":1,"result":{}}{}`)
	f.Fuzz(func(t *testing.T, version, text string) {
		const last = "the last"
		if strings.Contains(text, last) {
			t.Skip()
		}
		var out bytes.Buffer
		in := fmt.Sprintf(`{"jsonrpc":"2.0","id":"the first","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"an app","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
%s
{"jsonrpc":"2.0","id":%q,"method":"ping"}`, version, text, last)
		if err := Serve(t.Context(), strings.NewReader(in), &out, Options{Sandbox: &stand{}, Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("%q", line)
			}
		}
		if !strings.Contains(out.String(), `"id":"`+last+`"`) {
			t.Errorf("%q", out.Bytes())
		}
	})
}
