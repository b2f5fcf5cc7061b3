package mcp

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A line that is no message is answered, and what follows it too.
func TestBadLines(t *testing.T) {
	w := serve(t, Options{Sandbox: &stand{}})
	w.greet("an app", "2025-06-18")
	for line, code := range map[string]int{
		`{not json`: -32700, `{"jsonrpc":"2.0","id":7,"method":"ping"} {}`: -32700, `{}`: -32600, `7`: -32600, `{"jsonrpc":"1.0","id":7,"method":"ping"}`: -32600,
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

// What was asked before the end is answered after it, but for what takes too long.
func TestAnswersAfterEnd(t *testing.T) {
	slow := make(chan error, 1)
	s := &stand{tools: map[string]func(context.Context, Call) (Envelope, error){
		"short": func(ctx context.Context, c Call) (Envelope, error) {
			time.Sleep(100 * time.Millisecond)
			return fine(`"here it is"`)(ctx, c)
		},
		"long": func(ctx context.Context, _ Call) (Envelope, error) {
			<-ctx.Done()
			slow <- ctx.Err()
			return "", ctx.Err()
		},
	}}
	asked := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a script","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"short","arguments":{}}}
`
	for _, more := range []string{"", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"long","arguments":{}}}`} {
		var out bytes.Buffer
		began := time.Now()
		if err := Serve(t.Context(), strings.NewReader(asked+more), &out, Options{Sandbox: s, Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "protocolVersion") || !strings.Contains(text, "here it is") {
			t.Errorf("answered %s", text)
		}
		if took := time.Since(began); more == "" && took >= parting {
			t.Errorf("it took %v", took)
		}
	}
	if len(slow) != 1 {
		t.Error("what takes too long did not end")
	}
}
